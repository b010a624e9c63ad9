-- Vectors, by model.

-- name: missing
select m.id, m.kind, m.title, m.body, m.around, m.changed_at, m.occurred_at, p.name as project, m.content_hash
from memory m left join project p on p.owner_id = m.owner_id and p.id = m.project_id
where m.owner_id = %(owner)s and m.forgotten_at is null and m.id <> all(%(besides)s::uuid[])
  and not exists (select from embedding e where e.owner_id = m.owner_id and e.memory_id = m.id and e.model_id = %(model)s)
order by m.id desc limit %(limit)s;

-- name: count_missing
select count(*)::integer as missing from memory m
where m.owner_id = %(owner)s and m.forgotten_at is null
  and not exists (select from embedding e where e.owner_id = m.owner_id and e.memory_id = m.id and e.model_id = %(model)s);

-- name: add
insert into embedding (owner_id, memory_id, model_id, vector, content_hash, created_at)
select %(owner)s, m.id, %(model)s, %(vector)s, m.content_hash, %(now)s
from memory m where m.owner_id = %(owner)s and m.id = %(id)s and m.forgotten_at is null
  and (%(read_at)s::timestamptz is null or m.changed_at = %(read_at)s)
on conflict do nothing;
