-- The ledger of provider calls: budgets, pauses and costs are read from it.

-- name: record
insert into llm_call (owner_id, id, purpose, model, started_at, milliseconds, input_tokens, output_tokens, thought_tokens,
                      cached_tokens, cost_usd, outcome, error, resume_at, batch_id)
values (%(owner)s, %(id)s, %(purpose)s, %(model)s, %(started_at)s, %(milliseconds)s, %(input_tokens)s, %(output_tokens)s,
        %(thought_tokens)s, %(cached_tokens)s, %(cost_usd)s, %(outcome)s, %(error)s, %(resume_at)s, %(batch)s);

-- name: used_since
select count(*)::integer as calls,
       coalesce(sum(input_tokens::bigint + output_tokens + thought_tokens), 0)::bigint as tokens
from llm_call
where owner_id = %(owner)s and purpose = %(purpose)s and started_at >= %(since)s
  and started_at <= %(now)s + interval '1 hour'; -- later ones are of a clock that was set back since

-- name: latest
select outcome, error, resume_at, batch_id, started_at from llm_call
where owner_id = %(owner)s and purpose = %(purpose)s
  and started_at <= %(now)s + interval '1 hour'  -- a call from the future was made before the clock was set back
order by started_at desc, id desc limit 12;

-- name: by_purpose
select purpose, count(*)::integer as calls, count(*) filter (where outcome <> 'ok')::integer as failed,
       sum(input_tokens)::bigint as input_tokens, sum(output_tokens::bigint + thought_tokens)::bigint as output_tokens,
       sum(cost_usd)::float8 as cost_usd, count(*) filter (where cost_usd is null and outcome = 'ok')::integer as unpriced
from llm_call where owner_id = %(owner)s and started_at >= %(since)s group by purpose order by purpose;

-- name: purposes
select distinct purpose from llm_call where owner_id = %(owner)s and started_at >= %(since)s;
