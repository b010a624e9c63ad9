"""How memories look on a terminal: the title, one line of what it is, and the body, wrapped to the terminal's width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from cems.cli.output import block, clean, day, moment, pairs
from cems.ids import short
from cems.models import TITLE_LIMIT, Memory
from cems.text import one_line

BODY_SHOWN = 420
"""Characters of a body in a list of results; `cems memory show` and `--full` give all."""
_COLOURS = {
    "preference": "magenta",
    "decision": "blue",
    "deadend": "red",
    "bugfix": "green",
    "pattern": "cyan",
    "context": "yellow",
}
WORDS_OF = {"user": "the user", "assistant": "the assistant", "tool": "a tool's output"}


def results(
    console: Console,
    found: Sequence[Memory],
    *,
    full: bool = False,
    bodies: bool = True,
) -> None:
    """Print memories, one below the other."""
    for index, memory in enumerate(found):
        if index:
            console.print()
        block(console, memory.title, indent=0, style="bold" if memory.state == "active" else "strike")
        block(console, _about(memory, short(memory.id)))
        if bodies and memory.body:
            block(console, memory.body if full else _beginning(memory.body), style="dim")


def detail(console: Console, memory: Memory, evidence: Sequence[Mapping[str, Any]]) -> None:
    """Print one memory with all that is known of it."""
    block(console, memory.title, indent=0, style="bold")
    block(console, _about(memory, str(memory.id)), indent=0)
    if memory.body:
        console.print()
        block(console, memory.body, indent=0)
    console.print()
    seen = "once" if memory.seen_count == 1 else f"{memory.seen_count} times"
    by = "by hand" if memory.author == "hand" else f"by {memory.author}"
    facts = {
        "happened": moment(memory.occurred_at),
        "recorded": f"{moment(memory.recorded_at)} {by}; seen {seen}",
        "confidence": f"{memory.confidence:.0%}, on the word of {WORDS_OF[memory.origin]}",
        "concepts": ", ".join(memory.concepts),
        "files": "\n".join(memory.files),
    }
    pairs(console, facts)
    console.print()
    if not evidence:
        by_hand = memory.author == "hand"
        block(
            console, "No evidence: it was written by hand." if by_hand else "No evidence is left.", indent=0
        )
        return
    condensed = all(source["source_memory_id"] for source in evidence)
    heading = "Stands on" if condensed else "Evidence"
    block(console, f"{heading} ({len(evidence)})", indent=0, style="bold")
    for source in evidence:
        _source(console, source)


def _source(console: Console, source: Mapping[str, Any]) -> None:
    if source["source_memory_id"]:
        _memory(console, source)
        return
    who = WORDS_OF[source["origin"]]
    session = clean(source["session_title"] or source["session"] or "a session")
    agent = f", subagent {clean(source['agent'])}" if source["agent"] else ""
    block(console, f"{who}, {moment(source['at'])}, in “{one_line(session, 120)}”{agent}")
    if source["quote"]:
        block(console, f"“{source['quote']}”", indent=4, style="italic")
    where = [f"session {clean(source['session'])}"] if source["session"] and source["session_title"] else []
    where += [clean(source["transcript"])] if source["transcript"] else []
    for line in where:
        console.print(Text(f"    {line}", style="dim"), soft_wrap=True)  # whole, to be copied


def _memory(console: Console, source: Mapping[str, Any]) -> None:
    """A memory that this one stands on: what it says, and by which id it can be shown."""
    title = one_line(clean(source.get("source_title") or ""), TITLE_LIMIT)
    line = Text(title or "memory")
    line.append(f" · {short(source['source_memory_id'])}", style="dim")
    block(console, line)


def _beginning(body: str) -> str:
    """The first lines of a body, for a list."""
    text = "\n".join(line.strip() for line in clean(body).splitlines() if line.strip())
    return text if len(text) <= BODY_SHOWN else text[:BODY_SHOWN].rsplit(None, 1)[0] + " …"


def _about(memory: Memory, shown_id: str) -> Text:
    """Kind, project, date and id, in one line."""
    where = one_line(clean(memory.project), 40) if memory.project else "every project"
    parts = [(memory.kind, _COLOURS[memory.kind]), (where, ""), (day(memory.occurred_at), "")]
    if memory.layer != "observation":
        parts.append((memory.layer, ""))
    if memory.state != "active":
        parts.append((memory.state, "red"))
    parts.append((shown_id, "dim"))
    line = Text()
    for index, (text, style) in enumerate(parts):
        line.append(" · " if index else "", style="dim")
        line.append(text, style=style)
    return line
