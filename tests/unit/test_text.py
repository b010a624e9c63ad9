"""What `cems.text` promises: storable text, honest cuts, and one form for texts that are the same."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cems.text import normalise, one_line, sanitise, shorten, visible

any_text = st.text(st.characters(codec=None, categories=None, exclude_categories=()))


def test_case_S45_a_nul_in_one_text_of_ten_goes_and_the_rest_stays() -> None:
    texts = [f"text {number}" for number in range(9)] + ["a\0b\0"]
    assert [sanitise(text) for text in texts] == [*texts[:9], "ab"]
    assert sanitise("ä\0ö") == "äö"


def test_case_S45_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert sanitise("cut \ud83d here") == "cut \ufffd here"
    assert sanitise("\udc00") == "\ufffd"
    assert sanitise("\udc00\ud83d\0") == "\ufffd\ufffd"


def test_case_S45_a_pair_of_surrogates_becomes_its_character() -> None:
    assert sanitise("\ud83d\ude00\0!") == "\U0001f600!"


def test_sanitise_keeps_tabs_line_ends_and_separators_and_the_very_text() -> None:
    text = "a\tb\r\nc\u2028d\u2029e\x85f\x1b[0m\ufffe"
    assert sanitise(text) is text


@given(any_text)
def test_case_S45_every_text_can_be_stored_afterwards(text: str) -> None:
    clean = sanitise(text)
    assert "\0" not in clean
    assert json.loads(json.dumps(clean, ensure_ascii=False).encode()) == clean
    assert sanitise(clean) == clean


def test_case_S45_two_megabytes_are_cut_to_what_fits_and_say_so() -> None:
    assert shorten("x" * 2_000_000, 100) == "x" * 65 + " […1,999,935 characters left out…] "


def test_shorten_leaves_a_short_text_alone() -> None:
    assert shorten("short", 5) == "short"


def test_shorten_keeps_the_end_when_asked() -> None:
    text = "begin " + "." * 1000 + " end"
    cut = shorten(text, 100, keep_tail=0.5)
    assert cut.startswith("begin ")
    assert cut.endswith(" end")
    assert "characters left out" in cut


def test_shorten_does_not_part_a_character_from_its_marks() -> None:
    text = "e\u0301" * 200
    for limit in range(40, 60):
        head = shorten(text, limit).split(" […")[0]
        assert len(head) % 2 == 0
    family = "\U0001f469\u200d\U0001f467" * 100
    for limit in range(40, 60):
        assert len(shorten(family, limit).split(" […")[0]) % 3 == 0


@given(any_text, st.integers(-3, 80), st.floats(0, 1))
def test_shorten_keeps_its_limit_and_counts_right(text: str, limit: int, keep_tail: float) -> None:
    cut = shorten(text, limit, keep_tail=keep_tail)
    assert len(cut) <= max(limit, 0) or cut == text
    if " […" in cut and "left out" in cut and cut != text and "left out" not in text:
        head, _, rest = cut.partition(" […")
        number, _, tail = rest.partition(" characters left out…] ")
        assert len(head) + len(tail) + int(number.replace(",", "")) == len(text)
        assert text.startswith(head)
        assert text.endswith(tail)


def test_one_line_collapses_and_marks_what_is_gone() -> None:
    assert one_line("  a\n\tb\u2028c  ", 10) == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcdef", 0) == ""
    assert one_line("ab " + " " * 10_000 + "c", 20) == "ab…"


@given(any_text, st.integers(-1, 40))
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= max(limit, 0)
    assert len(line.splitlines()) <= 1


def test_normalise_makes_equal_what_differs_in_typing_only() -> None:
    forms = ("Use  TABS, always.", "use tabs, always", "Ｕｓｅ tabs,\nalways!…", "use tabs, always。")
    assert len({normalise(form) for form in forms}) == 1
    assert normalise("Straße") == normalise("STRASSE")
    assert normalise("C++") != normalise("C")


@given(any_text)
def test_normalise_settles(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def test_only_what_shows_something_is_visible() -> None:
    assert all(visible(text) for text in ("a", " é ", "空", "\u200b.", "✅"))
    assert not any(
        visible(text) for text in ("", " \t", "\u200b\ufeff", "\u3164", "\u2800", "\u0301", "\U000e0041")
    )
