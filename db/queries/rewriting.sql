-- Memories that a job rewrites into fewer. A job has looked at a memory if its mark is not older than the memory's last
-- change; a mark may be newer where a change was undone since. COLUMNS stands for what db/rewriting.py reads of a memory.

-- name: fresh
-- Projects with observations that a job has not looked at. `unfinished`: some of them were there already when a reflection
-- of the project was written, so that an earlier run did not come to its end.
select m.project_id as project, p.name, count(*)::integer as fresh, bool_or(m.changed_at <= done.at) as unfinished
from memory m
join project p on p.owner_id = m.owner_id and p.id = m.project_id
left join job_mark k on k.owner_id = m.owner_id and k.memory_id = m.id and k.job = %(mark)s
left join lateral (select max(r.recorded_at) as at from memory r
                   where r.owner_id = m.owner_id and r.project_id = m.project_id and r.layer = 'reflection') done on true
where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
  and m.layer = 'observation' and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
  and (%(project)s::uuid is null or m.project_id = %(project)s)
  and (k.changed_at is null or k.changed_at < m.changed_at)
group by m.project_id, p.name order by m.project_id;

-- name: of_project
-- What can be condensed in one project: what was not looked at first, then the newest.
select COLUMNS from memory m
left join project p on p.owner_id = m.owner_id and p.id = m.project_id
left join job_mark k on k.owner_id = m.owner_id and k.memory_id = m.id and k.job = %(mark)s
where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
  and m.project_id = %(project)s and m.layer in ('observation', 'reflection')
  and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
order by (k.changed_at is null or k.changed_at < m.changed_at) desc, m.occurred_at desc, m.id desc limit %(limit)s;

-- name: preferences
-- The user's preferences of every project, and those that hold everywhere.
select COLUMNS from memory m
left join project p on p.owner_id = m.owner_id and p.id = m.project_id
left join job_mark k on k.owner_id = m.owner_id and k.memory_id = m.id and k.job = %(mark)s
where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
  and m.kind = 'preference' and m.origin = 'user' and m.layer in ('observation', 'reflection')
  and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
order by m.occurred_at, m.id;

-- name: quiet_projects
-- Projects with memories that have been quiet since `before`.
select m.project_id as project, count(*)::integer as quiet from memory m
where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
  and m.layer in ('observation', 'reflection') and m.kind <> 'preference' and not m.pinned and m.author <> 'hand'
  and m.occurred_at < %(before)s and (m.last_used_at is null or m.last_used_at < %(before)s)
  and (%(project)s::uuid is null or m.project_id = %(project)s)
group by m.project_id order by m.project_id nulls last;

-- name: quiet
-- What may be summarised in one project: neither said nor used since `before`. That it was shown is no use: what is shown
-- again and again and never helps is what a summary is for. What was put away once and is here again was brought back.
select COLUMNS from memory m
left join project p on p.owner_id = m.owner_id and p.id = m.project_id
left join job_mark k on k.owner_id = m.owner_id and k.memory_id = m.id and k.job = any(%(marks)s) and k.changed_at >= m.changed_at
where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
  and m.layer in ('observation', 'reflection') and m.kind <> 'preference' and not m.pinned and m.author <> 'hand'
  and m.project_id is not distinct from %(project)s::uuid
  and m.occurred_at < %(before)s and (m.last_used_at is null or m.last_used_at < %(before)s)
  and not exists (select from memory_source s where s.owner_id = m.owner_id and s.memory_id = m.id and s.at >= %(before)s)
  and (m.snoozed_until is null or m.snoozed_until <= %(now)s) and k.memory_id is null
  and not exists (select from job_change c
                  where c.owner_id = m.owner_id and c.memory_id = m.id and c.table_name = 'memory' and c.before is not null
                    and c.what in ('summarized', 'archived'))
order by m.occurred_at, m.id limit %(limit)s;

-- name: over
-- What is over, and why: it ended before `before`, or it was put off until before then and not missed since. What nobody used is
-- for re-indexing to put away. What was put away once and is here again was brought back.
select m.id, m.changed_at, m.title,
       case when m.valid_to < %(before)s then 'it has not held for a long time'
            else 'it was put off, and not missed since' end as why
from memory m
where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
  and m.kind <> 'preference' and not m.pinned and m.author <> 'hand'
  and (%(project)s::uuid is null or m.project_id = %(project)s)
  and (m.valid_to < %(before)s
       or (m.snoozed_until < %(before)s and (m.last_used_at is null or m.last_used_at < m.snoozed_until)))
  and not exists (select from job_change c
                  where c.owner_id = m.owner_id and c.memory_id = m.id and c.table_name = 'memory' and c.before is not null
                    and c.what in ('summarized', 'archived'))
order by m.occurred_at, m.id limit %(limit)s;

-- name: forgotten_rules
-- What a person forgot in any project, as far as it may be a preference.
select t.content_hash, m.title from tombstone t
left join memory m on m.owner_id = t.owner_id and m.id = t.memory_id and m.kind = 'preference'
where t.owner_id = %(owner)s;
