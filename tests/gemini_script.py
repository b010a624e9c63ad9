"""What a stand-in for Gemini can be told to do, as mappings that are JSON, and what it was asked.
`tests.fake_gemini` is the server that does it, and the place to import from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    model: str
    version: str
    body: dict[str, Any]
    headers: dict[str, str]
    """Names in lower case."""

    @property
    def prompt(self) -> str:
        """The text of all contents of a generateContent request."""
        return "\n".join(p.get("text", "") for c in self.body.get("contents", []) for p in c.get("parts", []))

    @property
    def texts(self) -> list[str]:
        """The texts of an embedding request; parts of one content come as one text, as the API takes them."""
        requests = self.body.get("requests", [self.body])
        return ["".join(p.get("text", "") for p in r.get("content", {}).get("parts", [])) for r in requests]

    @property
    def dimensions(self) -> int:
        """The dimensions an embedding request asks for."""
        request = self.body.get("requests", [self.body])[0]
        config = request.get("embedContentConfig", {})
        return int(request.get("outputDimensionality") or config.get("outputDimensionality") or 3072)


Behaviour = Mapping[str, Any] | Callable[[Asked], "Behaviour"]


# ---- Behaviours


def ok(data: object, **usage: int) -> Behaviour:
    """A complete answer: `data` as JSON. Usage as `prompt`, `candidates`, `thoughts`, `cached`."""
    return {"kind": "text", "text": json.dumps(data), "finish": "STOP", "usage": usage}


def text(content: str, finish: str = "STOP") -> Behaviour:
    """An answer of any text and finish reason, without usage."""
    return {"kind": "text", "text": content, "finish": finish, "usage": {}}


def truncated(content: str = '{"observations": [{"title": "half a', **usage: int) -> Behaviour:
    """Cut at MAX_TOKENS; with empty content, as when thinking used the budget."""
    return {"kind": "text", "text": content, "finish": "MAX_TOKENS", "usage": usage}


def empty() -> Behaviour:
    """STOP, and no text."""
    return text("")


def blocked(finish: str = "SAFETY") -> Behaviour:
    """An answer that was stopped: SAFETY, RECITATION, …"""
    return {"kind": "text", "text": None, "finish": finish, "usage": {}}


def prompt_blocked(reason: str = "PROHIBITED_CONTENT") -> Behaviour:
    """No candidates at all."""
    return raw(json.dumps({"promptFeedback": {"blockReason": reason}, "modelVersion": "fake"}))


def huge(megabytes: int = 10) -> Behaviour:
    """A complete answer that nobody asked for the length of."""
    return {"kind": "huge", "megabytes": megabytes}


def raw(body: str, status: int = 200, content_type: str = "application/json", **headers: str) -> Behaviour:
    """Any body; underscores in header names become hyphens."""
    return {"kind": "raw", "body": body, "status": status, "content_type": content_type, "headers": headers}


def error(
    status: int, name: str, message: str = "", details: list[dict[str, Any]] | None = None, **headers: str
) -> Behaviour:
    """A google.rpc.Status."""
    body = {"error": {"code": status, "status": name, "message": message, "details": details or []}}
    return raw(json.dumps(body), status, **headers)


def rate_limited(
    seconds: float | None = None, quota: str = "GenerateRequestsPerMinutePerProjectPerModel"
) -> Behaviour:
    """429 of a minute's quota, with RetryInfo if `seconds` is given."""
    details: list[dict[str, Any]] = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}
    ]
    if seconds is not None:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds:g}s"})
    return error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", details)


def quota_of_day(seconds: float | None = 47) -> Behaviour:
    """429 of a day's quota; RetryInfo misleads, as the real one does."""
    return rate_limited(seconds, "GenerateRequestsPerDayPerProjectPerModel-FreeTier")


def html(status: int = 503) -> Behaviour:
    """A load balancer's page."""
    return raw("<html><body><h1>Service Unavailable</h1></body></html>", status, "text/html")


def hang() -> Behaviour:
    """Accepts, and never answers."""
    return {"kind": "hang"}


def trickle(seconds: float = 0.05, headers: bool = False) -> Behaviour:
    """A byte now and then, of the body or already of the headers, without end."""
    return {"kind": "trickle", "seconds": seconds, "headers": headers}


def reset() -> Behaviour:
    """The connection is reset."""
    return {"kind": "reset"}


def vectors(count: int | None = None, dimensions: int | None = None, value: float | None = None) -> Behaviour:
    """Vectors made of the texts' hashes. Wrong number, wrong dimension, or all of one value (0, NaN) if
    asked."""
    return {"kind": "vectors", "count": count, "dimensions": dimensions, "value": value}
