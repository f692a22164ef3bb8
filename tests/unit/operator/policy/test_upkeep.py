"""When a new operator applies again what its predecessor has applied: of many jobs one after the other."""

from elasticjob_operator.policy.upkeep import A_SECOND, upkeep_in_s


def test_a_single_job_hardly_waits() -> None:
    assert 0.0 <= upkeep_in_s("uid", jobs=1) < 1 / A_SECOND


def test_a_thousand_jobs_have_their_turns_evenly_spread() -> None:
    moments_s = [upkeep_in_s(f"uid-{n}", jobs=1000) for n in range(1000)]
    tenths = [sum(first <= moment_s < first + 5.0 for moment_s in moments_s) for first in range(0, 50, 5)]
    assert sum(tenths) == 1000
    assert min(tenths) > 50
    assert max(tenths) < 200


def test_a_job_has_the_same_turn_each_time() -> None:
    assert upkeep_in_s("uid", jobs=500) == upkeep_in_s("uid", jobs=500) != upkeep_in_s("other", jobs=500)
