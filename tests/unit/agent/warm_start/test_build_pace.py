"""The part of each period in which a zygote may run."""

import pytest

from elasticjob_agent.host.cpu import CpuSample
from elasticjob_agent.warm_start.build_pace import MIN_SHARE, share_to_run

_PASSED_S = 0.1


def sample(
    at_s: float,
    *,
    idle: dict[int, float],
    own: float = 0.0,
    last_cpu: int = 0,
    quota: float | None = None,
    used: float = 0.0,
    throttled: int = 0,
) -> CpuSample:
    """Return a sample in which each processor was idle, and the process ran, for these parts of the time so far."""
    return CpuSample(
        at_s=at_s,
        idle_s={cpu: part * at_s for cpu, part in idle.items()},
        process_s=own * at_s,
        last_cpu=last_cpu,
        quota=quota,
        used_s=used * at_s,
        throttled=int(throttled * at_s / _PASSED_S),
    )


@pytest.mark.parametrize(
    ("parts", "last_share", "expected"),
    [
        pytest.param({"idle": {0: 0.0, 1: 1.0}}, 0.1, 1.0, id="one processor is free"),
        pytest.param({"idle": {0: 0.0, 1: 0.0}, "own": 1.0}, 1.0, 1.0, id="the zygote itself uses the free processor"),
        pytest.param({"idle": {0: 0.9, 1: 0.0}, "own": 0.1}, 0.1, 1.0, id="a slice of it was on the free processor"),
        pytest.param({"idle": {0: 0.91}, "own": 0.05}, 0.1, 1.0, id="almost free counts as free"),
        pytest.param({"idle": {0: 0.0, 1: 0.0}, "own": 0.1}, 0.1, 0.1, id="no processor is free"),
        pytest.param({"idle": {0: 0.0, 1: 0.0}, "own": 0.5}, 1.0, 0.2, id="it had half of a processor, and gets less"),
        pytest.param({"idle": {0: 0.0, 1: 0.0}, "own": 0.05}, 1.0, 1.0, id="it waits for a processor most of the time"),
        pytest.param({"idle": {0: 0.0, 1: 0.0}, "own": 0.05}, 0.1, 0.2, id="it had half of a processor in its slice"),
        pytest.param({"idle": {0: 0.0, 1: 0.0}}, 0.1, 1.0, id="it had no processor at all"),
        pytest.param({"idle": {0: 0.4, 1: 0.2}, "own": 0.1}, 0.1, 0.1, id="half idle is not free"),
        pytest.param({"idle": {0: 0.1, 1: 0.6}, "own": 0.1}, 0.1, 0.1, id="nor are two of them"),
        pytest.param({"idle": dict.fromkeys(range(1, 9), 0.125), "own": 0.1}, 0.1, 0.1, id="nor eight small parts"),
        pytest.param({"idle": {}, "own": 0.1}, 0.1, MIN_SHARE, id="nothing is known"),
        pytest.param({"idle": {1: 1.0}, "quota": 2.0, "used": 0.5}, 0.1, 1.0, id="the quota is not used up"),
        pytest.param({"idle": {1: 1.0}, "quota": 2.0, "used": 1.9, "own": 0.1}, 0.1, 0.1, id="it is almost used up"),
        pytest.param({"idle": {1: 1.0}, "quota": 2.0, "used": 2.1, "own": 0.1}, 0.1, MIN_SHARE, id="it is used up"),
        pytest.param({"idle": {1: 1.0}, "quota": 2.0, "used": 2.0, "own": 1.0}, 1.0, 1.0, id="by the zygote"),
        pytest.param(
            {"idle": {1: 1.0}, "quota": 2.0, "used": 0.1, "own": 0.1, "throttled": 1}, 0.1, MIN_SHARE, id="throttled"
        ),
        pytest.param({"idle": {1: 0.2}, "quota": 4.0, "own": 0.1}, 0.1, 0.1, id="a large quota, and no processor"),
    ],
)
def test_the_zygote_gets_a_free_processor_or_a_tenth_of_one(
    parts: dict[str, object], last_share: float, expected: float
) -> None:
    before, now = sample(1.0, **parts), sample(1.0 + _PASSED_S, **parts)  # type: ignore[arg-type]
    assert share_to_run(before, now, last_share) == pytest.approx(expected)


@pytest.mark.parametrize("speed", [0.02, 0.1, 0.25, 0.5, 0.85])
def test_without_a_free_processor_it_gets_a_tenth_of_one(speed: float) -> None:
    """`speed` is the part of its slices in which the scheduler gives it a processor."""
    share = 1.0
    for _ in range(3):
        parts = {"idle": {0: 0.0, 1: 0.0}, "own": share * speed}
        share = share_to_run(sample(1.0, **parts), sample(1.1, **parts), share)  # type: ignore[arg-type]
    assert share * speed == pytest.approx(min(MIN_SHARE, speed))


def test_a_processor_that_appears_has_no_idle_time_yet() -> None:
    before, now = sample(1.0, idle={0: 0.0}, own=0.1), sample(1.1, idle={0: 0.0, 1: 1.0}, own=0.1)
    assert share_to_run(before, now, 0.1) == pytest.approx(MIN_SHARE)


def test_two_samples_of_one_moment_show_nothing() -> None:
    now = sample(1.0, idle={0: 1.0})
    assert share_to_run(now, now, 1.0) == MIN_SHARE
