"""What keeps two statements apart, guard by guard, and what two memories as sessions leave them may differ in."""

from __future__ import annotations

import uuid

import pytest

from cems.models import Kind
from maintenance.guards import Statement, same_fact, why_apart
from maintenance.lexicon import MARKS, OPPOSED, SAME, canon
from maintenance.statement import read

PROJECT = uuid.UUID(int=7)


def says(title: str, body: str = "", kind: Kind = "context", files: tuple[str, ...] = ()) -> Statement:
    return Statement(kind, PROJECT, title, body, files)


def same(a: Statement, b: Statement) -> bool:
    return same_fact(a, b, 1.0)


@pytest.mark.parametrize(
    ("guard", "one", "two"),
    [
        ("number", "The API listens on port 8080", "The API listens on port 8081"),
        ("number", "The client times out after 30 s", "The client times out after 30 ms"),
        ("version", "Prod runs v4.12", "Prod runs v4.13"),
        ("date", "Deploys are on Mondays", "Deploys are on Tuesdays"),
        ("date", "The certificate expires on 2027-01-31", "The certificate expires on 2027-03-31"),
        ("time", "The job starts at 02:30", "The job starts at 03:30"),
        ("path", "The bug was in billing/webhooks.py", "The bug was in billing/invoices.py"),
        ("identifier", "CI reads GITHUB_TOKEN", "CI reads GITLAB_TOKEN"),
        ("identifier", "userId was null", "userName was null"),
        ("identifier", "Staging is stage.harbour.example", "Staging is stage.larder.example"),
        ("hash", "The fix is commit 5ad9013", "The fix is commit b1c07d3"),
        ("url", "Docs live at https://docs.example/api", "Docs live at https://docs.example/admin"),
        ("flag", "Dry runs need --skip-tags", "Dry runs need --skip-roles"),
        ("flag", "Publish with git push", "Publish with git push --force"),
        ("name", "Ask Priya about the webhooks", "Ask Marta about the webhooks"),
        ("name", "Use pnpm", "Use yarn"),
        ("quote", 'The label says "retry"', 'The label says "again"'),
        ("symbol", "The ratio is < 1", "The ratio is > 1"),
        ("negation", "Backups are encrypted", "Backups are not encrypted"),
        ("antonym", "Enable strict mode", "Disable strict mode"),
        ("antonym", "Staging is wiped", "Production is wiped"),
        ("antonym", "The import is safe", "The import is unsafe"),
        ("order", "Prefer tabs over spaces", "Prefer spaces over tabs"),
        ("order", "orders depends on billing", "billing depends on orders"),
        ("condition", "Run the suite", "Run the suite only on CI"),
        ("modality", "Migrations must be reversible", "Migrations should be reversible"),
        ("modality", "We will move sessions", "We moved sessions"),
        ("outcome", "Tried Bazel", "We have Bazel"),
        ("tense", "The default port was 8080", "The default port is 8080"),
        ("question", "Should we move?", "We should move"),
        ("word", "The red button deletes the draft", "The brown button deletes the draft"),
    ],
)
def test_a_guard_speaks(guard: str, one: str, two: str) -> None:
    a, b = says(one), says(two)
    assert why_apart(a, b) == why_apart(b, a) == guard
    assert not same(a, b) and not same(b, a)


def test_places_and_kinds_come_first() -> None:
    a = says("The API listens on port 8080")
    assert why_apart(a, Statement("context", None, a.title, "")) == "project"
    assert why_apart(a, Statement("pattern", PROJECT, a.title, "")) == "kind"
    assert why_apart(Statement("context", None, "x", ""), Statement("context", None, "x", "")) is None


def test_one_number_in_a_body_is_enough() -> None:
    a = says("The limiter let too much through", "The window was 60 s and the counter per process.")
    b = says("The limiter let too much through", "The window was 90 s and the counter per process.")
    assert why_apart(a, b) == "number"


def test_what_was_asked_failed_first_or_changed_is_not_the_fact() -> None:
    a = says(
        "Dates are stored in UTC and shown in the user's zone",
        "Asked: fix the export header for 2027\nFailed first: pytest -q → 3 failed\nChanged: export.py",
        "decision",
        ("larder/export.py",),
    )
    b = says(
        "Dates are stored in UTC and shown in the user's zone",
        "Asked: why is invoice 77 off by one?\nChanged: invoice.py",
        "decision",
        ("larder/invoice.py",),
    )
    assert same(a, b)


