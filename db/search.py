"""Search over memories: words (an OR of the question's words, the rarer the heavier) and meaning (vectors), both within the
filters, fused on one scale, and put into order by `db.search_order`. Two named statements a request, so that the vector,
which takes as long as the first, can be computed beside it.

Promised: a hit passed an absolute floor, so a question about something else finds nothing; what was forgotten, archived,
superseded or snoozed is never found; no text of a question can make it fail."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pgvector import Vector

from cems import dates
from cems.models import Memory
from cems.terms import words
from cems.text import sanitise
from db.connect import Connection, Database, Row, set_for_transaction
from db.memories import memory_of
from db.queries import SQL
from db.search_order import Factors, Found, order

QUERY_LIMIT = 4000
"""Characters of a question; the rest is not searched for."""
INDEXED = {
    "bge-small-en-v1.5-int8@384": 384,
    "gemini-embedding-001@768": 768,
    "gemini-embedding-2@768": 768,
}
"""Models whose vectors have an index, and how long they are; others are compared one by one."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """How a model's cosines are read."""

    zero: float
    """Two texts that have nothing to do with each other."""
    floor: float
    """From here on the vector alone is evidence."""


SCALES = {"bge-small-en-v1.5-int8@384": Scale(0.45, 0.55)}
"""Measured over the sample sessions: the nearest memory to each of 20 questions about something else lies at .38 to .53,
the right one to 20 questions about them at .50 to .85."""
OTHER_SCALE = Scale(0.3, 0.5)
"""For models not measured."""

# What the statement is told besides the question. Recall@10 is that of bench/retrieval.py over all 760 questions, of which
# 480 were tuned on; times are those of bench/search.py over 100,000 memories.
TUNING: Mapping[str, Any] = {
    # Weight of a word in what stood around (D), in terms (C), in the body (B), in the title (A). D at .1, as Postgres has
    # it: .783, at .2: .795, at .3: .802 (without floors and dates).
    "labels": [0.3, 0.2, 0.4, 1.0],
    # Candidates by meaning (from the index: each costs more the fewer pass the filters), and by words as ts_rank sees them,
    # which does not know what is rare. 100 and 300 found the same.
    "depth": 50,
    "index_depth": 30,
    "words_depth": 150,
    # Up to so many memories, every vector is compared; from there on the index is faster. Milliseconds of the server's
    # processor, median and most, over the load of bench/hook.py: exact and by index, among 500 to 1,000 memories 7 to 11
    # and 12 to 49, 1,000 to 1,500 9 to 10 and 10 to 46, 1,500 to 2,500 11 to 15 and 14 to 85, 2,500 to 4,000 18 to 24 and
    # 15 to 45, 4,000 to 7,000 23 to 33 and 12 to 35.
    "few": 2500,
    # Memories that tell which words are rare: 150 do as well as 700.
    "sample": 150,
    # Where memories are many, only the rarest words choose candidates, at least two: those of which one in fifty has one.
    "share": 0.02,
    # The least share of the question's words, by weight, that counts as found by words. Of 20 unrelated questions none
    # finds anything at .3, one at .25, two at .2; without any floor recall is .011 higher.
    "words_floor": 0.3,
    # Meaning against words. Equal parts; .4 and .6 are within .005.
    "meaning_weight": 0.5,
    # A leg whose best is below this is not blown up to the full scale.
    "words_full": 0.1,
    "meaning_full": 0.1,
    # The index's own list: recall@10 against an exact scan is 1.0 at 80.
    "ef": 80,
    # It goes on to this many vectors where few pass the filters.
    "max_scan": 200_000,
}


@dataclasses.dataclass(frozen=True)
class Question:
    """What is searched for, and where; None: anywhere, any."""

    text: str
    vector: Sequence[float] | None = None
    model_id: str | None = None
    projects: Sequence[uuid.UUID] | None = None
    """Besides these, what holds everywhere is searched too."""
    kind: str | None = None
    concept: str | None = None
    file: str | None = None
    """A path, or the end of one."""
    since: dt.datetime | None = None
    limit: int = 10
    until: dt.datetime | None = None
    """The first moment that is too late."""
    layer: str | None = None
    dates: bool = True
    """Dates in the text become `since` and `until` where neither is given."""
    zone: dt.tzinfo | None = None
    """Whose days the text's dates are; None: this machine's."""


