"""Every numbered behaviour and every known fault of the originals has a test with its number in its name."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
PROCESSES = {"b_000": 58, "k_000": 16, "b_001": 25, "k_001": 7}
LAUNCHERS = {"b_002": 25, "k_002": 10, "b_003": 33, "k_003": 9}
AGENT = {"b_004": 46, "k_004": 16}
COUNTS = {**PROCESSES, **LAUNCHERS, **AGENT}
"""Behaviours (b) and faults (k) of the process layer (000, 001), `launch` (002), `spawn` (003) and the agent (004)."""
_NAME = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
_NUMBER = re.compile(r"[bk]_\d{3}_\d{2}")


def numbers_in(source: str) -> set[str]:
    """Return the numbers in the names of its tests."""
    return {number for name in _NAME.findall(source) for number in _NUMBER.findall(name)}


@pytest.fixture(scope="module")
def tested() -> set[str]:
    return {number for path in TESTS.rglob("test_*.py") for number in numbers_in(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("document", COUNTS)
def test_each_number_of_the_document_has_a_test(document: str, tested: set[str]) -> None:
    expected = {f"{document}_{number:02}" for number in range(1, COUNTS[document] + 1)}
    assert expected - tested == set()


def test_only_numbers_in_names_of_tests_count() -> None:
    assert numbers_in("# b_000_01\ndef test_b_000_02_and_k_000_03_it_is_so():\n    b_000_04 = 1\n") == {
        "b_000_02",
        "k_000_03",
    }
