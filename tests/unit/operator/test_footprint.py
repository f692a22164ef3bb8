"""What each job has of etcd: counted as it comes by, kept in memory up to its allowance, and told when it is more."""

import pytest

from elasticjob_etcd.protocol import KeyValue
from elasticjob_operator.cluster.footprint import UNKNOWN, WINDOW_S, Footprints
from elasticjob_operator.jobkey import JobKey
from elasticjob_operator.policy.footprint import MIB, Allowance
from tests.faults.clock import Clock

KEY, OTHER = JobKey("n", "j", "uid"), JobKey("n", "other", "uid-2")
SMALL = Allowance(held=2 * MIB, written=8 * MIB)


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


@pytest.fixture
def footprints(clock: Clock) -> Footprints:
    """Of a job that is known, and small."""
    made = Footprints(clock)
    assert made.wrote(put("first", size=0))
    made.allow(KEY, SMALL)
    return made


def name(rest: str, key: JobKey = KEY) -> str:
    return f"/elasticjob/c/{key.namespace}/{key.name}/{key.uid}/{rest}"


def put(rest: str, *, size: int = MIB, key: JobKey = KEY) -> KeyValue:
    return KeyValue(name(rest, key), bytes(size), 1, 1, 1)


def test_a_job_within_its_allowance_is_kept_whole(footprints: Footprints) -> None:
    assert footprints.wrote(put("a"))
    assert footprints.wrote(put("b", size=MIB // 2))
    assert footprints.excess(KEY) == ""


def test_what_is_beyond_the_allowance_is_not_kept_and_told(footprints: Footprints) -> None:
    assert [footprints.wrote(put(rest)) for rest in "abc"] == [True, False, False]
    assert footprints.excess(KEY) == "4 MiB are below its prefix in etcd, and a job of its size may have 2 MiB"


def test_no_other_job_is_concerned(footprints: Footprints) -> None:
    footprints.wrote(put("a"))
    footprints.wrote(put("b"))
    assert footprints.wrote(put("a", size=5 * MIB, key=OTHER))
    assert footprints.excess(OTHER) == ""


def test_the_names_of_keys_count_too(footprints: Footprints) -> None:
    assert not footprints.wrote(put("k" * (3 * MIB), size=0))
    assert footprints.excess(KEY)


def test_a_key_that_is_written_again_counts_once(footprints: Footprints) -> None:
    assert all(footprints.wrote(put("a")) for _ in range(7))
    assert footprints.excess(KEY) == ""


def test_what_is_overwritten_again_and_again_is_told_since_etcd_keeps_it_for_a_while(footprints: Footprints) -> None:
    for _ in range(9):
        footprints.wrote(put("a"))
    assert footprints.excess(KEY).startswith("10 MiB were written within 300 s in etcd")


def test_what_was_written_long_ago_is_forgotten(footprints: Footprints, clock: Clock) -> None:
    for _ in range(4):
        for _ in range(3):
            footprints.wrote(put("a"))
        assert footprints.excess(KEY) == ""
        clock.now_s += WINDOW_S / 2 + 1


def test_deleting_and_writing_anew_does_not_hide_it(footprints: Footprints) -> None:
    for number in range(9):
        footprints.wrote(put(f"a{number}"))
        footprints.dropped(name(f"a{number}"))
    footprints.dropped(name("first"))
    assert "were written" in footprints.excess(KEY)


def test_a_job_of_which_all_is_deleted_holds_nothing(footprints: Footprints, clock: Clock) -> None:
    for rest in "abc":
        footprints.wrote(put(rest))
    for rest in ("first", *"abc"):
        footprints.dropped(name(rest))
    assert footprints.excess(KEY) == ""
    clock.now_s += WINDOW_S
    assert footprints.excess(KEY) == ""


def test_a_list_counts_anew_what_is_held(footprints: Footprints) -> None:
    for rest in "abc":
        footprints.wrote(put(rest))
    footprints.forget()
    assert [footprints.holds(put(rest)) for rest in "abc"] == [True, False, False]
    footprints.forget()
    assert footprints.holds(put("a"))
    assert footprints.excess(KEY) == ""


def test_a_job_that_nobody_has_looked_at_may_be_large(clock: Clock) -> None:
    made = Footprints(clock)
    assert made.holds(put("a", size=8 * MIB))
    assert UNKNOWN.held > 100 * MIB
    made.allow(KEY, SMALL)
    assert made.excess(KEY)


def test_keys_of_no_job_are_let_through(footprints: Footprints) -> None:
    assert footprints.wrote(KeyValue("/elasticjob/health", bytes(5 * MIB), 1, 1, 1))
    footprints.dropped("/elasticjob/health")
