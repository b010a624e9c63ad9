"""A message's markdown → the sentences a person would read in it. Code, tables, quotations, diffs and pasted
logs give no sentence; every sentence keeps the exact words it was made of, so that it can be quoted. Linear
in the text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"\s*#{1,6}\s+(.*)")
_LIST_MARK = re.compile(r"\s*(?:[-*•+–]|\d{1,2}[.)]|\(\d{1,2}\))\s+")
_NOISE_MARK = re.compile(r"(?:[^\w\s`\"'(\[<*_#$/.~„“«¿¡@+-]+\s*|\[[ xX]\]\s+)+")
# Marks that make a line something else than prose: tables, quotations, diffs, logs, stack traces, drawings.
_NOT_PROSE = re.compile(
    r"\s*(?:\||>|@@|[+-]\S{2}|[│┌├└╭╰─═━]|\$ |%|✔ |\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|"
    r"\[?(?:ERROR|WARN|INFO|DEBUG|TRACE)\b|"
    r"at \S+ ?\(|File \"|Traceback|\(node:|import [{*\w]|from \S+ import|const |export |</?\w+)"
)
_CODE_END = re.compile(r"(?:[{;]|=>|\);?|\},?|\],)$")
_SPACE_END = re.compile(r"[.!?]['\")\]*_`]*\s+|[。！？]+[」』）]?\s*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|no|bzw|z\.\s?b|d\.h|ca|usw|nr|p\.ej|env|resp|st)|"
    r"^\W*\d{1,2}|(?-i:\b[A-Z]))\.$",
    re.I,
)
_LABEL = re.compile(
    r"\*\*(?P<bold>`[^`\n]{2,78}`|[^*\n]{2,80})\*\*(?P<mark>:?)\s*(?:[:–—→-]\s*)?|"
    r"(?P<code>`[^`\n]{2,80}`)(?::|\s+[–—-])\s+|(?P<plain>[A-Z][A-Za-z' ]{2,30}):\s+"
)
_LABEL_LIMIT = 48
_EMPTY_LABEL = re.compile(
    r"\b(?:cause|issue|problem|fix|fixed|solution|result|summary|note|important|key|"
    r"insight|step|status|reason|why|now|before|"
    r"after|done|decision|phase|bug|option|update[ds]?|change[ds]?|added|removed|what|how|"
    r"answer|finding|conclusion|warning|"
    r"caveat|actual\w*)\b|\.\w{1,5}(?::\d+)?$|^\d+\.?$",
    re.I,
)
_STATEMENT = re.compile(r"\b(?:is|are|was|were|has|have|will|must|should|can|does|did|fixed|we|I)\b")
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\s]*\)")
_TAG = re.compile(r"</?[a-zA-Z][\w-]*(?:\s[^<>]*)?>")
_EMOJI = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\ufe0f\u200d\u2705\u274c]+")
_SPACES = re.compile(r"\s+")
_ROLE = re.compile(r"^[ \t]*(?:\*\*)?(?:user|human|assistant|agent|system)(?:\*\*)?:", re.I | re.M)
_HEADINGS = re.compile(r"^[ \t]*#{1,6}\s+\S", re.M)
UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
"""A character of a script whose words are short, and mostly not set apart by spaces."""

_LEAD = 60
MAX_SENTENCE = 600
"""Characters; what is longer is a paste, not a sentence."""


@dataclasses.dataclass(frozen=True)
class Sentence:
    """One sentence, or one item of a list."""

    raw: str
    """Its exact words, markdown included."""
    text: str
    """The same without markdown; without its label."""
    label: str
    """What stands in front of it in bold or before a colon: `Root cause`, a file's name; empty where nothing
    does."""
    section: str
    """The heading it stands under; for an item of a list, the words that introduce the list."""
    listed: bool
    """It is an item of a list."""
    opens: bool
    """It is the first of its paragraph or item."""
    index: int
    """Its place in the text."""

    @property
    def spoken(self) -> str:
        """The sentence with its label, where the label says what it is about and not only what kind of thing
        it is."""
        label = self.label
        if not label or len(label) > _LABEL_LIMIT or "/" in label or _EMPTY_LABEL.search(label):
            return self.text
        return self.text if label.casefold() in self.text.casefold() else f"{label}: {self.text}"


@dataclasses.dataclass(frozen=True)
class _Block:
    start: int
    end: int
    section: str
    listed: bool


def sentences(text: str) -> list[Sentence]:
    """The sentences of a text, in order."""
    found: list[Sentence] = []
    for block in _blocks(text):
        label = ""
        for number, (start, end) in enumerate(_split(text, block.start, block.end)):
            raw = text[start:end]
            if len(raw) > MAX_SENTENCE:
                continue
            rest = raw
            if number == 0 and (match := _LABEL.match(raw)) and _is_label(match):
                label, rest = plain(match[0]).rstrip(" :–—→-"), raw[match.end() :]
            clean = plain(rest)
            if not clean:
                continue
            found.append(
                Sentence(
                    raw,
                    clean,
                    label if number == 0 else "",
                    block.section,
                    block.listed,
                    number == 0,
                    len(found),
                )
            )
    return found


def plain(text: str) -> str:
    """Markdown taken off: emphasis, code ticks, links, tags and emoji; on one line, with one kind of apostrophe."""
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "<" in text:
        text = _TAG.sub("", text)
    text = _EMOJI.sub("", text.replace("**", "").replace("`", "").replace("’", "'"))
    return _SPACES.sub(" ", text).strip(" *\t\n")


def paired(text: str) -> str:
    """The text without the one code tick whose other half was cut off."""
    if text.count("`") % 2 == 0:
        return text
    before, _, after = text.rpartition("`")
    return before + after


def is_document(text: str) -> bool:
    """Whether a prompt is a document somebody pasted (a plan, a review, another conversation) and not their
    own words."""
    return (
        len(_HEADINGS.findall(text)) >= 2
        or len(_ROLE.findall(text)) >= 2
        or text.lower().startswith("implement the following")
    )


def _is_label(match: re.Match[str]) -> bool:
    """Words are a label only where a colon or a dash follows them and they are no statement themselves."""
    if _STATEMENT.search(match["bold"] or match["plain"] or ""):
        return False
    if not match["bold"]:
        return True
    return bool(match["mark"]) or match["bold"].endswith(":") or match[0].rstrip()[-1:] in ":–—→-"


def _blocks(text: str) -> Iterator[_Block]:
    """Paragraphs and list items, as stretches of the text."""
    section, fenced, at = "", False, 0
    start = end = -1
    listed = broken = False
    lead = ""
    for line in text.splitlines(keepends=True):
        here, at = at, at + len(line)
        body = line.rstrip()
        mark = _LIST_MARK.match(body)
        fence = _FENCE.match(body)
        heading = None if fenced else _HEADING.match(body)
        prose = (
            not (fenced or fence or heading)
            and bool(body)
            and _is_prose(body[mark.end() :] if mark else body)
        )
        if fence:
            fenced = not fenced
        if start >= 0 and (mark or not prose or broken or _NOISE_MARK.match(body.lstrip())):
            yield _Block(start, end, lead if listed and lead else section, listed)
            if not listed:
                lead = plain(text[start:end])[-_LEAD:] if text[start:end].rstrip("* ").endswith(":") else ""
            start = -1
        if heading:
            section, lead = plain(heading[1]).rstrip(": "), ""
        elif prose and (title := _bold_line(body)):
            section, lead = title, ""
        elif prose:
            if start < 0:
                first = here + (mark.end() if mark else len(body) - len(body.lstrip()))
                noise = _NOISE_MARK.match(text, first, here + len(body))
                start, listed = noise.end() if noise else first, bool(mark or noise)
            end = here + len(body)
        broken = prose and line.rstrip("\r\n").endswith("  ")
    if start >= 0:
        yield _Block(start, end, lead if listed and lead else section, listed)


def _bold_line(line: str) -> str:
    """A line that is nothing but bold words ending in a colon serves as a heading."""
    bare = line.strip()
    if bare.startswith("**") and bare.endswith(("**", "**:")) and bare.count("**") == 2 and len(bare) < 80:
        return plain(bare).rstrip(": ")
    return ""


def _is_prose(line: str) -> bool:
    bare = line.strip()
    if _NOT_PROSE.match(line) or (_CODE_END.search(bare) and not _closes_words(bare)):
        return False
    if UNSPACED.search(bare):
        return True
    letters = sum(map(str.isalpha, bare)) + bare.count(" ")
    return letters >= 0.7 * len(bare) or "`" in bare or "**" in bare


def _closes_words(line: str) -> bool:
    """A closing parenthesis at the end of prose: it was opened in the same line, after a space."""
    return line.endswith((")", ");")) and " (" in line


def _split(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Sentence ends within a block; not after abbreviations, and not inside code or parentheses."""
    begin = start
    for match in _SPACE_END.finditer(text, start, end):
        piece = text[begin : match.end()].rstrip()
        if (
            match.end() >= end
            or _ABBREVIATION.search(piece[-8:])
            or piece.count("`") % 2
            or piece.count("(") > piece.count(")")
        ):
            continue
        yield begin, begin + len(piece)
        begin = match.end()
    if begin < end:
        yield begin, end
