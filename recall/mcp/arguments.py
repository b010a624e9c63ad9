"""What each tool may be given: names, types, limits and their meaning, from which both the schema that an agent sees and the
check of what it sends are made. What a tool does not know is refused, so that a misspelt filter never widens an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from cems.errors import UsageError
from cems.models import BODY_LIMIT, KINDS, LIST_LIMIT, TITLE_LIMIT, Kind

QUERY_LIMIT = 1000
IDS_LIMIT = 20
RESULTS_LIMIT = 50
NEIGHBOURS_LIMIT = 25
NoteKind = Literal["decision", "deadend", "bugfix", "pattern", "context"]
"""Every kind but preferences, which need the user's own words."""


def _text(longest: int, meaning: str, shortest: int | None = None) -> msgspec.Meta:
    return msgspec.Meta(min_length=shortest, max_length=longest, description=meaning)


def _whole(most: int, meaning: str, least: int = 0) -> msgspec.Meta:
    return msgspec.Meta(ge=least, le=most, description=meaning)


Id = Annotated[str, _text(40, "id of a memory, as [brackets] show it", 4)]
Ids = Annotated[
    list[Id],
    msgspec.Meta(min_length=1, max_length=IDS_LIMIT, description="ids, as answers show them in [brackets]"),
]


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a tool is given."""


class Search(Arguments, frozen=True, forbid_unknown_fields=True):
    """Arguments of `search`."""

    query: Annotated[
        str,
        _text(QUERY_LIMIT, "a few words or a question; names, error texts and dates are understood", 1),
    ]
    kind: Annotated[Kind, msgspec.Meta(description="only this kind")] | None = None
    concept: Annotated[str, _text(80, "only this concept, such as gotcha or trade-off")] | None = None
    file: Annotated[str, _text(500, "only about this file: its path, or the end of it")] | None = None
    since: Annotated[str, _text(40, "only since a date (2026-11-01) or an age (6h, 30d, 2w)")] | None = None
    limit: Annotated[int, _whole(RESULTS_LIMIT, "how many at most", 1)] = 10


class SearchElsewhere(Search, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of `search_elsewhere`."""

    project: Annotated[
        str, _text(500, "the other project: name, identity or folder as the user gave it; * for all", 1)
    ]


class Timeline(Arguments, frozen=True, forbid_unknown_fields=True):
    """Arguments of `timeline`."""

    around: Annotated[
        str, _text(40, "id of a memory, a time (2026-11-01, 2026-11-01T14:30) or an age (6h, 30d)", 1)
    ]
    before: Annotated[int, _whole(NEIGHBOURS_LIMIT, "how many before it")] = 5
    after: Annotated[int, _whole(NEIGHBOURS_LIMIT, "how many after it")] = 5


class Get(Arguments, frozen=True, forbid_unknown_fields=True):
    """Arguments of `get`."""

    ids: Ids


class Why(Arguments, frozen=True, forbid_unknown_fields=True):
    """Arguments of `why`."""

    id: Id


class Nothing(Arguments, frozen=True, forbid_unknown_fields=True):
    """For tools without arguments."""


class Remember(Arguments, frozen=True, forbid_unknown_fields=True):
    """Arguments of `remember`."""

    title: Annotated[str, _text(TITLE_LIMIT, "the fact in one sentence that stands alone", 1)]
    body: Annotated[str, _text(BODY_LIMIT, "the reason, and what one needs to act on it")] = ""
    kind: Annotated[NoteKind, msgspec.Meta(description="what it is")] = "context"
    concepts: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=80)]], msgspec.Meta(max_length=LIST_LIMIT)
    ] = []
    files: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=500)]],
        msgspec.Meta(max_length=LIST_LIMIT, description="files it is about"),
    ] = []


class Change(Arguments, frozen=True, forbid_unknown_fields=True):
    """Arguments of `forget` and `pin`."""

    id: Id


class Snooze(Change, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of `snooze`."""

    until: Annotated[str, _text(40, "a date to come (2026-12-24), or for how long (30d, 2w)", 1)]


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


def schema(type_: type[Arguments]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments, whole at its root."""
    _, components = msgspec.json.schema_components([type_])
    found: dict[str, Any] = components[type_.__name__]
    for name in ("title", "description"):  # the class's, which say nothing to an agent
        found.pop(name, None)
    return found


def read(type_: type[ArgumentsT], given: Mapping[str, Any]) -> ArgumentsT:
    """The arguments as a tool takes them; a number written as a text is a number.

    Raises:
        UsageError: they are not what the tool takes; says which and why.
    """
    try:
        return msgspec.convert(dict(given), type_, strict=False)
    except msgspec.ValidationError as error:
        fields = ", ".join(field.name for field in msgspec.structs.fields(type_))
        hint = f"it takes {fields}" if fields else "it takes no arguments"
        if "$.kind" in str(error):
            kinds = [kind for kind in KINDS if type_ is not Remember or kind != "preference"]
            hint = f"kinds are {', '.join(kinds)}" + (
                "; a preference is learnt from the user's own words, or added with `cems memory add`"
                if type_ is Remember
                else ""
            )
        raise UsageError(f"{str(error)[:200]}", hint=hint) from None
