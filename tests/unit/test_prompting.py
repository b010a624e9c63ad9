"""Which prompts are answered, and what is searched for."""

from __future__ import annotations

import time

import pytest

from recall import own_words
from recall.prompting import QUESTION_LIMIT, query, read

ANSWER = "The upload fails now and then. I can add exponential backoff to the uploader.\n\n```py\nfoo()\n```\nShall I?"


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("/compact", "command"),
        ("/recall uploads and retries", "command"),
        ("/plugin:command with words", "command"),
        ("!git status", "command"),
        ("<task-notification>the job is done</task-notification>", "machine"),
        ("<command-name>/clear</command-name>", "machine"),
        ("<local-command-stdout>lots of uploads</local-command-stdout>", "machine"),
        ("[Request interrupted by user for tool use]", "machine"),
        ("This session is being continued from a previous conversation about uploads", "machine"),
        ("<system-reminder>uploads were changed</system-reminder>", "empty"),
        ("", "empty"),
        (" \n ", "empty"),
        ("x", "short"),
        ("?", "short"),
        ("hm", "short"),
        ("2", "short"),
        ("12345678901", "short"),
        ("............", "short"),
    ],
)
def test_what_is_no_question_is_skipped_with_a_reason(prompt: str, why: str) -> None:
    assert (read(prompt).what, read(prompt).why) == ("skip", why)


@pytest.mark.parametrize(
    "source", ["system", "loop_wakeup", "schedule_wakeup", "poll_event", "something new"]
)
def test_only_people_and_programs_that_speak_for_them_are_answered(source: str) -> None:
    assert read("why do uploads retry?", source).why == "source"


@pytest.mark.parametrize("source", [None, "user", "sdk"])
def test_a_question_is_searched_for_as_it_is(source: str | None) -> None:
    reading = read("  why do uploads retry?\n", source)
    assert (reading.what, reading.text, reading.asks) == ("question", "why do uploads retry?", False)


@pytest.mark.parametrize(
    "prompt", ["/usr/bin/gannet fails", "/etc/hosts is wrong", "/home/mira/a.py: fix it", "/src/app.py fails"]
)
def test_a_path_is_no_command(prompt: str) -> None:
    assert read(prompt).what == "question"


@pytest.mark.parametrize("prompt", ["アップロード", "再試行は何回"])
def test_a_few_characters_of_a_dense_script_are_a_question(prompt: str) -> None:
    assert read(prompt).what == "question"


def test_what_the_agent_adds_to_a_prompt_is_not_searched_for() -> None:
    added = "<ide_opened_file>The user opened /a/b.py</ide_opened_file>\nwhy do uploads retry?"
    assert read(added).text == "why do uploads retry?"
    assert (
        read("why?! <cems-memory event='x'>\n- [aaaaaaaaaa] old\n</cems-memory> uploads retry").text.count(
            "old"
        )
        == 0
    )


@pytest.mark.parametrize(
    "prompt",
    [
        "yes",
        "Yes, go ahead",
        "ok",
        "OK.",
        "ja mach",
        "ja, bitte",
        "mach das",
        "oui vas-y",
        "sí, adelante",
        "sì, procedi",
        "sim, pode",
        "ja graag",
        "да, давай",
        "はい、お願いします",
        "好的",
        "sounds good, do it",
        "go on",
        "yes please, both",
        "lgtm, ship it",
        "perfect, thanks, continue",
    ],
)
def test_a_confirmation_stands_for_what_it_confirms(prompt: str) -> None:
    reading = read(prompt)
    assert reading.what == "confirmation", reading
    assert "exponential backoff" in query(reading, ANSWER)
    assert "foo()" not in query(reading, ANSWER)
    assert query(reading, "") == ""


def test_a_confirmation_with_a_condition_is_searched_for_with_it() -> None:
    reading = read("yes, but with envoy")
    assert reading.what == "confirmation"
    assert "envoy" in query(reading, ANSWER) and "backoff" in query(reading, ANSWER)


@pytest.mark.parametrize(
    "prompt",
    [
        "ok so the uploads retry three times, why is that and where is the limit set?",
        "no, use the other queue for uploads",
        "yesterday's uploads failed",
        "do the uploads again",
        "continue with the uploads",
    ],
)
def test_what_begins_like_a_confirmation_and_says_more_is_a_question(prompt: str) -> None:
    assert read(prompt).what == "question"


@pytest.mark.parametrize(
    ("prompt", "kinds"),
    [
        ("what did we decide?", ("decision", "preference")),
        ("Was haben wir beschlossen?", ("decision", "preference")),
        ("wie hatten wir das gelöst?", ("bugfix", "deadend", "pattern")),
        ("how did we fix that last time?", ("bugfix", "deadend", "pattern")),
        ("do you remember?", ()),
    ],
)
def test_who_asks_for_memory_without_a_subject_is_searched_for_by_the_last_answer(
    prompt: str, kinds: tuple[str, ...]
) -> None:
    reading = read(prompt)
    assert (reading.what, reading.text, reading.asks, reading.kinds) == ("question", "", True, kinds)
    assert "backoff" in query(reading, ANSWER)


def test_who_asks_for_memory_of_something_is_searched_for_by_that() -> None:
    reading = read("what did we decide about uploads?")
    assert reading.asks and query(reading, ANSWER) == "what did we decide about uploads?"


LOG = "\n".join(
    f"2026-11-30 12:00:{n % 60:02d} INFO worker {n} did something with shelf {n}" for n in range(300)
)
CODE = "\n".join(f"    value_{n} = compute({n});" for n in range(300))


@pytest.mark.parametrize(
    "paste",
    [
        LOG,
        f"```py\n{CODE}\n```",
        f"```\n{CODE}",
        "\n".join(f"> quoted words {n}" for n in range(300)),
        '{"a": [1, 2]},\n' * 300,
    ],
)
def test_a_huge_paste_is_cut_to_the_words_around_it(paste: str) -> None:
    text = read(f"Why does the importer stop here?\n{paste}\nI think the cursor is lost.").text
    assert text == "Why does the importer stop here?\nI think the cursor is lost."


def test_a_paste_without_words_gives_its_failures() -> None:
    text = read(LOG + "\nKeyError: 'shelf_id' in importer.py\n").text
    assert text == "KeyError: 'shelf_id' in importer.py"


def test_of_long_prose_the_first_and_last_sentences_are_kept() -> None:
    prose = (
        "Uploads stop at night. "
        + "The weather was nice and we went on. " * 200
        + "Please look at the cursor."
    )
    text = read(prose).text
    assert text.startswith("Uploads stop at night.") and text.endswith("Please look at the cursor.")
    assert len(text) <= QUESTION_LIMIT


@pytest.mark.parametrize(
    "unit", ["a", "```\n", "<b>\n", "> ", "yes ", "\n", "(", "- x\n", "日本", "/a ", "\u2028"]
)
def test_no_prompt_takes_long(unit: str) -> None:
    text = unit * (2_000_000 // len(unit))
    began = time.process_time()
    reading = read(text)
    own_words.of_prose(text[:200_000])
    assert time.process_time() - began < 1.0
    assert len(reading.text) <= QUESTION_LIMIT
