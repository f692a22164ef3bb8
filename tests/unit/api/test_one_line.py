"""Text as one line."""

import pytest

from elasticjob_api.one_line import one_line


@pytest.mark.parametrize(
    ("text", "shown"), [("a  b", "a  b"), ("a\n\n b", "a b"), ("ü…", "ü…"), ("", ""), ("abc", "ab")]
)
def test_printable_text_is_only_truncated(text: str, shown: str) -> None:
    assert one_line(text, 2 if text == "abc" else None) == shown
