-- The schema as it is: made from the migrations by `make schema`, compared by a test. Re-indexing
-- reads it to know which indexes there should be.

CREATE SCHEMA cems;

CREATE TABLE cems.batch (
    owner_id uuid NOT NULL,
    id uuid NOT NULL,
    session_id uuid NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL,
    closed_by text NOT NULL,
    lines integer NOT NULL,
    bytes bigint NOT NULL,
    question uuid,
    created_at timestamp with time zone NOT NULL,
    not_before timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    lease_id uuid,
    leased_by uuid,
    leased_until timestamp with time zone,
    last_error text,
    observed_at timestamp with time zone,
    observed_by text,
    observations integer,
    CONSTRAINT batch_closed_by_check CHECK ((closed_by = ANY (ARRAY['size'::text, 'idle'::text, 'end'::text, 'clear'::text, 'compaction'::text, 'once'::text, 'split'::text]))),
    CONSTRAINT batch_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'observed'::text, 'set_aside'::text])))
);

ALTER TABLE ONLY cems.batch FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.embedding (
    owner_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    model_id text NOT NULL,
    vector public.vector NOT NULL,
    content_hash bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT embedding_vector_check CHECK (((public.vector_norm(vector) >= (0.99)::double precision) AND (public.vector_norm(vector) <= (1.01)::double precision)))
);

ALTER TABLE ONLY cems.embedding FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.job_change (
    owner_id uuid NOT NULL,
    run_id uuid NOT NULL,
    number integer NOT NULL,
    step integer NOT NULL,
    what text NOT NULL,
    why text DEFAULT ''::text NOT NULL,
    table_name text NOT NULL,
    memory_id uuid NOT NULL,
    into_id uuid,
    before jsonb,
    after jsonb,
    CONSTRAINT job_change_table_name_check CHECK ((table_name = ANY (ARRAY['memory'::text, 'memory_source'::text, 'embedding'::text]))),
    CONSTRAINT job_change_what_check CHECK ((what = ANY (ARRAY['merged'::text, 'replaced'::text, 'condensed'::text, 'summarized'::text, 'archived'::text, 'promoted'::text])))
);

