-- How what a run of maintenance wrote is taken back. Used by db/undoing.py only; see change.sql for the shape of rows.

-- name: run_state
select outcome, undone_at from job_run where owner_id = %(owner)s and id = %(run)s;

-- name: begin_undo
-- A run that is still called running and whose lease has ended is dead, though nobody has said so yet.
update job_run r set undone_at = %(now)s, outcome = case when outcome = 'running' then 'killed' else outcome end,
    finished_at = coalesce(finished_at, %(now)s)
where r.owner_id = %(owner)s and r.id = %(run)s and r.undone_at is null
  and (r.outcome <> 'running' or not exists (
    select from lease l where l.owner_id = r.owner_id and l.name = 'job ' || r.job and l.holder = r.id and l.expires_at > %(now)s))
returning r.job;

-- name: lock_waiting
select m.id, to_jsonb(m) - '{search,short_id}'::text[] as row from memory m
where m.owner_id = %(owner)s and m.id = any(%(ids)s) order by m.id for no key update;

-- name: referring
-- Memories outside a run that stand on, or were replaced by, one that it made.
select m.id from memory m where m.owner_id = %(owner)s and m.superseded_by = %(id)s
union
select s.memory_id from memory_source s where s.owner_id = %(owner)s and s.source_memory_id = %(id)s limit 1;

-- name: delete_source
delete from memory_source where owner_id = %(owner)s and id = %(id)s;

-- name: delete_memory
delete from memory where owner_id = %(owner)s and id = %(id)s;

-- name: put_vector
insert into embedding select * from jsonb_populate_record(null::embedding, %(values)s::jsonb) on conflict do nothing;

-- name: same
-- Who says the same and is there, where a memory is to come back; of two such there can be but one.
select o.id from memory o
where o.owner_id = %(owner)s and o.project_id is not distinct from %(project)s::uuid and o.kind = %(kind)s
  and o.content_hash = %(content_hash)s::bytea and o.layer = 'observation' and o.superseded_by is null and o.forgotten_at is null
  and o.id <> %(id)s limit 1;

-- name: sources_left
select count(*)::integer as n from memory_source where owner_id = %(owner)s and memory_id = %(id)s;

-- name: move_sources
-- What the heir stands on already goes with the memory.
update memory_source s set memory_id = %(heir)s
where s.owner_id = %(owner)s and s.memory_id = %(id)s and s.source_memory_id is distinct from %(heir)s and not exists (
    select from memory_source o where o.owner_id = s.owner_id and o.memory_id = %(heir)s
    and (o.line_uuid = s.line_uuid or o.source_memory_id = s.source_memory_id));
