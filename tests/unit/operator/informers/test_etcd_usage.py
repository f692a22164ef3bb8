"""What each job has of etcd and of the operator's memory: counted as it comes by, kept up to its allowance."""

import itertools
import zlib

import pytest

from elasticjob_etcd.interface import KeyValue
from elasticjob_operator.informers.etcd_usage import BUDGET, UNKNOWN, WINDOW_S, EtcdUsage
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.policy.etcd.quota import FAILURES_KEPT_WHOLE, KIB, MIB, MIN_MEMORY, EtcdQuota, allowed_bytes
from testing.clocks.fake_clock import FakeClock

KEY, OTHER = JobKey("n", "j", "uid"), JobKey("n", "other", "uid-2")
SMALL = EtcdQuota(stored=2 * MIB, written=8 * MIB)
NODES, NPROC = 1000, 8


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1000.0)


@pytest.fixture
def footprints(clock: FakeClock) -> EtcdUsage:
    """Of a job that is known, and small."""
    made = EtcdUsage(clock)
    assert made.account_write(put("first", size=0))
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


def test_a_job_within_its_allowance_is_kept_whole(footprints: EtcdUsage) -> None:
    assert footprints.account_write(put("a"))
    assert footprints.account_write(put("b", size=MIB // 2))
    assert footprints.violation(KEY) == ""


def test_what_is_beyond_the_allowance_is_not_kept_and_told(footprints: EtcdUsage) -> None:
    assert [footprints.account_write(put(rest)) for rest in "abc"] == [True, False, False]
    assert footprints.violation(KEY) == "4 MiB are below its prefix in etcd, and a job of its size may have 2 MiB"


def test_no_other_job_is_concerned(footprints: EtcdUsage) -> None:
    footprints.account_write(put("a"))
    footprints.account_write(put("b"))
    assert footprints.account_write(put("a", size=5 * MIB, key=OTHER))
    assert footprints.violation(OTHER) == ""


def test_the_names_of_keys_count_too_and_long_ones_are_neither_parsed_nor_kept(footprints: EtcdUsage) -> None:
    assert not footprints.account_write(KeyValue(below("c/done/" + "9" * 5000 + "/0000"), b"", 1, 1, 1))
    assert footprints.violation(KEY) == ""
    assert not footprints.account_write(KeyValue(below("k" * (3 * MIB)), b"", 1, 1, 1))
    assert footprints.violation(KEY)


def test_a_key_that_is_written_again_counts_once(footprints: EtcdUsage) -> None:
    assert all(footprints.account_write(put("a")) for _ in range(7))
    assert footprints.violation(KEY) == ""


def test_what_is_overwritten_again_and_again_is_told_since_etcd_keeps_it_for_a_while(footprints: EtcdUsage) -> None:
    for _ in range(9):
        footprints.account_write(put("a"))
    assert footprints.violation(KEY).startswith("10 MiB were written within 300 s in etcd")


def test_what_was_written_long_ago_is_forgotten(footprints: EtcdUsage, clock: FakeClock) -> None:
    for _ in range(4):
        for _ in range(3):
            footprints.account_write(put("a"))
        assert footprints.violation(KEY) == ""
        clock.now_s += WINDOW_S / 2 + 1


def test_deleting_and_writing_anew_does_not_hide_it(footprints: EtcdUsage) -> None:
    for number in range(9):
        footprints.account_write(put(f"a{number}"))
        footprints.account_delete(name(f"a{number}"))
    footprints.account_delete(name("first"))
    assert "were written" in footprints.violation(KEY)


def test_a_job_of_which_all_is_deleted_holds_nothing(footprints: EtcdUsage, clock: FakeClock) -> None:
    for rest in "abc":
        footprints.account_write(put(rest))
    for rest in ("first", *"abc"):
        footprints.account_delete(name(rest))
    assert footprints.violation(KEY) == ""
    assert footprints.cached == 0
    assert not footprints.has_keys(KEY)
    clock.now_s += WINDOW_S
    assert footprints.violation(KEY) == ""


def test_a_list_counts_anew_what_is_held(footprints: EtcdUsage) -> None:
    for rest in "abc":
        footprints.account_write(put(rest))
    footprints.forget()
    assert [footprints.account_stored(put(rest)) for rest in "abc"] == [True, False, False]
    footprints.forget()
    assert footprints.account_stored(put("a"))
    assert footprints.violation(KEY) == ""


def test_keys_of_no_job_are_not_kept(footprints: EtcdUsage) -> None:
    assert not footprints.account_write(KeyValue("/elasticjob/health", bytes(5 * MIB), 1, 1, 1))
    footprints.account_delete("/elasticjob/health")


def test_what_the_operator_does_not_read_is_counted_and_not_kept(footprints: EtcdUsage) -> None:
    before = footprints.cached
    assert not any(
        footprints.account_write(record(rest, 100)) for rest in ("c/ctl/closer", "c/ctl/terms", "c/of-tomorrow")
    )
    assert footprints.cached == before
    assert footprints.has_keys(KEY)


# The operator's memory.


def fill(footprints: EtcdUsage, key: JobKey, megabytes: int, *, listed: bool = False) -> None:
    """Reports of one node, plausible ones, again and again under other names."""
    for number in range(megabytes << 10 >> 5):
        kv = record(f"r/{number & 0xFFFF:04x}.{number >> 16:08x}", 32 * KIB, key)
        footprints.account_stored(kv) if listed else footprints.account_write(kv)


def test_a_small_job_of_much_that_etcd_may_hold_is_expelled_from_memory(clock: FakeClock) -> None:
    footprints = EtcdUsage(clock, lambda _: allowed_bytes(1, 1))
    fill(footprints, KEY, 58)
    assert footprints.violation(KEY) == (
        "its records take more than 48 MiB of the operator's memory, which its size allows"
    )
    assert footprints.cached == 0
    assert footprints.drain_over_quota() == {KEY}
    assert footprints.drain_over_quota() == set()
    assert not footprints.account_write(put("more", size=1))


def test_too_many_keys_are_too_much_however_small(clock: FakeClock) -> None:
    footprints = EtcdUsage(clock, lambda _: allowed_bytes(1, 1))
    most = allowed_bytes(1, 1).keys
    for number in range(most + 10):
        footprints.account_write(record(f"c/gone/0000.{number:08x}", 1))
    assert f"{most + 1} keys are below its prefix in etcd, and a job of its size may have {most}" == (
        footprints.violation(KEY)
    )


@pytest.mark.parametrize("listed", [True, False])
def test_many_jobs_within_their_allowances_stay_within_the_budget_of_all(clock: FakeClock, *, listed: bool) -> None:
    footprints = EtcdUsage(clock, lambda _: allowed_bytes(1, 1))
    honest = [JobKey("n", f"honest-{number}", "u") for number in range(20)]
    for key in honest:
        for slot in range(20):
            footprints.account_stored(record(f"r/{slot:04x}.00000001", 2 * KIB, key))
    hostile = [JobKey("n", f"hostile-{number}", "u") for number in range(20)]
    for key in hostile:
        fill(footprints, key, 20, listed=listed)
        assert footprints.cached <= BUDGET + MIB
    expelled = footprints.drain_over_quota()
    assert expelled
    assert expelled <= set(hostile)
    assert not any(footprints.violation(key) for key in honest)
    assert all("all jobs together may have 128 MiB" in footprints.violation(key) for key in expelled)


def test_the_one_that_takes_most_for_its_size_goes_first(clock: FakeClock) -> None:
    sizes = {KEY: allowed_bytes(1, 1), OTHER: allowed_bytes(NODES, NPROC)}
    footprints = EtcdUsage(clock, sizes.get, budget=40 * MIB)
    for number in range(1000):
        footprints.account_write(record(f"r/{number:04x}.00000001", 16 * KIB, OTHER))
    fill(footprints, KEY, 6)
    assert footprints.drain_over_quota() == {KEY}
    assert footprints.violation(OTHER) == ""


def test_of_honest_jobs_none_goes_though_all_are_more_than_the_budget(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    footprints = EtcdUsage(clock, lambda _: allowed_bytes(NODES, NPROC), budget=10 * MIB)
    for number, key in itertools.product(range(NODES), [JobKey("n", f"large-{n}", "u") for n in range(3)]):
        assert footprints.account_write(record(f"r/{number:04x}.00000001", 2 * KIB, key))
    assert footprints.drain_over_quota() == set()
    assert footprints.cached > 10 * MIB
    (said,) = caplog.messages
    assert said == "the records of all jobs take 10 MiB, more than --records-memory (10 MiB)"


def test_a_job_that_the_api_server_has_not_shown_has_a_limit_too_and_is_not_judged(clock: FakeClock) -> None:
    assert UNKNOWN.memory <= 64 * MIB
    footprints = EtcdUsage(clock)
    fill(footprints, KEY, 60)
    assert footprints.cached <= UNKNOWN.memory
    assert footprints.violation(KEY) == ""
    footprints.allow(KEY, allowed_bytes(NODES, NPROC))
    assert footprints.drain_must_list(), "what was not kept is allowed now"
    footprints.forget()
    fill(footprints, KEY, 60, listed=True)
    assert not footprints.drain_must_list()
    assert footprints.cached > MIN_MEMORY


def test_a_job_that_has_got_more_pods_since_is_allowed_more(clock: FakeClock) -> None:
    pods = 1
    footprints = EtcdUsage(clock, lambda _: allowed_bytes(pods, NPROC))
    footprints.account_write(put("first"))
    pods, clock.now_s = NODES, clock.now_s + 2.0
    fill(footprints, KEY, 60)
    assert footprints.violation(KEY) == ""


def test_a_job_that_has_become_small_may_have_left_what_it_had(clock: FakeClock) -> None:
    footprints = EtcdUsage(clock, lambda _: allowed_bytes(NODES, NPROC))
    fill(footprints, KEY, 60)
    footprints.allow(KEY, allowed_bytes(1, NPROC))
    assert footprints.violation(KEY) == ""


@pytest.mark.parametrize("listed", [True, False])
def test_all_that_agents_of_a_large_job_write_at_most_is_kept(clock: FakeClock, *, listed: bool) -> None:
    """The documented bound, 672 MiB in etcd: long reports, and every worker has failed at length in two rounds."""
    footprints = EtcdUsage(clock, lambda key: allowed_bytes(NODES, NPROC) if key == KEY else allowed_bytes(1, 1))
    see = footprints.account_stored if listed else footprints.account_write
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
    assert footprints.violation(KEY) == ""
    assert footprints.drain_over_quota() == set()
    assert footprints.cached < BUDGET
    assert sum(not footprints.must_reduce(kv) for kv in failures) == 2 * FAILURES_KEPT_WHOLE
    crowd = [JobKey("n", f"hostile-{number}", "u") for number in range(6)]
    for key in crowd:
        fill(footprints, key, 20)
    assert footprints.violation(KEY) == "", "others go first"


def test_failures_that_were_deleted_make_room_for_others_to_be_kept_whole(footprints: EtcdUsage) -> None:
    first = [record(f"c/failures/1/0000.{rank}", 4 * KIB) for rank in range(FAILURES_KEPT_WHOLE)]
    for kv in first:
        footprints.account_write(kv)
    late = record("c/failures/1/0001.0", 4 * KIB)
    footprints.account_write(late)
    assert footprints.must_reduce(late)
    assert not footprints.must_reduce(first[0])
    footprints.account_delete(first[0].key)
    footprints.account_write(record("c/failures/1/0002.0", 4 * KIB))
    assert not footprints.must_reduce(record("c/failures/1/0002.0", 4 * KIB))


def test_rounds_that_are_written_and_deleted_leave_nothing_behind(footprints: EtcdUsage) -> None:
    rounds = [record(f"c/failures/{number}/0000.0", 0) for number in range(1, 1001)]
    for one in rounds:
        footprints.account_write(one)
        footprints.account_delete(one.key)
    assert footprints.rounds(KEY) == 0
    for one in rounds[:7]:
        footprints.account_write(one)
    assert footprints.rounds(KEY) == 7


def test_rounds_of_an_expelled_job_are_not_kept(clock: FakeClock) -> None:
    footprints = EtcdUsage(clock, lambda _: allowed_bytes(2, 8))
    footprints.account_write(put("first", size=0))
    taken = [record(f"c/failures/{number}/0000.0", MIB) for number in range(1, 200)]
    kept = sum(footprints.account_write(one) for one in taken)
    assert footprints.drain_over_quota() == {KEY}
    assert kept <= footprints.rounds(KEY) <= kept + 1
