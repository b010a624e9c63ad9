-- Search: the settings of its transaction, and the search itself.

-- name: settings
-- Planned anew each time, because filters that are absent must vanish from the plan; random_page_cost as on a disk without
-- a head, or joins over few rows would read whole tables. The index goes on until it has found enough that pass the filters.
select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('random_page_cost', '1.1', true),
       set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', %(ef)s::text, true),
       set_config('hnsw.max_scan_tuples', %(max_scan)s::text, true), set_config('hnsw.scan_mem_multiplier', '4', true);

-- name: hybrid
-- `few` and `size`: whether what passes the filters is few. Few: vectors are compared one by one, every word is looked up.
-- Many: vectors by their index, candidates by the rarer words. Either part of `near` runs only where it is wanted.
with lively as not materialized (
    select m.* from memory m
    where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
      and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
      and (%(kind)s::text is null or m.kind = %(kind)s)
      and (%(layer)s::text is null or m.layer = %(layer)s)
      and (%(concept)s::text is null or %(concept)s = any(m.concepts))
      and (%(file)s::text is null or exists (select from unnest(m.files) f where f = %(file)s or f like '%%/' || %(file_end)s))
      and (%(since)s::timestamptz is null or m.occurred_at >= %(since)s)
      and (%(until)s::timestamptz is null or m.occurred_at < %(until)s)
), eligible as not materialized (
    select * from lively where %(projects)s::uuid[] is null or project_id = any(%(projects)s) or project_id is null
), few as materialized (
    -- In parts, so that each is a stretch of one index (memory_live) and the table is not touched.
    (select id from lively where project_id = any(%(projects)s)
     union all select id from lively where %(projects)s::uuid[] is not null and project_id is null
     union all select id from lively where %(projects)s::uuid[] is null)
    limit %(few)s + 1
), size as materialized (
    select count(*) > %(few)s as many from few
), place as materialized (
    select p.id from unnest(%(projects)s::uuid[]) p (id)
    union all select p.id from project p where %(projects)s::uuid[] is null and p.owner_id = %(owner)s
), sample as materialized (
    -- The newest memories of each place, to see which words are rare there.
    select s.search from place p cross join lateral (
        select m.search from memory m where m.owner_id = %(owner)s and m.project_id = p.id
        order by m.occurred_at desc limit %(sample)s / greatest((select count(*) from place), 1) + 1) s
    union all
    (select m.search from memory m where m.owner_id = %(owner)s and m.project_id is null
     order by m.occurred_at desc limit %(sample)s / ((select count(*) from place) + 1) + 1)
), word as materialized (
    -- A word's weight is the root of its inverse document frequency, 1 for a word that the sample has not. Twenty memories
    -- that have no word are added, so that of three memories on one subject the subject is still worth something.
    select w.query, w.identifier, w.place, seen.df / greatest(seen.n, 1)::float8 as share,
           w.share_of_word * sqrt(ln(1 + (seen.n - seen.df + 20.5) / (seen.df + 0.5)) / ln(1 + (seen.n + 20.5) / 0.5)) as weight
    from (select i as identifier, s as share_of_word, o as place,
                 (select string_agg(quote_literal(lexeme), ' | ')::tsquery
                  from unnest(tsvector_to_array(to_tsvector('english', t) || to_tsvector('simple', t))) lexeme
                  where position('\' in lexeme) = 0) as query
          from unnest(%(words)s::text[], %(identifiers)s::boolean[], %(shares)s::float8[]) with ordinality as given (t, i, s, o)
          offset 0) w
    cross join lateral (select count(*) as n, count(*) filter (where s.search @@ w.query) as df from sample s) seen
    where w.query is not null
), asked as materialized (
    select string_agg(query::text, ' | ')::tsquery as every, sum(weight) as weight,
           (case when %(projects)s::uuid[] is null then ''
                 else '(''p/''' || coalesce((select string_agg(' | ''p/' || id || '''', '') from place), '') || ') & ' end
            || '(' || string_agg(query::text, ' | ') filter (where rare or not (select many from size)) || ')')::tsquery as query
    from (select *, sum(share) over by_rarity <= %(share)s or row_number() over by_rarity <= 2 as rare
          from word window by_rarity as (order by share, place)) w
), found as materialized (
    select e.id from eligible e where e.search @@ (select query from asked)
    order by ts_rank(%(labels)s::real[], e.search, (select every from asked)) desc, e.occurred_at desc, e.id limit %(words_depth)s
), near as materialized (
    (select v.memory_id as id from few s
     join embedding v on v.owner_id = %(owner)s and v.memory_id = s.id and v.model_id = %(model)s
     where %(vector)s::vector is not null and not (select many from size)
     order by v.vector <=> %(vector)s::vector limit %(depth)s)
    union all
    (select v.memory_id from embedding v join eligible e on e.id = v.memory_id
     where v.owner_id = %(owner)s and v.model_id = %(model)s and %(vector)s::vector is not null and (select many from size)
     order by v.vector/*::halfvec*/ <=> %(vector)s::vector/*::halfvec*/ limit %(index_depth)s)
), recent as materialized (
    -- A question of nothing but a time is answered by what there is, newest first.
    select e.id from eligible e where %(listing)s order by e.occurred_at desc, e.id limit %(words_depth)s
), scored as materialized (
    -- Both legs for every candidate: words by how often, where and how rare, and the share of the question's weight they
    -- make up; meaning by the whole vector.
    select m.id, m.occurred_at, v.vector, 1 - (v.vector <=> %(vector)s::vector) as meaning_score, w.*
    from (select id from found union select id from near union select id from recent) c
    join memory m on m.owner_id = %(owner)s and m.id = c.id
    left join embedding v on v.owner_id = m.owner_id and v.memory_id = m.id and v.model_id = %(model)s
    cross join lateral (
        select coalesce(sum(weight * ts_rank(%(labels)s::real[], m.search, query) * (numnode(query) + 1) / 2), 0) as words_score,
               coalesce(sum(weight) / nullif((select weight from asked), 0), 0) as coverage, coalesce(bool_or(identifier), false) as named
        from word where m.search @@ query) w
), passed as materialized (
    select *, rank() over (order by words_score desc) as words_rank, rank() over (order by meaning_score desc nulls last) as meaning_rank
    from (select *, coverage >= %(words_floor)s or named as by_words, coalesce(meaning_score >= %(floor)s, false) as by_meaning
          from scored) s
    where (by_words and words_score > 0 and coalesce(meaning_score >= %(words_meaning_floor)s, true)) or by_meaning or %(listing)s
), fused as materialized (
    select *, case when %(listing)s then 1 else (1 - %(meaning_weight)s) * words + %(meaning_weight)s * coalesce(meaning, words) end as relevance
    from (select *, words_score / greatest(max(words_score) over (), %(words_full)s) as words,
                 case when %(vector)s::vector is not null then
                 greatest(meaning_score - %(zero)s, 0) / greatest(max(meaning_score) over () - %(zero)s, %(meaning_full)s) end as meaning
          from passed) p
    order by relevance desc, occurred_at desc, id limit %(pool)s
)
select m.id, m.layer, m.kind, m.title, m.body, m.concepts, m.files, p.name as project, m.confidence, m.origin, m.author,
       m.occurred_at, m.recorded_at, m.seen_count, 'active' as state, m.pinned, m.used_count,
       f.relevance::float8 as score, f.coverage::float8 as coverage, f.words_score::float8 as words_score,
       case when f.words_score > 0 then f.words_rank end as words_rank, f.meaning_score::float8 as meaning_score,
       case when f.meaning_score is not null then f.meaning_rank end as meaning_rank,
       (select array_agg(coalesce(1 - (o.vector <=> f.vector), 0)::float4 order by o.relevance desc, o.occurred_at desc, o.id)
        from fused o where f.vector is not null) as alike
from fused f
join memory m on m.owner_id = %(owner)s and m.id = f.id
left join project p on p.owner_id = m.owner_id and p.id = m.project_id
order by f.relevance desc, f.occurred_at desc, f.id;
