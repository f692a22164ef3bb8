"""The rules of the prose lint."""

import pytest

from hack.prose.passages import CODE, Kind, Passage
from hack.prose.rules import MAX_WORDS, Rule, sentences, violations, words


def _rules(text: str, kind: Kind = Kind.TEXT) -> list[Rule]:
    return [one.rule for one in violations(Passage(1, text, kind))]


def _sentence(length: int) -> str:
    return " ".join(["word"] * length) + "."


def test_a_sentence_may_have_25_words_and_no_more() -> None:
    assert _rules(_sentence(MAX_WORDS)) == []
    assert _rules(_sentence(MAX_WORDS + 1)) == [Rule.LONG]
    assert _rules(f"{_sentence(MAX_WORDS)} {_sentence(MAX_WORDS)}") == []


def test_signs_alone_are_no_words_and_code_is_one() -> None:
    assert words(f"{CODE} — 0.5 s / round") == 4


def test_sentences_end_at_signs_before_white_space_but_not_at_abbreviations() -> None:
    assert sentences("A member, e.g. of etcd. It ends (in v3.5 too.) etcd goes on?") == [
        "A member, e.g of etcd.",
        "It ends (in v3.5 too.",
        "etcd goes on?",
    ]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Who ends early, fails.", [Rule.RELATIVE]),
        ("A caller waits, whoever it is; nobody else.", [Rule.RELATIVE, Rule.RELATIVE]),
        ("What is written is read.", [Rule.RELATIVE]),
        ("what a table's cell has", []),
        ("A user who reads it, and anyone who does.", []),
        ("The agent who reads it.", [Rule.RELATIVE]),
        ("It is told what the map says.", [Rule.SPEECH, Rule.SPEECH]),
        ("It stands in the status.", [Rule.SPEECH]),
        ("The standby of `--standalone` is outstanding.", []),
        ("It reports what was written.", []),
    ],
)
def test_words_that_are_counted(text: str, rules: list[Rule]) -> None:
    assert _rules(text) == rules


@pytest.mark.parametrize("word", ["What", "Which", "How long", "Why", "When", "Where"])
def test_the_summary_of_a_public_function_is_no_question(word: str) -> None:
    assert Rule.QUESTION in _rules(f"{word} it is.", Kind.SUMMARY)
    assert Rule.QUESTION not in _rules(f"{word} it is.")


def test_whether_and_return_begin_a_summary() -> None:
    assert _rules("Whether it ended.", Kind.SUMMARY) == _rules("Return what ended.", Kind.SUMMARY) == []


def test_a_folder_shows_what_is_pure_not_a_docstring() -> None:
    assert _rules("PURE: a plan.") == [Rule.PURE]
