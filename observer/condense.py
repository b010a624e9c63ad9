"""Record → what is kept of it: a row for `line`, or the rule by which it is skipped. Whose words they are is decided here,
and secrets and private passages are gone from everything this module returns."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Callable
from typing import Protocol

import msgspec

from cems.ids import derived, record_uuid
from cems.models import LineKind, Origin, ToolUse
from cems.redact import Redactor, private_across_blocks
from cems.text import sanitise
from observer import toolcalls
from observer.keep import Keeper
from observer.records import Block, Inner, Record
from observer.secret_results import record_shows_secret
from observer.wrappers import classify, said_on_refusal, strip_injected

PROMPT_LIMIT = 12_000
ANSWER_LIMIT = 8_000
THINKING_LIMIT = 1_500
RESULT_LIMIT = 700
ERROR_LIMIT = 1_600
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_WANTED = {"user", "assistant", "attachment", "system"}
_RECALLED_CALLS = 4000
_QUEUED = 50
_ATTACHES_PROMPTS = (2, 1, 101)
"""From this version on a prompt typed meanwhile is an attachment."""


class Row(msgspec.Struct, gc=False):
    """A row for `line`, but for what the landing adds."""

    uuid: str
    copy_key: str | None
    kind: LineKind
    origin: Origin
    text: str
    tools: list[ToolUse] | None
    at: dt.datetime | None
    sidechain: bool
    cwd: str | None
    offset: int = 0
    part: int = 0
    bytes: int = 0
    session_id: str = ""
    project_id: str = ""


def _no_call(_call_id: str) -> ToolUse | None:
    """Nothing landed before."""
    return None


class Remembered(Protocol):
    """What is remembered from chunk to chunk."""

    version: str
    queue: list[str]


class Condenser:
    """Condenses one transcript's records in order. It remembers the transcript's recent tool calls, so that a result
    knows which tool it answers and what a secret file held is dropped; `recalled` is asked for a call which
    landed before this process began."""

    def __init__(
        self,
        redactor: Redactor,
        state: Remembered,
        *,
        agent: bool,
        recalled: Callable[[str], ToolUse | None] = _no_call,
    ) -> None:
        self._keep = Keeper(redactor)
        self._state = state
        self._agent = agent
        self._recalled = recalled
        self._calls: dict[str, tuple[str, bool]] = {}

    def condense(self, record: Record) -> Row | str:
        """A row, or the name of the rule that skips the record."""
        kind = record.type
        if kind not in _WANTED:
            if kind == "queue-operation":
                return self._queue_operation(record)
            return kind if kind == "progress" else "no_uuid" if record.uuid is None else "unknown_type"
        if not record.uuid:
            return "no_uuid"
        if kind == "assistant":
            return self._assistant(record)
        if kind == "user":
            return self._user(record)
        if kind == "attachment":
            return self._attachment(record)
        if record.subtype == "compact_boundary":
            return self._row(record, "boundary", "tool", "compaction")
        return "system"

    def label(self, text: str, limit: int) -> str:
        """A name or path, redacted and cut; see `Keeper.label`."""
        return self._keep.label(text, limit)

    # ---- by type

    def _assistant(self, record: Record) -> Row | str:
        message = record.message
        if message is None or message.content is None:
            return "empty"
        if record.isApiErrorMessage or message.model == "<synthetic>":
            return "api_error"
        content = message.content
        if isinstance(content, str):
            content = [Block(type="text", text=content)]
        texts, thoughts, uses = [], [], []
        for block in content:
            if block.type == "text":
                texts.append(block.text or "")
            elif block.type == "thinking":
                thoughts.append(block.thinking or "")
            elif block.type.endswith("tool_use"):
                uses.append(self._call(block))
        text = self._keep.message(texts, ANSWER_LIMIT)
        if text:
            return self._row(record, "answer", "assistant", text, uses)
        if uses:
            return self._row(record, "call", "assistant", "", uses)
        thought = self._keep.message(thoughts, THINKING_LIMIT)
        return self._row(record, "thinking", "assistant", thought) if thought else "empty"

    def _user(self, record: Record) -> Row | str:
        if record.isCompactSummary:
            return "compact_summary"
        if record.userFeedback:
            return self._prompt(record, [record.userFeedback])
        message = record.message
        if message is None or message.content is None:
            return "empty"
        content = message.content
        if isinstance(content, str):
            content = [Block(type="text", text=content)]
        results = [b for b in content if b.type == "tool_result"]
        if results:
            return self._results(record, results)
        if record.isMeta:
            return "meta"
        if (record.origin and record.origin.kind not in (None, "human")) or record.promptSource == "system":
            return "notification"
        return self._prompt(record, [b.text or "" for b in content if b.type == "text"])

    def _attachment(self, record: Record) -> Row | str:
        attached = record.attachment
        if (
            attached is None
            or attached.type != "queued_command"
            or attached.commandMode not in (None, "prompt")
        ):
            return "attachment"
        if attached.origin and attached.origin.kind not in (None, "human"):
            return "notification"
        prompt = attached.prompt or ""
        return self._prompt(
            record,
            [prompt] if isinstance(prompt, str) else [b.text or "" for b in prompt if b.type == "text"],
        )

    def _queue_operation(self, record: Record) -> Row | str:
        """A prompt typed while the assistant worked. Newer versions attach it; older ones only say that it left the queue."""
        text, state = _queued_text(record.content), self._state
        if record.operation == "enqueue" and text:
            state.queue = [*state.queue[-_QUEUED:], self._keep.message([text], PROMPT_LIMIT)]
        elif record.operation == "popAll":
            state.queue = []
        elif record.operation == "dequeue":
            state.queue = state.queue[1:]
        elif record.operation == "remove":
            queued, state.queue = state.queue[:1], state.queue[1:]
            text = text or "".join(queued)
            if text and record.timestamp and _before(state.version, _ATTACHES_PROMPTS):
                record.uuid = str(
                    derived("queued", record.sessionId or "", record.timestamp.isoformat(), text)
                )
                return self._prompt(record, [text])
        return "no_uuid"

    # ---- by what it turned out to be

    def _prompt(self, record: Record, texts: list[str]) -> Row | str:
        words = []
        reason = "empty"
        for text in private_across_blocks(
            texts
        ):  # before anything else is taken away: a tag may stand in what is
            found = classify(text)
            if found.what == "prompt":
                words.append(found.text)
            elif found.what == "bash":
                return self._shell(record, found.text)
            elif found.what == "boundary":
                return self._row(record, "boundary", "user", found.text)
            else:
                reason = found.what
        if not words:
            return reason
        text = self._keep.message(words, PROMPT_LIMIT)
        return self._row(record, "prompt", self._speaker(record), text) if text else "empty"

    def _shell(self, record: Record, command: str) -> Row:
        """A command the user ran with `!`."""
        use = self._keep.call(ToolUse(name="Bash", command=command))
        return self._row(record, "call", self._speaker(record), "", [use])

    def _results(self, record: Record, blocks: list[Block]) -> Row | str:
        uses, texts = [], []
        failed = False
        for block in blocks:
            call_id = self._keep.label(block.tool_use_id or "", toolcalls.ID_LIMIT)
            name, secret = self._called(call_id)
            text = _result_text(block.content)
            if block.is_error and len(blocks) == 1 and (said := said_on_refusal(text)):
                return self._prompt(record, [said])
            error = block.is_error is True
            failed = failed or error
            secret = secret or record_shows_secret(record)
            uses.append(ToolUse(id=call_id, name=name, error=error))
            # What our own tools gave back is no news.
            texts.append("[content of a file of secrets left out]" if secret else strip_injected(text))
        text = self._keep.message(
            texts, ERROR_LIMIT if failed else RESULT_LIMIT, keep_tail=0.4 if failed else 0.0
        )
        return self._row(record, "result", "tool", text, uses)

    # ---- parts

    def _speaker(self, record: Record) -> Origin:
        """A subagent's prompt was written by the assistant."""
        return "assistant" if self._agent or record.isSidechain else "user"

    def _call(self, block: Block) -> ToolUse:
        kept = self._keep.call(toolcalls.summarise(block))
        if kept.id:
            if len(self._calls) > _RECALLED_CALLS:
                for old in list(self._calls)[: _RECALLED_CALLS // 2]:
                    del self._calls[old]
            self._calls[kept.id] = (kept.name, kept.secret)
        return kept

    def _called(self, call_id: str) -> tuple[str, bool]:
        """Of the call a result answers: the tool's name, and whether the result shows a file of secrets."""
        call = self._calls.get(call_id)
        if call is None and call_id:
            landed = self._recalled(call_id)
            call = self._calls[call_id] = (landed.name, landed.secret) if landed else ("", False)
        return call or ("", False)

    def _row(
        self, record: Record, kind: LineKind, origin: Origin, text: str, tools: list[ToolUse] | None = None
    ) -> Row:
        uuid = record.uuid or ""
        if record.version:
            self._state.version = self._keep.label(record.version, 40)
        at = moment(record.timestamp)
        return Row(
            uuid if _UUID.fullmatch(uuid) else str(record_uuid(sanitise(uuid))),
            _copy_key(record, at, kind, text, tools) if at else None,
            kind,
            origin,
            text,
            tools or None,
            at,
            record.isSidechain is True,
            record.cwd,
        )


def moment(at: dt.datetime | None) -> dt.datetime | None:
    """A record's time, in a zone; None for a program's zero or endless time: at the edges of the calendar no other time zone
    can show it."""
    if at is None or not 1970 <= at.year < 9999:
        return None
    return at if at.tzinfo else at.replace(tzinfo=dt.UTC)


def _queued_text(raw: msgspec.Raw) -> str:
    """The words of a queue operation, which are a string or a list of blocks."""
    try:
        content = msgspec.json.decode(raw, type=str | list[Block] | None) if bytes(raw) else None
    except (msgspec.DecodeError, RecursionError):
        return ""
    if isinstance(content, list):
        return "\n".join(b.text for b in content if b.text)
    return content or ""


def _before(version: str, other: tuple[int, ...]) -> bool:
    """Whether a version is known and older than another."""
    return bool(version) and tuple(int(p) for p in re.findall(r"\d+", version)[:3]) < other


def _copy_key(record: Record, at: dt.datetime, kind: str, text: str, tools: list[ToolUse] | None) -> str:
    """The same for a record that was copied under another uuid, as forks made by an SDK and replays are. Time to the
    millisecond, ids and length tell records apart; the beginning of the text is enough on top of them."""
    message_id = record.message.id if record.message else None
    ids = ",".join([t.id for t in tools]) if tools else ""
    key = f"{kind}\x1f{int(at.timestamp() * 1000)}\x1f{message_id}\x1f{ids}\x1f{record.cwd}\x1f{len(text)}\x1f{text[:256]}"
    return hashlib.sha1(key.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:32]


def _result_text(content: str | list[Inner | str] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(c if isinstance(c, str) else c.text or "" for c in content)
