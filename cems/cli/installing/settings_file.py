"""The agent's settings file, edited without harm: our entries are put in and taken out of its text, and every other byte stays
as its owner, or another program, wrote it. A file that is not valid JSON is never repaired, only refused."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in the typings
from typing import Any

from cems.errors import CemsError

_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"[-+0-9.eE]+|true|false|null")
_BOM = "\ufeff"


class NotSettings(CemsError):
    """The file is not what the agent's settings are."""

    hint = "mend the file (the agent ignores a broken one too), then run this again"


@dataclasses.dataclass(frozen=True)
class _Node:
    """A value in the text: where it begins and ends, and what is in it."""

    start: int
    end: int
    members: Mapping[str, tuple[int, _Node]] | None = None
    """Of an object: each key's start and its value."""
    items: tuple[_Node, ...] | None = None
    """Of an array."""


Group = Mapping[str, Any]
"""One element of an event's list: `{"hooks": [HANDLER, …]}`."""


def with_hooks(text: str, groups: Mapping[str, Group], ours: Callable[[Any], bool]) -> str:
    """The text with one group of ours for each event, and no other of ours.

    Raises:
        NotSettings: it is not a JSON object, or its hooks are not what they must be.
    """
    text = text if text.strip(_BOM + " \t\r\n") else text + "{}"
    if _complete(json.loads(_checked(text).removeprefix(_BOM)), groups, ours):
        return text
    text = without_hooks(text, ours)
    for event, group in groups.items():
        root = _parse(text)
        if "hooks" not in _members(root):
            text = _add_member(text, root, "hooks", {event: [group]}, 1)
            continue
        hooks = _members(root)["hooks"][1]
        if event not in _members(hooks):
            text = _add_member(text, hooks, event, [group], 2)
        else:
            text = _add_item(text, _members(hooks)[event][1], group, 3)
    return text


def without_hooks(text: str, ours: Callable[[Any], bool]) -> str:
    """The text without any handler of ours; groups, lists and objects that are empty then go too.

    Raises:
        NotSettings: as above.
    """
    while (span := next(_spans(text, ours), None)) is not None:
        text = text[: span[0]] + text[span[1] :]
    return text


def _complete(settings: Any, groups: Mapping[str, Group], ours: Callable[[Any], bool]) -> bool:
    """Whether each event has its group of ours and no other."""
    hooks = settings.get("hooks") if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(found, list) for found in hooks.values()):
        return False
    mine = {
        event: [g for g in found if isinstance(g, dict) and any(map(ours, _list(g.get("hooks"))))]
        for event, found in hooks.items()
    }
    return {event: found for event, found in mine.items() if found} == {e: [g] for e, g in groups.items()}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _spans(text: str, ours: Callable[[Any], bool]) -> Iterator[tuple[int, int]]:
    """What to cut out for each handler of ours: the largest thing that has nothing else in it."""
    root = _parse(text)
    if "hooks" not in _members(root):
        return
    hooks = _members(root)["hooks"][1]
    for event, (_, groups) in _members(hooks).items():
        for group in _items(groups):
            for handler in (
                _items(handlers := _members(group)["hooks"][1]) if "hooks" in _members(group) else ()
            ):
                if not ours(json.loads(text[handler.start : handler.end])):
                    continue
                if len(_items(handlers)) > 1:
                    yield _cut_item(handlers, handler)
                elif len(_items(groups)) > 1:
                    yield _cut_item(groups, group)
                elif len(_members(hooks)) > 1:
                    yield _cut_member(hooks, event)
                else:
                    yield _cut_member(root, "hooks")


def _cut_item(array: _Node, item: _Node) -> tuple[int, int]:
    items = _items(array)
    place = items.index(item)
    if place:
        return items[place - 1].end, item.end
    return (item.start, items[1].start) if len(items) > 1 else (array.start + 1, item.end)


def _cut_member(parent: _Node, key: str) -> tuple[int, int]:
    members = list(_members(parent).items())
    place = [name for name, _ in members].index(key)
    start, value = members[place][1]
    if place:
        return members[place - 1][1][1].end, value.end
    if len(members) > 1:
        return start, members[1][1][0]
    return parent.start + 1, parent.end - 1


def _add_member(text: str, parent: _Node, key: str, value: Any, depth: int) -> str:
    members = list(_members(parent).values())
    written = f"{json.dumps(key)}: {_written(value, text, depth)}"
    return _insert(text, parent, members[-1][1].end if members else None, written, depth)


def _add_item(text: str, array: _Node, value: Any, depth: int) -> str:
    items = _items(array)
    last = items[-1].end if items else None
    return _insert(text, array, last, _written(value, text, depth), depth)


def _insert(text: str, parent: _Node, after: int | None, written: str, depth: int) -> str:
    newline, unit = _style(text)
    gap = newline + unit * depth if newline else ""
    if after is not None:
        return text[:after] + "," + (gap or " ") + written + text[after:]
    end = newline + unit * (depth - 1) if newline else ""
    return text[: parent.start + 1] + gap + written + end + text[parent.end - 1 :]


def _written(value: Any, text: str, depth: int) -> str:
    newline, unit = _style(text)
    if not newline:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=unit).split("\n")
    return (newline + unit * depth).join(lines)


def _style(text: str) -> tuple[str, str]:
    """(line break, indentation) of the file; no line break for a file of one line with something in it."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if found := re.search(r"[{\[][ \t]*\r?\n([ \t]+)\S", text):
        return newline, found[1]
    bare = text.strip(_BOM + " \t\r\n")
    return ("", "") if bare != "{}" and "\n" not in bare else (newline, "  ")


def _checked(text: str) -> str:
    try:
        json.loads(text.removeprefix(_BOM), parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise NotSettings(f"it is not valid JSON: {error.msg} in line {error.lineno}") from None
    except RecursionError:
        raise NotSettings("it is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise NotSettings(f"it cannot be read: {error}") from None
    return text


def _refuse(constant: str) -> None:
    raise NotSettings(f"it is not valid JSON: {constant} is no number there")


def _parse(text: str) -> _Node:
    """The text as nodes. What json reads is valid; this only finds where things are."""
    _checked(text)
    node = _node(text, _SPACE.match(text, text.startswith(_BOM)).end())  # type: ignore[union-attr]
    if node.members is None:
        raise NotSettings("it is not a JSON object")
    return node


def _members(node: _Node) -> Mapping[str, tuple[int, _Node]]:
    if node.members is None:
        raise NotSettings("`hooks` is not what the agent expects there")
    return node.members


def _items(node: _Node) -> tuple[_Node, ...]:
    if node.items is None:
        raise NotSettings("`hooks` holds something else than lists of hooks")
    return node.items


def _node(text: str, start: int) -> _Node:
    if text[start] == '"':
        return _Node(start, scanstring(text, start + 1)[1])
    if text[start] not in "{[":
        found = _SCALAR.match(text, start)
        assert found is not None
        return _Node(start, found.end())
    members: dict[str, tuple[int, _Node]] = {}
    items: list[_Node] = []
    at = _skip(text, start + 1)
    while text[at] not in "}]":
        begin = at
        if text[start] == "{":
            key, at = scanstring(text, at + 1)
            value = _node(text, _skip(text, _skip(text, at) + 1))
            members[key] = (begin, value)
        else:
            value = _node(text, at)
            items.append(value)
        at = _skip(text, value.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return _Node(
        start, at + 1, members if text[start] == "{" else None, tuple(items) if text[start] == "[" else None
    )


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()
