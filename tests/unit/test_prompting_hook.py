"""The hook's file: alone, light, and in step with the service that it cannot import."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cems import settings
from recall import hook, request, service
from tests.hooking import EVENTS, HOOK


def test_it_loads_nothing_but_what_is_built_in() -> None:
    tree = ast.parse(HOOK.read_text())
    names = {a.name for node in tree.body if isinstance(node, ast.Import) for a in node.names}
    assert names == {"_signal", "_socket", "posix", "sys", "time"}
    assert not [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    code = (
        f"import sys; before = set(sys.modules); sys.path.insert(0, {str(HOOK.parent)!r}); import hook; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert set(ast.literal_eval(done.stdout)) <= {"_signal", "_socket", "hook"}


def test_it_speaks_what_the_service_speaks_and_waits_longer_than_it_takes() -> None:
    assert request.PROTOCOL == hook.PROTOCOL
    assert tuple(e.decode() for e in hook.EVENTS) == request.EVENTS == EVENTS
    assert service.ANSWER_SECONDS < hook.SERVICE_SECONDS < hook.DEADLINE < 0.8
    assert hook.INPUT_LIMIT < request.INPUT_LIMIT


def test_what_it_sends_is_what_the_service_reads() -> None:
    body = '{"prompt":"ü"}'.encode()
    environment = {
        b"CEMS_CONTEXT_TOKENS": b"5",
        b"HOME": b"/secret",
        b"CLAUDE_PROJECT_DIR": b"/p=q",
        b"CEMS_GEMINI_API_KEY": b"key",
    }
    data = hook.request(b"SessionStart", environment, body)
    for size in (1, 7, 1 << 20):
        rest = [data[i : i + size] for i in range(0, len(data), size)]
        found = request.read_request(lambda _, rest=rest: rest.pop(0) if rest else b"")  # type: ignore[misc]
        assert found == request.Request(
            "SessionStart", {"CEMS_CONTEXT_TOKENS": "5", "CLAUDE_PROJECT_DIR": "/p=q"}, body
        )


def test_what_the_service_replies_is_what_it_reads() -> None:
    document = request.document("SessionStart", "héllo\n</x>")
    reply = request.write_reply(document, "degraded")
    assert hook.document_in(reply) == document
    assert all(hook.document_in(reply[:n]) is None for n in range(len(reply)))
    assert request.document("SessionStart", "") == hook.empty(b"SessionStart")
    assert request.document("Stop", "text") == hook.empty(b"Stop") == b"{}"


@pytest.mark.parametrize(
    ("body", "event"),
    [
        (b'{"hook_event_name":"SessionStart"}', b"SessionStart"),
        (b'{ "hook_event_name" : "SessionStart" }', b"SessionStart"),
        (
            b'{"prompt":"\\"hook_event_name\\":\\"Stop\\"","hook_event_name":"UserPromptSubmit"}',
            b"UserPromptSubmit",
        ),
        (b'{"prompt":"x"}', b""),
        (b'{"hook_event_name":7}', b""),
        (b"", b""),
        (None, b""),
    ],
)
def test_the_event_that_fired_is_found_without_decoding(body: bytes | None, event: bytes) -> None:
    assert hook.event_named_in(body) == event


@pytest.mark.parametrize(
    "variables", [{}, {"XDG_DATA_HOME": "/data"}, {"XDG_DATA_HOME": "relative"}, {"XDG_DATA_HOME": ""}]
)
def test_its_home_is_the_settings_home(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Path(os.fsdecode(hook.default_home(dict(os.environb)))) == settings.default_home()


@pytest.mark.parametrize(
    ("variables", "off"),
    [
        ({}, False),
        ({b"CLAUDE_CODE_REMOTE": b"false"}, False),
        ({b"CLAUDE_CODE_REMOTE": b"true"}, True),
        ({b"CLAUDE_CODE_SIMPLE": b"1"}, True),
        ({b"CLAUDE_CODE_DISABLE_CLAUDE_MDS": b"1"}, True),
        ({b"CEMS_RECALL_ENABLED": b"1"}, False),
        ({b"CEMS_RECALL_ENABLED": b"No"}, True),
    ],
)
def test_where_it_says_nothing(variables: dict[bytes, bytes], off: bool) -> None:
    assert hook.is_off(variables) is off
