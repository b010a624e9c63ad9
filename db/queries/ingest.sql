-- The write path: landing, batching, claiming, finishing. Used by db/ingest.py only.

-- name: transcripts
select id, machine_id, path, session_id, generation, "offset", head, head_length, marker, marker_length, size, inode,
       modified_ns, landed, skipped, state
from transcript where owner_id = %(owner)s and machine_id = %(machine)s;

-- name: transcript
select id, machine_id, path, session_id, generation, "offset", head, head_length, marker, marker_length, size, inode,
       modified_ns, landed, skipped, state
from transcript where owner_id = %(owner)s and id = %(id)s;

-- name: land
-- One chunk of a transcript, in one statement: projects, sessions, lines, and the cursor by compare-and-swap. Gives no row
-- when the cursor is no longer where the chunk was read from; the caller rolls back.
with projects as (
    insert into project (owner_id, id, identity, name, root, created_at)
    select %(owner)s, p.id, p.identity, p.name, p.root, %(now)s
    from json_to_recordset(%(projects)s::json) as p (id uuid, identity text, name text, root text)
    on conflict do nothing
), sessions as (
    insert into session (owner_id, id, machine_id, name, agent, parent_id, project_id, title, entrypoint, started_at,
                         last_at, landed_at, ended_at)
    select %(owner)s, s.id, %(machine)s, s.name, s.agent, s.parent_id, s.project_id, s.title, s.entrypoint, s.started_at,
           s.last_at, %(now)s, s.ended_at
    from json_to_recordset(%(sessions)s::json) as s (id uuid, name text, agent text, parent_id uuid, project_id uuid,
        title text, entrypoint text, started_at timestamptz, last_at timestamptz, ended_at timestamptz)
    on conflict (owner_id, id) do update set
        project_id = coalesce(session.project_id, excluded.project_id),
        title = coalesce(excluded.title, session.title),
        entrypoint = coalesce(session.entrypoint, excluded.entrypoint),
        started_at = least(session.started_at, excluded.started_at),
        last_at = greatest(session.last_at, excluded.last_at),
        landed_at = excluded.landed_at,
        ended_at = excluded.ended_at
), lines as (
    insert into line (owner_id, uuid, copy_key, session_id, transcript_id, project_id, generation, "offset", part, bytes,
                      kind, origin, text, tools, at, landed_at)
    select %(owner)s, r.uuid, r.copy_key, r.session_id, %(id)s, r.project_id, %(generation)s, r."offset", r.part,
           r.bytes, r.kind, r.origin, r.text, r.tools, r.at, %(now)s
    from json_to_recordset(%(rows)s::json) as r (uuid uuid, copy_key uuid, session_id uuid, project_id uuid,
        "offset" bigint, part smallint, bytes integer, kind text, origin text, text text, tools jsonb, at timestamptz)
    on conflict do nothing
    returning 1
), counted as (
    select count(*)::integer as landed from lines
)
insert into transcript (owner_id, id, machine_id, path, session_id, generation, "offset", head, head_length, marker,
                        marker_length, size, inode, modified_ns, skipped, state, landed, last_landed_at)
select %(owner)s, %(id)s, %(machine)s, %(path)s, %(session)s, %(generation)s, %(offset)s, %(head)s, %(head_length)s,
       %(marker)s, %(marker_length)s, %(size)s, %(inode)s, %(modified_ns)s,
       case when landed < %(row_count)s
            then %(skipped)s::jsonb || jsonb_build_object('copy', %(copies)s::integer + %(row_count)s - landed)
            else %(skipped)s::jsonb end,
       %(state)s::jsonb, landed, %(now)s
from counted
where (%(old_generation)s = 0 and %(old_offset)s = 0)
   or exists (select from transcript where owner_id = %(owner)s and id = %(id)s)
on conflict (owner_id, id) do update set
    generation = excluded.generation, "offset" = excluded."offset", head = excluded.head,
    head_length = excluded.head_length, marker = excluded.marker, marker_length = excluded.marker_length,
    size = excluded.size, inode = excluded.inode, modified_ns = excluded.modified_ns, skipped = excluded.skipped,
    state = excluded.state, landed = transcript.landed + excluded.landed,
    last_landed_at = excluded.last_landed_at
where transcript.generation = %(old_generation)s and transcript."offset" = %(old_offset)s
returning (select landed from counted) as landed;

-- name: set_aside
insert into set_aside (owner_id, id, transcript_id, generation, "offset", bytes, digest, reason, excerpt, created_at)
values (%(owner)s, %(id)s, %(transcript)s, %(generation)s, %(offset)s, %(length)s, %(digest)s, %(reason)s, %(excerpt)s,
        %(now)s)
