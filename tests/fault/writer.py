"""Writes transcripts as the agent does, as a process of its own: `python -m tests.fault.writer FOLDER --seconds 8`. Writes
are torn inside lines and inside characters, subagents have files of their own, removed messages are cut out in place, and
some lines are damaged. At its end it prints what the files hold, as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import random
import sys
import time
import uuid
from pathlib import Path
from typing import Any

CWD = "/nowhere/shop"


@dataclasses.dataclass
class Segment:
    """One physical line, and the records in it that can be had."""

    data: bytes
    uuids: list[str]


@dataclasses.dataclass
class Transcript:
    path: Path
    session: str
    agent: str | None = None
    segments: list[Segment] = dataclasses.field(default_factory=list)
    last: str | None = None


def record(
    session: str,
    number: int,
    role: str,
    *,
    agent: str | None = None,
    parent: str | None = None,
    words: str = "",
    at: dt.datetime | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A minimal record as the agent writes it. The user's carry a note that a scripted model answers with."""
    at = at or dt.datetime.now(dt.UTC)
    message: dict[str, Any]
    if role == "user":
        message = {
            "role": "user",
            "content": f"note n{number}: always keep module {number} as it is. {words}",
        }
    else:
        message = {
            "id": f"msg_{uuid.uuid4().hex}",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": f"Done with {number}. {words}"}],
        }
    out = {
        "parentUuid": parent,
        "isSidechain": agent is not None,
        "userType": "external",
        "cwd": CWD,
        "sessionId": session,
        "version": "2.1.240",
        "type": role,
        "message": message,
        "uuid": str(uuid.uuid4()),
        "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    return out | ({"agentId": agent} if agent else {}) | more


def encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class Writer:
    """Some sessions, written in turns at random."""

    def __init__(
        self, root: Path, files: int, *, tombstones: float, damage: float, seed: int, pace: float
    ) -> None:
        self.rng = random.Random(seed)
        self.tombstones, self.damage, self.pace = tombstones, damage, pace
        self.number = 0
        self.removed = 0
        self.damaged = 0
        self.transcripts: list[Transcript] = []
        for i in range(files):
            folder = root / f"-nowhere-shop-{i % 2}"
            session = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
            if i % 3 == 2:  # every third is a subagent of the one before
                parent = self.transcripts[-1]
                folder, session = parent.path.with_suffix("") / "subagents", parent.session
                self._add(folder / f"agent-a{i:07x}.jsonl", session, f"a{i:07x}")
            else:
                self._add(folder / f"{session}.jsonl", session, None)

    def _add(self, path: Path, session: str, agent: str | None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.transcripts.append(Transcript(path, session, agent))

    def step(self) -> None:
        """Append to one of the files, or cut a message out of it."""
        to = self.rng.choice(self.transcripts)
        if self.rng.random() < self.tombstones and len(to.segments) > 8:
            self.cut_out(to)
        else:
            self.append(to, self.segment(to))
        time.sleep(self.rng.random() * self.pace)

    def segment(self, to: Transcript) -> Segment:
        chance = self.rng.random()
        if chance < self.damage:
            return self._damaged(to)
        made = self.record(to)
        return Segment(encode(made) + b"\n", [made["uuid"]])

    def record(self, to: Transcript) -> dict[str, Any]:
        self.number += 1
        role = "user" if self.number % 2 else "assistant"
        made = record(
            to.session,
            self.number,
            role,
            agent=to.agent,
            parent=to.last,
            words="é漢😀 " * self.rng.randint(1, 40),
        )
        to.last = made["uuid"]
        return made

    def _damaged(self, to: Transcript) -> Segment:
        self.damaged += 1
        one, two = self.record(to), self.record(to)
        match self.rng.randrange(4):
            case 0:  # two records on one line
                return Segment(encode(one) + encode(two) + b"\n", [one["uuid"], two["uuid"]])
            case 1:  # a cut record, and a whole one after it on the same line
                data = encode(one)
                return Segment(
                    data[: self.rng.randint(20, len(data) - 2)] + encode(two) + b"\n", [two["uuid"]]
                )
            case 2:  # a hole of zeros, as a crash of the file system leaves one
                return Segment(b"\0" * self.rng.randint(1, 300) + encode(one) + b"\n", [one["uuid"]])
            case _:  # nothing to be had
                return Segment(b'{"type":"user","uuid":"' + one["uuid"].encode() + b'","mess\n', [])

    def append(self, to: Transcript, segment: Segment) -> None:
        with to.path.open("ab", buffering=0) as f:
            self.torn(f, segment.data)
        to.segments.append(segment)

    def torn(self, f: Any, data: bytes) -> None:
        cut = self.rng.randint(0, len(data))
        f.write(data[:cut])
        time.sleep(self.rng.random() * 0.002)
        f.write(data[cut:])

    def cut_out(self, to: Transcript) -> None:
        """Remove one of the last messages in place: truncate, write the rest again, and go on past the old size. First
        wait a moment, at times, so that a reader stands behind the place."""
        time.sleep(self.rng.choice([0.0, 0.15, 0.4]))
        index = self.rng.randrange(len(to.segments) - 7, len(to.segments) - 1)
        at = sum(len(s.data) for s in to.segments[:index])
        rest = b"".join(s.data for s in to.segments[index + 1 :])
        with to.path.open("r+b", buffering=0) as f:
            f.truncate(at)
            time.sleep(self.rng.random() * 0.003)
            f.seek(at)
            self.torn(f, rest)
        del to.segments[index]
        self.removed += 1
        for _ in range(2):
            self.append(to, self.segment(to))

    def truth(self) -> dict[str, Any]:
        return {
            "written": self.number,
            "removed": self.removed,
            "damaged": self.damaged,
            "files": {str(t.path): [u for s in t.segments for u in s.uuids] for t in self.transcripts},
        }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--files", type=int, default=6)
    parser.add_argument("--tombstones", type=float, default=0.0)
    parser.add_argument("--damage", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--pace", type=float, default=0.01)
    given = parser.parse_args()
    writer = Writer(
        given.folder,
        given.files,
        tombstones=given.tombstones,
        damage=given.damage,
        seed=given.seed,
        pace=given.pace,
    )
    end = time.monotonic() + given.seconds
    while time.monotonic() < end:
        writer.step()
    sys.stdout.write(json.dumps(writer.truth()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
