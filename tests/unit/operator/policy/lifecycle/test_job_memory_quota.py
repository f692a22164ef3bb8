"""Who may keep how much of the operator's memory in specs of jobs: no namespace takes what the others need."""

from elasticjob_operator.policy.lifecycle.job_memory_quota import MAX_GROWTH_BYTES, JobMemoryQuota

MIB = 1 << 20
RAN = {"a": 128, "b": 64, "c": 32, "d": 16, "e": 8, "f": 4, "g": 2, "h": 1, "z": 512}
"""Jobs of 1/16 MiB: what each namespace took of 64 MiB, z first."""


def fill(ration: JobMemoryQuota, namespace: str, *, begun: bool = False) -> int:
    """Jobs of 1 MiB until one is refused; how many were kept."""
    number = 0
    while ration.reserve(f"{namespace}-{begun}-{number}", namespace, MIB, started=begun) is None:
        number += 1
    return number


def full_of_begun(size: int = MIB) -> JobMemoryQuota:
    """Of namespace z as much as it may begin, and of others what leaves nothing for it to grow."""
    ration = JobMemoryQuota(128 * MIB)
    for namespace in "zabc":
        number = 0
        while ration.reserve(f"{namespace}-{number}", namespace, size, started=False) is None:
            number += 1
    return ration


def test_one_namespace_may_have_half_and_the_next_ones_always_find_room() -> None:
    ration = JobMemoryQuota(128 * MIB)
    assert [fill(ration, namespace) for namespace in "abc"] == [64, 32, 16]
    assert ration.retained == 112 * MIB


def test_however_many_namespaces_fill_it_with_new_jobs_the_whole_is_never_exceeded() -> None:
    ration = JobMemoryQuota(128 * MIB)
    for number in range(200):
        fill(ration, str(number))
    assert ration.retained <= 128 * MIB


def test_jobs_that_have_begun_never_take_more_than_half_beyond_the_whole() -> None:
    ration = JobMemoryQuota(128 * MIB)
    for number in range(200):
        fill(ration, str(number), begun=bool(number % 2))
    assert 128 * MIB < ration.retained <= 192 * MIB


def test_a_job_that_has_begun_goes_on_where_a_new_one_is_refused() -> None:
    ration = JobMemoryQuota(128 * MIB)
    assert fill(ration, "a") == 64
    assert fill(ration, "a", begun=True) == 32 + 64
    assert fill(ration, "b") == 16, "and the others still find room"


def test_a_new_operator_refuses_no_job_that_ran_whichever_it_hears_of_first() -> None:
    ran = [(f"{namespace}-{number}", namespace) for namespace, jobs in RAN.items() for number in range(jobs)]
    for order in (ran, ran[::-1]):
        ration = JobMemoryQuota(64 * MIB)
        assert all(ration.reserve(uid, namespace, MIB // 16, started=True) is None for uid, namespace in order)


def test_a_job_that_has_begun_may_grow_a_little_although_its_namespace_has_its_share() -> None:
    ration = full_of_begun()
    assert ration.reserve("z-0", "z", MIB + 60, started=True) is None
    assert ration.reserve("z-0", "z", MIB + MAX_GROWTH_BYTES, started=True) is None
    assert ration.reserve("z-0", "z", MIB + MAX_GROWTH_BYTES + 1, started=True) is not None, "from where it began"
    assert ration.reserve("z-0", "z", MIB, started=True) is None, "and it may go back"
    assert ration.reserve("z-1", "z", MIB + 60, started=False) is not None


def test_what_jobs_grow_by_is_bounded_and_not_what_others_find_free() -> None:
    ration = full_of_begun(size=MIB // 16)
    free = 128 * MIB - ration.retained
    uids = [uid for uid in ration.uids() if uid.startswith("z")]
    grown = [ration.reserve(uid, "z", MIB // 16 + MAX_GROWTH_BYTES, started=True) for uid in uids]
    assert 0 < grown.count(None) < len(uids)
    assert ration.retained <= (128 + 32) * MIB - free
    assert fill(ration, "new") >= free // MIB // 2


def test_a_job_that_was_refused_is_not_taken_for_one_that_ran_before_this_process() -> None:
    ration = full_of_begun()
    assert ration.reserve("z-0", "z", 5 * MIB, started=True) is not None
    assert ration.reserve("z-0", "z", 5 * MIB, started=True) is not None
    ration.refuse("z-1", "z")
    assert ration.reserve("z-1", "z", 5 * MIB, started=True) is not None
    assert ration.reserve("z-1", "z", MIB, started=True) is None


def test_a_job_that_is_kept_stays_although_others_come() -> None:
    ration = JobMemoryQuota(128 * MIB)
    fill(ration, "a")
    fill(ration, "b")
    assert all(ration.reserve(f"a-False-{number}", "a", MIB, started=False) is None for number in range(64))
    assert ration.reserve("a-False-0", "a", 2 * MIB, started=False) is not None, "but does not grow"


def test_what_is_gone_makes_room() -> None:
    ration = JobMemoryQuota(128 * MIB)
    fill(ration, "a")
    for uid in list(ration.uids()):
        ration.drop(uid)
    ration.drop("unknown")
    assert (ration.retained, fill(ration, "b")) == (0, 64)


def test_the_refusal_names_namespace_size_and_cure() -> None:
    ration = JobMemoryQuota(2 * MIB)
    share = ration.reserve("u", "n", 3 * MIB, started=False)
    assert share is not None
    assert share.rejection("n") == (
        "exceeds the operator's memory for namespace n, whose jobs use 0 of 2 MiB: "
        "delete jobs there, make their specs smaller, or raise --jobs-memory"
    )
