"""A limit for log lines, and escaping of foreign text in them."""

import pytest

from elasticjob_operator.cluster.log_limit import MAX_LINES, PERIOD_S, LogRateLimiter, printable
from testing.clocks.fake_clock import FakeClock


def test_a_key_has_one_line_a_minute() -> None:
    clock = FakeClock(100.0)
    limit = LogRateLimiter(clock)
    assert [limit.allow("a"), limit.allow("a"), limit.allow("b")] == [True, False, True]
    clock.now_s += PERIOD_S
    assert limit.allow("a")


def test_only_the_first_of_many_keys_have_a_line() -> None:
    limit = LogRateLimiter(FakeClock(100.0))
    assert sum(limit.allow(str(number)) for number in range(10 * MAX_LINES)) == MAX_LINES


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain: größer", "plain: größer"),
        ("x\n2026 INFO forged\x1b[2J", "x\\n2026 INFO forged\\x1b[2J"),
        ("\u2028\u202e", "\\u2028\\u202e"),
        ("x" * 1000, "x" * 400 + "..."),
    ],
)
def test_control_characters_are_escaped_and_long_text_is_shortened(text: str, shown: str) -> None:
    assert printable(text) == shown
