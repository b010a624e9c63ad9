-- Which model's vectors answer, which are no longer needed, how the indexes are, and what has gone stale.

-- name: oldest
-- Vectors are made newest memory first, so how far a model has come shows at the oldest ones.
with oldest as materialized (
    select m.id from memory m
    where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
    order by m.id limit %(sample)s
)
select e.model_id as model, count(*)::integer as vectors, max(e.created_at) as newest
from oldest o join embedding e on e.owner_id = %(owner)s and e.memory_id = o.id group by e.model_id;

-- name: models
select model_id as model, count(*)::integer as vectors, min(created_at) as first_at, max(created_at) as last_at
from embedding where owner_id = %(owner)s group by model_id order by model_id;

-- name: live_missing
select count(*)::integer as missing from memory m
where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
  and m.id <> all(%(besides)s::uuid[])
  and not exists (select from embedding e where e.owner_id = m.owner_id and e.memory_id = m.id and e.model_id = %(model)s);

-- name: drop_vectors
-- A part at a time: a deletion of everything would hold up whoever stores a vector.
delete from embedding where owner_id = %(owner)s and (owner_id, memory_id, model_id) in (
    select owner_id, memory_id, model_id from embedding
    where owner_id = %(owner)s and model_id = %(model)s limit %(limit)s);

-- name: drop_some
delete from embedding where owner_id = %(owner)s and model_id = %(model)s and memory_id = any(%(ids)s::uuid[]);

-- name: sample
-- Stored vectors and what they should be of: the newest, and as many by chance; another seed takes others.
(select m.id, m.title, m.body, m.around, e.vector from embedding e
 join memory m on m.owner_id = e.owner_id and m.id = e.memory_id
 where e.owner_id = %(owner)s and e.model_id = %(model)s and m.forgotten_at is null
 order by m.id desc limit %(limit)s)
union
(select m.id, m.title, m.body, m.around, e.vector from embedding e
 join memory m on m.owner_id = e.owner_id and m.id = e.memory_id
 where e.owner_id = %(owner)s and e.model_id = %(model)s and m.forgotten_at is null
 order by md5(m.id::text || %(seed)s::text), m.id limit %(limit)s)
order by id desc;

-- name: drop_forgotten
-- One that was stored while its memory was being forgotten.
delete from embedding e using memory m
where e.owner_id = %(owner)s and m.owner_id = e.owner_id and m.id = e.memory_id and m.forgotten_at is not null;

-- name: stale
-- Never used, of low confidence, and neither said, changed nor brought back since `before`. That it was shown is no use. What a
-- run put away once and is here again was brought back by a person.
select m.id, m.changed_at, m.title from memory m
where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
  and m.confidence < %(confidence)s and m.used_count = 0 and m.last_used_at is null
  and m.kind <> 'preference' and not m.pinned and m.author <> 'hand'
  and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
  and greatest(m.recorded_at, m.occurred_at, m.changed_at) < %(before)s
  and (%(project)s::uuid is null or m.project_id = %(project)s) and m.id <> all(%(besides)s::uuid[])
  and not exists (select from memory_source s
                  where s.owner_id = m.owner_id and s.memory_id = m.id and greatest(s.at, s.recorded_at) >= %(before)s)
  and not exists (select from job_change c
                  where c.owner_id = m.owner_id and c.memory_id = m.id and c.table_name = 'memory' and c.before is not null
                    and c.what in ('summarized', 'archived'))
order by m.id limit %(limit)s;

-- name: orphans
-- Foreign keys make nearly all of these impossible; a server that was restored in parts, or repaired by hand, may differ.
select (select count(*)::integer from embedding e where e.owner_id = %(owner)s and not exists (
            select from memory m where m.owner_id = e.owner_id and m.id = e.memory_id)) as "vectors without a memory",
       (select count(*)::integer from memory_source s where s.owner_id = %(owner)s and not exists (
            select from memory m where m.owner_id = s.owner_id and m.id = s.memory_id)) as "sources without a memory",
       (select count(*)::integer from memory_source s where s.owner_id = %(owner)s and s.line_uuid is not null and not exists (
            select from line l where l.owner_id = s.owner_id and l.uuid = s.line_uuid)) as "sources without their line",
       (select count(*)::integer from memory_source s where s.owner_id = %(owner)s and s.source_memory_id is not null and not exists (
            select from memory m where m.owner_id = s.owner_id and m.id = s.source_memory_id)) as "sources without their memory",
       (select count(*)::integer from memory o where o.owner_id = %(owner)s and o.superseded_by is not null and not exists (
            select from memory m where m.owner_id = o.owner_id and m.id = o.superseded_by)) as "memories without what superseded them",
       (select count(*)::integer from memory m where m.owner_id = %(owner)s and m.forgotten_at is not null and not exists (
            select from tombstone t where t.owner_id = m.owner_id and t.content_hash = m.content_hash
              and (t.project_id is null or t.project_id = m.project_id))) as "forgotten memories that could be learnt again",
       (select count(*)::integer from pg_constraint where connamespace = 'cems'::regnamespace and not convalidated)
           as "constraints that were never checked";

-- name: indexes
select c.relname as name, t.relname as table, i.indisvalid and i.indisready as valid, pg_relation_size(c.oid) as bytes,
       greatest(c.reltuples, 0)::float8 as entries, a.amname as method,
       coalesce((select max(atttypmod) from pg_attribute where attrelid = c.oid), 0) as dimensions,
       -- Statistics on widths are hidden where row-level security is on; words and the like are taken to be 24 bytes long.
       (select sum(case when k.attlen > 0 then k.attlen else 24 end)::float8 from pg_attribute k where k.attrelid = c.oid) as width
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_class t on t.oid = i.indrelid
join pg_am a on a.oid = c.relam
where c.relnamespace = 'cems'::regnamespace and c.relkind = 'i' order by c.relname;

-- name: may_mend
-- Whether this connection may rebuild indexes: it has the rights of the tables' owner.
select pg_has_role(current_user, relowner, 'usage') as may from pg_class where oid = 'cems.embedding'::regclass;

-- name: canaries
select memory_id as id, vector from embedding where owner_id = %(owner)s and model_id = %(model)s
order by md5(memory_id::text || %(seed)s::text), memory_id limit %(sample)s;

-- name: nearest
-- MODEL and DIMENSIONS stand for what the index is made on: a plan must know them.
select memory_id as id, vector::halfvec(DIMENSIONS) <=> %(vector)s::vector::halfvec(DIMENSIONS) as distance from embedding
where owner_id = %(owner)s and model_id = 'MODEL'
order by vector::halfvec(DIMENSIONS) <=> %(vector)s::vector::halfvec(DIMENSIONS) limit %(limit)s;
