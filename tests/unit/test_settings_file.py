"""Editing the agent's settings file: only our entries come and go, every other byte stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cems.cli.installing.hooks import EVENTS, groups, is_ours
from cems.cli.installing.settings_file import NotSettings, with_hooks, without_hooks

OURS = groups("/venv with space/bin/python", Path("/home/ü/cems"))
FOREIGN = '{"matcher": "x", "hooks": [{"type": "command", "command": "/other/tool --hooks"}]}'
FILES = {
    "empty object": "{}",
    "empty file": "",
    "other settings": '{\n  "model": "opus",\n  "permissions": {\n    "allow": ["a", "b"]\n  }\n}\n',
    "tabs": '{\n\t"model": "opus"\n}\n',
    "four spaces": '{\n    "model": "opus"\n}',
    "one line": '{"model": "opus", "env": {"A": "1"}}',
    "windows": '{\r\n  "model": "opus"\r\n}\r\n',
    "byte order mark": '\ufeff{\n  "model": "opus"\n}\n',
    "three foreign hooks": f"""{{
  "hooks": {{
    "UserPromptSubmit": [{FOREIGN}],
    "SessionStart": [
      {FOREIGN},
      {FOREIGN}
    ]
  }},
  "z": 1
}}
""",
    "odd order": f'{{\n  "hooks" : {{ "Stop":[{FOREIGN}] }} ,"model":"x"}}',
    "escapes": '{\n  "a\\"b{": "}]\\u00e9 {",\n  "n": [-1.5e3, true, null, {}, []]\n}\n',
}  # fmt: skip


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_ours_come_and_go_and_the_rest_stays(text: str) -> None:
    before = json.loads(text.lstrip("\ufeff") or "{}")
    added = with_hooks(text, OURS, is_ours)
    found = json.loads(added.lstrip("\ufeff"))
    for event in EVENTS:
        assert found["hooks"][event][-1] == OURS[event]
        assert found["hooks"][event][:-1] == before.get("hooks", {}).get(event, [])
    assert {k: v for k, v in found.items() if k != "hooks"} == {
        k: v for k, v in before.items() if k != "hooks"
    }
    assert with_hooks(added, OURS, is_ours) == added, "twice changes nothing"
    assert added.startswith("\ufeff") == text.startswith("\ufeff")
    assert ("\r\n" in added) == ("\r\n" in text) and added.count("\r\n") in (0, added.count("\n"))
    assert without_hooks(added, is_ours) == (text or "{}")


def test_an_older_entry_of_ours_is_replaced() -> None:
    old = with_hooks(FILES["three foreign hooks"], groups("/old/python", Path("/old")), is_ours)
    new = with_hooks(old, OURS, is_ours)
    assert "/old" not in new and without_hooks(new, is_ours) == FILES["three foreign hooks"]


def test_a_group_shared_with_another_program_keeps_the_others_handler() -> None:
    ours = OURS["SessionStart"]["hooks"][0]
    shared = json.dumps({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "x"}, ours]}]}})
    assert json.loads(without_hooks(shared, is_ours)) == {
        "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "x"}]}]}
    }


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "3",
        "{",
        '{"a": 1,}',
        "// x\n{}",
        '{"hooks": []}',
        '{"hooks": {"SessionStart": {}}}',
        "[" * 5000,
        "\x00",
        "\ufeff\ufeff{}",
        '{"a": NaN}',
        '{"a": [-Infinity]}',
        '{"a": ' + "1" * 5000 + "}",
        '{"hooks": null}',
        '{"hooks": {"Stop": 5}}',
        '{"hooks": {"Stop": [5]}}',
        '{"hooks": {"Stop": [{"hooks": 5}]}}',
        '{"hooks": {"Stop": [{"hooks": null}]}}',
    ],
)
def test_what_is_not_settings_is_refused(text: str) -> None:
    with pytest.raises(NotSettings):
        with_hooks(text, OURS, is_ours)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.text(max_size=6), _JSON, max_size=4), st.sampled_from([None, 2, "\t"]), st.booleans()
)
def test_any_settings_come_back_as_they_were(
    value: dict[str, object], indent: object, ascii_only: bool
) -> None:
    value.pop("hooks", None)
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)  # type: ignore[arg-type]
    added = with_hooks(text, OURS, is_ours)
    assert {k: v for k, v in json.loads(added).items() if k != "hooks"} == value
    assert without_hooks(added, is_ours) == text
