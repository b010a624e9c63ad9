"""The pair set: pairs of memories as sessions produce them, each with what becomes of the two. A category is a file; a third
of each is held out: the rules were made without looking at how they do on it.

A pair has a `verdict`: `same`, `different`, `contradiction`, or `supersedes` (the second is the later word), and two sides with
`title`, `body`, `files`; `kind` where both have the same; `project` where it is not the usual one, empty where it holds
everywhere."""

from __future__ import annotations

import dataclasses
import tomllib
import uuid
from pathlib import Path
from typing import Any

from maintenance.guards import Statement

HERE = Path(__file__).parent
USUAL = "larder"


@dataclasses.dataclass(frozen=True)
class Pair:
    category: str
    verdict: str
    first: Statement
    second: Statement
    held_out: bool

    @property
    def same(self) -> bool:
        return self.verdict == "same"

    def __str__(self) -> str:
        return f"{self.category}: {self.first.title} | {self.first.body} ## {self.second.title} | {self.second.body}"


def _side(side: dict[str, Any], pair: dict[str, Any]) -> Statement:
    project = side.get("project", USUAL)
    return Statement(
        pair.get("kind") or side["kind"],
        uuid.uuid5(uuid.NAMESPACE_DNS, project) if project else None,
        side["title"],
        side.get("body", ""),
        tuple(side.get("files", ())),
    )


def _load() -> tuple[Pair, ...]:
    return tuple(
        Pair(
            path.stem,
            pair["verdict"],
            _side(pair["first"], pair),
            _side(pair["second"], pair),
            pair.get("held_out", False),
        )
        for path in sorted(HERE.glob("*.toml"))
        for pair in tomllib.loads(path.read_text("utf-8"))["pair"]
    )


PAIRS = _load()
DUPLICATES = tuple(pair for pair in PAIRS if pair.same)
OTHERS = tuple(pair for pair in PAIRS if not pair.same)
