-- What sessions were shown and used of the memories. Written by the observer as it lands lines; db/usage.py only.

-- name: show
-- A hook's output is often written down twice, as its own record and as the context it gave; and a copied session repeats
-- the times of the one it was copied from. Both are one showing.
with found as (
    select m.id from memory m
    where m.owner_id = %(owner)s and m.short_id = any(%(ids)s)
      and not exists (
        select from memory_use u
        where u.owner_id = m.owner_id and u.memory_id = m.id and u.how = 'shown'
          and (u.at = %(at)s
               or (u.session_id = %(session)s
                   and u.at between %(at)s - interval '1 minute' and %(at)s + interval '1 minute')))
), added as (
    insert into memory_use (owner_id, memory_id, record_uuid, how, session_id, turn, at, recorded_at)
    select %(owner)s, id, %(record)s, 'shown', %(session)s, %(turn)s, %(at)s, %(now)s from found
    on conflict do nothing returning memory_id
)
update memory m set shown_count = m.shown_count + 1, last_shown_at = greatest(m.last_shown_at, %(at)s)
from added a where m.owner_id = %(owner)s and m.id = a.memory_id;

-- name: shown_in
-- What sessions were shown, by turn; `own`: the memory was learnt in that session itself.
select u.session_id, u.turn, m.id, m.short_id, m.title, m.body,
       exists (select from memory_source s
               where s.owner_id = m.owner_id and s.memory_id = m.id and s.session_id = u.session_id) as own
from memory_use u join memory m on m.owner_id = u.owner_id and m.id = u.memory_id
where u.owner_id = %(owner)s and u.session_id = any(%(sessions)s) and u.how = 'shown'
order by m.id, u.record_uuid;

-- name: use
-- Every record that uses a memory is kept; a turn counts once, however often it does.
with added as (
    insert into memory_use (owner_id, memory_id, record_uuid, how, session_id, turn, at, recorded_at)
    select %(owner)s, %(memory)s, %(record)s, %(how)s, %(session)s, %(turn)s, %(at)s, %(now)s
    where not exists (
        select from memory_use u
        where u.owner_id = %(owner)s and u.memory_id = %(memory)s and u.how <> 'shown' and u.at = %(at)s)
    on conflict do nothing returning memory_id
)
update memory m set last_used_at = greatest(m.last_used_at, %(at)s),
    used_count = m.used_count + case when exists (
        select from memory_use u
        where u.owner_id = %(owner)s and u.memory_id = %(memory)s and u.how <> 'shown' and u.session_id = %(session)s
          and u.turn is not distinct from %(turn)s) then 0 else 1 end
from added a where m.owner_id = %(owner)s and m.id = a.memory_id;
