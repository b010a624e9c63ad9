"""What a call costs, at list prices in US dollars per million tokens, as of 2026-11-30.

Source: https://ai.google.dev/gemini-api/docs/pricing (paid tier, text), as quoted by public price tables
(pydantic/genai-prices, models.dev). The flash models 3.6 to 3.8 are listed at their price from 2027-01-01;
until then they cost half. A model that is not listed has an unknown cost, which is None and never zero."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from cems.providers import Usage


@dataclasses.dataclass(frozen=True)
class Price:
    """US dollars per million tokens; thoughts are billed as output."""

    input: float
    output: float


LIST_PRICES: Mapping[str, Price] = {
    "gemini-2.5-flash": Price(0.30, 2.50),
    "gemini-2.5-flash-lite": Price(0.10, 0.40),
    "gemini-3.1-flash-lite": Price(0.25, 1.50),
    "gemini-3.5-flash": Price(1.50, 9.00),
    "gemini-3.5-flash-lite": Price(0.30, 2.50),
    "gemini-3.6-flash": Price(1.50, 7.50),
    "gemini-3.7-flash": Price(1.50, 7.50),
    "gemini-3.8-flash": Price(1.50, 7.50),
    "gemini-embedding-001": Price(0.15, 0.0),
    "gemini-embedding-2": Price(0.20, 0.0),
}

_VERSION = re.compile(r"(-(preview|latest|\d+))*")


def price_of(model: str, overrides: Mapping[str, Price] | None = None) -> Price | None:
    """The price of a model, dated or preview versions of a listed one included; None when it is not known.

    Args:
        model: with or without `models/`.
        overrides: prices of the user's own, looked at first.
    """
    name = model.removeprefix("models/")
    for prices in (overrides or {}, LIST_PRICES):
        for listed in sorted(prices, key=len, reverse=True):
            # Another word after the name (`-lite`, `-image`) is another model at another price.
            if name.startswith(listed) and _VERSION.fullmatch(name[len(listed) :]):
                return prices[listed]
    return None


def cost_usd(model: str, usage: Usage, overrides: Mapping[str, Price] | None = None) -> float | None:
    """What a call cost at most (cached tokens count in full), in US dollars; None when the price is not
    known."""
    price = price_of(model, overrides)
    if price is None:
        return None
    return (
        usage.input_tokens * price.input + (usage.output_tokens + usage.thought_tokens) * price.output
    ) / 1e6
