"""`cems search`: memories by words and by meaning, as a role that can only read. Meaning is used where the embedder is on
this machine already; a search never downloads anything."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cems import settings as configuration
from cems.cli import output, scope
from cems.errors import CemsError, EmbedderUnavailable
from cems.ids import short
from cems.models import Usage
from cems.settings import Settings

if TYPE_CHECKING:
    from db.connect import Database


@click.command()
@click.argument("query")
@scope.narrowing
@click.option(
    "--limit", "-n", type=click.IntRange(1, 200), default=10, show_default=True, help="How many at most."
)
@click.option("--keywords", is_flag=True, help="By words only.")
@click.option("--full", is_flag=True, help="Whole bodies.")
@output.json_option
def search(
    query: str,
    project: str | None,
    everywhere_only: bool,
    kind: str | None,
    concept: str | None,
    file: str | None,
    since: dt.datetime | None,
    limit: int,
    keywords: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Find memories by words and by meaning; the best come first.

    \b
    Examples:
      cems search "why did uploads retry"
      cems search "release checklist" --project . --since 30d
      cems search timeout --kind deadend --file upload.py
    """
    scope.only_one(project=project, everywhere_only=everywhere_only)
    settings = configuration.load()
    from cems.cli.reach import database
    from db.search import Question
    from db.search import search as find

    with database(settings, "cems_reader") as db:
        projects = [] if everywhere_only else scope.find_projects(db, settings, project) if project else None
        vector, model_id = (None, None) if keywords or not query.strip() else _vector(settings, db, query)
        question = Question(
            text=query,
            vector=vector,
            model_id=model_id,
            projects=projects,
            kind=kind,
            concept=concept,
            file=file,
            since=since,
            limit=limit,
        )
        hits = find(db, question, dt.datetime.now(dt.UTC))
    if as_json:
        legs = ("score", "words_rank", "words_score", "meaning_rank", "meaning_score")
        found = [
            hit.memory.to_json()
            | {"short_id": short(hit.memory.id)}
            | {leg: getattr(hit, leg) for leg in legs}
            for hit in hits
        ]
        output.document(
            {
                "query": query,
                "by": ["words", "meaning"] if vector else ["words"],
                "count": len(hits),
                "results": found,
            }
        )
    elif not hits:
        click.echo("Nothing found.")
    else:
        from cems.cli.memory_text import results

        results(output.console(), [hit.memory for hit in hits], full=full)


def _vector(settings: Settings, db: Database, query: str) -> tuple[Sequence[float] | None, str | None]:
    """The question's vector and its model; (None, None), with a line on standard error, where there is no embedder."""
    if settings.embedder == "none":
        return None, None
    try:
        asked = _serving(settings, db)
        if asked.embedder == "gemini":
            return _from_network(asked, query)
        from cems.providers.local import LocalEmbedder

        local = LocalEmbedder(_local_model(settings), threads=1)
        return local.embed_query(query), local.model_id
    except CemsError as error:
        output.note(f"by words only: {error}")
        return None, None


def _serving(settings: Settings, db: Database) -> Settings:
    """The settings with the embedder whose vectors answer: after a change of model the one before, until all are made anew.
    What the settings keep on this machine does not leave it because of that."""
    from cems.providers.local import DIMENSIONS
    from cems.providers.model_file import MODEL_NAME
    from db.serving import serving_model

    local = f"{MODEL_NAME}@{DIMENSIONS}"
    network = f"{settings.embedding_model}@{settings.embedding_dimensions}"
    wanted = local if settings.embedder == "local" else network
    found = serving_model(db, wanted)
    if found is None or found == wanted:
        return settings
    if found == local:
        with contextlib.suppress(EmbedderUnavailable):
            _local_model(settings)
            return dataclasses.replace(settings, embedder="local")
    name, _, numbers = found.partition("@")
    if settings.embedder == "gemini" and name.startswith("gemini-") and numbers.isdigit():
        return dataclasses.replace(settings, embedding_model=name, embedding_dimensions=int(numbers))
    output.note(f"vectors of {wanted} are still being made: what has none yet is found by words")
    return settings


def _local_model(settings: Settings) -> Path:
    """The folder of the local model's files.

    Raises:
        EmbedderUnavailable: it is not there yet; a search never fetches it.
    """
    from cems.providers.model_file import MODEL_NAME

    folder = settings.model_dir / MODEL_NAME
    if not folder.is_dir():
        raise EmbedderUnavailable(
            "the local embedder's model file is not here yet; `cems observe` fetches it"
        )
    return folder


def _from_network(settings: Settings, query: str) -> tuple[Sequence[float], str]:
    """A vector by a provider behind a network: within the day's caps, and written into the ledger."""
    from cems.cli.reach import database
    from cems.errors import ProviderError
    from cems.providers import choose, prices
    from cems.providers.usage import estimate_tokens, usage_of
    from db import ledger

    embedder = choose.embedder(settings)
    assert embedder is not None
    purpose, model = "embedding", embedder.model_id
    with database(settings, "cems_writer") as db:
        started, clock = dt.datetime.now(dt.UTC), time.monotonic()
        ledger.check(db, purpose, ledger.Caps(settings.llm_daily_calls, settings.llm_daily_tokens), started)
        usage, failure = Usage(input_tokens=estimate_tokens(query)), None
        try:
            return embedder.embed_query(query), model
        except ProviderError as error:
            usage, failure = usage_of(error), error
            raise
        finally:
            cost = prices.cost_usd(model.split("@")[0], usage)
            with contextlib.suppress(CemsError):
                ledger.record(
                    db,
                    purpose=purpose,
                    model=model,
                    started_at=started,
                    seconds=time.monotonic() - clock,
                    usage=usage,
                    cost_usd=cost,
                    error=failure,
                )
