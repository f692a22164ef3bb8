"""The quota of operator memory for job specs: no namespace takes what the others need."""

from elasticjob_operator.policy.lifecycle.job_memory_quota import MAX_GROWTH_BYTES, JobMemoryQuota

MIB = 1 << 20
RAN = {"a": 128, "b": 64, "c": 32, "d": 16, "e": 8, "f": 4, "g": 2, "h": 1, "z": 512}
"""Jobs of 1/16 MiB: the number that each namespace had in 64 MiB, z first."""


def fill(quota: JobMemoryQuota, namespace: str, *, started: bool = False) -> int:
    """Add jobs of 1 MiB until one is refused; return how many were accepted."""
    number = 0
    while quota.reserve(f"{namespace}-{started}-{number}", namespace, MIB, started=started) is None:
        number += 1
    return number


def full_quota(size: int = MIB) -> JobMemoryQuota:
    """Return a quota in which namespace z has its share, and others leave no free memory for it to grow."""
    quota = JobMemoryQuota(128 * MIB)
    for namespace in "zabc":
        number = 0
        while quota.reserve(f"{namespace}-{number}", namespace, size, started=False) is None:
            number += 1
    return quota


def test_one_namespace_may_have_half_and_later_ones_always_get_some() -> None:
    quota = JobMemoryQuota(128 * MIB)
    assert [fill(quota, namespace) for namespace in "abc"] == [64, 32, 16]
    assert quota.retained == 112 * MIB


def test_new_jobs_of_many_namespaces_never_exceed_the_total() -> None:
    quota = JobMemoryQuota(128 * MIB)
    for number in range(200):
        fill(quota, str(number))
    assert quota.retained <= 128 * MIB


def test_started_jobs_exceed_the_total_by_at_most_half() -> None:
    quota = JobMemoryQuota(128 * MIB)
    for number in range(200):
        fill(quota, str(number), started=bool(number % 2))
    assert 128 * MIB < quota.retained <= 192 * MIB


def test_a_started_job_is_accepted_where_a_new_one_is_refused() -> None:
    quota = JobMemoryQuota(128 * MIB)
    assert fill(quota, "a") == 64
    assert fill(quota, "a", started=True) == 32 + 64
    assert fill(quota, "b") == 16, "and other namespaces still get some"


def test_a_new_operator_accepts_all_started_jobs_in_any_order() -> None:
    ran = [(f"{namespace}-{number}", namespace) for namespace, jobs in RAN.items() for number in range(jobs)]
    for order in (ran, ran[::-1]):
        quota = JobMemoryQuota(64 * MIB)
        assert all(quota.reserve(uid, namespace, MIB // 16, started=True) is None for uid, namespace in order)


def test_a_started_job_may_grow_a_little_although_its_namespace_has_its_share() -> None:
    quota = full_quota()
    assert quota.reserve("z-0", "z", MIB + 60, started=True) is None
    assert quota.reserve("z-0", "z", MIB + MAX_GROWTH_BYTES, started=True) is None
    assert quota.reserve("z-0", "z", MIB + MAX_GROWTH_BYTES + 1, started=True) is not None, "from its first size"
    assert quota.reserve("z-0", "z", MIB, started=True) is None, "and it may shrink again"
    assert quota.reserve("z-1", "z", MIB + 60, started=False) is not None


def test_the_growth_of_jobs_is_limited_and_does_not_use_the_free_memory_of_others() -> None:
    quota = full_quota(size=MIB // 16)
    free = 128 * MIB - quota.retained
    uids = [uid for uid in quota.uids() if uid.startswith("z")]
    grown = [quota.reserve(uid, "z", MIB // 16 + MAX_GROWTH_BYTES, started=True) for uid in uids]
    assert 0 < grown.count(None) < len(uids)
    assert quota.retained <= (128 + 32) * MIB - free
    assert fill(quota, "new") >= free // MIB // 2


def test_a_refused_job_does_not_count_as_started_by_an_earlier_process() -> None:
    quota = full_quota()
    assert quota.reserve("z-0", "z", 5 * MIB, started=True) is not None
    assert quota.reserve("z-0", "z", 5 * MIB, started=True) is not None
    quota.refuse("z-1", "z")
    assert quota.reserve("z-1", "z", 5 * MIB, started=True) is not None
    assert quota.reserve("z-1", "z", MIB, started=True) is None


def test_an_accepted_job_is_kept_when_others_are_added() -> None:
    quota = JobMemoryQuota(128 * MIB)
    fill(quota, "a")
    fill(quota, "b")
    assert all(quota.reserve(f"a-False-{number}", "a", MIB, started=False) is None for number in range(64))
    assert quota.reserve("a-False-0", "a", 2 * MIB, started=False) is not None, "but it may not grow"


def test_deleted_jobs_free_their_memory() -> None:
    quota = JobMemoryQuota(128 * MIB)
    fill(quota, "a")
    for uid in list(quota.uids()):
        quota.drop(uid)
    quota.drop("unknown")
    assert (quota.retained, fill(quota, "b")) == (0, 64)


def test_the_message_of_a_refusal_has_namespace_size_and_cure() -> None:
    quota = JobMemoryQuota(2 * MIB)
    share = quota.reserve("u", "n", 3 * MIB, started=False)
    assert share is not None
    assert share.rejection("n") == (
        "exceeds the operator's memory for namespace n, whose jobs use 0 of 2 MiB: "
        "delete jobs there, make their specs smaller, or raise --jobs-memory"
    )
