"""What must be true when everything has drained, whatever happened on the way: each record of the final files landed once,
each line is in one batch that was observed or set aside, each note is remembered once, nothing hangs in the air, and the
cursors stand behind the last whole line. All of it is asked of the database past every policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from db.connect import Connection, Row

_ORPHANS = {
    "lines in no batch": "select count(*) as n from line where batch_id is null",
    "batches neither observed nor set aside": "select count(*) as n from batch where status = 'pending'",
    "batches that miscount their lines": "select count(*) as n from batch b"
    " where b.lines <> (select count(*) from line l where l.batch_id = b.id)",
    "memories without a source": "select count(*) as n from memory m where not exists"
    " (select from memory_source s where s.memory_id = m.id)",
    "sources without a line": "select count(*) as n from memory_source where line_uuid is null",
    "leases on batches that are done": "select count(*) as n from batch where status <> 'pending' and leased_until is not null",
    "transcripts that miscount their lines": "select count(*) as n from transcript t"
    " where t.landed <> (select count(*) from line l where l.transcript_id = t.id)",
}


@dataclasses.dataclass
class Verdict:
    """What is wrong; nothing, if it is empty."""

    lost: list[str] = dataclasses.field(default_factory=list)
    """Records of the final files that never landed."""
    duplicated: list[str] = dataclasses.field(default_factory=list)
    forgotten: list[str] = dataclasses.field(default_factory=list)
    """Notes in observed batches that are not remembered."""
    odd: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether all is well."""
        return not (self.lost or self.duplicated or self.forgotten or self.odd)


def judge(sql: Connection, truth: Mapping[str, Collection[str]], *, notes: bool = True) -> Verdict:
    """The verdict on the database.

    Args:
        truth: for each file, the uuids of its records that must have landed.
        notes: whether a scripted model observed, which remembers each note once.
    """
    verdict = Verdict()
    landed = {str(row["uuid"]) for row in _rows(sql, "select uuid from line")}
    verdict.lost = sorted({u for uuids in truth.values() for u in uuids} - landed)
    verdict.duplicated = [
        r["text"][:60]
        for r in _rows(sql, "select text from line where text <> '' group by text having count(*) > 1")
    ]
    if notes:
        _judge_notes(sql, verdict)
    for what, query in _ORPHANS.items():
        if found := _rows(sql, query)[0]["n"]:
            verdict.odd[what] = found
    for path, offset, wanted in _cursors(sql, truth):
        if offset != wanted:
            verdict.odd[f"cursor of {Path(path).name}"] = (offset, wanted)
    return verdict


def _judge_notes(sql: Connection, verdict: Verdict) -> None:
    memories = _rows(
        sql,
        "select title, count(*) as n, sum(seen_count) as seen, (select count(*) from memory_source s"
        " join memory x on x.id = s.memory_id where x.title = m.title) as sources from memory m group by title",
    )
    verdict.duplicated += [r["title"] for r in memories if (r["n"], r["seen"], r["sources"]) != (1, 1, 1)]
    said = _rows(
        sql,
        "select 'note ' || split_part(split_part(l.text, 'note ', 2), ':', 1) as title from line l"
        " join batch b on b.id = l.batch_id where l.kind = 'prompt' and b.status = 'observed' and l.text like 'note %'",
    )
    if aside := _rows(sql, "select id from batch where status = 'set_aside'"):
        verdict.odd["batches set aside, though the model answers well"] = len(aside)
    titles = {r["title"] for r in memories}
    verdict.forgotten = sorted({r["title"] for r in said} - titles)
    if invented := titles - {r["title"] for r in said}:
        verdict.odd["memories of what nobody said"] = sorted(invented)


def drained(sql: Connection, truth: Mapping[str, Collection[str]]) -> bool:
    """Whether every file was read to its last whole line and no batch waits; says nothing on what is in the tables."""
    if _rows(
        sql,
        "select 1 as n from batch where status = 'pending' union all select 1 from line where batch_id is null limit 1",
    ):
        return False
    return all(offset == wanted for _, offset, wanted in _cursors(sql, truth))


def _cursors(sql: Connection, truth: Mapping[str, Collection[str]]) -> list[tuple[str, int, int]]:
    """(path, cursor, where it belongs) of each file."""
    stored = {row["path"]: row["offset"] for row in _rows(sql, 'select path, "offset" from transcript')}
    found = []
    for path in truth:
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            continue
        found.append((path, stored.get(str(Path(path).resolve()), 0), data.rfind(b"\n") + 1))
    return found


def _rows(sql: Connection, query: str) -> list[Row]:
    return sql.execute(query.encode()).fetchall()
