-- Every table begins with owner_id, in its keys and indexes too: one owner in a personal installation, many on a shared
-- server, and the column to shard by. Ids are made by the client (UUIDv7, or UUIDv5 of what a thing is).

create table project (
    owner_id uuid not null,
    id uuid not null,
    identity text not null,
    name text not null,
    root text not null,
    created_at timestamptz not null,
    primary key (owner_id, id),
    unique (owner_id, identity)
);

-- One conversation: a main session, or a subagent's own (agent set, parent_id its session).
create table session (
    owner_id uuid not null,
    id uuid not null,
    machine_id uuid not null,
    name text not null,
    agent text,
    parent_id uuid,
    project_id uuid,
    title text,
    entrypoint text,
    started_at timestamptz,
    last_at timestamptz,
    landed_at timestamptz not null,
    ended_at timestamptz,
    primary key (owner_id, id),
    foreign key (owner_id, project_id) references project
);

-- One file and how far it has been read. cursor = "offset", always the byte after a newline.
create table transcript (
    owner_id uuid not null,
    id uuid not null,
    machine_id uuid not null,
    path text not null,
    session_id uuid not null,
    generation integer not null default 0,
    "offset" bigint not null default 0 check ("offset" >= 0),
    head bytea not null default '',
    head_length integer not null default 0,
    marker bytea not null default '',
    marker_length integer not null default 0,
    size bigint not null default 0,
    inode bigint not null default 0,
    modified_ns bigint not null default 0,
    landed integer not null default 0,
    skipped jsonb not null default '{}',
    -- What the reader of the next chunk needs of this one: see observer/land.py.
    state jsonb not null default '{}',
    last_landed_at timestamptz,
    primary key (owner_id, id),
    unique (owner_id, machine_id, path)
);

-- A stretch of one session that is observed in one go.
create table batch (
    owner_id uuid not null,
    id uuid not null,
    session_id uuid not null,
    status text not null default 'pending' check (status in ('pending', 'observed', 'set_aside')),
    closed_by text not null check (closed_by in ('size', 'idle', 'end', 'clear', 'compaction', 'once', 'split')),
    lines integer not null,
    bytes bigint not null,
    question uuid,
    created_at timestamptz not null,
    not_before timestamptz not null,
    attempts integer not null default 0,
    lease_id uuid,
    leased_by uuid,
    leased_until timestamptz,
    last_error text,
    observed_at timestamptz,
    observed_by text,
    observations integer,
    primary key (owner_id, id),
    foreign key (owner_id, session_id) references session
);
create index batch_due on batch (owner_id, not_before, id) where status = 'pending';
create index batch_set_aside on batch (owner_id, id) where status = 'set_aside';
create index batch_session on batch (owner_id, session_id);

-- One record of a transcript, redacted and shortened.
create table line (
    owner_id uuid not null,
    uuid uuid not null,
    copy_key uuid,
    session_id uuid not null,
    transcript_id uuid not null,
    project_id uuid not null,
    generation integer not null,
    "offset" bigint not null,
    part smallint not null,
    bytes integer not null,
    kind text not null check (kind in ('prompt', 'answer', 'thinking', 'call', 'result', 'boundary')),
    origin text not null check (origin in ('user', 'assistant', 'tool')),
    text text not null,
    tools jsonb,
    at timestamptz,
    landed_at timestamptz not null,
    batch_id uuid,
    primary key (owner_id, uuid),
    foreign key (owner_id, session_id) references session,
    foreign key (owner_id, transcript_id) references transcript,
    foreign key (owner_id, project_id) references project,
    foreign key (owner_id, batch_id) references batch
);
create unique index line_copy on line (owner_id, copy_key);
create index line_waiting on line (owner_id, session_id) where batch_id is null;
create index line_session on line (owner_id, session_id, generation, "offset", part);
create index line_calls on line (owner_id, transcript_id, generation, "offset") where kind in ('call', 'answer');
create index line_batch on line (owner_id, batch_id);

