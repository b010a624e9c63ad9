"""What may stand for several memories, and what writing it down changes. A draft replaces a source only if every value of it
(number, version, path, name, identifier, code) stands in the draft too; it says nothing of that sort which no source says;
and it is shorter than what it replaces. So a model can group and reword, and can neither lose a detail nor invent one."""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from cems.ids import uuid7
from cems.models import BODY_LIMIT, LIST_LIMIT, TITLE_LIMIT, Kind, Layer, least_trusted
from cems.terms import terms
from cems.text import normalise, one_line, sanitise
from db import changes, rewriting
from db.changes import Change, What
from db.memories import content_hash
from db.rewriting import Source
from maintenance.job import Job
from maintenance.statement import Statement, read
from maintenance.support import Text
from maintenance.together import entries, surroundings
from maintenance.tokens import Token, language_of

_SURROUNDINGS = ("Asked:", "Failed first:", "Changed:", "Files:")
"""Lines of a body that tell how a memory came about; they stay with the evidence."""
_LABEL = re.compile(r"^(?:Why|Also):\s*")
_MENDABLE = 300
"""Characters of notes from which a text about them can be made shorter by trying again."""
_UNASKED = frozenset({"quote", "symbol"})
"""Values that need not survive: another's wording, and marks."""
_FORCE = re.compile(r"\b(?:always|never|immer|niemals|nie|toujours|jamais|siempre|nunca)\b", re.I)
_BECAUSE = re.compile(r"\b(?:because|weil|parce que|porque)\b", re.I)
_REASON = re.compile(
    r"\b(?:because|since(?! \d)|so|due|thus|therefore|caus\w+|reasons?|why|weil|denn|damit|parce que|car|porque|pues)\b",
    re.I,
)
_UNBOUND = _UNASKED | {"name", "code"}
"""Values that are ordinary words: a new one is no invention."""


@dataclasses.dataclass(frozen=True)
class Draft:
    """A text that is to stand for several memories of one kind."""

    title: str
    body: str
    sources: tuple[Source, ...]

    @property
    def text(self) -> str:
        """Title and body."""
        return f"{self.title}\n{self.body}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a draft is worth."""

    replaced: tuple[Source, ...]
    """The sources it can stand for; the others stay as they are and are only linked."""
    faults: tuple[tuple[uuid.UUID | None, str], ...]
    """What is wrong with it, and with regard to which source; for whoever wrote it."""
    usable: bool
    """It is worth being written."""


def fact(source: Source) -> str:
    """What a memory says besides its title, without how it came about; other rules of the same breath are memories of their
    own."""
    apart = (*_SURROUNDINGS, "Also:") if source.kind == "preference" else _SURROUNDINGS
    lines = (line.strip() for line in source.body.split("\n"))
    return "\n".join(_LABEL.sub("", line) for line in lines if line and not line.startswith(apart))


def told(source: Source) -> str:
    """A memory in one line: its title and what it says besides, and nothing twice."""
    title, rest = one_line(source.title, TITLE_LIMIT), one_line(fact(source), 2 * BODY_LIMIT)
    begins = title.removesuffix("…").rstrip(" .").casefold()
    if begins and rest.casefold().startswith(begins):
        return rest
    return f"{title} — {rest}" if rest else title


def tidy(title: str, body: str, redact: Callable[[str], str]) -> tuple[str, str]:
    """A model's words in the form in which they may be stored; their length is not changed here."""
    return one_line(redact(sanitise(title)), 4 * TITLE_LIMIT), redact(sanitise(body)).strip()


