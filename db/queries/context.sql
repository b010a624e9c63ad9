-- What a session is given when it starts. Looks only; the reader's role is enough. Used by db/context.py only.

-- name: standing
-- Candidates for what holds: of each project and of what holds everywhere the newest, and those seen again, used or pinned.
with found as (
    (select m.id from unnest(%(projects)s::uuid[]) as scope (project) cross join lateral (
        select e.id from memory e
        where e.owner_id = %(owner)s and e.project_id = scope.project
          and e.forgotten_at is null and e.superseded_by is null and e.archived_at is null and e.layer <> 'summary'
          and e.origin <> 'tool'
          and (e.author = 'hand' or (e.kind = any(%(kinds)s::text[])
               and (%(concepts)s::text[] is null or cardinality(e.concepts) = 0 or e.concepts && %(concepts)s)))
          and (e.snoozed_until is null or e.snoozed_until <= %(now)s)
          and (e.valid_to is null or e.valid_to > %(now)s)
          and (%(since)s::timestamptz is null or e.recorded_at > %(since)s)
        order by e.occurred_at desc, e.id desc limit %(depth)s) m)
    union
    (select e.id from memory e
     where e.owner_id = %(owner)s and e.project_id is null
       and e.forgotten_at is null and e.superseded_by is null and e.archived_at is null and e.layer <> 'summary'
       and e.origin <> 'tool'
       and (e.author = 'hand' or (e.kind = any(%(kinds)s::text[])
            and (%(concepts)s::text[] is null or cardinality(e.concepts) = 0 or e.concepts && %(concepts)s)))
       and (e.snoozed_until is null or e.snoozed_until <= %(now)s)
       and (e.valid_to is null or e.valid_to > %(now)s)
       and (%(since)s::timestamptz is null or e.recorded_at > %(since)s)
     order by e.occurred_at desc, e.id desc limit %(depth)s)
    union
    (select e.id from memory e
     where e.owner_id = %(owner)s and (e.project_id = any(%(projects)s::uuid[]) or e.project_id is null)
       and (e.used_count > 0 or e.seen_count > 1 or e.pinned)
       and e.forgotten_at is null and e.superseded_by is null and e.archived_at is null and e.layer <> 'summary'
       and e.origin <> 'tool'
       and (e.author = 'hand' or (e.kind = any(%(kinds)s::text[])
            and (%(concepts)s::text[] is null or cardinality(e.concepts) = 0 or e.concepts && %(concepts)s)))
       and (e.snoozed_until is null or e.snoozed_until <= %(now)s)
       and (e.valid_to is null or e.valid_to > %(now)s)
       and (%(since)s::timestamptz is null or e.recorded_at > %(since)s)
     order by e.pinned desc, 3 * e.used_count + e.seen_count desc, e.occurred_at desc, e.id desc limit %(depth)s)
)
select m.id, m.layer, m.kind, m.title, m.body, m.concepts, m.files, p.name as project, m.confidence, m.origin, m.author,
       m.occurred_at, m.recorded_at, m.seen_count, 'active' as state, m.used_count, m.pinned
from found f join memory m on m.owner_id = %(owner)s and m.id = f.id
left join project p on p.owner_id = m.owner_id and p.id = m.project_id
where %(besides)s::uuid is null or not exists (
        select from memory_source s where s.owner_id = m.owner_id and s.memory_id = m.id and s.session_id = %(besides)s)
order by m.occurred_at desc, m.id desc;

-- name: of_session
-- What stands on lines of a session or of its subagents, newest first.
select m.id, m.layer, m.kind, m.title, m.body, m.concepts, m.files, p.name as project, m.confidence, m.origin, m.author,
       m.occurred_at, m.recorded_at, m.seen_count, 'active' as state, m.used_count, m.pinned
from memory m left join project p on p.owner_id = m.owner_id and p.id = m.project_id
where m.owner_id = %(owner)s and m.id in (
        select s.memory_id from memory_source s
        where s.owner_id = %(owner)s and s.session_id in (
            select %(session)s::uuid union select c.id from session c
            where c.owner_id = %(owner)s and c.parent_id = %(session)s))
  and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null and m.layer <> 'summary'
  and m.origin <> 'tool' and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
order by m.occurred_at desc, m.id desc limit %(limit)s;

-- name: last_line_at
select last_at from session where owner_id = %(owner)s and id = %(session)s;

-- name: last_sessions
-- The newest sessions of some projects with what stands on their lines: a summary first, then the newest.
select s.id as session, s.title as session_title, s.last_at, m.*
from (select e.id, e.title, e.last_at from session e
      where e.owner_id = %(owner)s and e.project_id = any(%(projects)s::uuid[]) and e.agent is null
        and e.last_at is not null and e.id <> %(besides)s
      order by e.last_at desc, e.id desc limit %(limit)s) s
left join lateral (
    select m.id, m.layer, m.kind, m.title, m.body, m.concepts, m.files, p.name as project, m.confidence, m.origin,
           m.author, m.occurred_at, m.recorded_at, m.seen_count, 'active' as state
    from memory m left join project p on p.owner_id = m.owner_id and p.id = m.project_id
    where m.owner_id = %(owner)s and m.id in (
            select x.memory_id from memory_source x
            where x.owner_id = %(owner)s and x.session_id in (
                select s.id union select c.id from session c where c.owner_id = %(owner)s and c.parent_id = s.id))
      and (m.project_id = any(%(projects)s::uuid[]) or m.project_id is null)
      and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
      and m.origin <> 'tool' and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
    order by m.layer = 'summary' desc, m.occurred_at desc, m.id desc limit %(memories)s) m on true
order by s.last_at desc, s.id desc, m.layer = 'summary' desc, m.occurred_at desc, m.id desc;