-- A complete line that could not be handled, kept for inspection.
create table set_aside (
    owner_id uuid not null,
    id uuid not null,
    transcript_id uuid not null,
    generation integer not null,
    "offset" bigint not null,
    bytes bigint not null,
    digest bytea not null,
    reason text not null,
    excerpt text not null,
    created_at timestamptz not null,
    resolved_at timestamptz,
    primary key (owner_id, id),
    unique (owner_id, transcript_id, digest),
    foreign key (owner_id, transcript_id) references transcript
);

-- All that recall can give back, whatever its layer. project_id null: it holds in every project.
create table memory (
    owner_id uuid not null,
    id uuid not null,
    layer text not null check (layer in ('observation', 'fact', 'reflection', 'summary')),
    kind text not null check (kind in ('preference', 'decision', 'deadend', 'bugfix', 'pattern', 'context')),
    project_id uuid,
    title text not null check (length(title) between 1 and 160),
    body text not null check (length(body) <= 2000),
    terms text not null default '' check (length(terms) <= 8000),
    concepts text[] not null default '{}' check (cardinality(concepts) <= 20),
    files text[] not null default '{}' check (cardinality(files) <= 20),
    key text,
    valid_from timestamptz,
    valid_to timestamptz,
    confidence real not null check (confidence between 0 and 1),
    origin text not null check (origin in ('user', 'assistant', 'tool')),
    author text not null,
    content_hash bytea not null,
    occurred_at timestamptz not null,
    recorded_at timestamptz not null,
    changed_at timestamptz not null,
    seen_count integer not null default 1,
    shown_count integer not null default 0,
    used_count integer not null default 0,
    last_shown_at timestamptz,
    last_used_at timestamptz,
    pinned boolean not null default false,
    snoozed_until timestamptz,
    superseded_by uuid,
    archived_at timestamptz,
    forgotten_at timestamptz,
    search tsvector not null generated always as (
        setweight(to_tsvector('english'::regconfig, title), 'A')
        || setweight(to_tsvector('english'::regconfig, body), 'B')
        || setweight(to_tsvector('simple'::regconfig, terms), 'C')) stored,
    primary key (owner_id, id),
    foreign key (owner_id, project_id) references project,
    foreign key (owner_id, superseded_by) references memory,
    check (origin = 'user' or kind <> 'preference')
);
create unique index memory_same on memory (owner_id, project_id, kind, content_hash) nulls not distinct
    where layer = 'observation' and superseded_by is null and forgotten_at is null;
create index memory_project on memory (owner_id, project_id, occurred_at);
create index memory_search on memory using gin (search);
create index memory_files on memory using gin (files);
create index memory_superseded on memory (owner_id, superseded_by) where superseded_by is not null;

-- What a memory stands on: a quoted line, or another memory.
create table memory_source (
    owner_id uuid not null,
    id uuid not null,
    memory_id uuid not null,
    line_uuid uuid,
    source_memory_id uuid,
    session_id uuid,
    quote text not null default '' check (length(quote) <= 600),
    origin text not null check (origin in ('user', 'assistant', 'tool')),
    at timestamptz,
    recorded_at timestamptz not null,
    primary key (owner_id, id),
    foreign key (owner_id, memory_id) references memory on delete cascade,
    foreign key (owner_id, source_memory_id) references memory on delete cascade,
    foreign key (owner_id, line_uuid) references line,
    unique (owner_id, memory_id, line_uuid),
    unique (owner_id, memory_id, source_memory_id)
);
create index memory_source_line on memory_source (owner_id, line_uuid);
create index memory_source_memory on memory_source (owner_id, source_memory_id) where source_memory_id is not null;

