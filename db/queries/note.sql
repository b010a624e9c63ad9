-- Notes that an agent writes down by a tool call. Used by db/notes.py only.

-- name: store
-- Nothing where the same content is there already, which stays as it is.
insert into memory (owner_id, id, layer, kind, project_id, title, body, terms, concepts, files, confidence, origin, author,
                    content_hash, occurred_at, recorded_at, changed_at)
values (%(owner)s, %(id)s, 'observation', %(kind)s, %(project)s, %(title)s, %(body)s, %(terms)s, %(concepts)s, %(files)s,
        %(confidence)s, 'assistant', %(author)s, %(content_hash)s, %(now)s, %(now)s, %(now)s)
on conflict (owner_id, project_id, kind, content_hash)
    where layer = 'observation' and superseded_by is null and forgotten_at is null
do nothing
returning id;

-- name: same
select id from memory
where owner_id = %(owner)s and project_id = %(project)s and kind = %(kind)s and content_hash = %(content_hash)s
  and layer = 'observation' and superseded_by is null and forgotten_at is null;

-- name: add_source
insert into memory_source (owner_id, id, memory_id, session_id, origin, at, recorded_at)
values (%(owner)s, %(id)s, %(memory)s, %(session)s, 'assistant', %(now)s, %(now)s);
