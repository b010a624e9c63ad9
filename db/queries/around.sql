-- Words of lines that stand around memories, where they have to go because a memory that quotes them is erased. `starts` are
-- beginnings of whole lines; that a line begins so makes it a candidate, and db/around.py decides.

-- name: quoted
select distinct l.text from memory_source s join line l on l.owner_id = s.owner_id and l.uuid = s.line_uuid
where s.owner_id = %(owner)s and s.memory_id = %(id)s and l.text <> '';

-- name: beside
select m.id, m.around from memory m
where m.owner_id = %(owner)s and m.id <> %(id)s and m.around <> ''
  and exists (select from unnest(%(starts)s::text[]) s where position(s in e'\n' || m.around || e'\n') > 0);

-- name: lock
select m.id, m.around from memory m
where m.owner_id = %(owner)s and m.id = any(%(ids)s::uuid[]) order by m.id for no key update;

-- name: set
update memory set around = %(around)s, changed_at = %(now)s where owner_id = %(owner)s and id = %(id)s;

-- name: written
select c.run_id, c.number, c.before ->> 'around' as before, c.after ->> 'around' as after from job_change c
where c.owner_id = %(owner)s and c.table_name = 'memory' and exists (
    select from unnest(%(starts)s::text[]) s
    where position(s in e'\n' || (c.before ->> 'around') || e'\n') > 0
       or position(s in e'\n' || (c.after ->> 'around') || e'\n') > 0);

-- name: scrub
-- What runs of maintenance wrote down of them; those runs can no longer be undone.
update job_change c set before = null, after = null, why = ''
from unnest(%(runs)s::uuid[], %(numbers)s::integer[]) w (run_id, number)
where c.owner_id = %(owner)s and c.run_id = w.run_id and c.number = w.number;
