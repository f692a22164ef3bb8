"""Each class is named by a word of docs/architecture/glossary.md, or by a known one (general_terms.toml)."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "architecture" / "glossary.md"
LISTS = tomllib.loads((Path(__file__).parent / "general_terms.toml").read_text())
SHIPPED = ("api", "etcd", "agent", "operator", "sdk", "cli", "testing")
MOST_WORDS = 25
_TERM = re.compile(r"^- \*\*(.+?)\*\*: (.+)$", re.MULTILINE)
_CLASS = re.compile(r"^ *class ([A-Z_]\w*)[:(\[]", re.MULTILINE)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def head_noun(name: str) -> str:
    """Return the last word of a CamelCase name, or of a term, in the singular."""
    word: str = _WORD.findall(name)[-1].lower()
    for plural, singular in (("ies", "y"), ("sses", "ss")):
        if word.endswith(plural):
            return word.removesuffix(plural) + singular
    return word if word.endswith(("ss", "us", "is")) else word.removesuffix("s")


def module_of(file: Path) -> str:
    """Return the dotted name of a module of a shipped package."""
    below = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(below if below[0] == "testing" else below[1:]).removesuffix(".__init__")


def classes() -> Iterator[tuple[str, str]]:
    """Yield the module of each class that is shipped, and its name."""
    for folder in SHIPPED:
        for file in sorted((ROOT / folder).rglob("*.py")):
            module = module_of(file)
            for name in _CLASS.findall(file.read_text()):
                yield module, name


def glossary() -> list[list[tuple[str, str]]]:
    """Return the terms of each group, with what they mean."""
    return [_TERM.findall(group) for group in PAGE.read_text().split("\n## ")[1:]]


TERMS = {term: meaning for group in glossary() for term, meaning in group}
GENERAL = {word for group, words in LISTS.items() if group != "private" for word in words}
KNOWN = {head_noun(term) for term in TERMS} | {head_noun(word) for word in GENERAL}


def is_known(name: str) -> bool:
    """The head noun of a class is in the glossary or in the lists."""
    return head_noun(name) in KNOWN


def test_every_class_is_named_by_a_known_word() -> None:
    found = list(classes())
    assert found
    assert [f"{module}: {name}" for module, name in found if not is_known(name)] == []


@pytest.mark.parametrize("word", LISTS["private"])
def test_a_private_metaphor_is_no_term(word: str) -> None:
    assert not is_known(word.capitalize())


@pytest.mark.parametrize(
    ("name", "noun"),
    [
        ("JobPolicies", "policy"),
        ("ActiveCA", "ca"),
        ("HTTPServer", "server"),
        ("_Process", "process"),
        ("Status", "status"),
    ],
)
def test_the_head_noun_is_the_last_word_in_the_singular(name: str, noun: str) -> None:
    assert head_noun(name) == noun


def test_no_term_is_explained_twice() -> None:
    everywhere = [term for group in glossary() for term, _ in group]
    assert sorted(everywhere) == sorted(set(everywhere))
    assert sorted(GENERAL & {term.lower() for term in TERMS}) == []


@pytest.mark.parametrize("group", glossary(), ids=lambda group: group[0][0])
def test_a_group_is_in_alphabetical_order(group: list[tuple[str, str]]) -> None:
    terms = [term.lower() for term, _ in group]
    assert terms == sorted(terms)


@pytest.mark.parametrize("term", TERMS)
def test_a_meaning_is_short(term: str) -> None:
    sentences = re.split(r"(?<=[.:;])\s", TERMS[term])
    assert [each for each in sentences if len(each.split()) > MOST_WORDS] == []
    assert TERMS[term].endswith(".")
