-- What a person does with single memories: pin, snooze, archive, forget, restore, erase. Everything else is left to the jobs.

-- name: lock
-- In one order, so that two who change the same memories do not wait for each other.
select m.id, m.project_id, m.content_hash, m.pinned, m.snoozed_until, m.archived_at, m.forgotten_at, m.superseded_by, m.superseded_how
from memory m where m.owner_id = %(owner)s and m.id = any(%(ids)s::uuid[]) order by m.id for no key update;

-- name: standing
select pinned, case when snoozed_until > %(now)s then snoozed_until end as snoozed_until, archived_at, forgotten_at,
       superseded_by, superseded_how
from memory where owner_id = %(owner)s and id = %(id)s;

-- name: keep_marks
-- A job that has looked at a memory need not look again because of what says nothing about its content. `changed_at` moves all
-- the same: a job that has read the memory a moment ago must not write what it decided then.
update job_mark k set changed_at = %(now)s from memory m
where m.owner_id = %(owner)s and m.id = %(id)s and k.owner_id = m.owner_id and k.memory_id = m.id and k.changed_at >= m.changed_at;

-- name: set_pinned
update memory set pinned = %(pinned)s, changed_at = %(now)s where owner_id = %(owner)s and id = %(id)s;

-- name: set_snoozed
update memory set snoozed_until = %(until)s, changed_at = %(now)s where owner_id = %(owner)s and id = %(id)s;

-- name: archive
update memory set archived_at = %(now)s, changed_at = %(now)s where owner_id = %(owner)s and id = %(id)s;

-- name: forget
update memory set forgotten_at = %(now)s, changed_at = %(now)s where owner_id = %(owner)s and id = %(id)s;

-- name: add_tombstone
insert into tombstone (owner_id, content_hash, project_id, memory_id, created_at)
values (%(owner)s, %(content_hash)s, %(project)s, %(id)s, %(now)s) on conflict do nothing;

-- name: drop_tombstone
delete from tombstone
where owner_id = %(owner)s and content_hash = %(content_hash)s and project_id is not distinct from %(project)s;

-- name: drop_vectors
-- Vectors are made anew when a memory is restored; a forgotten one keeps nothing that a reader sees.
delete from embedding where owner_id = %(owner)s and memory_id = %(id)s;

-- name: restore
update memory set forgotten_at = null, archived_at = null, snoozed_until = null, changed_at = %(now)s
where owner_id = %(owner)s and id = %(id)s;

-- name: same_content
-- Another memory that says the same and is not superseded; of two such there can be but one.
select o.id from memory m join memory o on o.owner_id = m.owner_id and o.project_id is not distinct from m.project_id
    and o.kind = m.kind and o.content_hash = m.content_hash and o.layer = m.layer and o.id <> m.id
where m.owner_id = %(owner)s and m.id = %(id)s and m.layer = 'observation' and m.superseded_by is null
  and o.superseded_by is null and o.forgotten_at is null limit 1;

-- name: erase_lines
-- The text of the lines an erased memory quotes goes with it.
update line set text = '', tools = null
where owner_id = %(owner)s and uuid in (
    select line_uuid from memory_source where owner_id = %(owner)s and memory_id = %(id)s and line_uuid is not null);

-- name: relink_superseded
-- What it had superseded, where the same content lives on in another memory: that one supersedes it now, and it is archived.
update memory m set archived_at = coalesce(m.archived_at, %(now)s), superseded_by = o.id
from memory o
where m.owner_id = %(owner)s and m.superseded_by = %(id)s
  and o.id = (select a.id from memory a
              where a.owner_id = m.owner_id and a.project_id is not distinct from m.project_id and a.kind = m.kind
                and a.content_hash = m.content_hash and a.layer = m.layer and a.superseded_by is null and a.forgotten_at is null
                and a.id not in (m.id, %(id)s)
              order by a.id limit 1)
  and o.owner_id = m.owner_id;

