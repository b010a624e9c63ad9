-- What maintenance did and when: runs, each change row by row so that it can be shown and undone, and how far each job has
-- looked at a memory.

-- Why a memory is superseded: its fact lives on in the other (merged, condensed), or no longer holds (replaced). What is
-- observed again of a merged memory counts for the one it was merged into; what was replaced may become true again.
alter table memory add column superseded_how text check (superseded_how in ('merged', 'condensed', 'replaced'));
-- Content that lives on in another memory, looked for whenever something is observed.
create index memory_lives_on on memory (owner_id, content_hash) where superseded_by is not null;

create table job_run (
    owner_id uuid not null,
    id uuid not null,
    job text not null check (job in ('consolidation', 'reflection', 'summarization', 'reindexing')),
    asked_by text not null check (asked_by in ('schedule', 'hand')),
    due_at timestamptz,  -- the scheduled moment that it answers
    project_id uuid,     -- all projects where null
    started_at timestamptz not null,
    finished_at timestamptz,
    outcome text not null default 'running' check (outcome in ('running', 'done', 'stopped', 'failed', 'killed')),
    report jsonb not null default '{}',
    error text,
    undone_at timestamptz,
    primary key (owner_id, id),
    foreign key (owner_id, project_id) references project
);
create index job_run_job on job_run (owner_id, job, started_at);

-- One row of one table that a run wrote: `before` is null where it made the row, `after` where it took it away. Generated
-- columns are left out. `step` joins the rows that were written together.
create table job_change (
    owner_id uuid not null,
    run_id uuid not null,
    number integer not null,
    step integer not null,
    what text not null check (what in ('merged', 'replaced', 'condensed', 'summarized', 'archived', 'promoted')),
    why text not null default '',
    table_name text not null check (table_name in ('memory', 'memory_source', 'embedding')),
    memory_id uuid not null,
    into_id uuid,        -- the memory that now stands for it
    before jsonb,
    after jsonb,
    primary key (owner_id, run_id, number),
    foreign key (owner_id, run_id) references job_run
);
create index job_change_memory on job_change (owner_id, memory_id);
create index job_change_into on job_change (owner_id, into_id) where into_id is not null;

-- A job has looked at a memory as it was when it last changed; only newer changes make it look again.
create table job_mark (
    owner_id uuid not null,
    job text not null,
    memory_id uuid not null,
    changed_at timestamptz not null,
    primary key (owner_id, job, memory_id),
    foreign key (owner_id, memory_id) references memory on delete cascade
);

do $$
declare t text;
begin
    foreach t in array array['job_run', 'job_change', 'job_mark'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy by_owner on %I to cems_writer, cems_owner'
            ' using (owner_id = nullif(current_setting(''cems.owner_id'', true), '''')::uuid)', t);
        execute format('grant select, insert, update on %I to cems_writer', t);
    end loop;
end $$;

-- The reader may say when each job ran and what it counted; changes hold text, also of what was forgotten.
create policy by_reader on job_run for select to cems_reader
    using (owner_id = nullif(current_setting('cems.owner_id', true), '')::uuid);
grant select (owner_id, id, job, asked_by, due_at, started_at, finished_at, outcome, report, undone_at) on job_run to cems_reader;
