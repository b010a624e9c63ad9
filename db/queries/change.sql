-- What maintenance changes, and how it is undone. Rows travel as JSON documents of their stored columns; generated columns
-- are left out. COLUMNS stands for the stored columns of memory, see db/changes.py.

-- name: fence
-- Only a run that holds the lease and has not ended writes; writing renews it. Whoever has slept through its own end may find
-- the lease free again, so the run's row counts too, and it cannot end before this transaction does.
update lease set expires_at = greatest(expires_at, %(expires)s)
where owner_id = %(owner)s and name = %(lease)s and holder = %(run)s and exists (
    select from job_run r where r.owner_id = %(owner)s and r.id = %(run)s and r.outcome = 'running' for share);

-- name: lock
-- Rows that someone else writes at this instant are skipped: a job never waits for the observer while it holds a row.
select m.id, to_jsonb(m) - '{search,short_id}'::text[] as row from memory m
where m.owner_id = %(owner)s and m.id = any(%(ids)s) order by m.id for no key update skip locked;

-- name: update_memory
update memory m set (COLUMNS) = (select COLUMNS from jsonb_populate_record(m, %(values)s::jsonb))
where m.owner_id = %(owner)s and m.id = %(id)s
returning to_jsonb(m) - '{search,short_id}'::text[] as row;

-- name: insert_memory
insert into memory (owner_id, id, COLUMNS)
select owner_id, id, COLUMNS from jsonb_populate_record(null::memory, %(values)s::jsonb)
returning to_jsonb(memory) - '{search,short_id}'::text[] as row;

-- name: copy_sources
-- What a merged memory stands on, the one it is merged into stands on too.
insert into memory_source (owner_id, id, memory_id, line_uuid, source_memory_id, session_id, quote, origin, at, recorded_at)
select s.owner_id, new.id, %(into)s, s.line_uuid, s.source_memory_id, s.session_id, s.quote, s.origin, s.at, s.recorded_at
from memory_source s join unnest(%(sources)s::uuid[], %(ids)s::uuid[]) new (source, id) on new.source = s.id
where s.owner_id = %(owner)s and s.source_memory_id is distinct from %(into)s
on conflict do nothing
returning to_jsonb(memory_source) as row;

-- name: source_ids
select id from memory_source where owner_id = %(owner)s and memory_id = %(id)s order by id;

-- name: insert_source
insert into memory_source select * from jsonb_populate_record(null::memory_source, %(values)s::jsonb)
on conflict do nothing returning to_jsonb(memory_source) as row;

-- name: origin_of
select origin from memory where owner_id = %(owner)s and id = %(id)s;

-- name: take_vectors
delete from embedding e where e.owner_id = %(owner)s and e.memory_id = any(%(ids)s) returning to_jsonb(e) as row;

-- name: next_number
-- Of the last row a run wrote; none where it wrote none.
select number, step from job_change where owner_id = %(owner)s and run_id = %(run)s order by number desc limit 1;

-- name: record
insert into job_change (owner_id, run_id, number, step, what, why, table_name, memory_id, into_id, before, after)
values (%(owner)s, %(run)s, %(number)s, %(step)s, %(what)s, %(why)s, %(table)s, %(memory)s, %(into)s, %(before)s, %(after)s);

-- name: of_run
select number, step, what, why, table_name, memory_id, into_id, before, after from job_change
where owner_id = %(owner)s and run_id = %(run)s order by number;

-- name: undone_pairs
-- Who was merged into whom by runs that were undone: a person said no.
select c.memory_id, c.into_id from job_change c
join job_run r on r.owner_id = c.owner_id and r.id = c.run_id
where c.owner_id = %(owner)s and r.undone_at is not null and c.into_id is not null and c.table_name = 'memory'
  and (c.memory_id = any(%(ids)s) or c.into_id = any(%(ids)s));

-- name: mark
insert into job_mark (owner_id, job, memory_id, changed_at)
select %(owner)s, %(job)s, m.id, t.changed_at
from unnest(%(ids)s::uuid[], %(changed)s::timestamptz[]) t (id, changed_at)
join memory m on m.owner_id = %(owner)s and m.id = t.id
on conflict (owner_id, job, memory_id) do update set changed_at = greatest(job_mark.changed_at, excluded.changed_at);
