"""One way for generator and embedder to ask Gemini: with a deadline over everything, bounded retries that
honour what the server asks, and only the errors of `cems.errors` coming out. google-genai's own retries are
off: they know neither a total time nor RetryInfo."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from cems.clock import Clock, SystemClock
from cems.errors import BadAnswer, ProviderError, ProviderMisconfigured, ProviderUnavailable, QuotaExhausted
from cems.providers.deadline import DeadlinePassed, within
from cems.providers.gemini.failures import failure_of_network, failure_of_status

if TYPE_CHECKING:
    from google import genai

T = TypeVar("T")

LONGEST_PAUSE = 10.0
"""Seconds; a server that asks for more is left to the caller, who has other work."""


class Transport:
    """A client of Gemini's HTTP interface. Safe to share between threads."""

    def __init__(
        self,
        model: str,
        api_key: str,
        base_url: str | None,
        *,
        attempts: int,
        first_pause: float,
        max_bytes: int,
        clock: Clock | None,
    ) -> None:
        """Take the settings; nothing is loaded or sent yet.

        Args:
            model: only for messages.
            api_key: of the Gemini Developer API.
            base_url: another address than Google's, or None.
            attempts: how often a call is sent at most, the first time included.
            first_pause: seconds before the second attempt when the server names none; doubles after.
            max_bytes: the largest body that is read.
            clock: for deadlines and dates; the system's when None.

        Raises:
            ProviderMisconfigured: the key cannot be one.
        """
        key = api_key.strip()
        if (
            not key
            or not key.isascii()
            or not key.isprintable()
            or " " in key
            or key.startswith("auth_tokens/")
        ):
            raise ProviderMisconfigured(
                "the Gemini API key is empty or not an API key",
                hint="make one at https://aistudio.google.com/apikey",
            )
        self.clock = clock or SystemClock()
        self._model, self._key, self._base_url = model, key, base_url or None
        self._attempts, self._first_pause, self._max_bytes = max(1, attempts), first_pause, max_bytes
        self._lock = threading.Lock()
        self._client: genai.Client | None = None

    def run(self, ask: Callable[[genai.Client, int], T], deadline: float) -> T:
        """What `ask` returns, asked again after passing failures while there is time.

        Args:
            ask: makes one SDK call, given the client and the call's timeout in milliseconds.
            deadline: when everything ends, retries and pauses included; by the clock's `monotonic`.

        Raises:
            ProviderError: what the last attempt failed of.
        """
        for attempt in range(1, self._attempts + 1):
            left = deadline - self.clock.monotonic()
            if left <= 0:
                raise ProviderUnavailable("Gemini did not answer in the time that was left")
            try:
                return self._once(ask, left)
            except QuotaExhausted:
                raise
            except ProviderUnavailable as error:
                pause = error.retry_after
                if pause is None:
                    pause = self._first_pause * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)
                left = deadline - self.clock.monotonic()
                if attempt == self._attempts or pause > LONGEST_PAUSE or pause >= left * 0.9:
                    raise
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _once(self, ask: Callable[[genai.Client, int], T], seconds: float) -> T:
        try:
            return within(seconds, lambda: self._translated(ask, seconds))
        except DeadlinePassed:
            raise ProviderUnavailable(f"Gemini did not answer within {seconds:.3g} s") from None

    def _translated(self, ask: Callable[[genai.Client, int], T], seconds: float) -> T:
        """Ask once; the SDK's, the network's and the parser's errors become ours.

        Ours are raised outside the handlers, so that no chained error carries a request's text into a log.
        """
        client = self._ready_client()
        import httpx2
        from google.genai import errors

        from cems.providers.gemini.bounded import AnswerTooLarge

        failure: ProviderError
        try:
            return ask(client, max(1, int(seconds * 1000)))
        except errors.APIError as error:
            headers = {str(k).lower(): str(v) for k, v in getattr(error.response, "headers", {}).items()}
            now = self.clock.now()
            failure = failure_of_status(error.code, error.details, headers, model=self._model, now=now)
        except AnswerTooLarge:
            failure = BadAnswer(f"the answer is larger than {self._max_bytes} bytes")
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            failure = failure_of_network(error, seconds)
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            # What the SDK raises on a body that is not JSON, or JSON of another shape.
            failure = BadAnswer(f"the answer is not in Gemini's format ({type(error).__name__})")
        raise failure

    def _ready_client(self) -> genai.Client:
        """The client, made by the first call."""
        with self._lock:
            if self._client is None:
                self._client = self._new_client()
            return self._client

    def _new_client(self) -> genai.Client:
        try:
            from google import genai
            from google.genai import types

            from cems.providers.gemini.bounded import BoundedClient

            options = types.HttpOptions(
                base_url=self._base_url,
                retry_options=types.HttpRetryOptions(attempts=1),
                httpx_client=BoundedClient(self._max_bytes),
            )
            # enterprise=False: environment variables of other tools must not switch the backend.
            return genai.Client(api_key=self._key, enterprise=False, http_options=options)
        except (ImportError, OSError) as error:
            raise ProviderMisconfigured(
                f"google-genai cannot be used here ({type(error).__name__})",
                hint="check the installation, SSL_CERT_FILE and GOOGLE_GENAI_HTTP_CLIENT",
            ) from error
