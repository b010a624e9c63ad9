"""The progress of a run of the observer: bytes read, batches observed, vectors made. Batches and vectors are counted in the
database from beside the work, so the work itself knows nothing of it."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from cems.cli import output
from cems.cli.report import Work
from db import embeddings, status
from db.connect import OUTAGES, Database

INTERVAL = 0.4


def bar() -> Progress:
    """An empty progress display on standard error."""
    return Progress(
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TextColumn("{task.fields[detail]}", style="dim"),
        TimeRemainingColumn(compact=True),
        console=output.console(stderr=True),
        transient=True,
    )


@contextlib.contextmanager
def fetching(wanted: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Show the download of the embedder's model file, if there is one."""
    if not wanted:
        yield lambda _done, _total: None
        return
    display = bar()
    task = display.add_task("fetching", detail="the embedder's model", total=None, visible=False)

    def told(done: int, total: int | None) -> None:
        display.start()
        display.update(task, completed=done, total=total, visible=True)

    try:
        yield told
    finally:
        display.stop()


@contextlib.contextmanager
def watching(
    db: Database, work: Work, model_id: str | None, total_bytes: int, wanted: bool
) -> Iterator[Callable[[int], None]]:
    """Show a run's progress; gives what to call with the bytes that were read."""
    if not wanted:
        yield lambda _bytes: None
        return
    display, ended = bar(), threading.Event()
    reading = display.add_task("reading", detail=output.size(total_bytes), total=total_bytes)
    observing = display.add_task("observing", detail="", total=None, visible=False)
    embedding = display.add_task("embedding", detail="", total=None, visible=False)

    def look() -> None:
        """Batches and vectors begin when reading has ended."""
        while not ended.wait(INTERVAL):
            with contextlib.suppress(*OUTAGES):
                done, left = (
                    work.observing.report.batches,
                    status.queue(db, dt.datetime.now(dt.UTC))["pending"],
                )
                if done + left:
                    display.update(reading, completed=total_bytes)
                    new = sum(work.observing.report.observations.values())
                    display.update(
                        observing,
                        completed=done,
                        total=done + left,
                        visible=True,
                        detail=output.many(new, "memory", "memories"),
                    )
                if work.embedding and model_id and not left and (work.embedding.embedded or done):
                    missing = embeddings.count_missing(db, model_id)
                    made = work.embedding.embedded
                    display.update(
                        embedding,
                        completed=made,
                        total=made + missing,
                        visible=bool(made + missing),
                        detail=output.many(made, "vector"),
                    )

    thread = threading.Thread(target=look, name="progress", daemon=True)
    with display:
        thread.start()
        try:
            yield lambda count: display.advance(reading, count)
        finally:
            ended.set()
            thread.join(timeout=2)
