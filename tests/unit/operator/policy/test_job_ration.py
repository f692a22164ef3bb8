"""Who may keep how much of the operator's memory in specs of jobs: no namespace takes what the others need."""

from elasticjob_operator.policy.job_ration import JobRation

MIB = 1 << 20


def fill(ration: JobRation, namespace: str, *, begun: bool = False) -> int:
    """Jobs of 1 MiB until one is refused; how many were kept."""
    number = 0
    while ration.take(f"{namespace}-{begun}-{number}", namespace, MIB, begun=begun) is None:
        number += 1
    return number


def test_one_namespace_may_have_half_and_the_next_ones_always_find_room() -> None:
    ration = JobRation(128 * MIB)
    assert [fill(ration, namespace) for namespace in "abc"] == [64, 32, 16]
    assert ration.kept == 112 * MIB


def test_however_many_namespaces_fill_it_the_whole_is_never_exceeded() -> None:
    ration = JobRation(128 * MIB)
    for number in range(200):
        fill(ration, str(number), begun=bool(number % 2))
    assert ration.kept <= 128 * MIB


def test_a_job_that_has_begun_goes_on_where_a_new_one_is_refused() -> None:
    ration = JobRation(128 * MIB)
    assert fill(ration, "a") == 64
    assert fill(ration, "a", begun=True) == 32
    assert fill(ration, "b") == 16, "and the others still find room"


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
