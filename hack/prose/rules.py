"""Rules for sentences, as functions of a passage."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hack.prose.passages import Kind, Passage


class Rule(StrEnum):
    """The rules that a sentence can break."""

    LONG = "long-sentence"
    RELATIVE = "free-relative"
    SPEECH = "speech-verb"
    QUESTION = "question-summary"
    PURE = "pure-word"


MAX_WORDS = 25
"""Words of a sentence; a code span is one."""

ADVICE = {
    Rule.LONG: f"more than {MAX_WORDS} words: one idea a sentence",
    Rule.RELATIVE: "name the subject: the user, the leader, the caller, no one",
    Rule.SPEECH: "data is written, sent, read, reported or shown; it does not speak",
    Rule.QUESTION: "begin with what is returned or done: Return …, Raise …, Write …",
    Rule.PURE: "the folder shows it",
}

_PERSONS = "user|users|person|people|anyone|someone|everyone|reader|readers|administrator|administrators|attacker|those"
_RELATIVE = re.compile(
    rf"(?<!\w)(?:whoever|whomever|nobody|whom|(?P<person>(?:{_PERSONS}),? )?who)(?![\w-])"
    r"|(?-i:^(?:What|Whatever)\b)",
    re.IGNORECASE,
)
_SPEECH = re.compile(
    r"(?<![\w-])(?:say|says|said|saying|tell|tells|told|telling|untold|hear|hears|heard|hearing"
    r"|speak|speaks|spoke|spoken|speaking|stand|stands|stood|standing)(?![\w-])",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"(?:who|whom|whose|what|which|when|where|why|how)\b", re.IGNORECASE)
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|cf|vs|etc)\.(?=[ ,)])", re.IGNORECASE)
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+")
_WORD = re.compile(r"\w")
_PURE = re.compile(r"\bPURE\b")


@dataclass(frozen=True)
class Violation:
    """A sentence that breaks a rule, and the line where its passage begins."""

    line: int
    rule: Rule
    excerpt: str


def sentences(text: str) -> list[str]:
    """Return the sentences of a text without markup."""
    return [sentence for sentence in _END.split(_ABBREVIATION.sub(r"\1", text)) if sentence]


def words(sentence: str) -> int:
    """Return the number of words; signs alone do not count."""
    return sum(1 for token in sentence.split() if _WORD.search(token))


def violations(passage: Passage) -> Iterator[Violation]:
    """Return what breaks a rule in a passage, sentence by sentence; each word counts for itself."""
    found = sentences(passage.text)
    if found and passage.kind is Kind.SUMMARY and _QUESTION.match(found[0]):
        yield Violation(passage.line, Rule.QUESTION, _excerpt(found[0], 0))
    for sentence in found:
        for rule, position in _broken(sentence):
            yield Violation(passage.line, rule, _excerpt(sentence, position))


def _broken(sentence: str) -> Iterator[tuple[Rule, int]]:
    """Return the rules that a sentence breaks, with a position for each."""
    if words(sentence) > MAX_WORDS:
        yield Rule.LONG, 0
    for found in _RELATIVE.finditer(sentence):
        if not found["person"]:
            yield Rule.RELATIVE, found.start()
    for found in _SPEECH.finditer(sentence):
        yield Rule.SPEECH, found.start()
    if _PURE.search(sentence):
        yield Rule.PURE, 0


def _excerpt(sentence: str, position: int) -> str:
    """Return the part of a sentence that is shown."""
    return sentence[max(0, position - 30) : position + 60].strip()