ALTER TABLE ONLY cems.job_change FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.job_mark (
    owner_id uuid NOT NULL,
    job text NOT NULL,
    memory_id uuid NOT NULL,
    changed_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY cems.job_mark FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.job_run (
    owner_id uuid NOT NULL,
    id uuid NOT NULL,
    job text NOT NULL,
    asked_by text NOT NULL,
    due_at timestamp with time zone,
    project_id uuid,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    outcome text DEFAULT 'running'::text NOT NULL,
    report jsonb DEFAULT '{}'::jsonb NOT NULL,
    error text,
    undone_at timestamp with time zone,
    CONSTRAINT job_run_asked_by_check CHECK ((asked_by = ANY (ARRAY['schedule'::text, 'hand'::text]))),
    CONSTRAINT job_run_job_check CHECK ((job = ANY (ARRAY['consolidation'::text, 'reflection'::text, 'summarization'::text, 'reindexing'::text]))),
    CONSTRAINT job_run_outcome_check CHECK ((outcome = ANY (ARRAY['running'::text, 'done'::text, 'stopped'::text, 'failed'::text, 'killed'::text])))
);

ALTER TABLE ONLY cems.job_run FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.lease (
    owner_id uuid NOT NULL,
    name text NOT NULL,
    holder uuid NOT NULL,
    described text NOT NULL,
    acquired_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY cems.lease FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.line (
    owner_id uuid NOT NULL,
    uuid uuid NOT NULL,
    copy_key uuid,
    session_id uuid NOT NULL,
    transcript_id uuid NOT NULL,
    project_id uuid NOT NULL,
    generation integer NOT NULL,
    "offset" bigint NOT NULL,
    part smallint NOT NULL,
    bytes integer NOT NULL,
    kind text NOT NULL,
    origin text NOT NULL,
    text text NOT NULL,
    tools jsonb,
    at timestamp with time zone,
    landed_at timestamp with time zone NOT NULL,
    batch_id uuid,
    CONSTRAINT line_kind_check CHECK ((kind = ANY (ARRAY['prompt'::text, 'answer'::text, 'thinking'::text, 'call'::text, 'result'::text, 'boundary'::text]))),
    CONSTRAINT line_origin_check CHECK ((origin = ANY (ARRAY['user'::text, 'assistant'::text, 'tool'::text])))
);

ALTER TABLE ONLY cems.line FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.llm_call (
    owner_id uuid NOT NULL,
    id uuid NOT NULL,
    purpose text NOT NULL,
    model text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    milliseconds integer NOT NULL,
    input_tokens integer DEFAULT 0 NOT NULL,
    output_tokens integer DEFAULT 0 NOT NULL,
    thought_tokens integer DEFAULT 0 NOT NULL,
    cached_tokens integer DEFAULT 0 NOT NULL,
    cost_usd numeric(12,6),
    outcome text NOT NULL,
    error text,
    resume_at timestamp with time zone,
    batch_id uuid
);

ALTER TABLE ONLY cems.llm_call FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.memory (
    owner_id uuid NOT NULL,
    id uuid NOT NULL,
    layer text NOT NULL,
    kind text NOT NULL,
    project_id uuid,
    title text NOT NULL,
    body text NOT NULL,
    terms text DEFAULT ''::text NOT NULL,
    concepts text[] DEFAULT '{}'::text[] NOT NULL,
    files text[] DEFAULT '{}'::text[] NOT NULL,
    key text,
    valid_from timestamp with time zone,
    valid_to timestamp with time zone,
    confidence real NOT NULL,
    origin text NOT NULL,
    author text NOT NULL,
    content_hash bytea NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    seen_count integer DEFAULT 1 NOT NULL,
    shown_count integer DEFAULT 0 NOT NULL,
    used_count integer DEFAULT 0 NOT NULL,
    last_shown_at timestamp with time zone,
    last_used_at timestamp with time zone,
    pinned boolean DEFAULT false NOT NULL,
    snoozed_until timestamp with time zone,
    superseded_by uuid,
    archived_at timestamp with time zone,
    forgotten_at timestamp with time zone,
    around text DEFAULT ''::text NOT NULL,
    search tsvector GENERATED ALWAYS AS (((((setweight(to_tsvector('english'::regconfig, title), 'A'::"char") || setweight(to_tsvector('english'::regconfig, body), 'B'::"char")) || setweight(to_tsvector('simple'::regconfig, terms), 'C'::"char")) || setweight(to_tsvector('english'::regconfig, around), 'D'::"char")) || array_to_tsvector(ARRAY[('p/'::text || COALESCE((project_id)::text, ''::text))]))) STORED NOT NULL,
    short_id text GENERATED ALWAYS AS ("right"((id)::text, 10)) STORED NOT NULL,
    superseded_how text,
    CONSTRAINT memory_around_check CHECK ((length(around) <= 2000)),
    CONSTRAINT memory_body_check CHECK ((length(body) <= 2000)),
    CONSTRAINT memory_check CHECK (((origin = 'user'::text) OR (kind <> 'preference'::text))),
    CONSTRAINT memory_concepts_check CHECK ((cardinality(concepts) <= 20)),
    CONSTRAINT memory_confidence_check CHECK (((confidence >= (0)::double precision) AND (confidence <= (1)::double precision))),
    CONSTRAINT memory_files_check CHECK ((cardinality(files) <= 20)),
    CONSTRAINT memory_kind_check CHECK ((kind = ANY (ARRAY['preference'::text, 'decision'::text, 'deadend'::text, 'bugfix'::text, 'pattern'::text, 'context'::text]))),
    CONSTRAINT memory_layer_check CHECK ((layer = ANY (ARRAY['observation'::text, 'fact'::text, 'reflection'::text, 'summary'::text]))),
    CONSTRAINT memory_origin_check CHECK ((origin = ANY (ARRAY['user'::text, 'assistant'::text, 'tool'::text]))),
    CONSTRAINT memory_superseded_how_check CHECK ((superseded_how = ANY (ARRAY['merged'::text, 'condensed'::text, 'replaced'::text]))),
    CONSTRAINT memory_terms_check CHECK ((length(terms) <= 8000)),
    CONSTRAINT memory_title_check CHECK (((length(title) >= 1) AND (length(title) <= 160)))
);

ALTER TABLE ONLY cems.memory FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.memory_source (
    owner_id uuid NOT NULL,
    id uuid NOT NULL,
    memory_id uuid NOT NULL,
    line_uuid uuid,
    source_memory_id uuid,
    session_id uuid,
    quote text DEFAULT ''::text NOT NULL,
    origin text NOT NULL,
    at timestamp with time zone,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT memory_source_origin_check CHECK ((origin = ANY (ARRAY['user'::text, 'assistant'::text, 'tool'::text]))),
    CONSTRAINT memory_source_quote_check CHECK ((length(quote) <= 600))
);

ALTER TABLE ONLY cems.memory_source FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.memory_use (
    owner_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    record_uuid uuid NOT NULL,
    how text NOT NULL,
    session_id uuid NOT NULL,
    turn uuid,
    at timestamp with time zone NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT memory_use_how_check CHECK ((how = ANY (ARRAY['shown'::text, 'cited'::text, 'acted'::text])))
);

ALTER TABLE ONLY cems.memory_use FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.project (
    owner_id uuid NOT NULL,
    id uuid NOT NULL,
    identity text NOT NULL,
    name text NOT NULL,
    root text NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY cems.project FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.schema_migration (
    version integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE cems.session (
    owner_id uuid NOT NULL,
    id uuid NOT NULL,
    machine_id uuid NOT NULL,
    name text NOT NULL,
    agent text,
    parent_id uuid,
    project_id uuid,
    title text,
    entrypoint text,
    started_at timestamp with time zone,
    last_at timestamp with time zone,
    landed_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone
);

ALTER TABLE ONLY cems.session FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.set_aside (
    owner_id uuid NOT NULL,
    id uuid NOT NULL,
    transcript_id uuid NOT NULL,
    generation integer NOT NULL,
    "offset" bigint NOT NULL,
    bytes bigint NOT NULL,
    digest bytea NOT NULL,
    reason text NOT NULL,
    excerpt text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    resolved_at timestamp with time zone
);

ALTER TABLE ONLY cems.set_aside FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.tombstone (
    owner_id uuid NOT NULL,
    content_hash bytea NOT NULL,
    project_id uuid,
    memory_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY cems.tombstone FORCE ROW LEVEL SECURITY;

CREATE TABLE cems.transcript (
    owner_id uuid NOT NULL,
    id uuid NOT NULL,
    machine_id uuid NOT NULL,
    path text NOT NULL,
    session_id uuid NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    "offset" bigint DEFAULT 0 NOT NULL,
    head bytea DEFAULT '\x'::bytea NOT NULL,
    head_length integer DEFAULT 0 NOT NULL,
    marker bytea DEFAULT '\x'::bytea NOT NULL,
    marker_length integer DEFAULT 0 NOT NULL,
    size bigint DEFAULT 0 NOT NULL,
    inode bigint DEFAULT 0 NOT NULL,
    modified_ns bigint DEFAULT 0 NOT NULL,
    landed integer DEFAULT 0 NOT NULL,
    skipped jsonb DEFAULT '{}'::jsonb NOT NULL,
    state jsonb DEFAULT '{}'::jsonb NOT NULL,
    last_landed_at timestamp with time zone,
    CONSTRAINT transcript_offset_check CHECK (("offset" >= 0))
);

ALTER TABLE ONLY cems.transcript FORCE ROW LEVEL SECURITY;

ALTER TABLE ONLY cems.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (owner_id, id);

ALTER TABLE ONLY cems.embedding
    ADD CONSTRAINT embedding_pkey PRIMARY KEY (owner_id, memory_id, model_id);

ALTER TABLE ONLY cems.job_change
    ADD CONSTRAINT job_change_pkey PRIMARY KEY (owner_id, run_id, number);

ALTER TABLE ONLY cems.job_mark
    ADD CONSTRAINT job_mark_pkey PRIMARY KEY (owner_id, job, memory_id);

ALTER TABLE ONLY cems.job_run
    ADD CONSTRAINT job_run_pkey PRIMARY KEY (owner_id, id);

ALTER TABLE ONLY cems.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (owner_id, name);

ALTER TABLE ONLY cems.line
    ADD CONSTRAINT line_pkey PRIMARY KEY (owner_id, uuid);

ALTER TABLE ONLY cems.llm_call
    ADD CONSTRAINT llm_call_pkey PRIMARY KEY (owner_id, id);

ALTER TABLE ONLY cems.memory
    ADD CONSTRAINT memory_pkey PRIMARY KEY (owner_id, id);

ALTER TABLE ONLY cems.memory_source
    ADD CONSTRAINT memory_source_owner_id_memory_id_line_uuid_key UNIQUE (owner_id, memory_id, line_uuid);

ALTER TABLE ONLY cems.memory_source
    ADD CONSTRAINT memory_source_owner_id_memory_id_source_memory_id_key UNIQUE (owner_id, memory_id, source_memory_id);

ALTER TABLE ONLY cems.memory_source
    ADD CONSTRAINT memory_source_pkey PRIMARY KEY (owner_id, id);

ALTER TABLE ONLY cems.memory_use
    ADD CONSTRAINT memory_use_pkey PRIMARY KEY (owner_id, memory_id, record_uuid, how);

ALTER TABLE ONLY cems.project
    ADD CONSTRAINT project_owner_id_identity_key UNIQUE (owner_id, identity);

ALTER TABLE ONLY cems.project
    ADD CONSTRAINT project_pkey PRIMARY KEY (owner_id, id);

ALTER TABLE ONLY cems.schema_migration
    ADD CONSTRAINT schema_migration_pkey PRIMARY KEY (version);

ALTER TABLE ONLY cems.session
    ADD CONSTRAINT session_pkey PRIMARY KEY (owner_id, id);

ALTER TABLE ONLY cems.set_aside
    ADD CONSTRAINT set_aside_owner_id_transcript_id_digest_key UNIQUE (owner_id, transcript_id, digest);

ALTER TABLE ONLY cems.set_aside
    ADD CONSTRAINT set_aside_pkey PRIMARY KEY (owner_id, id);

ALTER TABLE ONLY cems.tombstone
    ADD CONSTRAINT tombstone_owner_id_content_hash_project_id_key UNIQUE NULLS NOT DISTINCT (owner_id, content_hash, project_id);

ALTER TABLE ONLY cems.transcript
    ADD CONSTRAINT transcript_owner_id_machine_id_path_key UNIQUE (owner_id, machine_id, path);

ALTER TABLE ONLY cems.transcript
    ADD CONSTRAINT transcript_pkey PRIMARY KEY (owner_id, id);

CREATE INDEX batch_due ON cems.batch USING btree (owner_id, not_before, id) WHERE (status = 'pending'::text);

CREATE INDEX batch_session ON cems.batch USING btree (owner_id, session_id);

CREATE INDEX batch_set_aside ON cems.batch USING btree (owner_id, id) WHERE (status = 'set_aside'::text);

CREATE INDEX embedding_bge_small_384 ON cems.embedding USING hnsw (((vector)::public.halfvec(384)) public.halfvec_cosine_ops) WHERE (model_id = 'bge-small-en-v1.5-int8@384'::text);

CREATE INDEX embedding_gemini_001_768 ON cems.embedding USING hnsw (((vector)::public.halfvec(768)) public.halfvec_cosine_ops) WHERE (model_id = 'gemini-embedding-001@768'::text);

CREATE INDEX embedding_gemini_2_768 ON cems.embedding USING hnsw (((vector)::public.halfvec(768)) public.halfvec_cosine_ops) WHERE (model_id = 'gemini-embedding-2@768'::text);

CREATE INDEX job_change_into ON cems.job_change USING btree (owner_id, into_id) WHERE (into_id IS NOT NULL);

CREATE INDEX job_change_memory ON cems.job_change USING btree (owner_id, memory_id);

CREATE INDEX job_run_job ON cems.job_run USING btree (owner_id, job, started_at);

CREATE INDEX line_batch ON cems.line USING btree (owner_id, batch_id);

CREATE INDEX line_calls ON cems.line USING btree (owner_id, transcript_id, generation, "offset") WHERE (kind = ANY (ARRAY['call'::text, 'answer'::text]));

CREATE UNIQUE INDEX line_copy ON cems.line USING btree (owner_id, copy_key);

CREATE INDEX line_session ON cems.line USING btree (owner_id, session_id, generation, "offset", part);

CREATE INDEX line_waiting ON cems.line USING btree (owner_id, session_id) WHERE (batch_id IS NULL);

CREATE INDEX llm_call_purpose ON cems.llm_call USING btree (owner_id, purpose, started_at);

CREATE INDEX memory_counted ON cems.memory USING btree (owner_id, project_id) WHERE ((used_count > 0) OR (seen_count > 1) OR pinned);

CREATE INDEX memory_files ON cems.memory USING gin (files);

CREATE INDEX memory_live ON cems.memory USING btree (owner_id, project_id, occurred_at) INCLUDE (id, snoozed_until, kind, layer) WHERE ((forgotten_at IS NULL) AND (superseded_by IS NULL) AND (archived_at IS NULL));

CREATE INDEX memory_lives_on ON cems.memory USING btree (owner_id, content_hash) WHERE (superseded_by IS NOT NULL);

CREATE INDEX memory_project ON cems.memory USING btree (owner_id, project_id, occurred_at);

CREATE UNIQUE INDEX memory_same ON cems.memory USING btree (owner_id, project_id, kind, content_hash) NULLS NOT DISTINCT WHERE ((layer = 'observation'::text) AND (superseded_by IS NULL) AND (forgotten_at IS NULL));

CREATE INDEX memory_search ON cems.memory USING gin (search);

CREATE INDEX memory_short ON cems.memory USING btree (owner_id, short_id);

CREATE INDEX memory_source_line ON cems.memory_source USING btree (owner_id, line_uuid);

CREATE INDEX memory_source_memory ON cems.memory_source USING btree (owner_id, source_memory_id) WHERE (source_memory_id IS NOT NULL);

CREATE INDEX memory_source_session ON cems.memory_source USING btree (owner_id, session_id) WHERE (session_id IS NOT NULL);

CREATE INDEX memory_superseded ON cems.memory USING btree (owner_id, superseded_by) WHERE (superseded_by IS NOT NULL);

CREATE INDEX memory_use_session ON cems.memory_use USING btree (owner_id, session_id, memory_id);

CREATE INDEX session_parent ON cems.session USING btree (owner_id, parent_id) WHERE (parent_id IS NOT NULL);

CREATE INDEX session_project ON cems.session USING btree (owner_id, project_id, last_at);

ALTER TABLE ONLY cems.batch
    ADD CONSTRAINT batch_owner_id_session_id_fkey FOREIGN KEY (owner_id, session_id) REFERENCES cems.session(owner_id, id);

ALTER TABLE ONLY cems.embedding
    ADD CONSTRAINT embedding_owner_id_memory_id_fkey FOREIGN KEY (owner_id, memory_id) REFERENCES cems.memory(owner_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY cems.job_change
    ADD CONSTRAINT job_change_owner_id_run_id_fkey FOREIGN KEY (owner_id, run_id) REFERENCES cems.job_run(owner_id, id);

ALTER TABLE ONLY cems.job_mark
    ADD CONSTRAINT job_mark_owner_id_memory_id_fkey FOREIGN KEY (owner_id, memory_id) REFERENCES cems.memory(owner_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY cems.job_run
    ADD CONSTRAINT job_run_owner_id_project_id_fkey FOREIGN KEY (owner_id, project_id) REFERENCES cems.project(owner_id, id);

ALTER TABLE ONLY cems.line
    ADD CONSTRAINT line_owner_id_batch_id_fkey FOREIGN KEY (owner_id, batch_id) REFERENCES cems.batch(owner_id, id);

ALTER TABLE ONLY cems.line
    ADD CONSTRAINT line_owner_id_project_id_fkey FOREIGN KEY (owner_id, project_id) REFERENCES cems.project(owner_id, id);

ALTER TABLE ONLY cems.line
    ADD CONSTRAINT line_owner_id_session_id_fkey FOREIGN KEY (owner_id, session_id) REFERENCES cems.session(owner_id, id);

ALTER TABLE ONLY cems.line
    ADD CONSTRAINT line_owner_id_transcript_id_fkey FOREIGN KEY (owner_id, transcript_id) REFERENCES cems.transcript(owner_id, id);

ALTER TABLE ONLY cems.memory
    ADD CONSTRAINT memory_owner_id_project_id_fkey FOREIGN KEY (owner_id, project_id) REFERENCES cems.project(owner_id, id);

ALTER TABLE ONLY cems.memory
    ADD CONSTRAINT memory_owner_id_superseded_by_fkey FOREIGN KEY (owner_id, superseded_by) REFERENCES cems.memory(owner_id, id);

ALTER TABLE ONLY cems.memory_source
    ADD CONSTRAINT memory_source_owner_id_line_uuid_fkey FOREIGN KEY (owner_id, line_uuid) REFERENCES cems.line(owner_id, uuid);

ALTER TABLE ONLY cems.memory_source
    ADD CONSTRAINT memory_source_owner_id_memory_id_fkey FOREIGN KEY (owner_id, memory_id) REFERENCES cems.memory(owner_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY cems.memory_source
    ADD CONSTRAINT memory_source_owner_id_source_memory_id_fkey FOREIGN KEY (owner_id, source_memory_id) REFERENCES cems.memory(owner_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY cems.memory_use
    ADD CONSTRAINT memory_use_owner_id_memory_id_fkey FOREIGN KEY (owner_id, memory_id) REFERENCES cems.memory(owner_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY cems.session
    ADD CONSTRAINT session_owner_id_project_id_fkey FOREIGN KEY (owner_id, project_id) REFERENCES cems.project(owner_id, id);

ALTER TABLE ONLY cems.set_aside
    ADD CONSTRAINT set_aside_owner_id_transcript_id_fkey FOREIGN KEY (owner_id, transcript_id) REFERENCES cems.transcript(owner_id, id);

ALTER TABLE cems.batch ENABLE ROW LEVEL SECURITY;

CREATE POLICY by_owner ON cems.batch TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.embedding TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.job_change TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.job_mark TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.job_run TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.lease TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.line TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.llm_call TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.memory TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.memory_source TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.memory_use TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.project TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.session TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.set_aside TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.tombstone TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_owner ON cems.transcript TO cems_owner, cems_writer USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_reader ON cems.embedding FOR SELECT TO cems_reader USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_reader ON cems.job_run FOR SELECT TO cems_reader USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_reader ON cems.llm_call FOR SELECT TO cems_reader USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_reader ON cems.memory FOR SELECT TO cems_reader USING (((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid) AND (forgotten_at IS NULL)));

CREATE POLICY by_reader ON cems.memory_source FOR SELECT TO cems_reader USING (((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid) AND (EXISTS ( SELECT
   FROM cems.memory m
  WHERE ((m.owner_id = memory_source.owner_id) AND (m.id = memory_source.memory_id))))));

CREATE POLICY by_reader ON cems.project FOR SELECT TO cems_reader USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

CREATE POLICY by_reader ON cems.session FOR SELECT TO cems_reader USING ((owner_id = (NULLIF(current_setting('cems.owner_id'::text, true), ''::text))::uuid));

ALTER TABLE cems.embedding ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.job_change ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.job_mark ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.job_run ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.lease ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.line ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.llm_call ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.memory ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.memory_source ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.memory_use ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.project ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.session ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.set_aside ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.tombstone ENABLE ROW LEVEL SECURITY;

ALTER TABLE cems.transcript ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA cems TO cems_writer;
GRANT USAGE ON SCHEMA cems TO cems_reader;

GRANT SELECT,INSERT,UPDATE ON TABLE cems.batch TO cems_writer;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE cems.embedding TO cems_writer;
GRANT SELECT ON TABLE cems.embedding TO cems_reader;

GRANT SELECT,INSERT,UPDATE ON TABLE cems.job_change TO cems_writer;

GRANT SELECT,INSERT,UPDATE ON TABLE cems.job_mark TO cems_writer;

GRANT SELECT,INSERT,UPDATE ON TABLE cems.job_run TO cems_writer;

GRANT SELECT(owner_id) ON TABLE cems.job_run TO cems_reader;

GRANT SELECT(id) ON TABLE cems.job_run TO cems_reader;

GRANT SELECT(job) ON TABLE cems.job_run TO cems_reader;

GRANT SELECT(asked_by) ON TABLE cems.job_run TO cems_reader;

GRANT SELECT(due_at) ON TABLE cems.job_run TO cems_reader;

GRANT SELECT(started_at) ON TABLE cems.job_run TO cems_reader;

GRANT SELECT(finished_at) ON TABLE cems.job_run TO cems_reader;

GRANT SELECT(outcome) ON TABLE cems.job_run TO cems_reader;

GRANT SELECT(report) ON TABLE cems.job_run TO cems_reader;

GRANT SELECT(undone_at) ON TABLE cems.job_run TO cems_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE cems.lease TO cems_writer;

GRANT SELECT,INSERT,UPDATE ON TABLE cems.line TO cems_writer;

GRANT SELECT,INSERT,UPDATE ON TABLE cems.llm_call TO cems_writer;

GRANT SELECT(owner_id) ON TABLE cems.llm_call TO cems_reader;

GRANT SELECT(id) ON TABLE cems.llm_call TO cems_reader;

GRANT SELECT(purpose) ON TABLE cems.llm_call TO cems_reader;

GRANT SELECT(model) ON TABLE cems.llm_call TO cems_reader;

GRANT SELECT(started_at) ON TABLE cems.llm_call TO cems_reader;

GRANT SELECT(input_tokens) ON TABLE cems.llm_call TO cems_reader;

GRANT SELECT(output_tokens) ON TABLE cems.llm_call TO cems_reader;

GRANT SELECT(cost_usd) ON TABLE cems.llm_call TO cems_reader;

GRANT SELECT(outcome) ON TABLE cems.llm_call TO cems_reader;

GRANT SELECT(resume_at) ON TABLE cems.llm_call TO cems_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE cems.memory TO cems_writer;
GRANT SELECT ON TABLE cems.memory TO cems_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE cems.memory_source TO cems_writer;
GRANT SELECT ON TABLE cems.memory_source TO cems_reader;

GRANT SELECT,INSERT ON TABLE cems.memory_use TO cems_writer;

GRANT SELECT,INSERT,UPDATE ON TABLE cems.project TO cems_writer;
GRANT SELECT ON TABLE cems.project TO cems_reader;

GRANT SELECT ON TABLE cems.schema_migration TO cems_writer;
GRANT SELECT ON TABLE cems.schema_migration TO cems_reader;

GRANT SELECT,INSERT,UPDATE ON TABLE cems.session TO cems_writer;
GRANT SELECT ON TABLE cems.session TO cems_reader;

GRANT SELECT,INSERT,UPDATE ON TABLE cems.set_aside TO cems_writer;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE cems.tombstone TO cems_writer;

GRANT SELECT,INSERT,UPDATE ON TABLE cems.transcript TO cems_writer;
