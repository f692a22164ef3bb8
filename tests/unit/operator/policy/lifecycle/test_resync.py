"""When a new operator process applies objects again: many jobs one after the other."""

import contextlib
from typing import cast

import pytest

from elasticjob_operator.model.actions import Apply, CreatePod
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod_source import PodSource
from elasticjob_operator.policy.lifecycle.resync import (
    AT_ONCE,
    AT_ONCE_EACH,
    JOBS_PER_SECOND,
    ApplyLimiter,
    is_due,
    resync_in_s,
)
from testing import builders


def test_a_single_job_is_resynced_almost_at_once() -> None:
    assert 0.0 <= resync_in_s("uid", jobs=1) < 1 / JOBS_PER_SECOND


def test_the_resync_of_a_thousand_jobs_is_evenly_spread() -> None:
    delays_s = [resync_in_s(f"uid-{n}", jobs=1000) for n in range(1000)]
    tenths = [sum(first <= delay_s < first + 5.0 for delay_s in delays_s) for first in range(0, 50, 5)]
    assert sum(tenths) == 1000
    assert min(tenths) > 50
    assert max(tenths) < 200


def test_a_job_has_the_same_delay_each_time() -> None:
    assert resync_in_s("uid", jobs=500) == resync_in_s("uid", jobs=500) != resync_in_s("other", jobs=500)


@pytest.mark.parametrize(
    ("pods", "applied", "monotonic_s", "due"),
    [(1, False, 10.0, True), (1, False, 9.0, False), (1, True, 10.0, False), (0, False, 10.0, False)],
    ids=["due", "too early", "already applied", "a pod that needs it is to be created"],
)
def test_only_a_resync_that_no_pod_needs_is_due_later(
    *, pods: int, applied: bool, monotonic_s: float, due: bool
) -> None:
    job_state = JobState(resync_at_s=10.0, applied={Resource.SERVICE: {"spec": {}}} if applied else {})
    assert is_due(job_state, {f"p{n}": builders.pod(n) for n in range(pods)}, monotonic_s) is due


_APPLY = Apply(Resource.SERVICE, {})
_CREATE = CreatePod("j-0-abcde", 0, cast("PodSource", None))


def test_each_namespace_and_all_together_have_a_limit() -> None:
    applying = ApplyLimiter()
    with contextlib.ExitStack() as stack:
        for _ in range(AT_ONCE_EACH):
            assert not applying.is_full("a")
            stack.enter_context(applying.of("a", (_APPLY,)))
        assert applying.is_full("a")
        for _ in range(AT_ONCE - AT_ONCE_EACH):
            assert not applying.is_full("b")
            stack.enter_context(applying.of("b", (_APPLY,)))
        assert applying.is_full("b")
    assert not applying.is_full("a")


def test_jobs_that_create_pods_or_apply_nothing_do_not_count() -> None:
    applying = ApplyLimiter()
    with contextlib.ExitStack() as stack:
        for _ in range(AT_ONCE):
            stack.enter_context(applying.of("a", (_APPLY, _CREATE)))
            stack.enter_context(applying.of("a", ()))
        assert not applying.is_full("a")


def test_a_job_is_not_counted_any_more_after_an_error() -> None:
    applying = ApplyLimiter()
    for _ in range(AT_ONCE):
        with contextlib.suppress(OSError), applying.of("a", (_APPLY,)):
            raise OSError
    assert not applying.is_full("a")
