"""Counting what calls use: an estimate made without a network, sums, and the tokens of calls that failed,
since an answer that was cut off is paid for like any other."""

from __future__ import annotations

from typing import TypeVar

from cems.errors import ProviderError
from cems.providers import Usage

ErrorT = TypeVar("ErrorT", bound=ProviderError)

BYTES_PER_TOKEN = 4
"""English prose and code come to about four bytes a token; bytes, so that other scripts are not
underestimated."""


def estimate_tokens(text: str) -> int:
    """About how many tokens a text is; at least one."""
    return max(1, -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN))


def cut_to_tokens(text: str, tokens: int) -> str:
    """The beginning of a text that is estimated at no more than `tokens`; whole characters."""
    return text.encode("utf-8", "replace")[: tokens * BYTES_PER_TOKEN].decode("utf-8", "ignore")


def plus(one: Usage, other: Usage) -> Usage:
    """The sum of two usages."""
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.thought_tokens + other.thought_tokens,
        one.cached_tokens + other.cached_tokens,
    )


def with_usage(error: ErrorT, usage: Usage) -> ErrorT:
    """The error, remembering what the failed call used."""
    error.__dict__["usage"] = usage
    return error


def usage_of(error: ProviderError) -> Usage:
    """What a failed call used, as far as the provider said; zero for calls that got no answer."""
    usage = error.__dict__.get("usage")
    return usage if isinstance(usage, Usage) else Usage()
