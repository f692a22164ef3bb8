"""How the pauses between attempts grow."""

import pytest

from elasticjob_etcd.backoff import Backoff


def pauses(backoff: Backoff, count: int) -> list[float]:
    return [round(backoff.next_s(), 3) for _ in range(count)]


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        pytest.param(0.0, [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0], id="least jitter"),
        pytest.param(1.0, [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0], id="most jitter"),
    ],
)
def test_pauses_double_up_to_two_seconds(drawn: float, expected: list[float]) -> None:
    assert pauses(Backoff(lambda: drawn), 7) == expected


def test_a_success_begins_anew() -> None:
    backoff = Backoff(lambda: 1.0)
    assert pauses(backoff, 3) == [0.1, 0.2, 0.4]
    backoff.reset()
    assert pauses(backoff, 1) == [0.1]


def test_the_longest_pause_may_be_shorter() -> None:
    assert pauses(Backoff(lambda: 1.0, max_s=0.3), 4) == [0.1, 0.2, 0.3, 0.3]


def test_it_never_overflows() -> None:
    assert pauses(Backoff(lambda: 1.0), 2_000)[-1] == 2.0
