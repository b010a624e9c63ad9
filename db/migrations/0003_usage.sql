-- What sessions were shown of the memories and made use of, learnt from their transcripts, and what a session's start needs.

-- The id people and agents see (cems.ids.short), as a column: an expression would not be looked up by index under
-- row-level security, because its functions are not leakproof.
alter table memory add column short_id text not null generated always as (right(id::text, 10)) stored;
create index memory_short on memory (owner_id, short_id);

-- One memory in one record of a transcript: shown to the session there, or used by it. session_id and record_uuid are no
-- foreign keys: a block stands before the first line of its session, and in records that do not become lines.
create table memory_use (
    owner_id uuid not null,
    memory_id uuid not null,
    record_uuid uuid not null,
    how text not null check (how in ('shown', 'cited', 'acted')),
    session_id uuid not null,
    turn uuid,
    at timestamptz not null,
    recorded_at timestamptz not null,
    primary key (owner_id, memory_id, record_uuid, how),
    foreign key (owner_id, memory_id) references memory on delete cascade
);
create index memory_use_session on memory_use (owner_id, session_id, memory_id);

alter table memory_use enable row level security;
alter table memory_use force row level security;
create policy by_owner on memory_use to cems_writer, cems_owner
    using (owner_id = nullif(current_setting('cems.owner_id', true), '')::uuid);
grant select, insert on memory_use to cems_writer;

-- The few memories of a project that were seen again, used or pinned; the newest come from memory_project.
create index memory_counted on memory (owner_id, project_id) where used_count > 0 or seen_count > 1 or pinned;
create index memory_source_session on memory_source (owner_id, session_id) where session_id is not null;
create index session_project on session (owner_id, project_id, last_at);
create index session_parent on session (owner_id, parent_id) where parent_id is not null;