def judge(draft: Draft, least: int, *, titles: bool = False) -> Verdict:
    """Whether a draft may be written, and which of its sources it stands for.

    Args:
        least: how many sources it has to replace at least.
        titles: it has to have the title of a decision or dead end word for word.
    """
    faults: list[tuple[uuid.UUID | None, str]] = []
    if not draft.title:
        faults.append((None, "it has no title"))
    if len(draft.title) > TITLE_LIMIT:
        faults.append((None, f"its title is longer than {TITLE_LIMIT} characters"))
    if len(draft.body) > BODY_LIMIT:
        faults.append((None, f"its body is longer than {BODY_LIMIT} characters"))
    if new := invented(draft):
        faults.append((None, f"no note it stands on says {_listed(new)}"))
    text = Text(draft.title, draft.body, draft.sources)
    if groundless := text.groundless(heading=titles):
        faults.append((None, f"no note it stands on says {_listed(groundless)}"))
    usable = not faults
    replaced, files = [], list[str]()
    for source in draft.sources:
        united = list(dict.fromkeys([*files, *source.files]))
        if source.kept:
            continue
        if titles and source.kind in ("decision", "deadend") and not _has_title(draft, source):
            faults.append(
                (source.id, "it does not have the sentence that the note begins with word for word")
            )
        elif gone := lost(source, draft.text):
            faults.append((source.id, f"it does not say {_listed(gone)}"))
        elif not text.supports(source):
            faults.append((source.id, "it does not say in one place what the note's first sentence says"))
        elif len(united) <= LIST_LIMIT:
            files = united
            replaced.append(source)
    size, before = len(draft.text), sum(len(told(s)) for s in replaced)
    if len(replaced) >= least and size >= before > _MENDABLE:
        faults.append((None, f"it is not shorter than its notes ({size} characters, they have {before})"))
    return Verdict(tuple(replaced), tuple(faults), usable and len(replaced) >= least and size < before)


def _has_title(draft: Draft, source: Source) -> bool:
    title = normalise(source.title).removesuffix("…").rstrip(" .")
    return title in normalise(draft.text)


def lost(source: Source, text: str) -> list[str]:
    """The values of a memory that a text does not have, as they are written."""
    german = language_of(f"{source.title} {fact(source)}") == "de"  # every noun would be a name
    left_out = _UNASKED | {"name"} if german else _UNASKED
    wanted = [t for t in _values(source.kind, source.title, fact(source)) if t.value not in left_out]
    found = _Words(source.kind, text)
    return list(dict.fromkeys(t.raw for t in wanted if t not in found))


def invented(draft: Draft) -> list[str]:
    """What a draft says and none of its sources does: values, and words that make it stronger."""
    kind = draft.sources[0].kind
    every = "\n".join(
        "\n".join((s.title, s.body, *s.files, f"{s.occurred_at:%Y-%m-%d}", f"{s.occurred_at:%Y-%m}"))
        for s in draft.sources
    )
    found = _Words(kind, every)
    bound = [
        t for t in _values(kind, draft.title, draft.body) if t.value not in _UNBOUND and not t.raw.isalpha()
    ]
    new = [t.raw for t in bound if t not in found]
    return list(dict.fromkeys([*new, *_stronger(draft.text, every)]))


def _stronger(text: str, sources: str) -> list[str]:
    """Words that make a text say more than its sources: `always`, `never`, and `because` where nothing gives a reason."""
    said = {word.casefold() for word in _FORCE.findall(sources)}
    new = [word for word in _FORCE.findall(text) if word.casefold() not in said]
    reason = _BECAUSE.search(text)
    return [*new, reason[0]] if reason and not _REASON.search(sources) else new


def values_in(kind: Kind, text: str) -> frozenset[str]:
    """The values of a text: names, numbers, paths, identifiers, in the form in which they are compared."""
    return frozenset(t.text for t in _values(kind, "", text) if t.value not in _UNASKED)


def _values(kind: Kind, title: str, body: str) -> list[Token]:
    """Read in parts, because a reading has a limit."""
    parts = [body[at : at + 3000] for at in range(0, len(body), 3000)] or [""]
    return [t for part in parts for t in read(Statement(kind, None, title, part)).values]


class _Words:
    """The words of a text, to be asked for values."""

    def __init__(self, kind: Kind, text: str) -> None:
        self._text = " ".join(text.split()).casefold()
        parts = [text[at : at + 3000] for at in range(0, len(text), 2900)] or [""]
        self._words = frozenset(w for p in parts for w in read(Statement(kind, None, "", p)).words)

    def __contains__(self, value: object) -> bool:
        assert isinstance(value, Token)
        if value.text and value.text in self._words:
            return True
        # As written, and not as a part of a longer word or number.
        raw = re.escape(value.raw.casefold())
        return bool(re.search(rf"(?<!\w)(?<!\d[.,]){raw}(?!\w)(?![.,]\d)", self._text))


