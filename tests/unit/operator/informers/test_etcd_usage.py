"""What each job has of etcd and of the operator's memory: counted as it comes by, kept up to its allowance."""

import itertools
import zlib

import pytest

from elasticjob_etcd.interface import KeyValue
from elasticjob_operator.informers.etcd_usage import BUDGET, UNKNOWN, WINDOW_S, Footprints
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.policy.etcd.quota import FAILURES_KEPT_WHOLE, KIB, LEAST_MEMORY, MIB, Allowance, allowed
from testing.clocks.fake_clock import Clock

KEY, OTHER = JobKey("n", "j", "uid"), JobKey("n", "other", "uid-2")
SMALL = Allowance(held=2 * MIB, written=8 * MIB)
NODES, NPROC = 1000, 8


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
    """The key of a node: one for each `rest`."""
    return below(f"c/nodes/0000.{zlib.crc32(rest.encode()):08x}", key)


def below(rest: str, key: JobKey = KEY) -> str:
    return f"/elasticjob/c/{key.namespace}/{key.name}/{key.uid}/{rest}"


def put(rest: str, *, size: int = MIB, key: JobKey = KEY) -> KeyValue:
    return KeyValue(name(rest, key), bytes(size), 1, 1, 1)


def record(rest: str, size: int, key: JobKey = KEY) -> KeyValue:
    return KeyValue(below(rest, key), _BYTES.setdefault(size, bytes(size)), 1, 1, 1)


_BYTES: dict[int, bytes] = {}


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


def test_the_names_of_keys_count_too_and_long_ones_are_neither_parsed_nor_kept(footprints: Footprints) -> None:
    assert not footprints.wrote(KeyValue(below("c/done/" + "9" * 5000 + "/0000"), b"", 1, 1, 1))
    assert footprints.excess(KEY) == ""
    assert not footprints.wrote(KeyValue(below("k" * (3 * MIB)), b"", 1, 1, 1))
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
    assert footprints.kept == 0
    assert not footprints.has_keys(KEY)
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


def test_keys_of_no_job_are_not_kept(footprints: Footprints) -> None:
    assert not footprints.wrote(KeyValue("/elasticjob/health", bytes(5 * MIB), 1, 1, 1))
    footprints.dropped("/elasticjob/health")


def test_what_the_operator_does_not_read_is_counted_and_not_kept(footprints: Footprints) -> None:
    before = footprints.kept
    assert not any(footprints.wrote(record(rest, 100)) for rest in ("c/ctl/closer", "c/ctl/terms", "c/of-tomorrow"))
    assert footprints.kept == before
    assert footprints.has_keys(KEY)


# The operator's memory.


def fill(footprints: Footprints, key: JobKey, megabytes: int, *, listed: bool = False) -> None:
    """Reports of one node, plausible ones, again and again under other names."""
    for number in range(megabytes << 10 >> 5):
        kv = record(f"r/{number & 0xFFFF:04x}.{number >> 16:08x}", 32 * KIB, key)
        footprints.holds(kv) if listed else footprints.wrote(kv)


def test_a_small_job_of_much_that_etcd_may_hold_is_expelled_from_memory(clock: Clock) -> None:
    footprints = Footprints(clock, lambda _: allowed(1, 1))
    fill(footprints, KEY, 58)
    assert footprints.excess(KEY) == (
        "its records take more than 48 MiB of the operator's memory, which its size allows"
    )
    assert footprints.kept == 0
    assert footprints.take_expelled() == {KEY}
    assert footprints.take_expelled() == set()
    assert not footprints.wrote(put("more", size=1))


def test_too_many_keys_are_too_much_however_small(clock: Clock) -> None:
    footprints = Footprints(clock, lambda _: allowed(1, 1))
    most = allowed(1, 1).keys
    for number in range(most + 10):
        footprints.wrote(record(f"c/gone/0000.{number:08x}", 1))
    assert f"{most + 1} keys are below its prefix in etcd, and a job of its size may have {most}" == (
        footprints.excess(KEY)
    )


@pytest.mark.parametrize("listed", [True, False])
def test_many_jobs_within_their_allowances_stay_within_the_budget_of_all(clock: Clock, *, listed: bool) -> None:
    footprints = Footprints(clock, lambda _: allowed(1, 1))
    honest = [JobKey("n", f"honest-{number}", "u") for number in range(20)]
    for key in honest:
        for slot in range(20):
            footprints.holds(record(f"r/{slot:04x}.00000001", 2 * KIB, key))
    hostile = [JobKey("n", f"hostile-{number}", "u") for number in range(20)]
    for key in hostile:
        fill(footprints, key, 20, listed=listed)
        assert footprints.kept <= BUDGET + MIB
    expelled = footprints.take_expelled()
    assert expelled
    assert expelled <= set(hostile)
    assert not any(footprints.excess(key) for key in honest)
    assert all("all jobs together may have 128 MiB" in footprints.excess(key) for key in expelled)


def test_the_one_that_takes_most_for_its_size_goes_first(clock: Clock) -> None:
    sizes = {KEY: allowed(1, 1), OTHER: allowed(NODES, NPROC)}
    footprints = Footprints(clock, sizes.get, budget=40 * MIB)
    for number in range(1000):
        footprints.wrote(record(f"r/{number:04x}.00000001", 16 * KIB, OTHER))
    fill(footprints, KEY, 6)
    assert footprints.take_expelled() == {KEY}
    assert footprints.excess(OTHER) == ""


