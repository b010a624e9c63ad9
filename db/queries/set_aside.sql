-- What was set aside: batches that got no usable answer, lines that could not be read.

-- name: batches
select b.id, b.session_id, b.created_at, b.attempts, b.last_error, b.lines, b.bytes, b.closed_by, e.name as session,
       e.agent, e.title as session_title, p.name as project
from batch b
join session e on e.owner_id = b.owner_id and e.id = b.session_id
left join project p on p.owner_id = e.owner_id and p.id = e.project_id
where b.owner_id = %(owner)s and b.status = 'set_aside' and (%(id)s::uuid is null or b.id = %(id)s)
order by b.id;

-- name: batch_lines
select uuid, kind, origin, text, at, bytes from line
where owner_id = %(owner)s and batch_id = %(id)s
order by generation, "offset", part;

-- name: lines
select s.id, s.transcript_id, s.generation, s."offset", s.bytes, s.digest, s.reason, s.excerpt, s.created_at,
       t.path as transcript, t.machine_id, t.session_id, e.name as session, e.agent
from set_aside s
join transcript t on t.owner_id = s.owner_id and t.id = s.transcript_id
left join session e on e.owner_id = t.owner_id and e.id = t.session_id
where s.owner_id = %(owner)s and s.resolved_at is null and (%(id)s::uuid is null or s.id = %(id)s)
order by s.id;

-- name: ids_like
select id, what from (
    select id, 'batch' as what from batch where owner_id = %(owner)s and status = 'set_aside'
    union all
    select id, 'line' from set_aside where owner_id = %(owner)s and resolved_at is null) found
where id::text like %(part)s || '%%' or id::text like '%%' || %(part)s order by id limit 3;

-- name: retry_batch
update batch set status = 'pending', attempts = 0, not_before = %(now)s, lease_id = null, leased_until = null
where owner_id = %(owner)s and id = %(id)s and status = 'set_aside';

-- name: resolve_line
update set_aside set resolved_at = %(now)s
where owner_id = %(owner)s and id = %(id)s and resolved_at is null;