-- Content that was forgotten on purpose: never stored again, whatever finds it.
create table tombstone (
    owner_id uuid not null,
    content_hash bytea not null,
    project_id uuid,
    memory_id uuid not null,
    created_at timestamptz not null,
    unique nulls not distinct (owner_id, content_hash, project_id)
);

-- Models live side by side; each has its own partial index. A vector is a unit vector or it is refused.
create table embedding (
    owner_id uuid not null,
    memory_id uuid not null,
    model_id text not null,
    vector public.vector not null check (public.vector_norm(vector) between 0.99 and 1.01),
    content_hash bytea not null,
    created_at timestamptz not null,
    primary key (owner_id, memory_id, model_id),
    foreign key (owner_id, memory_id) references memory on delete cascade
);

-- An index for each model that ships; vectors of any other model are compared exactly.
create index embedding_bge_small_384 on embedding
    using hnsw ((vector::public.halfvec(384)) public.halfvec_cosine_ops) where model_id = 'bge-small-en-v1.5-int8@384';
create index embedding_gemini_001_768 on embedding
    using hnsw ((vector::public.halfvec(768)) public.halfvec_cosine_ops) where model_id = 'gemini-embedding-001@768';
create index embedding_gemini_2_768 on embedding
    using hnsw ((vector::public.halfvec(768)) public.halfvec_cosine_ops) where model_id = 'gemini-embedding-2@768';

create table lease (
    owner_id uuid not null,
    name text not null,
    holder uuid not null,
    described text not null,
    acquired_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (owner_id, name)
);

-- Every call to a provider; budgets and pauses are read from here.
create table llm_call (
    owner_id uuid not null,
    id uuid not null,
    purpose text not null,
    model text not null,
    started_at timestamptz not null,
    milliseconds integer not null,
    input_tokens integer not null default 0,
    output_tokens integer not null default 0,
    thought_tokens integer not null default 0,
    cached_tokens integer not null default 0,
    cost_usd numeric(12, 6),
    outcome text not null,
    error text,
    resume_at timestamptz,
    batch_id uuid,
    primary key (owner_id, id)
);
create index llm_call_purpose on llm_call (owner_id, purpose, started_at);

do $$
declare t text;
begin
    foreach t in array array['project', 'session', 'transcript', 'batch', 'line', 'set_aside', 'memory', 'memory_source',
                             'tombstone', 'embedding', 'lease', 'llm_call'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy by_owner on %I to cems_writer, cems_owner'
            ' using (owner_id = nullif(current_setting(''cems.owner_id'', true), '''')::uuid)', t);
        execute format('grant select, insert, update on %I to cems_writer', t);
    end loop;
end $$;
grant delete on memory, memory_source, embedding, tombstone, lease to cems_writer;

-- The reader sees what recall and status show: no lines, no batches' errors, nothing that was forgotten.
create policy by_reader on project for select to cems_reader
    using (owner_id = nullif(current_setting('cems.owner_id', true), '')::uuid);
create policy by_reader on session for select to cems_reader
    using (owner_id = nullif(current_setting('cems.owner_id', true), '')::uuid);
create policy by_reader on memory for select to cems_reader
    using (owner_id = nullif(current_setting('cems.owner_id', true), '')::uuid and forgotten_at is null);
create policy by_reader on memory_source for select to cems_reader
    using (owner_id = nullif(current_setting('cems.owner_id', true), '')::uuid
           and exists (select from memory m where m.owner_id = memory_source.owner_id and m.id = memory_id));
create policy by_reader on embedding for select to cems_reader
    using (owner_id = nullif(current_setting('cems.owner_id', true), '')::uuid);
create policy by_reader on llm_call for select to cems_reader
    using (owner_id = nullif(current_setting('cems.owner_id', true), '')::uuid);
grant select on project, session, memory, memory_source, embedding to cems_reader;
grant select (owner_id, id, purpose, model, started_at, input_tokens, output_tokens, cost_usd, outcome, resume_at)
    on llm_call to cems_reader;