def _listed(words: Sequence[str]) -> str:
    shown = ", ".join(f"“{one_line(w, 60)}”" for w in words[:8])
    return f"{shown} and {len(words) - 8} more" if len(words) > 8 else shown


def write(
    job: Job, draft: Draft, replaced: Sequence[Source], layer: Layer, what: What, author: str
) -> uuid.UUID | Literal["refused", "busy"]:
    """Write a draft; returns the id of the new memory. Refused where a person forgot this content or took such a change back:
    it counts as kept apart. Busy where a memory changed meanwhile: it waits."""
    kinds = {s.kind for s in draft.sources}
    projects = {s.project_id for s in draft.sources}
    kind = draft.sources[0].kind
    assert len(kinds) == 1 and (what == "promoted" or len(projects) == 1)
    project = None if what == "promoted" else draft.sources[0].project_id
    if _refused(job, draft, replaced, content_hash(kind, draft.title, draft.body), project):
        job.report.kept_apart += 1
        return "refused"
    now = job.clock.now()
    made = _made(draft, replaced, layer, author, project)
    gone: dict[str, Any] = (
        {"archived_at": now}
        if what == "summarized"
        else {"superseded_by": made["id"], "superseded_how": "condensed"}
    )
    change = Change(
        what=what,
        why=f"{len(draft.sources)} of a kind ({kind}), by {author}",
        seen={s.id: s.changed_at for s in draft.sources},
        updates={s.id: gone for s in replaced},
        made=made,
        into=made["id"],
        counts=[s.id for s in replaced],
        links=[s.id for s in draft.sources],
    )
    if not job.apply(change, draft.title):
        return "busy"
    new: uuid.UUID = made["id"]
    return new


def _refused(
    job: Job, draft: Draft, replaced: Sequence[Source], digest: bytes, project: uuid.UUID | None
) -> bool:
    """Whether a person said no before."""
    if rewriting.forgotten(job.db, digest, project):
        return True
    ids = {s.id for s in replaced or draft.sources}
    joined: Counter[uuid.UUID] = Counter()
    for pair in changes.undone_pairs(job.db, sorted(ids)):
        joined.update(pair - ids)
    return any(together >= min(2, len(ids)) for together in joined.values())


def _made(
    draft: Draft, replaced: Sequence[Source], layer: Layer, author: str, project: uuid.UUID | None
) -> dict[str, Any]:
    """The columns of the new memory. Its id is a UUIDv7 as of every row made here: what it replaces goes in the same
    transaction, so no second run can make it twice, and ids go on to say when a row was made."""
    sources = draft.sources
    newest = max(s.occurred_at for s in sources)
    files = entries(s.files for s in (*replaced, *sources))
    says = [words for s in sources for words in (s.title, fact(s))] if project else []
    return {
        "id": uuid7(),
        "layer": layer,
        "kind": sources[0].kind,
        "project_id": project,
        "title": draft.title,
        "body": draft.body,
        # Also the words of what it replaces, so that a search in those words finds it.
        "terms": terms(draft.title, draft.body, *files, f"{newest:%B %Y}", *says),
        "around": _around(replaced) if project else "",
        "concepts": entries(s.concepts for s in sources),
        "files": files if project else [],
        # As sure as its sources are on the whole: more of them do not make a guess surer.
        "confidence": round(sum(s.confidence for s in sources) / len(sources), 3),
        "origin": least_trusted([s.origin for s in sources]),
        "author": author,
        "content_hash": content_hash(sources[0].kind, draft.title, draft.body),
        "occurred_at": newest,
    }


def _around(replaced: Sequence[Source]) -> str:
    """What stood around the sources, for the keyword side alone: the first line, which a vector knows, stays empty, because
    no single question led to this memory."""
    lines = surroundings(s.around for s in reversed(replaced))
    return f"\n{lines}" if lines else ""