@dataclasses.dataclass(frozen=True)
class Hit:
    """A memory found, by which leg, and why it stands where it stands."""

    memory: Memory
    score: float
    """Relevance: 1 is the best words and the best meaning among all hits."""
    words_rank: int | None
    words_score: float | None
    meaning_rank: int | None
    meaning_score: float | None
    """The cosine."""
    coverage: float
    """The share of the question's words it has, by weight."""
    factors: Factors


@dataclasses.dataclass(frozen=True)
class Answer:
    """The hits, and how the question was understood."""

    hits: list[Hit]
    words: list[str]
    since: dt.datetime | None
    until: dt.datetime | None
    latest: bool


class Meaning(NamedTuple):
    """A question's vector and the model it is of."""

    vector: Sequence[float]
    model_id: str


def search(
    db: Database,
    question: Question,
    now: dt.datetime,
    meaning: Callable[[], Meaning | None] | None = None,
) -> list[Hit]:
    """The best memories for a question, best first; none is a normal answer.

    Args:
        meaning: gives the question's vector, where that is still being computed; asked when the words have been looked up.
    """
    return explain(db, question, now, meaning).hits


def explain(
    db: Database,
    question: Question,
    now: dt.datetime,
    meaning: Callable[[], Meaning | None] | None = None,
) -> Answer:
    """The same, with how the question was understood."""
    reading = read(question, now)
    args = arguments(question, reading, now)
    args["owner"] = db.owner_id
    with db.transaction(settings(args)) as conn:
        chosen = _candidates(conn, args)
        if meaning is not None and not args["listing"] and (known := meaning()):
            args |= _of_meaning(*known)
        rows = _ranked(conn, args, chosen)
    found = [
        Found(memory_of(row), row["score"], row["pinned"], row["used_count"], row["alike"]) for row in rows
    ]
    ordered = order(found, now, limit=question.limit, latest=reading.latest or args["listing"])
    return Answer(
        hits=[_hit(found[place], rows[place], factors) for place, factors in ordered],
        words=args["words"],
        since=args["since"],
        until=args["until"],
        latest=reading.latest,
    )


def read(question: Question, now: dt.datetime) -> dates.Reading:
    """The question's text, storable and of bounded length, and what it says about time."""
    text = sanitise(question.text[:QUERY_LIMIT])
    if not question.dates:
        return dates.Reading(text)
    zone = question.zone or dt.datetime.now().astimezone().tzinfo or dt.UTC
    reading = dates.read(text, now, zone)
    if question.since is None and question.until is None:
        return reading
    return dates.Reading(text, latest=reading.latest)


def arguments(question: Question, reading: dates.Reading, now: dt.datetime) -> dict[str, Any]:
    """The parameters of both statements, all but the owner."""
    asked = words(reading.text)
    timed = reading.since is not None or reading.until is not None or reading.latest
    listing = timed and all(word.text in _ABOUT_TIME for word in asked)
    kind, layer, concept, file = (
        sanitise(value) if value is not None else None
        for value in (question.kind, question.layer, question.concept, question.file)
    )
    return {
        **TUNING,
        "words": [] if listing else [word.text for word in asked],
        "identifiers": [] if listing else [word.identifier for word in asked],
        "shares": [] if listing else [word.share for word in asked],
        "listing": listing,
        **_of_meaning(None if listing else question.vector, question.model_id),
        "projects": list(question.projects) if question.projects is not None else None,
        "kind": kind,
        "layer": layer,
        "concept": concept,
        "file": file,
        "file_end": file.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") if file else None,
        "since": question.since or reading.since,
        "until": question.until or reading.until,
        "pool": min(max(3 * question.limit, 30), TUNING["words_depth"]),
        "now": now,
    }


def run(conn: Connection, args: Mapping[str, Any]) -> list[Row]:
    """Both statements and their settings, inside the caller's transaction: rows by relevance."""
    set_for_transaction(conn, settings(args))
    return _ranked(conn, args, _candidates(conn, args))


