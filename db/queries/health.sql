-- What `cems doctor` asks.

-- name: server
select current_setting('server_version') as version, clock_timestamp() as at, current_user as who,
       (select extversion from pg_extension where extname = 'vector') as pgvector;

-- name: identity
select oid::bigint as id from pg_database where datname = current_database();

-- name: newest_times
select (select max(last_landed_at) from transcript where owner_id = %(owner)s) as landed,
       (select max(recorded_at) from (select recorded_at from memory where owner_id = %(owner)s order by id desc limit 100) m) as recorded;

-- name: tables
select relname as name, relrowsecurity and relforcerowsecurity as guarded, has_any_column_privilege(oid, 'update') as updatable
from pg_class
where relnamespace = 'cems'::regnamespace and relkind = 'r' order by relname;

-- name: invalid_indexes
select i.indexrelid::regclass::text as name from pg_index i join pg_class c on c.oid = i.indexrelid
where c.relnamespace = 'cems'::regnamespace and not i.indisvalid order by 1;

-- name: sample_vector
-- A vector and the words it was made from, to see whether the model still makes the same of them.
select m.title, m.body, m.around, e.vector from embedding e join memory m on m.owner_id = e.owner_id and m.id = e.memory_id
where e.owner_id = %(owner)s and e.model_id = %(model)s and m.forgotten_at is null order by e.memory_id desc limit 1;

-- name: remove_owner
-- Everything of one owner: the doctor's trial session. Foreign keys are checked when the statement ends.
with a as (delete from job_mark where owner_id = %(owner)s), b as (delete from job_change where owner_id = %(owner)s),
     c as (delete from job_run where owner_id = %(owner)s), d as (delete from memory_use where owner_id = %(owner)s),
     e as (delete from embedding where owner_id = %(owner)s), f as (delete from memory_source where owner_id = %(owner)s),
     g as (delete from tombstone where owner_id = %(owner)s), h as (delete from memory where owner_id = %(owner)s),
     i as (delete from line where owner_id = %(owner)s), j as (delete from batch where owner_id = %(owner)s),
     k as (delete from set_aside where owner_id = %(owner)s), l as (delete from transcript where owner_id = %(owner)s),
     m as (delete from session where owner_id = %(owner)s), n as (delete from lease where owner_id = %(owner)s),
     o as (delete from llm_call where owner_id = %(owner)s)
delete from project where owner_id = %(owner)s;
