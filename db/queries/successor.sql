-- Whom a memory's content counts for after it was merged.

-- name: of_content
-- Along merges only: where a chain ends in what was replaced, the content may have become true again and stands for itself.
with recursive chain (id, superseded_by, superseded_how, forgotten_at, depth) as (
    select m.id, m.superseded_by, m.superseded_how, m.forgotten_at, 1 from memory m
    where m.owner_id = %(owner)s and m.superseded_by is not null and m.superseded_how in ('merged', 'condensed')
      and m.content_hash = %(content_hash)s and m.kind = %(kind)s and m.project_id is not distinct from %(project)s
      and m.layer = 'observation'
    union all
    select n.id, n.superseded_by, n.superseded_how, n.forgotten_at, c.depth + 1
    from chain c join memory n on n.owner_id = %(owner)s and n.id = c.superseded_by
    where c.superseded_how in ('merged', 'condensed') and c.depth < %(depth)s
) cycle id set looped using path
select id, forgotten_at is not null as forgotten from chain
where superseded_by is null and not looped
order by forgotten_at is not null, id desc limit 1;