on conflict do nothing;

-- name: end_sessions_of
-- Sessions, by name, which the process that now starts a cleared session was in before.
update session set ended_at = %(now)s
where owner_id = %(owner)s and id <> %(session)s and ended_at is null and name = any(%(names)s);

-- name: landed_call
select tools from line
where owner_id = %(owner)s and transcript_id = %(transcript)s and kind in ('call', 'answer') and tools @> %(wanted)s
order by generation desc, "offset" desc limit 1;

-- name: waiting_sessions
select l.session_id, count(*)::integer as lines, sum(least(l.bytes, %(line_cap)s))::bigint as bytes,
       bool_or(l.kind = 'boundary') as boundary, s.ended_at is not null as ended,
       %(now)s - least(s.landed_at, coalesce(s.last_at, s.landed_at)) >= %(idle)s
         or s.landed_at > %(now)s + greatest(%(idle)s, interval '1 minute') as idle
from line l join session s on s.owner_id = l.owner_id and s.id = l.session_id
where l.owner_id = %(owner)s and l.batch_id is null
group by l.session_id, s.ended_at, s.landed_at, s.last_at;

-- name: waiting_lines
select uuid, kind, origin, least(bytes, %(line_cap)s) as bytes, case when kind = 'boundary' then text end as boundary
from line where owner_id = %(owner)s and session_id = %(session)s and batch_id is null
order by generation, "offset", part;

-- name: last_question
-- The prompt that the first waiting line of a session answers, when it went out with an earlier batch.
select uuid from line
where owner_id = %(owner)s and session_id = %(session)s and kind = 'prompt' and batch_id is not null
order by generation desc, "offset" desc, part desc limit 1;

-- name: new_batch
insert into batch (owner_id, id, session_id, closed_by, lines, bytes, question, created_at, not_before)
values (%(owner)s, %(id)s, %(session)s, %(closed_by)s, %(lines)s, %(bytes)s, %(question)s, %(now)s, %(now)s);

-- name: fill_batch
update line set batch_id = %(batch)s
where owner_id = %(owner)s and uuid = any(%(uuids)s) and batch_id is not distinct from %(from_batch)s;

-- name: claim_batch
update batch set attempts = attempts + 1, lease_id = %(lease)s, leased_by = %(machine)s,
    leased_until = %(now)s + %(lease_time)s
where owner_id = %(owner)s and id = (
    select id from batch
    -- Further in the future than anything is ever put: then the clock was set back, and the time is over.
    where owner_id = %(owner)s and status = 'pending'
      and (not_before <= %(now)s or not_before > %(now)s + interval '1 hour')
      and (leased_until is null or leased_until <= %(now)s or leased_until > %(now)s + 2 * %(lease_time)s)
    order by attempts, id limit 1 for update skip locked) -- what failed before lets the others go first
returning id, session_id, attempts, question, closed_by;

-- name: free_claims
-- The attempt counts, unless it is known that only the database was away: the batch may be what ended the process.
update batch set lease_id = null, leased_until = null, attempts = attempts - %(give_back)s
where owner_id = %(owner)s and status = 'pending' and leased_by = %(machine)s and lease_id is not null;

-- name: batch_lines
select uuid, session_id, project_id, kind, origin, text, tools, coalesce(at, landed_at) as at, bytes
from line where owner_id = %(owner)s and (batch_id = %(batch)s or uuid = %(question)s)
order by generation, "offset", part;

-- name: finish_batch
update batch set status = 'observed', observed_at = %(now)s, observed_by = %(author)s, observations = %(observations)s,
    lease_id = null, leased_until = null, last_error = null
where owner_id = %(owner)s and id = %(batch)s and status = 'pending' and lease_id = %(lease)s;

-- name: release_batch
update batch set lease_id = null, leased_until = null, not_before = %(not_before)s, last_error = %(error)s,
    attempts = attempts - %(give_back)s
where owner_id = %(owner)s and id = %(batch)s and status = 'pending' and lease_id = %(lease)s;

-- name: set_batch_aside
update batch set status = 'set_aside', lease_id = null, leased_until = null, last_error = %(error)s
where owner_id = %(owner)s and id = %(batch)s and status = 'pending' and lease_id = %(lease)s;

-- name: shrink_batch
update batch set lines = %(lines)s, bytes = %(bytes)s, closed_by = 'split', attempts = 0, lease_id = null,
    leased_until = null, not_before = %(now)s, last_error = %(error)s
where owner_id = %(owner)s and id = %(batch)s and status = 'pending' and lease_id = %(lease)s;

-- name: next_due
select min(greatest(not_before, coalesce(leased_until, not_before))) as due
from batch where owner_id = %(owner)s and status = 'pending';
