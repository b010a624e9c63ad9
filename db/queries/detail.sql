-- Memories opened one by one: what replaced them, what they stand on, what was learnt around them. Looks only; the reader's
-- role is enough, so what was forgotten is never seen. Used by db/details.py only.

-- name: opened
-- `ends_in` is the last memory of its chain of replacements; `hidden` where that one was forgotten since, or the chain never ends.
with recursive chain (origin_id, id, next, depth) as (
    select m.id, m.id, m.superseded_by, 0 from memory m
    where m.owner_id = %(owner)s and m.id = any(%(ids)s::uuid[])
    union all
    select c.origin_id, n.id, n.superseded_by, c.depth + 1
    from chain c join memory n on n.owner_id = %(owner)s and n.id = c.next where c.depth < 100
), last (origin_id, id, next) as (
    select distinct on (origin_id) origin_id, id, next from chain order by origin_id, depth desc
)
select m.id, m.layer, m.kind, m.title, m.body, m.concepts, m.files, p.name as project, m.confidence, m.origin, m.author,
       m.occurred_at, m.recorded_at, m.seen_count,
       case when m.superseded_by is not null then 'superseded' when m.archived_at is not null then 'archived'
            else 'active' end as state,
       m.project_id, m.pinned, m.superseded_how as how, last.next is not null as hidden,
       case when last.id <> m.id and last.next is null then last.id end as ends_in
from memory m join last on last.origin_id = m.id
left join project p on p.owner_id = m.owner_id and p.id = m.project_id
where m.owner_id = %(owner)s and m.forgotten_at is null
  and (%(projects)s::uuid[] is null or m.project_id is null or m.project_id = any(%(projects)s));

-- name: evidence
-- What holds everywhere may stand on memories of any project; `elsewhere` where one may not be seen, and then without its title.
select s.quote, s.origin, s.at, s.recorded_at, s.source_memory_id, case when seen.may then o.title end as source_title,
       o.id is not null and not seen.may as elsewhere, e.name as session, e.agent, e.title as session_title
from memory_source s
left join session e on e.owner_id = s.owner_id and e.id = s.session_id
left join memory o on o.owner_id = s.owner_id and o.id = s.source_memory_id and o.forgotten_at is null
cross join lateral (
    select (%(projects)s::uuid[] is null or o.project_id is null or o.project_id = any(%(projects)s)) as may) seen
where s.owner_id = %(owner)s and s.memory_id = %(id)s order by s.at nulls last, s.id limit %(limit)s;

-- name: neighbours
-- The nearest of one project on both sides of a place in time; a memory's id settles which of the same instant come first.
(select m.id, m.layer, m.kind, m.title, m.body, m.concepts, m.files, p.name as project, m.confidence, m.origin, m.author,
        m.occurred_at, m.recorded_at, m.seen_count, 'active' as state
 from memory m left join project p on p.owner_id = m.owner_id and p.id = m.project_id
 where m.owner_id = %(owner)s and m.project_id = %(project)s and (m.occurred_at, m.id) < (%(at)s, %(id)s)
   and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
   and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
 order by m.occurred_at desc, m.id desc limit %(before)s)
union all
(select m.id, m.layer, m.kind, m.title, m.body, m.concepts, m.files, p.name as project, m.confidence, m.origin, m.author,
        m.occurred_at, m.recorded_at, m.seen_count, 'active' as state
 from memory m left join project p on p.owner_id = m.owner_id and p.id = m.project_id
 where m.owner_id = %(owner)s and m.project_id = %(project)s and (m.occurred_at, m.id) > (%(at)s, %(id)s)
   and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
   and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
 order by m.occurred_at, m.id limit %(after)s)
order by occurred_at, id;

-- name: freshness
select (count(*) filter (where project_id = %(project)s))::integer as here,
       (count(*) filter (where project_id is null))::integer as everywhere, count(*)::integer as total,
       max(recorded_at) as newest,
       (select max(landed_at) from session where owner_id = %(owner)s) as landed_at
from memory
where owner_id = %(owner)s and forgotten_at is null and superseded_by is null and archived_at is null;
