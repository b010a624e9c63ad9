-- Memories: stored by the observer and by hand; listed and shown by the command line. What a person changes: lifecycle.sql.

-- name: is_forgotten
-- What was forgotten where it held everywhere is forgotten in every project.
select 1 from tombstone
where owner_id = %(owner)s and content_hash = %(content_hash)s
  and (project_id is null or project_id is not distinct from %(project)s);

-- name: store
insert into memory (owner_id, id, layer, kind, project_id, title, body, terms, around, concepts, files, confidence, origin,
                    author, content_hash, occurred_at, recorded_at, changed_at, pinned)
values (%(owner)s, %(id)s, %(layer)s, %(kind)s, %(project)s, %(title)s, %(body)s, %(terms)s, %(around)s, %(concepts)s,
        %(files)s, %(confidence)s, %(origin)s, %(author)s, %(content_hash)s, %(occurred_at)s, %(now)s, %(now)s, false)
on conflict (owner_id, project_id, kind, content_hash)
    where layer = 'observation' and superseded_by is null and forgotten_at is null
do update set occurred_at = least(memory.occurred_at, excluded.occurred_at), archived_at = null
returning id, (xmax = 0) as is_new;

-- name: wake
-- A memory that stands for what was observed again: it may have been archived, and it happened before now.
update memory set occurred_at = least(occurred_at, %(at)s), archived_at = null
where owner_id = %(owner)s and id = %(id)s;

-- name: add_source
insert into memory_source (owner_id, id, memory_id, line_uuid, session_id, quote, origin, at, recorded_at)
values (%(owner)s, %(id)s, %(memory)s, %(line)s, %(session)s, %(quote)s, %(origin)s, %(at)s, %(now)s)
on conflict do nothing;

-- name: seen_again
-- Said again by somebody more trusted, it can be trusted more; never less.
update memory set seen_count = seen_count + 1, changed_at = %(now)s,
    confidence = greatest(confidence, %(confidence)s),
    origin = case when 'user' in (origin, %(origin)s) then 'user' when 'assistant' in (origin, %(origin)s) then 'assistant'
                  else 'tool' end,
    files = array(select distinct f from unnest(files || %(files)s::text[]) f order by f limit 20),
    concepts = array(select distinct c from unnest(concepts || %(concepts)s::text[]) c order by c limit 20)
where owner_id = %(owner)s and id = %(id)s;

-- name: ensure_project
insert into project (owner_id, id, identity, name, root, created_at)
values (%(owner)s, %(id)s, %(identity)s, %(name)s, %(root)s, %(now)s)
on conflict do nothing;

-- name: find_projects
select id, identity, name, root from project
where owner_id = %(owner)s and (name = %(wanted)s or identity = %(wanted)s or root = %(wanted)s or id::text = %(wanted)s)
order by created_at;

-- name: projects
select p.id, p.identity, p.name, p.root, count(m.id)::integer as memories
from project p left join memory m on m.owner_id = p.owner_id and m.project_id = p.id and m.forgotten_at is null
where p.owner_id = %(owner)s group by p.owner_id, p.id order by p.name, p.identity;

-- name: list
select m.id, m.layer, m.kind, m.title, m.body, m.concepts, m.files, p.name as project, m.confidence, m.origin, m.author,
       m.occurred_at, m.recorded_at, m.seen_count,
       case when m.forgotten_at is not null then 'forgotten' when m.superseded_by is not null then 'superseded'
            when m.archived_at is not null then 'archived' else 'active' end as state
from memory m left join project p on p.owner_id = m.owner_id and p.id = m.project_id
where m.owner_id = %(owner)s
  and (%(ids)s::uuid[] is null or m.id = any(%(ids)s))
  and (%(kind)s::text is null or m.kind = %(kind)s)
  and (%(layer)s::text is null or m.layer = %(layer)s)
  and (%(concept)s::text is null or %(concept)s = any(m.concepts))
  and (%(file)s::text is null or exists (select from unnest(m.files) f where f = %(file)s or f like '%%/' || %(file)s))
  and (%(since)s::timestamptz is null or m.occurred_at >= %(since)s)
  and (%(projects)s::uuid[] is null or m.project_id = any(%(projects)s) or (m.project_id is null and %(everywhere)s))
  and (%(state)s::text = 'all'
       or (%(state)s = 'forgotten' and m.forgotten_at is not null)
       or (%(state)s = 'active' and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null))
order by m.occurred_at desc, m.id desc limit %(limit)s;

-- name: ids_like
select id from memory
where owner_id = %(owner)s and (id::text like %(part)s || '%%' or id::text like '%%' || %(part)s) order by id limit 3;

-- name: evidence
select s.quote, s.origin, s.at, s.line_uuid, s.source_memory_id, e.name as session, e.agent, e.title as session_title,
       t.path as transcript, l.kind as line_kind, o.title as source_title
from memory_source s
left join memory o on o.owner_id = s.owner_id and o.id = s.source_memory_id
left join line l on l.owner_id = s.owner_id and l.uuid = s.line_uuid
left join session e on e.owner_id = s.owner_id and e.id = coalesce(s.session_id, l.session_id)
left join transcript t on t.owner_id = l.owner_id and t.id = l.transcript_id
where s.owner_id = %(owner)s and s.memory_id = %(id)s order by s.at nulls last, s.id;

-- name: lift_tombstone
-- What was erased, a person may write down again; what is only forgotten is restored instead.
delete from tombstone t
where t.owner_id = %(owner)s and t.content_hash = %(content_hash)s and not exists (
    select from memory m where m.owner_id = t.owner_id and m.content_hash = t.content_hash and m.forgotten_at is not null);
