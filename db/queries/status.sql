-- What status and reports show. Looks only.

-- name: server
select split_part(current_setting('server_version'), ' ', 1) as postgres,
       (select extversion from pg_extension where extname = 'vector') as pgvector,
       (select coalesce(max(version), 0) from schema_migration) as schema,
       pg_database_size(current_database()) as bytes;

-- name: queue
select count(*)::integer as pending, (count(*) filter (where leased_until > %(now)s))::integer as leased,
       min(created_at) as oldest, min(greatest(not_before, coalesce(leased_until, not_before))) as next_due,
       (count(*) filter (where last_error is not null))::integer as retried,
       (array_agg(last_error order by not_before desc) filter (where last_error is not null))[1] as last_error
from batch where owner_id = %(owner)s and status = 'pending';

-- name: waiting_lines
select count(*)::integer as lines, count(distinct session_id)::integer as sessions
from line where owner_id = %(owner)s and batch_id is null;

-- name: set_aside
select (select count(*)::integer from batch where owner_id = %(owner)s and status = 'set_aside') as batches,
       (select count(*)::integer from set_aside where owner_id = %(owner)s and resolved_at is null) as lines;

-- name: landed
select count(*)::integer as transcripts, coalesce(sum("offset"), 0)::bigint as bytes,
       coalesce(sum(landed), 0)::bigint as lines, max(last_landed_at) as last_landed_at,
       (select max(last_at) from session where owner_id = %(owner)s) as newest_line_at
from transcript where owner_id = %(owner)s;

-- name: memories
select layer, kind, count(*)::integer as count,
       case when forgotten_at is not null then 'forgotten' when superseded_by is not null then 'superseded'
            when archived_at is not null then 'archived' else 'active' end as state
from memory where owner_id = %(owner)s group by 1, 2, 4;

-- name: vectors
select model_id, count(*)::integer as count from embedding where owner_id = %(owner)s group by model_id order by model_id;

-- name: call_milliseconds
select avg(milliseconds)::float8 as milliseconds from llm_call
where owner_id = %(owner)s and purpose = %(purpose)s and started_at >= %(since)s and outcome = 'ok';
