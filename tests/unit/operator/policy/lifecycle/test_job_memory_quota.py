"""Who may keep how much of the operator's memory in specs of jobs: no namespace takes what the others need."""

from elasticjob_operator.policy.lifecycle.job_memory_quota import GROWTH, JobRation

MIB = 1 << 20
RAN = {"a": 128, "b": 64, "c": 32, "d": 16, "e": 8, "f": 4, "g": 2, "h": 1, "z": 512}
"""Jobs of 1/16 MiB: what each namespace took of 64 MiB, z first."""


def fill(ration: JobRation, namespace: str, *, begun: bool = False) -> int:
    """Jobs of 1 MiB until one is refused; how many were kept."""
    number = 0
    while ration.take(f"{namespace}-{begun}-{number}", namespace, MIB, begun=begun) is None:
        number += 1
    return number


def full_of_begun(size: int = MIB) -> JobRation:
    """Of namespace z as much as it may begin, and of others what leaves nothing for it to grow."""
    ration = JobRation(128 * MIB)
    for namespace in "zabc":
        number = 0
        while ration.take(f"{namespace}-{number}", namespace, size, begun=False) is None:
            number += 1
    return ration


def test_one_namespace_may_have_half_and_the_next_ones_always_find_room() -> None:
    ration = JobRation(128 * MIB)
    assert [fill(ration, namespace) for namespace in "abc"] == [64, 32, 16]
    assert ration.kept == 112 * MIB


def test_however_many_namespaces_fill_it_with_new_jobs_the_whole_is_never_exceeded() -> None:
    ration = JobRation(128 * MIB)
    for number in range(200):
        fill(ration, str(number))
    assert ration.kept <= 128 * MIB


def test_jobs_that_have_begun_never_take_more_than_half_beyond_the_whole() -> None:
    ration = JobRation(128 * MIB)
    for number in range(200):
        fill(ration, str(number), begun=bool(number % 2))
    assert 128 * MIB < ration.kept <= 192 * MIB


def test_a_job_that_has_begun_goes_on_where_a_new_one_is_refused() -> None:
    ration = JobRation(128 * MIB)
    assert fill(ration, "a") == 64
    assert fill(ration, "a", begun=True) == 32 + 64
    assert fill(ration, "b") == 16, "and the others still find room"


def test_a_new_operator_refuses_no_job_that_ran_whichever_it_hears_of_first() -> None:
    ran = [(f"{namespace}-{number}", namespace) for namespace, jobs in RAN.items() for number in range(jobs)]
    for order in (ran, ran[::-1]):
        ration = JobRation(64 * MIB)
        assert all(ration.take(uid, namespace, MIB // 16, begun=True) is None for uid, namespace in order)


def test_a_job_that_has_begun_may_grow_a_little_although_its_namespace_has_its_share() -> None:
    ration = full_of_begun()
    assert ration.take("z-0", "z", MIB + 60, begun=True) is None
    assert ration.take("z-0", "z", MIB + GROWTH, begun=True) is None
    assert ration.take("z-0", "z", MIB + GROWTH + 1, begun=True) is not None, "from where it began"
    assert ration.take("z-0", "z", MIB, begun=True) is None, "and it may go back"
    assert ration.take("z-1", "z", MIB + 60, begun=False) is not None


def test_what_jobs_grow_by_is_bounded_and_not_what_others_find_free() -> None:
    ration = full_of_begun(size=MIB // 16)
    free = 128 * MIB - ration.kept
    uids = [uid for uid in ration.uids() if uid.startswith("z")]
    grown = [ration.take(uid, "z", MIB // 16 + GROWTH, begun=True) for uid in uids]
    assert 0 < grown.count(None) < len(uids)
    assert ration.kept <= (128 + 32) * MIB - free
    assert fill(ration, "new") >= free // MIB // 2


def test_a_job_that_was_refused_is_not_taken_for_one_that_ran_before_this_process() -> None:
    ration = full_of_begun()
    assert ration.take("z-0", "z", 5 * MIB, begun=True) is not None
    assert ration.take("z-0", "z", 5 * MIB, begun=True) is not None
    ration.refuse("z-1", "z")
    assert ration.take("z-1", "z", 5 * MIB, begun=True) is not None
    assert ration.take("z-1", "z", MIB, begun=True) is None


def test_a_job_that_is_kept_stays_although_others_come() -> None:
    ration = JobRation(128 * MIB)
    fill(ration, "a")
    fill(ration, "b")
    assert all(ration.take(f"a-False-{number}", "a", MIB, begun=False) is None for number in range(64))
    assert ration.take("a-False-0", "a", 2 * MIB, begun=False) is not None, "but does not grow"


def test_what_is_gone_makes_room() -> None:
    ration = JobRation(128 * MIB)
    fill(ration, "a")
    for uid in list(ration.uids()):
        ration.drop(uid)
    ration.drop("unknown")
    assert (ration.kept, fill(ration, "b")) == (0, 64)


def test_the_refusal_names_namespace_size_and_cure() -> None:
    ration = JobRation(2 * MIB)
    share = ration.take("u", "n", 3 * MIB, begun=False)
    assert share is not None
    assert share.refusal("n") == (
        "is more than the operator keeps of namespace n, 0 MiB of 2: delete jobs there, make their specs smaller, or"
        " give the operator more (--jobs-memory)"
    )
