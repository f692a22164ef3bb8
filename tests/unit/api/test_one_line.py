"""Text as one line."""

import pytest

from elasticjob_api.one_line import one_line, shorten


@pytest.mark.parametrize(
    ("text", "shown"), [("a  b", "a  b"), ("a\n\n b", "a b"), ("ü…", "ü…"), ("", ""), ("abc", "ab")]
)
def test_printable_text_is_only_truncated(text: str, shown: str) -> None:
    assert one_line(text, 2 if text == "abc" else None) == shown


@pytest.mark.parametrize("most", [8, 9, 100])
def test_a_long_text_keeps_its_begin_and_its_end(most: int) -> None:
    found = shorten("the begin" + "x" * 1000 + "the end", most)
    assert len(found) == most
    assert found.startswith("the")
    assert found.endswith("end")
    assert "…" in found


def test_a_text_of_the_longest_length_is_whole() -> None:
    assert shorten("x" * 8, 8) == "x" * 8
