-- Search: keywords and vectors in one statement, filtered before they are ranked, fused by reciprocal rank.

-- name: hybrid
with wanted as (
    select (select string_agg(quote_literal(lexeme), ' | ')::tsquery
            from unnest(tsvector_to_array(to_tsvector('english', %(text)s) || to_tsvector('simple', %(terms)s))) lexeme
            where position('\' in lexeme) = 0) as query
), eligible as not materialized (
    select m.* from memory m
    where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
      and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
      and (%(projects)s::uuid[] is null or m.project_id = any(%(projects)s) or m.project_id is null)
      and (%(kind)s::text is null or m.kind = %(kind)s)
      and (%(concept)s::text is null or %(concept)s = any(m.concepts))
      and (%(file)s::text is null or exists (select from unnest(m.files) f where f = %(file)s or f like '%%/' || %(file)s))
      and (%(since)s::timestamptz is null or m.occurred_at >= %(since)s)
), by_words as (
    select id, row_number() over (order by score desc, occurred_at desc, id) as rank, score
    from (select e.id, e.occurred_at, ts_rank(e.search, w.query) as score
          from eligible e, wanted w where e.search @@ w.query
          order by score desc, e.occurred_at desc limit %(depth)s) found
), by_meaning as (
    select id, row_number() over (order by distance, occurred_at desc, id) as rank, 1 - distance as score
    from (select e.id, e.occurred_at, v.vector <=> %(vector)s::vector as distance
          from eligible e join embedding v on v.owner_id = e.owner_id and v.memory_id = e.id and v.model_id = %(model)s
          where %(vector)s::vector is not null
          order by distance limit %(depth)s) found
    where 1 - distance >= %(floor)s
)
select m.id, m.layer, m.kind, m.title, m.body, m.concepts, m.files, p.name as project, m.confidence, m.origin, m.author,
       m.occurred_at, m.recorded_at, m.seen_count, 'active' as state,
       w.rank as words_rank, w.score as words_score, v.rank as meaning_rank, v.score as meaning_score,
       coalesce(1.0 / (%(k)s + w.rank), 0)::float8 + coalesce(1.0 / (%(k)s + v.rank), 0)::float8 as score
from by_words w full join by_meaning v using (id)
join memory m on m.owner_id = %(owner)s and m.id = coalesce(w.id, v.id)
left join project p on p.owner_id = m.owner_id and p.id = m.project_id
order by score desc, m.occurred_at desc, m.id limit %(limit)s;
