"""What every bench shares: its options, where the shared material lies, medians, and the one line of JSON at the end."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Result:
    """One figure and what it is compared with, measured in the same run."""

    name: str
    value: float
    unit: str
    reference: float
    reference_is: str
    more: dict[str, object] = dataclasses.field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Value over reference."""
        return self.value / self.reference


def options(description: str) -> argparse.Namespace:
    """`--quick` and `--json`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a smaller load; ends within 50 seconds")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    return parser.parse_args()


def shared() -> Path | None:
    """The folder of shared transcripts and data, or None where there is none."""
    folder = Path(os.environ.get("CEMS_SHARED") or ROOT.parent / "shared")
    return folder if folder.is_dir() else None


def medians(runs: Sequence[float]) -> float:
    """The median of several runs."""
    return statistics.median(runs)


def repeat(times: int, measure: Callable[[], float]) -> float:
    """The median of `times` measurements."""
    return medians([measure() for _ in range(times)])


def finish(result: Result, as_json: bool) -> None:
    """Print the result for people, and with `--json` as the last line for programs."""
    print(
        f"{result.name}: {result.value:,.3g} {result.unit}; {result.reference_is}: {result.reference:,.3g}; "
        f"ratio {result.ratio:.3f}"
    )
    for key, value in result.more.items():
        print(f"  {key}: {value}")
    if as_json:
        print(
            json.dumps(
                {
                    "name": result.name,
                    "value": result.value,
                    "unit": result.unit,
                    "reference": result.reference,
                    "reference_is": result.reference_is,
                    "ratio": result.ratio,
                    **result.more,
                },
                default=str,
            )
        )


def skip(reason: str) -> None:
    """End without a measurement, saying why."""
    print(f"skipped: {reason}", file=sys.stderr)
    sys.exit(0)
