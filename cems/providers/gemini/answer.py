"""Reads what a Gemini model answered, in the order that is safe: was the prompt blocked, why did it end, is
there text, and only then: is the text one JSON object."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, NoReturn

from cems.errors import (
    BadAnswer,
    BlockedAnswer,
    EmptyAnswer,
    ProviderError,
    ProviderMisconfigured,
    TruncatedAnswer,
)
from cems.providers import GenerateReply, GenerateRequest, Usage
from cems.providers.usage import estimate_tokens, with_usage

if TYPE_CHECKING:
    from google.genai import types

_CUT = frozenset({"MAX_TOKENS", "CONTINUATION"})
_BLOCKED = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "LANGUAGE",
        "ESCALATION",
        "MODEL_ARMOR",
    }
)
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.S | re.I)
_WORD = re.compile(r"[A-Z_]{1,40}")


def read_reply(
    response: types.GenerateContentResponse, request: GenerateRequest, model: str
) -> GenerateReply:
    """The reply a response holds.

    Raises:
        BlockedAnswer, TruncatedAnswer, EmptyAnswer, BadAnswer: there is none; `usage_of` tells what it cost.
        ProviderMisconfigured: the account may not use the model.
    """
    text = _text(response)
    usage = _usage(response, request, text)
    failure = _failure(response, text)
    if failure is not None:
        raise with_usage(failure, usage)
    try:
        data = parse_object(text)
    except BadAnswer as error:
        raise with_usage(error, usage) from None
    return GenerateReply(data=data, usage=usage, model=response.model_version or model)


def _failure(response: types.GenerateContentResponse, text: str) -> ProviderError | None:
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None and not response.candidates:
        return BlockedAnswer(f"Gemini blocked the prompt ({_word(feedback.block_reason)})")
    if not response.candidates:
        return EmptyAnswer("Gemini answered with no candidate")
    reason = _word(response.candidates[0].finish_reason)
    if reason == "STOP":
        return EmptyAnswer("Gemini ended with STOP and no text") if not text.strip() else None
    if reason in _CUT:
        return TruncatedAnswer(f"the answer was cut ({reason}), after {len(text)} characters")
    if reason in _BLOCKED or reason.startswith("IMAGE_"):
        return BlockedAnswer(f"Gemini blocked its answer ({reason})")
    if reason == "PUP_LIMITED_DISABLED":
        return ProviderMisconfigured(
            "Gemini has limited this account", hint="see the key's project for the reason"
        )
    return BadAnswer(f"the answer did not end by itself ({reason})")


def _text(response: types.GenerateContentResponse) -> str:
    """The first candidate's text, thoughts left out. (`response.text` warns on parts that are not text.)"""
    content = response.candidates[0].content if response.candidates else None
    parts = (content.parts if content else None) or []
    return "".join(part.text for part in parts if part.text and not part.thought)


def _word(value: object) -> str:
    """An enum value of the API as text that is safe to show; `unknown` when it is none."""
    word = str(getattr(value, "value", value))
    return word if _WORD.fullmatch(word) else "unknown"


def _usage(response: types.GenerateContentResponse, request: GenerateRequest, text: str) -> Usage:
    said = response.usage_metadata
    if said is None:
        sent = estimate_tokens(request.system) + estimate_tokens(request.prompt)
        return Usage(input_tokens=sent, output_tokens=estimate_tokens(text) if text else 0)
    return Usage(
        input_tokens=said.prompt_token_count or 0,
        output_tokens=said.candidates_token_count or 0,
        thought_tokens=said.thoughts_token_count or 0,
        cached_tokens=said.cached_content_token_count or 0,
    )


def parse_object(text: str) -> dict[str, Any]:
    """The one JSON object a text is.

    A single fenced block around exactly that is accepted: it is wrapping, not another answer. Words around it
    are not.

    Raises:
        BadAnswer: anything else, NaN and Infinity included, since no JSON column takes them.
    """
    fenced = _FENCED.fullmatch(text.strip())
    try:
        value = json.loads(fenced[1] if fenced else text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        where = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadAnswer(f"the answer is not JSON{where}, in {len(text)} characters") from None
    if not isinstance(value, dict):
        raise BadAnswer(f"the answer is a JSON {type(value).__name__}, not an object")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("the number is too large")
    return number
