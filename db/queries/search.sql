-- Search, in two steps: what the words find, which needs no vector, so that the vector can be computed meanwhile; then what
-- the meaning finds, and everything scored. What stands between `if` and `end` is there only where it is asked for
-- (`db.search.statement`), so one plan, kept, serves every question of a shape.

-- name: candidates
-- `many`: whether more than a few pass the filters. Few: every word is looked up. Many: the rarer words.
with lively as not materialized (
    select m.* from memory m
    where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
      and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
      /*if kind*/ and m.kind = %(kind)s::text /*end*/
      /*if layer*/ and m.layer = %(layer)s::text /*end*/
      /*if concept*/ and %(concept)s::text = any(m.concepts) /*end*/
      /*if file*/ and exists (select from unnest(m.files) f where f = %(file)s::text or f like '%%/' || %(file_end)s::text) /*end*/
      /*if since*/ and m.occurred_at >= %(since)s::timestamptz /*end*/
      /*if until*/ and m.occurred_at < %(until)s::timestamptz /*end*/
), size as materialized (
    -- In parts, so that each is a stretch of one index (memory_live) and the table is not touched.
    select exists (
        (/*if projects*/ select from lively where project_id = any(%(projects)s::uuid[])
         union all select from lively where project_id is null /*end*/
         /*if no projects*/ select from lively /*end*/)
        offset %(few)s) as many
), place as materialized (
    /*if projects*/ select p.id from unnest(%(projects)s::uuid[]) p (id) /*end*/
    /*if no projects*/ select p.id from project p where p.owner_id = %(owner)s /*end*/
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
    select string_agg(query::text, ' | ')::tsquery as every,
           (/*if projects*/ '(''p/''' || coalesce((select string_agg(' | ''p/' || id || '''', '') from place), '') || ') & ' || /*end*/
            '(' || string_agg(query::text, ' | ') filter (where rare or not (select many from size)) || ')')::tsquery as query
    from (select *, sum(share) over by_rarity <= %(share)s or row_number() over by_rarity <= 2 as rare
          from word window by_rarity as (order by share, place)) w
), found as materialized (
    -- The places are in the query itself; said again in a form that no index knows, or a whole project would be read for it.
    select e.id, e.search from lively e where e.search @@ (select query from asked)
    /*if projects*/ and (coalesce(e.project_id = any(%(projects)s::uuid[]), false) or e.project_id is null) /*end*/
    order by ts_rank(%(labels)s::real[], e.search, (select every from asked)) desc, e.occurred_at desc, e.id limit %(words_depth)s
), weighed as (
    -- By how often, where and how rare; and the share of the question's weight that the words make up.
    select f.id, w.* from found f cross join lateral (
        select coalesce(sum(weight * ts_rank(%(labels)s::real[], f.search, query) * (numnode(query) + 1) / 2), 0) as score,
               coalesce(sum(weight) / nullif((select sum(weight) from word), 0), 0) as coverage,
               coalesce(bool_or(identifier), false) as named
        from word where f.search @@ query) w
)
select (select many from size) as many, c.*, w.*
from (select coalesce(array_agg(id), '{}') as ids, coalesce(array_agg(score), '{}') as scores,
             coalesce(array_agg(coverage), '{}') as coverages, coalesce(array_agg(named), '{}') as named from weighed) c,
     (select coalesce(array_agg(query::text), '{}') as queries, coalesce(array_agg(weight), '{}') as weights,
             coalesce(array_agg(identifier), '{}') as identifying from word) w;

-- name: hybrid
-- Few: vectors are compared one by one. Many: by their index, which goes on until enough have passed the filters.
with lively as not materialized (
    select m.* from memory m
    where m.owner_id = %(owner)s and m.forgotten_at is null and m.superseded_by is null and m.archived_at is null
      and (m.snoozed_until is null or m.snoozed_until <= %(now)s)
      /*if kind*/ and m.kind = %(kind)s::text /*end*/
      /*if layer*/ and m.layer = %(layer)s::text /*end*/
      /*if concept*/ and %(concept)s::text = any(m.concepts) /*end*/
      /*if file*/ and exists (select from unnest(m.files) f where f = %(file)s::text or f like '%%/' || %(file_end)s::text) /*end*/
      /*if since*/ and m.occurred_at >= %(since)s::timestamptz /*end*/
      /*if until*/ and m.occurred_at < %(until)s::timestamptz /*end*/
), word as materialized (
    select query::tsquery as query, weight, identifier
    from unnest(%(queries)s::text[], %(weights)s::float8[], %(identifying)s::boolean[]) w (query, weight, identifier)
), given as materialized (
    select * from unnest(%(ids)s::uuid[], %(scores)s::float8[], %(coverages)s::float8[], %(named)s::boolean[])
                  as c (id, words_score, coverage, named)
), near as materialized (
    /*if vector no many*/
    select v.memory_id as id from (
        /*if projects*/ select id from lively where project_id = any(%(projects)s::uuid[])
        union all select id from lively where project_id is null /*end*/
        /*if no projects*/ select id from lively /*end*/) s
    join embedding v on v.owner_id = %(owner)s and v.memory_id = s.id and v.model_id = %(model)s
    order by v.vector <=> %(vector)s::vector limit %(depth)s
    /*end*/
    /*if vector many*/
    select v.memory_id as id from embedding v join lively e on e.id = v.memory_id
    where v.owner_id = %(owner)s and v.model_id = %(model)s
          /*if projects*/ and (e.project_id = any(%(projects)s::uuid[]) or e.project_id is null) /*end*/
    order by v.vector/*::halfvec*/ <=> %(vector)s::vector/*::halfvec*/ limit %(index_depth)s
    /*end*/
    /*if listing*/
    -- A question of nothing but a time is answered by what there is, newest first.
    select id from lively where true
    /*if projects*/ and (project_id = any(%(projects)s::uuid[]) or project_id is null) /*end*/
    order by occurred_at desc, id limit %(words_depth)s
    /*end*/
    /*if no vector no listing*/ select null::uuid as id where false /*end*/
), candidate as (
    select * from given
    union all
    select m.id, w.* from near n join memory m on m.owner_id = %(owner)s and m.id = n.id cross join lateral (
        select coalesce(sum(weight * ts_rank(%(labels)s::real[], m.search, query) * (numnode(query) + 1) / 2), 0) as words_score,
               coalesce(sum(weight) / nullif((select sum(weight) from word), 0), 0) as coverage,
               coalesce(bool_or(identifier), false) as named
        from word where m.search @@ query) w
    where n.id not in (select id from given)
), scored as materialized (
    select c.*, v.vector, /*if vector*/ 1 - (v.vector <=> %(vector)s::vector) /*end*/
           /*if no vector*/ null::float8 /*end*/ as meaning_score
    from candidate c
    left join embedding v on v.owner_id = %(owner)s and v.memory_id = c.id and v.model_id = %(model)s
), passed as materialized (
    select *, rank() over (order by words_score desc) as words_rank, rank() over (order by meaning_score desc nulls last) as meaning_rank
    from (select *, coverage >= %(words_floor)s or named as by_words, coalesce(meaning_score >= %(floor)s, false) as by_meaning
          from scored) s
    where (by_words and words_score > 0 and coalesce(meaning_score >= %(words_meaning_floor)s, true)) or by_meaning
          /*if listing*/ or true /*end*/
), best as materialized (
    select *, /*if listing*/ 1::float8 /*end*/
           /*if no listing*/ (1 - %(meaning_weight)s) * words + %(meaning_weight)s * coalesce(meaning, words) /*end*/ as relevance
    from (select *, words_score / greatest(max(words_score) over (), %(words_full)s) as words,
                 greatest(meaning_score - %(zero)s, 0) / greatest(max(meaning_score) over () - %(zero)s, %(meaning_full)s) as meaning
          from passed) p
), fused as materialized (
    select b.*, m.occurred_at from best b join memory m on m.owner_id = %(owner)s and m.id = b.id
    order by relevance desc, m.occurred_at desc, m.id limit %(pool)s
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
