-- What stood around a memory in its session, and its place, become searchable.
--
-- around: words said next to it (the question of its turn, what came just before and after), nearest first. They find a
-- memory whose own words answer a question without repeating it.
-- search: the place is a lexeme ('p/' and the project's id; 'p/' alone: everywhere), so the index itself intersects
-- words and projects. It has no position and so no rank.
alter table memory add column around text not null default '' check (length(around) <= 2000);
alter table memory drop column search;
alter table memory add column search tsvector not null generated always as (
    setweight(to_tsvector('english'::regconfig, title), 'A')
    || setweight(to_tsvector('english'::regconfig, body), 'B')
    || setweight(to_tsvector('simple'::regconfig, terms), 'C')
    || setweight(to_tsvector('english'::regconfig, around), 'D')
    || array_to_tsvector(array['p/' || coalesce(project_id::text, '')])) stored;
create index memory_search on memory using gin (search);
-- What search may find, with all that most filters ask: whether much or little passes them is counted without the table.
create index memory_live on memory (owner_id, project_id, occurred_at) include (id, snoozed_until, kind, layer)
    where forgotten_at is null and superseded_by is null and archived_at is null;
