"""Identifiers. Rows made here get UUIDv7s, which sort by the time they were made; things that exist outside get UUIDv5s
derived from what they are, so that two processes that see the same thing agree without asking the database."""

from __future__ import annotations

import os
import time
import uuid

NAMESPACE = uuid.UUID("6f1c1a52-9a4e-5c0b-9a36-2f6f0a3c7d11")


def uuid7(now_ms: int | None = None) -> uuid.UUID:
    """A UUIDv7 (RFC 9562 §5.7): 48 bits of Unix milliseconds, then 74 random bits."""
    ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    value = (ms & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)


def derived(*parts: str) -> uuid.UUID:
    """The UUIDv5 of a thing named by `parts`; the same parts give the same id everywhere."""
    return uuid.uuid5(NAMESPACE, "\x1f".join(parts))


def record_uuid(text: str) -> uuid.UUID:
    """The id of a transcript record: its own uuid where it is one, otherwise one derived from its text."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return derived("record", text)


SHORT = 10
"""Hex digits of a short id: the last ones of a UUIDv7 are random, so ten name one of a million memories all but surely."""


def short(memory: uuid.UUID) -> str:
    """The id people and agents see and type."""
    return memory.hex[-SHORT:]
