"""Structured text from a Gemini model. Everything ends within the request's timeout; what comes back is one
complete JSON object, or an error that says whether waiting, a larger budget or the user can help."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from cems.clock import Clock
from cems.errors import EmptyAnswer, ProviderMisconfigured
from cems.providers import GenerateReply, GenerateRequest
from cems.providers.gemini import thinking
from cems.providers.gemini.answer import read_reply
from cems.providers.gemini.failures import ThinkingRefused
from cems.providers.gemini.transport import Transport
from cems.providers.usage import estimate_tokens, plus, usage_of, with_usage

if TYPE_CHECKING:
    from google.genai import types

DEFAULT_GENERATOR_MODEL = "gemini-3.5-flash-lite"


class GeminiGenerator:
    """A `TextGenerator`. Safe to share between threads."""

    def __init__(
        self,
        model: str,
        api_key: str,
        base_url: str | None = None,
        attempts: int = 4,
        *,
        first_pause: float = 1.0,
        max_answer_bytes: int = 4 * 2**20,
        clock: Clock | None = None,
    ) -> None:
        """Take the settings; nothing is loaded or sent yet.

        Args:
            model: e.g. `gemini-3.5-flash-lite`, with or without `models/`.
            api_key: of the Gemini Developer API.
            base_url: another address than Google's (a gateway, a test server), or None.
            attempts: how often a call is sent at most, the first time included.
            first_pause: seconds before the second attempt when the server names none; doubles after.
            max_answer_bytes: a larger HTTP body is a BadAnswer.
            clock: for deadlines and dates; the system's when None.

        Raises:
            ProviderMisconfigured: the key cannot be one.
        """
        self._model = model.strip().removeprefix("models/")
        self._rungs = list(thinking.ladder(self._model))
        self._transport = Transport(
            self._model,
            api_key,
            base_url,
            attempts=attempts,
            first_pause=first_pause,
            max_bytes=max_answer_bytes,
            clock=clock,
        )

    @property
    def model(self) -> str:
        """The model's name, without `models/`."""
        return self._model

    def count_tokens(self, text: str) -> int:
        """An estimate: four bytes a token."""
        return estimate_tokens(text)

    def generate(self, request: GenerateRequest) -> GenerateReply:
        """Answer the request; raises as `TextGenerator.generate`.

        An empty answer is asked once more; its tokens are counted into the reply's, or the error's
        (`usage_of`).
        """
        deadline = self._transport.clock.monotonic() + request.timeout
        try:
            return self._answer(request, deadline)
        except EmptyAnswer as error:
            spent = usage_of(error)
        try:
            reply = self._answer(request, deadline)
        except EmptyAnswer as error:
            raise with_usage(error, plus(usage_of(error), spent)) from None
        return dataclasses.replace(reply, usage=plus(reply.usage, spent))

    def _answer(self, request: GenerateRequest, deadline: float) -> GenerateReply:
        while True:
            rung = self._rungs[0]
            try:
                response = self._ask(request, rung, deadline)
            except ThinkingRefused:
                if not self._step_down(rung):
                    raise
                continue
            return read_reply(response, request, self._model)

    def _step_down(self, refused: thinking.Rung) -> bool:
        """Leave a refused setting behind, unless another thread did; False when there is nothing below it."""
        if refused is None:
            return False
        if self._rungs[0] == refused:
            self._rungs = self._rungs[1:]
        return True

    def _ask(
        self, request: GenerateRequest, rung: thinking.Rung, deadline: float
    ) -> types.GenerateContentResponse:
        try:
            from google.genai import types
        except ImportError as error:
            raise ProviderMisconfigured(f"google-genai cannot be loaded: {error}") from error

        # No temperature or top_p: current models refuse them. No continuation: it has no bound of its own.
        config = types.GenerateContentConfig(
            system_instruction=_sendable(request.system) or None,
            response_mime_type="application/json",
            response_json_schema=dict(request.schema),
            max_output_tokens=request.max_output_tokens,
            thinking_config=thinking.config(rung),
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
        )
        prompt = _sendable(request.prompt)
        return self._transport.run(
            lambda client, milliseconds: client.models.generate_content(
                model=self._model,
                contents=prompt,
                config=config.model_copy(update={"http_options": types.HttpOptions(timeout=milliseconds)}),
            ),
            deadline,
        )


def _sendable(text: str) -> str:
    """The text without lone surrogates, for which the API would refuse the whole request."""
    return text.encode("utf-8", "replace").decode("utf-8")