def test_of_honest_jobs_none_goes_though_all_are_more_than_the_budget(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    footprints = Footprints(clock, lambda _: allowed(NODES, NPROC), budget=10 * MIB)
    for number, key in itertools.product(range(NODES), [JobKey("n", f"large-{n}", "u") for n in range(3)]):
        assert footprints.wrote(record(f"r/{number:04x}.00000001", 2 * KIB, key))
    assert footprints.take_expelled() == set()
    assert footprints.kept > 10 * MIB
    (said,) = caplog.messages
    assert said == "the records of all jobs take 10 MiB, more than --records-memory (10 MiB)"


def test_a_job_that_the_api_server_has_not_shown_has_a_limit_too_and_is_not_judged(clock: Clock) -> None:
    assert UNKNOWN.memory <= 64 * MIB
    footprints = Footprints(clock)
    fill(footprints, KEY, 60)
    assert footprints.kept <= UNKNOWN.memory
    assert footprints.excess(KEY) == ""
    footprints.allow(KEY, allowed(NODES, NPROC))
    assert footprints.take_must_list(), "what was not kept is allowed now"
    footprints.forget()
    fill(footprints, KEY, 60, listed=True)
    assert not footprints.take_must_list()
    assert footprints.kept > LEAST_MEMORY


def test_a_job_that_has_got_more_pods_since_is_allowed_more(clock: Clock) -> None:
    pods = 1
    footprints = Footprints(clock, lambda _: allowed(pods, NPROC))
    footprints.wrote(put("first"))
    pods, clock.now_s = NODES, clock.now_s + 2.0
    fill(footprints, KEY, 60)
    assert footprints.excess(KEY) == ""


def test_a_job_that_has_become_small_may_have_left_what_it_had(clock: Clock) -> None:
    footprints = Footprints(clock, lambda _: allowed(NODES, NPROC))
    fill(footprints, KEY, 60)
    footprints.allow(KEY, allowed(1, NPROC))
    assert footprints.excess(KEY) == ""


@pytest.mark.parametrize("listed", [True, False])
def test_all_that_agents_of_a_large_job_write_at_most_is_kept(clock: Clock, *, listed: bool) -> None:
    """The documented bound, 672 MiB in etcd: long reports, and every worker has failed at length in two rounds."""
    footprints = Footprints(clock, lambda key: allowed(NODES, NPROC) if key == KEY else allowed(1, 1))
    see = footprints.holds if listed else footprints.wrote
    job = [record(rest, 64 * KIB) for rest in ("c/spec", "c/ctl/world", "c/members")]
    nodes = [record(f"c/nodes/{slot:04x}.00000001", 2 * KIB) for slot in range(NODES)]
    reports = [record(f"r/{slot:04x}.00000001", 26 * KIB) for slot in range(NODES)]
    gone = [record(f"c/gone/{slot:04x}.00000002", KIB) for slot in range(NODES)]
    failures = [
        record(f"c/failures/{round_}/{slot:04x}.{rank}", 40 * KIB)
        for round_ in (7, 8)
        for slot in range(NODES)
        for rank in range(NPROC)
    ]
    assert all(see(kv) for kv in (*job, *nodes, *reports, *gone, *failures))
    assert footprints.excess(KEY) == ""
    assert footprints.take_expelled() == set()
    assert footprints.kept < BUDGET
    assert sum(not footprints.is_reduced(kv) for kv in failures) == 2 * FAILURES_KEPT_WHOLE
    crowd = [JobKey("n", f"hostile-{number}", "u") for number in range(6)]
    for key in crowd:
        fill(footprints, key, 20)
    assert footprints.excess(KEY) == "", "others go first"


def test_failures_that_were_deleted_make_room_for_others_to_be_kept_whole(footprints: Footprints) -> None:
    first = [record(f"c/failures/1/0000.{rank}", 4 * KIB) for rank in range(FAILURES_KEPT_WHOLE)]
    for kv in first:
        footprints.wrote(kv)
    late = record("c/failures/1/0001.0", 4 * KIB)
    footprints.wrote(late)
    assert footprints.is_reduced(late)
    assert not footprints.is_reduced(first[0])
    footprints.dropped(first[0].key)
    footprints.wrote(record("c/failures/1/0002.0", 4 * KIB))
    assert not footprints.is_reduced(record("c/failures/1/0002.0", 4 * KIB))


def test_rounds_that_are_written_and_deleted_leave_nothing_behind(footprints: Footprints) -> None:
    rounds = [record(f"c/failures/{number}/0000.0", 0) for number in range(1, 1001)]
    for one in rounds:
        footprints.wrote(one)
        footprints.dropped(one.key)
    assert footprints.rounds(KEY) == 0
    for one in rounds[:7]:
        footprints.wrote(one)
    assert footprints.rounds(KEY) == 7


def test_rounds_of_an_expelled_job_are_not_kept(clock: Clock) -> None:
    footprints = Footprints(clock, lambda _: allowed(2, 8))
    footprints.wrote(put("first", size=0))
    taken = [record(f"c/failures/{number}/0000.0", MIB) for number in range(1, 200)]
    kept = sum(footprints.wrote(one) for one in taken)
    assert footprints.take_expelled() == {KEY}
    assert kept <= footprints.rounds(KEY) <= kept + 1
