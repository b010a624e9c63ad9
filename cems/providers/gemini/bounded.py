"""The HTTP client under google-genai, with the bounds that one lacks: a body ends at a number of bytes and at
a point in time however it trickles, and its bytes are always decodable. Imports httpx2, so import it only
inside functions."""

from __future__ import annotations

import time
from typing import Any

import httpx2

CONNECT_SECONDS = 10.0
"""A dead address is given up sooner than a slow answer."""


class AnswerTooLarge(Exception):
    """The body is larger than any answer that was asked for."""


class BoundedClient(httpx2.Client):
    """An httpx2 client which reads every body whole, within limits.

    Redirects are not followed: the key travels in a header of its own, which httpx2 would carry to any host.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__(timeout=None, follow_redirects=False)
        self._max_bytes = max_bytes

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and read its answer; the request's read timeout is the time for all of it.

        Raises:
            AnswerTooLarge: the body has more than `max_bytes`.
            httpx2.RequestError: as `httpx2.Client.send`; `ReadTimeout` also when a trickling body passes its
            time.
        """
        limits = request.extensions["timeout"]
        seconds = float(limits["read"])
        limits["connect"] = min(seconds, CONNECT_SECONDS)
        deadline = time.monotonic() + seconds
        response = super().send(request, **{**options, "stream": True})
        try:
            body = self._read(response, deadline)
        finally:
            response.close()
        headers = {"content-type": "application/json"}
        if (wait := response.headers.get("retry-after")) is not None:
            headers["retry-after"] = wait
        # The SDK decodes strictly; a broken byte must not become an exception nobody expects.
        text = body.decode("utf-8", "replace")
        return httpx2.Response(response.status_code, headers=headers, text=text, request=request)

    def _read(self, response: httpx2.Response, deadline: float) -> bytes:
        chunks: list[bytes] = []
        size = 0
        for chunk in response.iter_bytes():
            size += len(chunk)
            if size > self._max_bytes:
                raise AnswerTooLarge
            if time.monotonic() > deadline:
                raise httpx2.ReadTimeout("the answer did not end in time", request=response.request)
            chunks.append(chunk)
        return b"".join(chunks)
