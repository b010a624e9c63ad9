-- Leases of daemons and jobs.

-- name: acquire
insert into lease (owner_id, name, holder, described, acquired_at, expires_at)
values (%(owner)s, %(name)s, %(holder)s, %(described)s, %(now)s, %(expires)s)
on conflict (owner_id, name) do update set
    holder = excluded.holder, described = excluded.described, expires_at = excluded.expires_at,
    acquired_at = case when lease.holder = excluded.holder then lease.acquired_at else excluded.acquired_at end
where lease.holder = excluded.holder or lease.expires_at <= %(now)s
    or lease.expires_at > %(now)s + 2 * (%(expires)s - %(now)s)  -- the clock was set back
    or starts_with(lease.described, %(same_host)s);

-- name: holder
select holder, described, acquired_at, expires_at from lease where owner_id = %(owner)s and name = %(name)s;

-- name: all
select name, described, acquired_at, expires_at from lease where owner_id = %(owner)s and expires_at > %(now)s order by name;

-- name: release
delete from lease where owner_id = %(owner)s and name = %(name)s and holder = %(holder)s;
