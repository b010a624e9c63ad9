"""The sample sessions below ``tests/samples``: where they are, and copies with secrets put in.

The committed files hold no secret, only placeholders such as ``@@SECRET:ghp@@``. A test that looks at
redaction copies the tree with values of its own, put together from pieces so that no scanner finds one in
the sources::

    config = copy_samples(tmp_path, {"ghp": "ghp_" + "a1B2" * 9})
    sessions = sorted(config.glob("projects/*/*.jsonl"))
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SAMPLES: Final = Path(__file__).resolve().parent / "samples"
"""The folder with ``claude/`` (laid out as a Claude Code configuration folder) and ``expected.json``."""

SECRET_KINDS: Final = frozenset({"aws", "dsn", "ghp"})
"""The kinds of placeholder: an AWS access key id, a database URL with a password, a GitHub token."""

_PLACEHOLDER = re.compile(rb"@@SECRET:([a-z]+)@@")


def copy_samples(target: Path, secrets: Mapping[str, str]) -> Path:
    """Copy the configuration folder below *target*, with *secrets* in place of their placeholders.

    Files are copied byte for byte apart from that: odd line ends, cut records and a missing final newline
    are kept. In JSON files a value is escaped as the inside of a JSON string. A kind without a value keeps
    its placeholder; a value for an unknown kind is a :class:`ValueError`.

    Returns the new configuration folder, *target*/``claude``, for ``CLAUDE_CONFIG_DIR``.
    """
    if unknown := sorted(set(secrets) - SECRET_KINDS):
        raise ValueError(f"no placeholder of kind {', '.join(unknown)} in the samples")
    source = SAMPLES / "claude"
    folder = target / "claude"
    for path in sorted(source.rglob("*")):
        if not path.is_file():
            continue
        copy = folder / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(_fill(path.read_bytes(), secrets, escape=path.suffix in {".json", ".jsonl"}))
    return folder


def _fill(data: bytes, secrets: Mapping[str, str], *, escape: bool) -> bytes:
    def value(match: re.Match[bytes]) -> bytes:
        secret = secrets.get(match[1].decode())
        if secret is None:
            return match[0]
        return (json.dumps(secret, ensure_ascii=False)[1:-1] if escape else secret).encode()

    return _PLACEHOLDER.sub(value, data)