-- name: forget_merged
-- What was merged into it said the same: it is forgotten with it, or it would be learnt again.
update memory set forgotten_at = coalesce(forgotten_at, %(now)s), superseded_by = null, superseded_how = null, changed_at = %(now)s
where owner_id = %(owner)s and superseded_by = %(id)s and superseded_how = 'merged'
returning id, content_hash, project_id as project;

-- name: archive_superseded
-- What it had replaced or condensed said something else: it is archived. Of several with one content the newest stands for them.
update memory m set archived_at = coalesce(m.archived_at, %(now)s), superseded_by = nullif(k.newest, m.id),
    superseded_how = case when k.newest <> m.id then m.superseded_how end
from (select id, first_value(id) over (partition by project_id, kind, content_hash, layer order by id desc) as newest
      from memory where owner_id = %(owner)s and superseded_by = %(id)s) k
where m.owner_id = %(owner)s and m.id = k.id;

-- name: scrub
-- No copy of an erased memory's text is left in what runs wrote down: neither in its own rows nor in those of what it was ever
-- made into, undone or not. Those runs can no longer be undone.
with recursive made (id) as (
    select %(id)s::uuid
    union
    select c.into_id from made m join job_change c on c.owner_id = %(owner)s and c.memory_id = m.id and c.into_id is not null
)
update job_change set before = null, after = null, why = ''
where owner_id = %(owner)s and memory_id in (select id from made);

-- name: erase
delete from memory where owner_id = %(owner)s and id = %(id)s;

-- name: belongings
select (select count(*)::integer from embedding where owner_id = %(owner)s and memory_id = %(id)s) as vectors,
       (select count(*)::integer from memory_source where owner_id = %(owner)s and memory_id = %(id)s) as sources,
       (select count(*)::integer from memory_source where owner_id = %(owner)s and memory_id = %(id)s and line_uuid is not null) as lines,
       (select count(distinct o.memory_id)::integer from memory_source s
        join memory_source o on o.owner_id = s.owner_id and o.line_uuid = s.line_uuid and o.memory_id <> s.memory_id
        where s.owner_id = %(owner)s and s.memory_id = %(id)s) as also_quoted_by,
       (select count(*)::integer from memory where owner_id = %(owner)s and superseded_by = %(id)s and superseded_how = 'merged')
           as merged_into_it;

-- name: derived
-- What was made of a memory and so may repeat its words: what it was merged or condensed into, what stands on it, and so on.
with recursive derived (id, how) as (
    select d.id, d.how from (
        select m.superseded_by as id, m.superseded_how as how from memory m
        where m.owner_id = %(owner)s and m.id = %(id)s and m.superseded_how in ('merged', 'condensed')
        union
        select s.memory_id, 'condensed' from memory_source s where s.owner_id = %(owner)s and s.source_memory_id = %(id)s) d
    union
    select n.id, n.how from derived d cross join lateral (
        select m.superseded_by as id, m.superseded_how as how from memory m
        where m.owner_id = %(owner)s and m.id = d.id and m.superseded_how in ('merged', 'condensed')
        union
        select s.memory_id, 'condensed' from memory_source s where s.owner_id = %(owner)s and s.source_memory_id = d.id) n
)
select m.id, m.layer, m.kind, m.title, min(d.how) as how, m.forgotten_at is not null as forgotten
from derived d join memory m on m.owner_id = %(owner)s and m.id = d.id
where m.id <> %(id)s group by m.owner_id, m.id order by m.id;

-- name: in_state
select id from memory
where owner_id = %(owner)s and case %(state)s::text
    when 'pinned' then forgotten_at is null and superseded_by is null and archived_at is null and pinned
    when 'snoozed' then forgotten_at is null and superseded_by is null and archived_at is null and snoozed_until > %(now)s
    when 'archived' then forgotten_at is null and superseded_by is null and archived_at is not null
    when 'superseded' then forgotten_at is null and superseded_by is not null
    else false end
order by id;
