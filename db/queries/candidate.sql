-- Memories that may say the same as another one. A job has to look at a memory that has no mark of this name, or one from
-- another time than its last change.

-- name: groups
-- What is live where something is to be looked at.
select m.project_id as project, m.layer, m.kind, count(*)::integer as live,
       count(*) filter (where k.changed_at is distinct from m.changed_at)::integer as unlooked
from memory m left join job_mark k on k.owner_id = m.owner_id and k.memory_id = m.id and k.job = %(mark)s
where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
  and (%(project)s::uuid is null or m.project_id = %(project)s) and m.layer = any(%(layers)s)
group by m.project_id, m.layer, m.kind
having bool_or(k.changed_at is distinct from m.changed_at)
order by m.project_id nulls first, m.layer, m.kind;

-- name: vectors
-- The vectors of one model in some groups, every row one run of bytes as long as the next, so that many of them are read as
-- one array: the id, the time, the number of the group, and the vector, all in Postgres's binary form. Null for other groups
-- and for vectors of other dimensions: as conditions, they would let the planner expect a single row and look each vector up.
-- LOOKED stands for `exists` or `not exists`.
select case when g.number is not null and public.vector_dims(e.vector) = %(dimensions)s
       then uuid_send(m.id) || timestamptz_send(m.changed_at) || int4send(g.number::integer) || public.vector_send(e.vector)
       end as row
from memory m
join embedding e on e.owner_id = m.owner_id and e.memory_id = m.id and e.model_id = %(model)s
left join unnest(%(projects)s::uuid[], %(layers)s::text[], %(kinds)s::text[]) with ordinality g (project, layer, kind, number)
    on coalesce(m.project_id, %(none)s) = coalesce(g.project, %(none)s) and m.layer = g.layer and m.kind = g.kind
where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
  and (m.project_id = any(%(projects)s::uuid[]) or (m.project_id is null and %(homeless)s))
  and LOOKED (select from job_mark k where k.owner_id = m.owner_id and k.memory_id = m.id and k.job = %(mark)s
              and k.changed_at = m.changed_at);

-- name: words
-- The texts of one group, for where there are no vectors.
select m.id, m.changed_at, m.title, m.body, k.changed_at is distinct from m.changed_at as unlooked
from memory m left join job_mark k on k.owner_id = m.owner_id and k.memory_id = m.id and k.job = %(mark)s
where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
  and m.project_id is not distinct from %(project)s::uuid and m.layer = %(layer)s and m.kind = %(kind)s
order by m.id;

-- name: members
-- Whole memories; `said_at` is when somebody last said it.
select m.id, m.project_id, m.layer, m.kind, m.title, m.body, m.around, m.concepts, m.files, m.confidence, m.origin, m.author,
       m.occurred_at, m.changed_at, m.seen_count, m.shown_count, m.used_count, m.last_shown_at, m.last_used_at, m.pinned,
       m.snoozed_until, m.valid_from,
       greatest(m.occurred_at, (select max(s.at) from memory_source s
                                where s.owner_id = m.owner_id and s.memory_id = m.id)) as said_at
from memory m
where m.owner_id = %(owner)s and m.id = any(%(ids)s)
  and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
order by m.id;

-- name: mark
-- Exactly this time: a mark may be written just before the change that it is about, and tells nothing until that is there.
insert into job_mark (owner_id, job, memory_id, changed_at)
select %(owner)s, n.name, m.id, t.changed_at
from unnest(%(ids)s::uuid[], %(changed)s::timestamptz[]) t (id, changed_at)
join memory m on m.owner_id = %(owner)s and m.id = t.id
cross join unnest(%(names)s::text[]) n (name)
on conflict (owner_id, job, memory_id) do update set changed_at = excluded.changed_at;
