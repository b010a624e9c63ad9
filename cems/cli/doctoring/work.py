"""The work: whether sessions become memories, vectors fit their texts, and the model is used or waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cems.cli import status_read
from cems.cli.doctoring.finding import Finding, Patient, bad, ok, warning
from cems.cli.output import duration, many, until
from cems.errors import CemsError
from cems.settings import Settings
from db import access, embeddings, health
from maintenance import wrong_vectors

OLD_BATCH = 86400.0
"""Seconds a batch may wait before it is worth a word."""


def check_work(patient: Patient) -> Iterator[Finding]:
    """What `cems status` calls a problem, and what waits."""
    found = status_read.read(patient.settings, patient.now)
    for problem in found["problems"]:
        yield bad("work", problem["problem"], problem["hint"])
    if not found["problems"]:
        yield ok("work", "the observer runs and is up to date")
    if (aside := found["set_aside"]) and (count := aside["batches"] + aside["lines"]):
        yield warning(
            "set aside",
            f"{many(count, 'piece')} could not be handled",
            "`cems set-aside list` shows why, `retry` tries again",
        )
    queue = found["queue"]
    if queue and queue["pending"] and queue["oldest"]:
        waits = (patient.now - queue["oldest"]).total_seconds()
        if waits > OLD_BATCH:
            yield warning("queue", f"a batch has waited for {duration(waits)}", "`cems status` says for what")
    if found["llm"]:
        yield from _model(patient, found["llm"])


def _model(patient: Patient, llm: dict[str, Any]) -> Iterator[Finding]:
    if not patient.settings.gemini_api_key:
        yield ok(
            "model",
            "none: memories are written by rules. With CEMS_GEMINI_API_KEY (services: in service.env) by a model",
        )
        return
    paused = [row for row in llm["today"] if row["waits_until"]]
    for row in paused:
        yield warning(
            "model",
            f"{row['purpose']} waits until {until(row['waits_until'], patient.now)}: {row['why']}",
            "a wrong key: set CEMS_GEMINI_API_KEY anew; a cap: raise CEMS_LLM_DAILY_CALLS or wait",
        )
    if not paused:
        yield ok("model", llm["written_by"])


def check_embedder(patient: Patient) -> Iterator[Finding]:
    """It loads, its vectors are unit vectors that put like beside like, and they are the ones that are stored."""
    settings, part = patient.settings, "embedder"
    if settings.embedder != "local":
        yield ok(
            part, "none: search by words only" if settings.embedder == "none" else settings.embedding_model
        )
        return
    from cems.providers.local import LocalEmbedder
    from cems.providers.model_file import MODEL_NAME

    try:
        embedder = LocalEmbedder(settings.model_dir.absolute() / MODEL_NAME, threads=1)
        sound = wrong_vectors.sound(embedder)
    except CemsError as error:
        yield bad(part, str(error), error.hint or "`cems observe --once` fetches it (34 MB)")
        return
    if not sound:
        yield bad(
            part,
            "its vectors do not put like beside like",
            "reinstall onnxruntime: it computes wrongly on this machine",
        )
        return
    yield from _stored(settings, embedder)


def _stored(settings: Settings, embedder: Any) -> Iterator[Finding]:
    part = "embedder"
    with access.database(settings, "cems_writer", start=False) as db:
        row = health.sample_vector(db, embedder.model_id)
        missing = embeddings.count_missing(db, embedder.model_id)
    if row is not None:
        (now,) = embedder.embed_documents([embeddings.embedded_text(row)])
        if (alike := wrong_vectors.dot(now, row["vector"].to_list())) < wrong_vectors.SAME:
            yield bad(
                part,
                f"the newest stored vector is not the one its words have (cosine {alike:.2f})",
                "`cems maintenance --job reindexing` makes them anew",
            )
            return
    waiting = f"; {many(missing, 'memory waits', 'memories wait')} for a vector" if missing else ""
    yield ok(part, f"{embedder.model_id}{waiting}")