def test_other_files_make_another_fault() -> None:
    a = says("The root cause was a missing await in the handler of uploads", "Changed: upload.ts", "bugfix")
    b = says("The root cause was a missing await in the handler of uploads", "Changed: login.ts", "bugfix")
    c = says("The root cause was a missing await in the handler of uploads", "", "bugfix", ("src/upload.ts",))
    assert why_apart(a, b) == "path"
    assert same(a, c)


def test_a_title_that_leans_on_its_question_needs_the_same_question() -> None:
    a = says("Tried it and reverted it: slower", "Asked: try gevent", "deadend")
    b = says("Tried it and reverted it: slower", "Asked: try uvloop", "deadend")
    assert why_apart(a, b) == "surroundings"
    assert same(a, says("tried it and reverted it: slower.", "Asked: try gevent", "deadend"))


def test_other_rules_of_the_same_breath_are_not_the_rule() -> None:
    a = says("No comments that repeat the code", "Also: use named exports.", "preference")
    b = says("no comments that repeat the code", "Also: squash before merging.", "preference")
    assert same(a, b)


@pytest.mark.parametrize(
    ("less", "more", "merges"),
    [
        ("Use pnpm in this repo", "Use pnpm in this repo, since the lockfiles got mixed", True),
        ("Priya owns larder/billing", "Priya owns larder/billing, so she reviews every change to it", True),
        (
            "The pool is limited to 10 connections",
            "The pool is limited to 10 connections. Hosts share it.",
            True,
        ),
        ("Use tabs in Go", "Use tabs in Go, except in tests", False),
        ("Use tabs in code", "Use tabs in code. This applies to Go.", False),
        ("Deploys run at night", "Deploys run at night. Not on Fridays.", False),
        ("Deploys run at night", "Deploys run at night. Weekends do not count.", False),
        ("Deploys run at night", "Deploys run at night, but only in winter", False),
        ("Deploys run at night", "Deploys run at night. That was changed later.", False),
        ("部署在夜间进行", "部署在夜间进行。周末不算。", False),
        ("The build failed", "The build failed because the cache was stale", False),
    ],
)
def test_one_may_know_more_where_it_takes_nothing_back(less: str, more: str, merges: bool) -> None:
    kind: Kind = "bugfix" if "failed" in less else "context"
    a, b = says(less, kind=kind), says(more, kind=kind)
    assert same(a, b) is same(b, a) is merges


def test_details_on_both_sides_are_for_the_judge() -> None:
    a = says("Staging deploys need the VPN", "The profile is in the vault.")
    b = says("Staging deploys need the VPN", "It drops after an hour.")
    assert not same(a, b)


def test_commands_know_no_synonyms() -> None:
    assert not same(says("Run `make build`"), says("Run `make compile`"))
    assert not same(says("Run `just release`"), says("Run `release`"))
    assert same(says("Run `just release` from main"), says("Run just release from main"))


def test_a_title_that_was_cut_is_the_same_only_to_the_letter() -> None:
    cut = says("The prune was killed at its limit and left an exclusive lock…")
    assert same(cut, says(cut.title))
    assert not same(cut, says("the prune was killed at its limit and left an exclusive lock…"))


def test_what_is_too_long_to_be_read_has_to_be_equal() -> None:
    long = "The queue is drained at night. " * 300
    assert why_apart(says("Queue", long), says("Queue", long + "No.")) == "length"
    assert same(says("The queue is drained at night", long), says("The queue is drained at night", long))


def test_a_cosine_that_is_no_number_is_not_near() -> None:
    a = says("The API listens on port 8080")
    assert not same_fact(a, a, float("nan"))
    assert same_fact(a, a, 0.92) and not same_fact(a, a, 0.92, 0.95)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Priya owns the billing module", "The billing module is owned by Priya"),
        ("There are 7 GB of RAM on the runners", "The runners have 7 GB of memory"),
        ("Never edit a migration that was released", "Never edit a released migration"),
        ("If REDIS_URL is unset, the cache is in memory", "The cache is in memory if `REDIS_URL` is unset"),
        ("The import writes 40k rows", "The import writes 40,000 rows"),
    ],
)
def test_ways_to_put_one_fact(one: str, two: str) -> None:
    assert [s.texts for s in read(says(one)).sentences] == [s.texts for s in read(says(two)).sentences]


def test_no_synonym_is_an_opposite_and_no_mark_is_a_synonym() -> None:
    for line in OPPOSED:
        sides = [{canon(word) for word in side.split(",")} for side in line]
        for number, side in enumerate(sides):
            assert not any(side & other for other in sides[:number]), line
    assert not [word for words in SAME for word in words if word in MARKS]
