"""Usage of etcd and of the operator's memory by job: counted for each key, cached up to the quota."""

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
def usage(clock: FakeClock) -> EtcdUsage:
    """Return the usage with a job that is known and small."""
    made = EtcdUsage(clock)
    assert made.account_write(put("first", size=0))
    made.allow(KEY, SMALL)
    return made


def name(rest: str, key: JobKey = KEY) -> str:
    """Return the key of a node; each `rest` has its own."""
    return below(f"c/nodes/0000.{zlib.crc32(rest.encode()):08x}", key)


def below(rest: str, key: JobKey = KEY) -> str:
    return f"/elasticjob/c/{key.namespace}/{key.name}/{key.uid}/{rest}"


def put(rest: str, *, size: int = MIB, key: JobKey = KEY) -> KeyValue:
    return KeyValue(name(rest, key), bytes(size), 1, 1, 1)


def record(rest: str, size: int, key: JobKey = KEY) -> KeyValue:
    return KeyValue(below(rest, key), _BYTES.setdefault(size, bytes(size)), 1, 1, 1)


_BYTES: dict[int, bytes] = {}


def test_a_job_within_its_quota_is_cached_whole(usage: EtcdUsage) -> None:
    assert usage.account_write(put("a"))
    assert usage.account_write(put("b", size=MIB // 2))
    assert usage.violation(KEY) == ""


def test_a_key_beyond_the_quota_is_not_cached_and_reported(usage: EtcdUsage) -> None:
    assert [usage.account_write(put(rest)) for rest in "abc"] == [True, False, False]
    assert usage.violation(KEY) == "4 MiB are below its prefix in etcd, and a job of its size may have 2 MiB"


def test_no_other_job_is_affected(usage: EtcdUsage) -> None:
    usage.account_write(put("a"))
    usage.account_write(put("b"))
    assert usage.account_write(put("a", size=5 * MIB, key=OTHER))
    assert usage.violation(OTHER) == ""


def test_names_of_keys_count_and_long_ones_are_neither_parsed_nor_cached(usage: EtcdUsage) -> None:
    assert not usage.account_write(KeyValue(below("c/done/" + "9" * 5000 + "/0000"), b"", 1, 1, 1))
    assert usage.violation(KEY) == ""
    assert not usage.account_write(KeyValue(below("k" * (3 * MIB)), b"", 1, 1, 1))
    assert usage.violation(KEY)


def test_a_rewritten_key_counts_once(usage: EtcdUsage) -> None:
    assert all(usage.account_write(put("a")) for _ in range(7))
    assert usage.violation(KEY) == ""


def test_frequent_overwrites_exceed_the_quota_because_etcd_keeps_history(usage: EtcdUsage) -> None:
    for _ in range(9):
        usage.account_write(put("a"))
    assert usage.violation(KEY).startswith("10 MiB were written within 300 s in etcd")


def test_writes_older_than_the_window_are_forgotten(usage: EtcdUsage, clock: FakeClock) -> None:
    for _ in range(4):
        for _ in range(3):
            usage.account_write(put("a"))
        assert usage.violation(KEY) == ""
        clock.now_s += WINDOW_S / 2 + 1


def test_deleting_and_writing_again_does_not_hide_the_excess(usage: EtcdUsage) -> None:
    for number in range(9):
        usage.account_write(put(f"a{number}"))
        usage.account_delete(name(f"a{number}"))
    usage.account_delete(name("first"))
    assert "were written" in usage.violation(KEY)


def test_a_job_without_keys_uses_nothing(usage: EtcdUsage, clock: FakeClock) -> None:
    for rest in "abc":
        usage.account_write(put(rest))
    for rest in ("first", *"abc"):
        usage.account_delete(name(rest))
    assert usage.violation(KEY) == ""
    assert usage.cached == 0
    assert not usage.has_keys(KEY)
    clock.now_s += WINDOW_S
    assert usage.violation(KEY) == ""


def test_a_list_counts_stored_keys_again(usage: EtcdUsage) -> None:
    for rest in "abc":
        usage.account_write(put(rest))
    usage.forget()
    assert [usage.account_stored(put(rest)) for rest in "abc"] == [True, False, False]
    usage.forget()
    assert usage.account_stored(put("a"))
    assert usage.violation(KEY) == ""


def test_keys_without_a_job_are_not_cached(usage: EtcdUsage) -> None:
    assert not usage.account_write(KeyValue("/elasticjob/health", bytes(5 * MIB), 1, 1, 1))
    usage.account_delete("/elasticjob/health")


def test_keys_that_the_operator_does_not_read_are_counted_and_not_cached(usage: EtcdUsage) -> None:
    before = usage.cached
    assert not any(usage.account_write(record(rest, 100)) for rest in ("c/ctl/closer", "c/ctl/terms", "c/of-tomorrow"))
    assert usage.cached == before
    assert usage.has_keys(KEY)


# The operator's memory.


def fill(usage: EtcdUsage, key: JobKey, megabytes: int, *, listed: bool = False) -> None:
    """Write valid reports of one node under changing names, up to that size."""
    for number in range(megabytes << 10 >> 5):
        kv = record(f"r/{number & 0xFFFF:04x}.{number >> 16:08x}", 32 * KIB, key)
        usage.account_stored(kv) if listed else usage.account_write(kv)


def test_a_small_job_with_large_records_is_expelled_from_memory(clock: FakeClock) -> None:
    usage = EtcdUsage(clock, lambda _: allowed_bytes(1, 1))
    fill(usage, KEY, 58)
    assert usage.violation(KEY) == ("its records take more than 48 MiB of the operator's memory, which its size allows")
    assert usage.cached == 0
    assert usage.drain_over_quota() == {KEY}
    assert usage.drain_over_quota() == set()
    assert not usage.account_write(put("more", size=1))


def test_too_many_small_keys_exceed_the_quota(clock: FakeClock) -> None:
    usage = EtcdUsage(clock, lambda _: allowed_bytes(1, 1))
    most = allowed_bytes(1, 1).keys
    for number in range(most + 10):
        usage.account_write(record(f"c/gone/0000.{number:08x}", 1))
    assert f"{most + 1} keys are below its prefix in etcd, and a job of its size may have {most}" == (
        usage.violation(KEY)
    )


@pytest.mark.parametrize("listed", [True, False])
def test_many_jobs_within_their_quotas_stay_within_the_common_budget(clock: FakeClock, *, listed: bool) -> None:
    usage = EtcdUsage(clock, lambda _: allowed_bytes(1, 1))
    honest = [JobKey("n", f"honest-{number}", "u") for number in range(20)]
    for key in honest:
        for slot in range(20):
            usage.account_stored(record(f"r/{slot:04x}.00000001", 2 * KIB, key))
    hostile = [JobKey("n", f"hostile-{number}", "u") for number in range(20)]
    for key in hostile:
        fill(usage, key, 20, listed=listed)
        assert usage.cached <= BUDGET + MIB
    expelled = usage.drain_over_quota()
    assert expelled
    assert expelled <= set(hostile)
    assert not any(usage.violation(key) for key in honest)
    assert all("all jobs together may have 128 MiB" in usage.violation(key) for key in expelled)


def test_the_job_that_uses_the_most_for_its_size_is_expelled_first(clock: FakeClock) -> None:
    sizes = {KEY: allowed_bytes(1, 1), OTHER: allowed_bytes(NODES, NPROC)}
    usage = EtcdUsage(clock, sizes.get, budget=40 * MIB)
    for number in range(1000):
        usage.account_write(record(f"r/{number:04x}.00000001", 16 * KIB, OTHER))
    fill(usage, KEY, 6)
    assert usage.drain_over_quota() == {KEY}
    assert usage.violation(OTHER) == ""


def test_jobs_within_their_fair_share_are_not_expelled_even_above_the_budget(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    usage = EtcdUsage(clock, lambda _: allowed_bytes(NODES, NPROC), budget=10 * MIB)
    for number, key in itertools.product(range(NODES), [JobKey("n", f"large-{n}", "u") for n in range(3)]):
        assert usage.account_write(record(f"r/{number:04x}.00000001", 2 * KIB, key))
    assert usage.drain_over_quota() == set()
    assert usage.cached > 10 * MIB
    (message,) = caplog.messages
    assert message == "the records of all jobs take 10 MiB, more than --records-memory (10 MiB)"


def test_an_unknown_job_has_a_limit_and_is_not_expelled(clock: FakeClock) -> None:
    assert UNKNOWN.memory <= 64 * MIB
    usage = EtcdUsage(clock)
    fill(usage, KEY, 60)
    assert usage.cached <= UNKNOWN.memory
    assert usage.violation(KEY) == ""
    usage.allow(KEY, allowed_bytes(NODES, NPROC))
    assert usage.drain_must_list(), "what was not admitted is allowed now"
    usage.forget()
    fill(usage, KEY, 60, listed=True)
    assert not usage.drain_must_list()
    assert usage.cached > MIN_MEMORY


def test_the_quota_grows_with_the_number_of_pods(clock: FakeClock) -> None:
    pods = 1
    usage = EtcdUsage(clock, lambda _: allowed_bytes(pods, NPROC))
    usage.account_write(put("first"))
    pods, clock.now_s = NODES, clock.now_s + 2.0
    fill(usage, KEY, 60)
    assert usage.violation(KEY) == ""


def test_the_quota_of_a_reduced_job_does_not_fall(clock: FakeClock) -> None:
    usage = EtcdUsage(clock, lambda _: allowed_bytes(NODES, NPROC))
    fill(usage, KEY, 60)
    usage.allow(KEY, allowed_bytes(1, NPROC))
    assert usage.violation(KEY) == ""


@pytest.mark.parametrize("listed", [True, False])
def test_the_most_that_agents_of_a_large_job_can_write_is_cached(clock: FakeClock, *, listed: bool) -> None:
    """The documented bound is 672 MiB in etcd: long reports, and long failures of every worker in two rounds."""
    usage = EtcdUsage(clock, lambda key: allowed_bytes(NODES, NPROC) if key == KEY else allowed_bytes(1, 1))
    see = usage.account_stored if listed else usage.account_write
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
    assert usage.violation(KEY) == ""
    assert usage.drain_over_quota() == set()
    assert usage.cached < BUDGET
    assert sum(not usage.must_reduce(kv) for kv in failures) == 2 * FAILURES_KEPT_WHOLE
    crowd = [JobKey("n", f"hostile-{number}", "u") for number in range(6)]
    for key in crowd:
        fill(usage, key, 20)
    assert usage.violation(KEY) == "", "others go first"


def test_deleted_failures_free_places_for_whole_ones(usage: EtcdUsage) -> None:
    first = [record(f"c/failures/1/0000.{rank}", 4 * KIB) for rank in range(FAILURES_KEPT_WHOLE)]
    for kv in first:
        usage.account_write(kv)
    late = record("c/failures/1/0001.0", 4 * KIB)
    usage.account_write(late)
    assert usage.must_reduce(late)
    assert not usage.must_reduce(first[0])
    usage.account_delete(first[0].key)
    usage.account_write(record("c/failures/1/0002.0", 4 * KIB))
    assert not usage.must_reduce(record("c/failures/1/0002.0", 4 * KIB))


def test_written_and_deleted_rounds_leave_no_entry(usage: EtcdUsage) -> None:
    rounds = [record(f"c/failures/{number}/0000.0", 0) for number in range(1, 1001)]
    for one in rounds:
        usage.account_write(one)
        usage.account_delete(one.key)
    assert usage.rounds(KEY) == 0
    for one in rounds[:7]:
        usage.account_write(one)
    assert usage.rounds(KEY) == 7


def test_rounds_of_an_expelled_job_have_no_entry(clock: FakeClock) -> None:
    usage = EtcdUsage(clock, lambda _: allowed_bytes(2, 8))
    usage.account_write(put("first", size=0))
    taken = [record(f"c/failures/{number}/0000.0", MIB) for number in range(1, 200)]
    admitted = sum(usage.account_write(one) for one in taken)
    assert usage.drain_over_quota() == {KEY}
    assert admitted <= usage.rounds(KEY) <= admitted + 1
