-- Runs of maintenance jobs.

-- name: end_killed
-- Whoever holds the job's lease knows that a run still called running is not.
update job_run set outcome = 'killed', finished_at = %(now)s
where owner_id = %(owner)s and job = %(job)s and outcome = 'running';

-- name: begin
-- Unless a run by schedule has answered this moment or a later one already; what ended because its process was asked to is
-- no answer, and neither is a run for a moment that has not come.
insert into job_run (owner_id, id, job, asked_by, due_at, project_id, started_at)
select %(owner)s, %(id)s, %(job)s, %(asked_by)s, %(due_at)s, %(project)s, %(now)s
where %(due_at)s::timestamptz is null or not exists (
    select from job_run where owner_id = %(owner)s and job = %(job)s and asked_by = 'schedule'
    and due_at between %(due_at)s and %(now)s
    and (outcome = 'done' or outcome = 'stopped' and report->>'ended_by' is distinct from 'asked'));

-- name: is_running
select 1 from job_run where owner_id = %(owner)s and id = %(id)s and outcome = 'running';

-- name: finish
update job_run set outcome = %(outcome)s, finished_at = %(now)s, report = %(report)s, error = %(error)s
where owner_id = %(owner)s and id = %(id)s and outcome = 'running';

-- name: answered
-- Runs by schedule since a moment, for due-ness.
select due_at, started_at, finished_at, outcome, report->>'ended_by' as ended_by from job_run
where owner_id = %(owner)s and job = %(job)s and asked_by = 'schedule' and due_at >= %(since)s
order by started_at desc, id desc;

-- name: first_due
-- Nothing was due before this database was there.
select min(applied_at) as at from schema_migration;

-- name: history
select r.id, r.job, r.asked_by, r.due_at, p.name as project, r.started_at, r.finished_at, r.outcome, r.report, r.error,
       r.undone_at, (select count(distinct step)::integer from job_change c where c.owner_id = r.owner_id and c.run_id = r.id) as changes
from job_run r left join project p on p.owner_id = r.owner_id and p.id = r.project_id
where r.owner_id = %(owner)s and (%(job)s::text is null or r.job = %(job)s) and (%(id)s::uuid is null or r.id = %(id)s)
order by r.started_at desc, r.id desc limit %(limit)s;

-- name: ids_like
select id from job_run where owner_id = %(owner)s and (id::text like %(part)s || '%%' or id::text like '%%' || %(part)s)
order by id limit 3;

-- name: latest
-- The newest run of each job that has ended.
select distinct on (job) job, id, asked_by, due_at, started_at, finished_at, outcome, report, error, undone_at from job_run
where owner_id = %(owner)s and outcome <> 'running' order by job, started_at desc, id desc;

-- name: running
-- A run whose lease has ended is dead, though nobody has said so yet.
select r.job, r.id, r.asked_by, r.started_at, l.described from job_run r
join lease l on l.owner_id = r.owner_id and l.name = 'job ' || r.job and l.holder = r.id and l.expires_at > %(now)s
where r.owner_id = %(owner)s and r.outcome = 'running' order by r.job;

-- name: idle_streak
-- The newest finished runs of a job that had something to do, newest first.
select (report->>'changed')::integer as changed,
       (report->>'waiting')::integer - coalesce((report->>'without_model')::integer, 0) as waiting
from job_run
where owner_id = %(owner)s and job = %(job)s and outcome in ('done', 'failed') and project_id is null
order by started_at desc, id desc limit %(limit)s;
