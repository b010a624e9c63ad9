-- Words of lines that stand around memories, where they have to go because a memory that quotes them is erased.

-- name: quoted
select distinct l.text from memory_source s join line l on l.owner_id = s.owner_id and l.uuid = s.line_uuid
where s.owner_id = %(owner)s and s.memory_id = %(id)s and l.text <> '';

-- name: beside
select m.id, m.around from memory m
where m.owner_id = %(owner)s and m.id <> %(id)s
  and exists (select from unnest(%(starts)s::text[]) s where position(s in m.around) > 0)
order by m.id for no key update;

-- name: set
update memory set around = %(around)s, changed_at = %(now)s where owner_id = %(owner)s and id = %(id)s;

-- name: scrub
-- What runs of maintenance wrote down of them; those runs can no longer be undone.
update job_change c set before = null, after = null, why = ''
where c.owner_id = %(owner)s and c.table_name = 'memory' and exists (
    select from unnest(%(starts)s::text[]) s
    where position(s in c.before ->> 'around') > 0 or position(s in c.after ->> 'around') > 0);