def settings(args: Mapping[str, Any]) -> dict[str, str]:
    """What the server is told for the time of a search."""
    return {
        # One plan for all questions of a shape: to make one takes longer than to carry it out.
        "plan_cache_mode": "force_generic_plan",
        # As on a disk without a head, or joins over few rows would read whole tables.
        "random_page_cost": "1.1",
        # The index goes on until it has found enough that pass the filters.
        "hnsw.iterative_scan": "relaxed_order",
        "hnsw.ef_search": str(args["ef"]),
        "hnsw.max_scan_tuples": str(args["max_scan"]),
        "hnsw.scan_mem_multiplier": "4",
    }


def statement(name: str, args: Mapping[str, Any]) -> bytes:
    """A statement in the shape that these parameters ask for: without the filters that are absent, with the model and the
    cast that its index is built on, and with the limits in it: all that a plan which is kept must know."""
    shape = frozenset(part for part in _PARTS if args.get(part) not in (None, False))
    limits = tuple((limit, int(args[limit])) for limit in _LIMITS)
    return _shaped(name, shape, args["model"] if args["model"] in INDEXED else None, limits)


_PARTS = ("kind", "layer", "concept", "file", "since", "until", "projects", "vector", "listing", "many")
_LIMITS = ("few", "sample", "depth", "index_depth", "words_depth")
_BLOCK = re.compile(rb"/\*if ([a-z_ ]+)\*/((?:(?!/\*if ).)*?)/\*end\*/", re.S)


@functools.lru_cache(512)
def _shaped(
    name: str, shape: frozenset[str], model: str | None, limits: tuple[tuple[str, int], ...]
) -> bytes:
    text = SQL[f"search.{name}"]

    def kept(block: re.Match[bytes]) -> bytes:
        wanted = re.findall(r"(no )?(\w+)", block[1].decode())
        return block[2] if all((part in shape) is not bool(no) for no, part in wanted) else b""

    while _BLOCK.search(text):  # from the inside out
        text = _BLOCK.sub(kept, text)
    if model is not None:
        text = text.replace(b"/*::halfvec*/", b"::halfvec(%d)" % INDEXED[model])
        text = text.replace(b"%(model)s", b"'%s'" % model.encode())
    for limit, number in limits:
        text = text.replace(b"%%(%s)s" % limit.encode(), b"%d" % number)
    # Without comments and indents: psycopg keeps what it has read of a statement only where that is short.
    lines = (line.partition(b"-- ")[0].strip() for line in text.splitlines())
    return b"\n".join(line for line in lines if line)


def _candidates(conn: Connection, args: Mapping[str, Any]) -> Row:
    """What the words find and weigh, and whether much passes the filters."""
    found = conn.execute(statement("candidates", args), args).fetchone()
    assert found is not None  # an aggregate has one row
    return found


def _ranked(conn: Connection, args: Mapping[str, Any], candidates: Row) -> list[Row]:
    """The candidates and what the meaning finds, by relevance."""
    given = {**args, **candidates}
    return conn.execute(statement("hybrid", given), given).fetchall()


def _of_meaning(vector: Sequence[float] | None, model_id: str | None) -> dict[str, Any]:
    """The parameters that come of the vector and its model."""
    scale = SCALES.get(model_id or "", OTHER_SCALE)
    return {
        "vector": None if vector is None else Vector(list(vector)),
        "model": model_id or "",
        "floor": scale.floor,
        "zero": scale.zero,
        "words_meaning_floor": scale.zero,
    }


def _hit(found: Found, row: Row, factors: Factors) -> Hit:
    legs = ("score", "words_rank", "words_score", "meaning_rank", "meaning_score", "coverage")
    return Hit(memory=found.memory, factors=factors, **{leg: row[leg] for leg in legs})


_ABOUT_TIME = frozenset(
    [
        "happen",
        "happened",
        "happening",
        "change",
        "changed",
        "changes",
        "new",
        "news",
        "done",
        "doing",
        "made",
        "make",
        "go",
        "going",
        "went",
        "work",
        "worked",
        "working",
        "works",
        "decide",
        "decided",
        "decision",
        "decisions",
        "learn",
        "learned",
        "learnt",
        "know",
        "memories",
        "memory",
        "show",
        "list",
        "find",
        "tell",
        "recall",
        "remember",
        "thing",
        "things",
        "was",
        "war",
        "waren",
        "haben",
        "hat",
        "wir",
        "gemacht",
        "passiert",
        "neu",
        "neues",
        "los",
    ]
)
"""Beside a time, these ask for no more than what there is."""
