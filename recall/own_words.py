"""A person's own words in a text that is mostly something else: pasted code, logs, quotations, stack traces. Short texts are
left as they are, for an identifier in a line of code is what finds a memory; long ones give their first and last sentences.
Linear in the text, which is cut first."""

from __future__ import annotations

import re

HUGE = 1500
"""Characters from which a prompt is taken for a paste with words around it."""
_READ = 400_000
"""Characters of a huge text that are looked at, half from each end."""
_PARAGRAPH = 20_000
"""Characters of a line; what is longer was not typed."""
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_NOT_PROSE = re.compile(
    r"\s*(?:[|>]|@@|[+-]{1,3}\S|[│┌├└╭╰─═━]|[$%#] |\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|\S{1,16} \d\d? \d\d:\d\d|"
    r"\[?(?:ERROR|WARN|WARNING|INFO|DEBUG|TRACE|FATAL)\b|at \S+ ?\(|File \"|Traceback|\(node:|"
    r"import [{*\w]|from \S+ import|const |export |def |class \w+[(:]|return |</?\w|[{}\[\]()]+\W*$|\"[^\"]*\":|\d+[:|]\s)"
)
_CODE_END = re.compile(r"(?:[{;]|=>|\},?|\],)\s*$")
_FAILURE = re.compile(r"\b\w*(?:Error|Exception|Fault)\b|\b(?:error|failed|fatal|panic)\b", re.I)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？:])\s+|\n+")


def cut(text: str, limit: int) -> str:
    """At most `limit` characters that stand for the text: all of a short one, the own words of a huge one, and where it has
    none of its own, its last lines that tell of a failure."""
    if len(text) <= HUGE:
        return text[:limit]
    if len(text) > _READ:
        text = text[: _READ // 2] + "\n" + text[-_READ // 2 :]
    prose = of_prose(text)
    if not prose:
        failures = [line.strip()[:300] for line in text.splitlines() if _FAILURE.search(line)]
        return "\n".join(failures[-3:])[:limit]
    return _ends(prose, limit)


def of_prose(text: str) -> str:
    """The lines a person would read aloud."""
    lines = text.splitlines()
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    # The last fence of an odd number was never closed; whether what follows is code, its lines tell.
    for begin, end in zip(fences[::2], fences[1::2], strict=False):
        lines[begin : end + 1] = [""] * (end + 1 - begin)
    return "\n".join(line.strip() for line in lines if _is_prose(line))


def _is_prose(line: str) -> bool:
    line = line.strip()
    if not line or len(line) > _PARAGRAPH or _NOT_PROSE.match(line) or _CODE_END.search(line):
        return False
    letters = sum(c.isalpha() or c.isspace() for c in line)
    return letters >= 0.75 * len(line)


def _ends(text: str, limit: int) -> str:
    """The first and the last sentences."""
    if len(text) <= limit:
        return text
    sentences = [s for s in _SENTENCE_END.split(text) if s.strip()]
    first = _fill(sentences, limit // 2)
    last = _fill(sentences[len(first) :][::-1], limit - sum(map(len, first)) - len(first))[::-1]
    return "\n".join([*first, *last])[:limit]


def _fill(sentences: list[str], room: int) -> list[str]:
    """As many as there is room for; at least a piece of one."""
    taken: list[str] = []
    for sentence in sentences:
        if len(sentence) + 1 > room:
            break
        taken.append(sentence)
        room -= len(sentence) + 1
    return taken or [sentence[: max(room, 0)] for sentence in sentences[:1]]
