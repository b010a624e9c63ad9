"""Sessions that are not the user's: other tools drive the same agent to summarise, title or judge, and their sessions
lie among the user's own. Recognised by how the session was started, where, and by the shape of its first prompt."""

from __future__ import annotations

import re

_SDK = {"sdk-py", "sdk-ts", "sdk-cli", "sdk"}
_TOOL_PLACES = re.compile(
    r"/\.(?:cems|[\w-]*mem(?:ory|ories)?|mem[\w-]*)(?:/|$)|/cems/(?:postgres|work)(?:/|$)"
)
# A machine's own prompt: it names a role or a job and hands over somebody else's conversation.
_JOB = re.compile(
    r"\A\s*(?:you are (?:a|an|the) [\w -]{0,40}"
    r"(?:summari[sz]er|observer|memory|title generator|extractor|classifier|judge|archivist)\b"
    r"|(?:please )?(?:summari[sz]e|analy[sz]e|extract|review|generate a (?:short )?title for) (?:the|this)(?: following)? "
    r"(?:session|conversation|transcript|coding session|chat)\b"
    r"|(?:below|following|here) is (?:a|the) (?:session |conversation )?transcript\b"
    r"|<(?:transcript|conversation|session_transcript|observed_from_primary_session)>)",
    re.I,
)
_HANDED_OVER = re.compile(
    r"<(?:transcript|conversation|session_transcript|session|observed_from_primary_session)>", re.I
)


def is_foreign(entrypoint: str | None, cwd: str | None, first_prompt: str) -> bool:
    """Whether a session belongs to another tool.

    Args:
        entrypoint: as the session's first records name it; `sdk-…` for a program's own sessions.
        cwd: the folder it ran in.
        first_prompt: the first words of role user.
    """
    if cwd and _TOOL_PLACES.search(cwd):
        return True
    head = first_prompt[:4000]
    if _JOB.search(head):
        return entrypoint in _SDK or bool(_HANDED_OVER.search(first_prompt[:20000]))
    return False
