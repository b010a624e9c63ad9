"""Random histories of transcripts: whatever a writer, a file system and an observer that dies at any step can do to a file,
and the model that says what must have landed in the end."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cems.failpoint import armed
from cems.redact import Redactor
from db.connect import Access, Database
from observer import tail
from observer.capture import Capture
from tests.conftest import FakeClock
from tests.fault.writer import encode, record

NAMES = st.integers(0, 2)
SIZES = st.sampled_from([0, 1, 3, 40, 300])
"""How wordy a line is: from a few hundred bytes to more than a chunk."""
CRASHES = st.sampled_from(["after_read", "before_land_commit", "after_land_commit"])
Line = tuple[bytes, str]


class Died(BaseException):
    """Where an armed point ends the observer; nothing in it may catch this."""


class Histories(RuleBasedStateMachine):
    """One history. `open_database` gives each its own owner, so that all share one database."""

    open_database: ClassVar[Callable[[], Access]]

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cems-history-"))
        self.clock = FakeClock()
        self.machine = uuid.uuid4()
        self.db = Database(type(self).open_database())
        self.numbers = 0
        self.files: dict[Path, list[Line]] = {}
        self.pending: dict[Path, Line] = {}
        """The rest of a line whose first part is written already."""
        self.chunk, tail.CHUNK = tail.CHUNK, 2048
        self.restart()

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            for path in list(self.files):
                self._finish(path)
            self.restart()
            self.capture.run_pass()
            assert self.lost() == [], "lost when all was read"
            assert self.capture.run_pass() == 0, "something landed from files that did not change"
            with self.db.transaction() as conn:
                counts = conn.execute(
                    "select (select count(*) from line) as lines, (select sum(landed) from transcript) as landed"
                ).fetchone()
            assert counts and counts["lines"] == (counts["landed"] or 0), counts
        finally:
            tail.CHUNK = self.chunk
            armed.clear()
            self.db.close()
            shutil.rmtree(self.folder)

    def lost(self) -> list[str]:
        """Records of the files as they are that did not land."""
        with self.db.transaction() as conn:
            landed = {str(row["uuid"]) for row in conn.execute("select uuid from line")}
        return [
            f"{path.name}: {name}"
            for path, lines in self.files.items()
            for _, name in lines
            if name not in landed
        ]

    # ---- what a writer does

    @rule(name=NAMES, sizes=st.lists(SIZES, min_size=1, max_size=6))
    def append(self, name: int, sizes: list[int]) -> None:
        path = self._path(name)
        self._finish(path)
        self._add(path, [self._line(size) for size in sizes])

    @rule(name=NAMES, size=SIZES, share=st.floats(0, 1))
    def append_a_part(self, name: int, size: int, share: float) -> None:
        path = self._path(name)
        self._finish(path)
        data, uid = self._line(size)
        cut = int(share * (len(data) - 1))
        with path.open("ab") as f:
            f.write(data[:cut])
        self.pending[path] = (data[cut:], uid)
        self.files.setdefault(path, [])

    @rule(name=NAMES, keep=st.floats(0, 1), sizes=st.lists(SIZES, max_size=6))
    def truncate_and_refill(self, name: int, keep: float, sizes: list[int]) -> None:
        path = self._path(name)
        lines = self.files.get(path, [])
        kept = lines[: int(keep * len(lines))]
        self.pending.pop(path, None)
        self._rewrite(path, kept + [self._line(size) for size in sizes])

    @rule(name=NAMES, which=st.floats(0, 0.99), more=st.lists(SIZES, max_size=3))
    def cut_a_message_out(self, name: int, which: float, more: list[int]) -> None:
        self._finish(self._path(name))
        self._cut_out(self._path(name), which, more)

    @rule(
        name=NAMES, keep=st.floats(0, 1), sizes=st.lists(SIZES, min_size=1, max_size=6), delete=st.booleans()
    )
    def replace(self, name: int, keep: float, sizes: list[int], delete: bool) -> None:
        path = self._path(name)
        lines = self.files.get(path, [])
        content = lines[: int(keep * len(lines))] + [self._line(size) for size in sizes]
        self.pending.pop(path, None)
        self.files[path] = content
        if delete:  # often gets the same inode
            path.unlink(missing_ok=True)
            path.write_bytes(b"".join(data for data, _ in content))
        else:
            new = path.with_suffix(".tmp")
            new.write_bytes(b"".join(data for data, _ in content))
            new.replace(path)

    @rule(name=NAMES, to=NAMES)
    def move(self, name: int, to: int) -> None:
        """To another project's folder, as happens when a session changes its folder."""
        path = self._path(name)
        if path in self.files:
            self._finish(path)
            target = self._path(to, moved=True)
            target.parent.mkdir(exist_ok=True)
            path.replace(target)
            self.files[target] = self.files.pop(path)
            self.pending.pop(target, None)

    @rule(name=NAMES, to=NAMES, share=st.floats(0, 1))
    def fork(self, name: int, to: int, share: float) -> None:
        """Another session begins with a copy of this one's history."""
        path, target = self._path(name), self._path(to)
        lines = self.files.get(path, [])
        if target != path and lines:
            self._finish(target)
            self._add(
                target,
                [line for line in lines[: int(share * len(lines))] if line not in self.files.get(target, [])],
            )

    # ---- what an observer does

    @rule(once=st.booleans())
    def look(self, once: bool) -> None:
        self.capture.run_pass(once=once)
        whole = [p for p in self.files if p not in self.pending]
        assert [found for found in self.lost() if any(found.startswith(p.name) for p in whole)] == []

    @rule()
    def restart(self) -> None:
        self.capture = Capture(
            self.db, self.machine, [self.folder / "projects"], Redactor(b"k" * 32), self.clock
        )

    @rule(point=CRASHES, after=st.integers(0, 3))
    def die_while_looking(self, point: str, after: int) -> None:
        left = [after]

        def action() -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Died

        armed[point] = action
        try:
            self.capture.run_pass()
        except Died:
            note(f"died at {point}")
        finally:
            armed.clear()
        self.restart()

    @rule(name=NAMES, which=st.floats(0, 0.99), more=st.lists(SIZES, max_size=3), point=CRASHES)
    def cut_a_message_out_while_it_is_read(
        self, name: int, which: float, more: list[int], point: str
    ) -> None:
        path = self._path(name)
        self._finish(path)

        def action() -> None:
            armed.clear()
            self._cut_out(path, which, more)

        armed[point] = action
        try:
            self.capture.run_pass()
        finally:
            armed.clear()

    @invariant()
    def files_are_as_the_model_says(self) -> None:
        for path, lines in getattr(self, "files", {}).items():
            size = path.stat().st_size if path.exists() else 0
            assert size >= sum(len(data) for data, _ in lines)

    # ---- steps

    def _path(self, name: int, *, moved: bool = False) -> Path:
        found = (
            self.folder
            / "projects"
            / ("-b" if moved else "-a")
            / f"00000000-0000-4000-8000-00000000000{name}.jsonl"
        )
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def _line(self, size: int) -> Line:
        self.numbers += 1
        made = record("00000000-0000-4000-8000-000000000000", self.numbers, "user", words="é漢 x" * size)
        return encode(made) + b"\n", str(made["uuid"])

    def _add(self, path: Path, lines: list[Line]) -> None:
        with path.open("ab") as f:
            f.write(b"".join(data for data, _ in lines))
        self.files.setdefault(path, []).extend(lines)

    def _finish(self, path: Path) -> None:
        """Write the rest of a line that was begun."""
        if rest := self.pending.pop(path, None):
            with path.open("ab") as f:
                f.write(rest[0])
            self.files[path].append((self.first_part_of(path, rest), rest[1]))

    def first_part_of(self, path: Path, rest: Line) -> bytes:
        """The whole line, read back from the file's end."""
        data = path.read_bytes()
        return data[data.rstrip(b"\n").rfind(b"\n") + 1 :]

    def _cut_out(self, path: Path, which: float, more: list[int]) -> None:
        """Truncate in place before one line, write what came after it again, and go on."""
        lines = self.files.get(path, [])
        if not lines:
            return
        index = int(which * len(lines))
        at = sum(len(data) for data, _ in lines[:index])
        rest = lines[index + 1 :] + [self._line(size) for size in more]
        with path.open("r+b") as f:
            f.truncate(at)
            f.seek(at)
            f.write(b"".join(data for data, _ in rest))
        self.files[path] = lines[:index] + rest

    def _rewrite(self, path: Path, lines: list[Line]) -> None:
        self.files[path] = lines
        with path.open("r+b" if path.exists() else "wb") as f:
            f.truncate(0)
            f.write(b"".join(data for data, _ in lines))
            os.fsync(f.fileno())
