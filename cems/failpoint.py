"""Named points at which a test may end the process. In the product nothing is armed and a point costs one dictionary
look-up; only the test-suite's own launcher arms one, so no setting of the product can."""

from __future__ import annotations

from collections.abc import Callable

armed: dict[str, Callable[[], None]] = {}


def failpoint(name: str) -> None:
    """Do what is armed under this name; normally nothing."""
    if armed and (action := armed.get(name)):
        action()
