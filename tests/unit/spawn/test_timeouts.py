"""Time limits of a failed process's siblings."""

import pytest

from elasticjob_agent.spawn.timeouts import Timeouts, timeouts


def test_b_003_13_without_a_grace_period_sigterm_comes_at_once_and_sigkill_after_30_s() -> None:
    assert timeouts(None) == Timeouts(wait_s=0.0, terminate_s=30.0)


@pytest.mark.parametrize("grace_period", [0, 0.5, 2])
def test_b_003_14_a_grace_period_counts_before_sigterm_and_again_before_sigkill(grace_period: float) -> None:
    assert timeouts(grace_period) == Timeouts(wait_s=grace_period, terminate_s=grace_period)


def test_b_003_14_a_negative_grace_period_counts_as_0() -> None:
    assert timeouts(-1) == Timeouts(wait_s=0.0, terminate_s=0.0)
