"""The rate that pieces keep together, whatever their sizes and times are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.transfer.token_bucket import LONGEST_PIECE, TokenBucket, piece_bytes

MIB = 1 << 20


def test_a_burst_is_sent_at_once() -> None:
    bucket = TokenBucket(100.0, 50.0, now_s=7.0)
    assert bucket.take(50, now_s=7.0) == 0.0
    assert bucket.take(10, now_s=7.0) == pytest.approx(0.1)


def test_tokens_come_back_at_the_rate_and_up_to_the_burst() -> None:
    bucket = TokenBucket(100.0, 50.0, now_s=0.0)
    bucket.take(50, now_s=0.0)
    assert bucket.take(20, now_s=0.2) == 0.0
    assert bucket.take(51, now_s=1000.0) == pytest.approx(0.01)


def test_a_piece_that_is_larger_than_the_burst_waits_for_its_tokens() -> None:
    assert TokenBucket(100.0, 50.0, now_s=0.0).take(150, now_s=0.0) == pytest.approx(1.0)


def test_a_clock_that_goes_back_gives_no_tokens() -> None:
    bucket = TokenBucket(100.0, 50.0, now_s=10.0)
    bucket.take(50, now_s=10.0)
    assert bucket.take(10, now_s=0.0) == pytest.approx(0.1)
    assert bucket.take(10, now_s=10.0) == pytest.approx(0.2)


@given(
    st.floats(1.0, 1e9), st.floats(1.0, 1e8), st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 10)), min_size=1)
)
def test_no_more_is_sent_than_rate_and_burst_allow(rate: float, burst: float, pieces: list[tuple[int, float]]) -> None:
    bucket, now_s, sent = TokenBucket(rate, burst, now_s=0.0), 0.0, 0
    for count, pause_s in pieces:
        now_s += pause_s
        now_s += bucket.take(count, now_s=now_s)
        sent += count
        assert sent <= (burst + rate * now_s) * (1 + 1e-6) + 1e-3


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_rate_that_sends_nothing_is_refused(rate: float, burst: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        TokenBucket(rate, burst, now_s=0.0)


@pytest.mark.parametrize(
    ("rate", "piece"),
    [(None, LONGEST_PIECE), (256 * MIB, LONGEST_PIECE), (16 * MIB, MIB), (256.0, 16), (1.0, 1)],
)
def test_a_slow_rate_has_small_pieces(rate: float | None, piece: int) -> None:
    assert piece_bytes(rate) == piece
