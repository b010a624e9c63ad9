-- What a superuser (or a role with CREATEROLE and CREATEDB) does once for a database, before the first migration.
-- Idempotent. Grants are the boundary between the roles; settings such as default_transaction_read_only are a seat belt.
do $$
begin
    if not exists (select from pg_roles where rolname = 'cems_owner') then create role cems_owner nologin; end if;
    if not exists (select from pg_roles where rolname = 'cems_writer') then create role cems_writer nologin; end if;
    if not exists (select from pg_roles where rolname = 'cems_reader') then create role cems_reader nologin; end if;
end $$;

create extension if not exists vector with schema public;
create schema if not exists cems authorization cems_owner;
revoke all on schema cems from public;
grant usage on schema cems to cems_writer, cems_reader;
grant usage, create on schema public to cems_owner;

do $$
begin
    -- Nobody but the owner of the schema makes objects here: no temporary tables, no large objects (a reader could
    -- fill the disk with either).
    execute format('revoke temporary on database %I from public', current_database());
    execute format('grant create on database %I to cems_owner', current_database());
    execute format('grant connect on database %I to cems_writer, cems_reader', current_database());
    revoke execute on function lo_create(oid), lo_creat(integer), lo_from_bytea(oid, bytea),
        lo_put(oid, bigint, bytea), lowrite(integer, bytea) from public;
exception when insufficient_privilege then
    raise warning 'some database-wide rights could not be revoked; a superuser should run roles.sql';
end $$;

do $$
begin
    -- Under row-level security only leakproof operators may use an index before the policy's test. Text search reveals
    -- nothing through errors, so it may; without this, keyword search would read every row of its owner.
    alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof;
    alter function pg_catalog.ts_match_qv(tsquery, tsvector) leakproof;
exception when insufficient_privilege then
    raise notice 'not a superuser: keyword search will not use its index under row-level security';
end $$;

do $$
declare r text;
begin
    foreach r in array array['cems_owner', 'cems_writer', 'cems_reader'] loop
        execute format('alter role %I set search_path = cems, public', r);
    end loop;
    alter role cems_reader set default_transaction_read_only = on;
    alter role cems_reader set statement_timeout = '2s';
    alter role cems_writer set statement_timeout = '30s';
    alter role cems_writer set lock_timeout = '2s';
    alter role cems_writer set idle_in_transaction_session_timeout = '10s';
end $$;
