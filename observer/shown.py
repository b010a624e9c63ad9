"""What a transcript says about the memories its session was shown: in which records a block of recall stands, and what the
assistant said or did after it. Follows the turns of one transcript and touches no database; `db/usage.py` judges what was
used. Only hooks' records and reminders count as showing: a block that a tool printed or somebody pasted was not given by
recall, and a compaction's summary only repeats one. A damaged line counts nothing."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from cems.block import TAG, cited_ids, shown_ids
from cems.ids import record_uuid
from cems.terms import terms
from cems.text import sanitise
from db.usage import Saying, Showing
from observer.condense import Row, moment
from observer.records import Record

MARK = TAG.encode()
"""What the bytes of a record hold that shows something."""
_HEARD_LIMIT = 6000
"""Terms of one turn's question and results that are remembered; a turn with more is not judged."""
_TEXTS_LIMIT = 40
"""Prompts without an answer that are remembered; a turn with more is not judged."""
_IDS_LIMIT = 200


@dataclasses.dataclass
class _Turn:
    """A question with what belongs to it, as far as judging an answer needs it."""

    key: uuid.UUID | None = None
    """The first record after the last answer: a prompt, or a block before one. None: this process began inside the turn."""
    prompted: bool = False
    answered: bool = False
    shown: bool = False
    crowded: bool = False
    """More was said than is remembered."""
    texts: list[str] = dataclasses.field(default_factory=list)
    """Prompts, kept until it is clear whether anything is shown in this turn."""
    heard: set[str] = dataclasses.field(default_factory=set)

    def hear(self, text: str) -> None:
        """Remember what the assistant was told in this turn."""
        if self.shown and len(self.heard) <= _HEARD_LIMIT:
            self.heard.update(terms(text).split())
        elif not self.answered and len(self.texts) < _TEXTS_LIMIT:
            self.texts.append(text)
        elif not self.answered:
            self.crowded = True

    def judged(self) -> bool:
        """Whether a record of this turn can be told to act upon what was shown."""
        return self.shown and self.prompted and not self.crowded and len(self.heard) <= _HEARD_LIMIT


class Shown:
    """Follows one transcript's records in order; `take` gives what has gathered since it was last called."""

    def __init__(self, *, from_start: bool) -> None:
        self._shown_any = not from_start
        """Whether something was, or before this process began may have been, shown in this transcript."""
        self._turns: dict[str, _Turn] = {}
        self._showings: list[Showing] = []
        self._sayings: list[Saying] = []

    def take(self) -> tuple[list[Showing], list[Saying]]:
        """What was shown and said since the last call."""
        taken = self._showings, self._sayings
        self._showings, self._sayings = [], []
        return taken

    def see(self, raw: bytes | memoryview, record: Record, row: Row | None, session: str) -> None:
        """One record: its bytes, and its row where it becomes a line."""
        if row is not None and row.kind == "prompt":
            turn = self._begun(session, uuid.UUID(row.uuid))
            turn.prompted = True
            turn.hear(row.text)
        if MARK in raw and record.uuid and record.type in ("attachment", "user"):
            self._show(bytes(raw), record, session)
        if row is None:
            return
        if row.kind in ("answer", "call") and row.origin == "assistant":
            self._say(row, session)
        elif row.kind == "result" and (known := self._turns.get(session)) is not None and known.shown:
            known.hear(row.text)

    def _begun(self, session: str, key: uuid.UUID) -> _Turn:
        """The turn a prompt or a block belongs to: the one that waits for its answer, or a new one."""
        turn = self._turns.get(session)
        if turn is None or turn.answered or turn.key is None:
            turn = self._turns[session] = _Turn(key)
        return turn

    def _show(self, raw: bytes, record: Record, session: str) -> None:
        ids = list(dict.fromkeys(i for text in _given(raw) for i in shown_ids(text)))[:_IDS_LIMIT]
        if not ids:
            return
        key = record_uuid(sanitise(record.uuid or ""))
        turn = self._begun(session, key)
        turn.shown = self._shown_any = True
        texts, turn.texts = turn.texts, []
        for text in texts:
            turn.hear(text)
        self._showings.append(
            Showing(key, uuid.UUID(session), turn.key, moment(record.timestamp), tuple(ids))
        )

    def _say(self, row: Row, session: str) -> None:
        turn = self._turns.setdefault(session, _Turn())
        turn.answered = True
        turn.texts.clear()
        if not self._shown_any:
            return
        said = [
            row.text,
            *(part for use in row.tools or () for part in (use.command, use.detail, *use.files)),
        ]
        cited = frozenset(i for text in said if text for i in cited_ids(text))
        own = frozenset(terms(*said).split()) - turn.heard if turn.judged() else frozenset()
        if cited or own:
            self._sayings.append(
                Saying(uuid.UUID(row.uuid), uuid.UUID(session), turn.key, row.at, cited, own)
            )


def _given(raw: bytes) -> Iterator[str]:
    """The texts of a record in which recall gives something: a hook's output in any of its shapes, and reminders."""
    try:
        whole = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return
    if not isinstance(whole, dict):
        return
    attached, message = whole.get("attachment"), whole.get("message")
    if isinstance(attached, dict) and str(attached.get("type")).startswith("hook_"):
        for field in ("content", "stdout"):
            yield from _strings(attached.get(field))
    elif isinstance(message, dict) and not whole.get("isCompactSummary"):
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for block in blocks:
            if isinstance(block, dict) and block.get("type") == "text":
                text = block.get("text")
                if isinstance(text, str) and (whole.get("isMeta") or "<system-reminder>" in text):
                    yield text


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    """Every string in a hook's output; what it printed may itself be a JSON document."""
    if isinstance(value, str):
        if value.lstrip().startswith("{") and depth < 4:
            try:
                value = msgspec.json.decode(value)
            except (msgspec.DecodeError, RecursionError):
                yield value
            else:
                yield from _strings(value, depth + 1)
        else:
            yield value
    elif isinstance(value, dict | list) and depth < 4:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner, depth + 1)
