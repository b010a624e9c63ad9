"""Record → what is kept of it: a row for `line`, or the rule by which it is skipped. Whose words they are is decided here,
and secrets and private passages are gone from everything this module returns."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import re
from collections.abc import Callable

import msgspec

from cems.ids import derived, record_uuid
from cems.models import LineKind, Origin, ToolUse
from cems.redact import Redactor, is_secret_file, private_across_blocks
from cems.text import sanitise, shorten
from observer import toolcalls
from observer.records import Block, Inner, Record
from observer.wrappers import classify, said_on_refusal, strip_injected

PROMPT_LIMIT = 12_000
ANSWER_LIMIT = 8_000
THINKING_LIMIT = 1_500
RESULT_LIMIT = 700
ERROR_LIMIT = 1_600
_ERROR_SEEN = 8 * 1024
_SHORT = 200
# Redaction sees this much more than is kept, and the last stretch of what it saw is dropped, so that no secret
# reaches the kept text in half.
_SEAM = 512
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SHELL_PARTS = re.compile(r"[|;&\n]+")
_PRINTING = frozenset(
    "cat bat less more head tail grep rg egrep sed awk cut strings xxd hexdump od base64 jq yq nl tac diff sort sudo".split()
)
_WANTED = {"user", "assistant", "attachment", "system"}
_RECALLED_CALLS = 400
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


class Condenser:
    """Condenses one transcript's records in order. It remembers the transcript's recent tool calls, so that a result
    knows which tool it answers and what a secret file held is dropped; `recalled` is asked once for calls which
    landed before this process began."""

    def __init__(
        self, redactor: Redactor, *, agent: bool, recalled: Callable[[], list[ToolUse]] = list
    ) -> None:
        self._redact = redactor.redact
        # Paths, and short texts such as "Todos have been modified", come again and again.
        self._redact_short = functools.lru_cache(4096)(redactor.redact)
        self._agent = agent
        self._recalled: Callable[[], list[ToolUse]] | None = recalled
        self._calls: dict[str, ToolUse] = {}
        self._queue: list[str] = []
        self._version = ""

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
        text = self._clean(texts, ANSWER_LIMIT)
        if text:
            return self._row(record, "answer", "assistant", text, uses)
        if uses:
            return self._row(record, "call", "assistant", "", uses)
        thought = self._clean(thoughts, THINKING_LIMIT)
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
        text = _queued_text(record.content)
        if record.operation == "enqueue" and text:
            self._queue = [*self._queue[-_QUEUED:], text]
        elif record.operation == "popAll":
            self._queue.clear()
        elif record.operation == "dequeue" and self._queue:
            self._queue.pop(0)
        elif record.operation == "remove":
            queued = self._queue.pop(0) if self._queue else ""
            text = text or queued
            if text and record.timestamp and _before(self._version, _ATTACHES_PROMPTS):
                record.uuid = str(
                    derived("queued", record.sessionId or "", record.timestamp.isoformat(), text)
                )
                return self._prompt(record, [text])
        return "no_uuid"

    # ---- by what it turned out to be

    def _prompt(self, record: Record, texts: list[str]) -> Row | str:
        words = []
        reason = "empty"
        for text in private_across_blocks(texts) if len(texts) > 1 else texts:
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
        text = self._clean(words, PROMPT_LIMIT)
        return self._row(record, "prompt", self._speaker(record), text) if text else "empty"

    def _shell(self, record: Record, command: str) -> Row:
        """A command the user ran with `!`."""
        use = self._cleaned(ToolUse(name="Bash", command=command))
        return self._row(record, "call", self._speaker(record), "", [use])

    def _results(self, record: Record, blocks: list[Block]) -> Row | str:
        uses, texts = [], []
        failed = False
        for block in blocks:
            call = self._called(block.tool_use_id or "")
            text = _result_text(block.content)
            if block.is_error and (said := said_on_refusal(text)):
                return self._prompt(record, [said])
            error = block.is_error is True
            failed = failed or error
            secret = _shows_secret(call, record)
            uses.append(ToolUse(id=block.tool_use_id or "", name=call.name if call else "", error=error))
            texts.append("[content of a file of secrets left out]" if secret else text)
        text = self._clean(texts, ERROR_LIMIT if failed else RESULT_LIMIT, keep_tail=0.4 if failed else 0.0)
        return self._row(record, "result", "tool", text, uses)

    # ---- parts

    def _speaker(self, record: Record) -> Origin:
        """A subagent's prompt was written by the assistant."""
        return "assistant" if self._agent or record.isSidechain else "user"

    def _call(self, block: Block) -> ToolUse:
        use = toolcalls.summarise(block)
        if use.id:
            if len(self._calls) > _RECALLED_CALLS:
                for old in list(self._calls)[: _RECALLED_CALLS // 2]:
                    del self._calls[old]
            self._calls[use.id] = use
        return self._cleaned(use)

    def _called(self, call_id: str) -> ToolUse | None:
        """The call a result answers."""
        call = self._calls.get(call_id)
        if call is None and self._recalled is not None:
            recalled, self._recalled = self._recalled, None
            self._calls = {u.id: u for u in recalled() if u.id} | self._calls
            call = self._calls.get(call_id)
        return call

    def _cleaned(self, use: ToolUse) -> ToolUse:
        if use.changes and any(map(_is_secret, use.files)):
            return msgspec.structs.replace(use, command="", detail="")
        return ToolUse(
            id=use.id,
            name=use.name,
            files=tuple(map(self._redact_short, use.files)),
            changes=use.changes,
            command=self._kept(use.command, toolcalls.COMMAND_LIMIT) if use.command else "",
            detail=self._kept(use.detail, toolcalls.DETAIL_LIMIT) if use.detail else "",
        )

    def _clean(self, texts: list[str], limit: int, keep_tail: float = 0.0) -> str:
        """One text of several blocks: private passages and injected blocks out, secrets redacted, then shortened."""
        if not texts:
            return ""
        if len(texts) > 1:
            texts = [t for t in private_across_blocks(texts) if t.strip()]
        text = texts[0] if len(texts) == 1 else "\n\n".join(texts)
        if "<" in text:
            text = strip_injected(text)
        if keep_tail and limit < len(text) <= _ERROR_SEEN:
            return shorten(self._redact(text).strip(), limit, keep_tail=keep_tail)
        return self._kept(text, limit).strip()

    def _kept(self, text: str, limit: int) -> str:
        """The beginning of a text, redacted, with a word on how much was left out."""
        if len(text) <= limit:
            return self._redact_short(text) if len(text) <= _SHORT else self._redact(text)
        cut = len(text) > limit + _SEAM
        clean = self._redact(text[: limit + _SEAM])
        if cut:
            clean = clean[:-_SEAM]
        if len(clean) <= limit and not cut:
            return clean
        return f"{clean[: limit - 40].rstrip()} […{len(text) - limit + 40:,} characters left out…]"

    def _row(
        self, record: Record, kind: LineKind, origin: Origin, text: str, tools: list[ToolUse] | None = None
    ) -> Row:
        uuid = record.uuid or ""
        self._version = record.version or self._version
        return Row(
            uuid=uuid if _UUID.fullmatch(uuid) else str(record_uuid(sanitise(uuid))),
            copy_key=_copy_key(record, kind, text, tools),
            kind=kind,
            origin=origin,
            text=text,
            tools=tools or None,
            at=moment(record.timestamp),
            sidechain=bool(record.isSidechain),
            cwd=record.cwd,
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
    except msgspec.DecodeError:
        return ""
    if isinstance(content, list):
        return "\n".join(b.text for b in content if b.text)
    return content or ""


def _before(version: str, other: tuple[int, ...]) -> bool:
    """Whether a version is known and older than another."""
    return bool(version) and tuple(int(p) for p in re.findall(r"\d+", version)[:3]) < other


def _copy_key(record: Record, kind: str, text: str, tools: list[ToolUse] | None) -> str | None:
    """The same for a record that was copied under another uuid, as forks made by an SDK and replays are; None where
    there is no time to tell a copy from a repetition."""
    if record.timestamp is None:
        return None
    message_id = record.message.id if record.message else None
    ids = ",".join([t.id for t in tools]) if tools else ""
    # Time to the millisecond, ids and length tell records apart; the beginning of the text is enough on top of them.
    at = int(record.timestamp.timestamp() * 1000)
    parts = f"{kind}\x1f{at}\x1f{message_id}\x1f{ids}\x1f{len(text)}\x1f{text[:256]}"
    return hashlib.sha1(parts.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:32]


def _result_text(content: str | list[Inner | str] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(c if isinstance(c, str) else c.text or "" for c in content)


# The same files and words come again and again; looking at a path anew each time was a sixth of landing.
_is_secret = functools.lru_cache(8192)(is_secret_file)


def _shows_secret(call: ToolUse | None, record: Record) -> bool:
    """Whether a result shows a file of secrets: by the call it answers, or by the file the record itself names."""
    if call is not None and (any(map(_is_secret, call.files)) or _command_shows_secret(call.command)):
        return True
    shown = record.toolUseResult
    if shown is None or isinstance(shown, str | list):
        return False
    path = shown.file.filePath if shown.file else shown.filePath
    return bool(path and _is_secret(path[:4096]))


def _command_shows_secret(command: str) -> bool:
    """Whether a shell command prints a file of secrets."""
    return any(
        words[0].rpartition("/")[2] in _PRINTING and any(_is_secret(w.strip("\"'`()<>")) for w in words[1:])
        for part in _SHELL_PARTS.split(command[:4000])
        if (words := part.split())
    )
