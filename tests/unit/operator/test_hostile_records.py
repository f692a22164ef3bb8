"""Any values below a job's own prefix: the operator still plans, affects no other job, and writes a valid status.

A pod of the job may write every key there, so counts, ranks, sizes and names are not trusted. The operator's own code
decodes random hostile versions of a running job's records and plans from them.
"""

import json
import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elasticjob_api import codec, records
from elasticjob_api.keys import Keys, job_prefix
from elasticjob_api.records import Completion, Progress, Tombstone, TombstoneReason, WorkerFailure, WorkerState
from elasticjob_api.rendezvous_state import encode_membership, encode_state
from elasticjob_api.rendezvous_view import PARSERS, parse_view
from elasticjob_etcd.interface import KeyValue
from elasticjob_operator.informers.rendezvous_store import JobStore
from elasticjob_operator.model.actions import CreatePod, DeletePods, Evict, ForceDelete, Plan, WriteSpec
from elasticjob_operator.model.ids import Ids
from elasticjob_operator.planner.plan import plan
from testing import builders
from testing.hostile_keys import HOSTILE_KEYS
from testing.mutations import NOT_FINITE, VALUES, mutate

KEYS = Keys(job_prefix(cluster="c", namespace="ns", name="j", uid="job-uid"))
MOST_STATUS_BYTES = 300_000
MAX_REPLICAS = 4
JOB = builders.job(min_replicas=1, max_replicas=MAX_REPLICAS, replicas=2, backoff_limit=3)
PODS = (builders.pod(0), builders.pod(1))
IDS = Ids(suffix=lambda: "fresh", nonce=lambda: "nonce-01")
REPORT = builders.report(0, WorkerState.HEALTHY, WorkerState.FAILED)
EARLIER = builders.report(1, WorkerState.HEALTHY, progress=Progress(3, 10, {"loss": "0.1"}), time_ns=10**18)
"""The report of an earlier agent, which has samples."""
SAMPLES = builders.samples(Progress(3, 10, {"loss": "0.1"}), cpu_percent=(1.5, None), memory_bytes=(1, None))
FAILURE = WorkerFailure(
    incarnation="000000a0", rank=0, exit_code=-9, message="boom", pod="j-0-a", time_ns=10**18, stderr="x"
)
A0, A1 = builders.member(0), builders.member(1)
RUNNING: dict[str, bytes] = {
    KEYS.spec: records.encode(builders.record(0, 1, max=MAX_REPLICAS)),
    KEYS.expected: records.encode(records.ExpectedSlots((1,))),
    KEYS.rendezvous_state: encode_state(
        builders.active(0, 1, root_cause="1/0000.0", charged_failures="1:0,5", message="why", master="h:1")
    ),
    KEYS.members: encode_membership(builders.membership(0, 1)),
    KEYS.node(0, A0.incarnation): records.encode(builders.node(0).record),
    KEYS.node(1, A1.incarnation): records.encode(builders.node(1).record),
    KEYS.report(0, A0.incarnation): records.encode(REPORT),
    KEYS.samples(0, A0.incarnation): records.encode(SAMPLES),
    KEYS.report(1, A1.incarnation): records.encode(EARLIER),
    KEYS.failure(1, 0, 0): records.encode(FAILURE),
    KEYS.completion(1, 1): records.encode(Completion(A1.incarnation)),
    KEYS.tombstone(1, "000000ff"): records.encode(Tombstone(TombstoneReason.POD_FAILED, "OOMKilled")),
}
"""The keys in etcd of a job with two nodes."""


def keys_of(held: dict[str, bytes]) -> Iterator[KeyValue]:
    """Yield the keys, written one after the other, each with a lease of its own."""
    for revision, (key, value) in enumerate(held.items(), start=1):
        yield KeyValue(key, value, create_revision=revision, mod_revision=revision, version=1, lease=revision)


def store_of(held: dict[str, bytes]) -> JobStore:
    """Return the operator's store of these keys."""
    store = JobStore(KEYS)
    for kv in keys_of(held):
        store.put(kv)
    return store


def planned(held: dict[str, bytes]) -> Plan:
    """Return the plan from these keys, decoded by the operator's own store."""
    return plan(builders.seen(JOB, store_of(held).view(100), *PODS), IDS)


def require_harmless(made: Plan) -> None:
    """Check that only this job is affected, within its limits, and that the status can be stored."""
    created = [action for action in made.actions if isinstance(action, CreatePod)]
    assert len(created) <= MAX_REPLICAS
    assert all(pod.name.startswith("j-") and len(pod.name) <= 63 for pod in created)
    for action in made.actions:
        if isinstance(action, DeletePods):
            assert set(action.pods) <= {pod.name for pod in PODS}
        elif isinstance(action, ForceDelete):
            assert action.name in {pod.name for pod in PODS}
        elif isinstance(action, WriteSpec):
            assert len(action.record.slots) <= MAX_REPLICAS
            assert len(records.encode(action.record)) < MOST_STATUS_BYTES
        elif isinstance(action, Evict):
            assert 0 < action.lease <= len(RUNNING) + 1
    if made.status is not None:
        require_storable(codec.write(made.status))


def require_storable(value: Any, path: str = "status") -> None:
    """Check that the API server accepts the value as JSON: ranges of numbers, valid text, limited lengths."""
    assert len(json.dumps(value, allow_nan=False).encode()) < MOST_STATUS_BYTES
    for where, item in _leaves(value, path):
        if isinstance(item, str):
            item.encode()
        elif isinstance(item, int):
            assert -(2**63) <= item < 2**63, where


def _leaves(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def test_the_records_of_a_running_job_are_all_readable() -> None:
    assert store_of(RUNNING).view(100).unreadable == ()
    require_harmless(planned(RUNNING))


def test_the_operator_and_the_leader_have_the_same_view_of_a_running_job() -> None:
    theirs = parse_view(KEYS, [*keys_of(RUNNING)])
    earlier, samples = records.split_samples(EARLIER)
    assert samples is not None
    reported = replace(theirs, reports={A0: REPORT, A1: earlier}, samples={A0: SAMPLES, A1: samples})
    assert theirs.state_create_revision > 0
    reported = replace(reported, state_create_revision=0)  # only agents need to know a wipe by it
    assert store_of(RUNNING).view(0) == reported


@settings(max_examples=300, deadline=None)
@given(rng=st.randoms(use_true_random=False), key=st.sampled_from(sorted(RUNNING)), times=st.integers(1, 3))
def test_hostile_values_in_a_record(rng: random.Random, key: str, times: int) -> None:
    if not RUNNING[key].startswith(b"{"):
        return
    value = mutate(json.loads(RUNNING[key]), rng, times=times, values=(*VALUES, *NOT_FINITE))
    held = {**RUNNING, key: json.dumps(value).encode(errors="replace")}
    require_harmless(planned(held))


@settings(max_examples=200, deadline=None)
@given(rng=st.randoms(use_true_random=False), key=st.sampled_from([KEYS.rendezvous_state, KEYS.members]))
def test_hostile_bytes_in_state_and_members(rng: random.Random, key: str) -> None:
    data = bytearray(RUNNING[key])
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        data[at : at + rng.randrange(3)] = rng.choice([b"", b"9" * 40, b"-1", b"\xff", b" ", b"=", b"\n", b"%00", b"x"])
    require_harmless(planned({**RUNNING, key: bytes(data)}))


HOSTILE_STATES = (
    {"nprocs": "2x999999999999"},
    {"nprocs": "abcx2"},
    {"nprocs": "999999999999999999999x2"},
    {"restarts": 10**40},
    {"node_losses": -5},
    {"round": 10**30},
    {"message": "y" * 500_000},
    {"charged_failures": "1:" + "0," * 200_000},
    {"root_cause": "1/zzzz.-1"},
    {"members": tuple(builders.member(0) for _ in range(60_000))},
)


@pytest.mark.parametrize("state", HOSTILE_STATES, ids=lambda state: next(iter(state)))
def test_hostile_claims_of_a_state(state: dict[str, Any]) -> None:
    fields = {name: value for name, value in state.items() if name != "members"}
    active = builders.active(0, 1, **fields)
    if "members" in state:
        active = builders.active(*([0] * 60_000))
    require_harmless(planned({**RUNNING, KEYS.rendezvous_state: encode_state(active)}))


@pytest.mark.parametrize("key", HOSTILE_KEYS, ids=lambda key: f"{key!r:.30}")
def test_hostile_keys_of_a_job(key: str) -> None:
    made = planned({**RUNNING, f"{KEYS.prefix}{key}": b"x"})
    require_harmless(made)
    assert made.status == planned(RUNNING).status


@settings(max_examples=300, deadline=None)
@given(rest=st.text(max_size=60), value=st.binary(max_size=60))
def test_any_key_below_the_prefix(rest: str, value: bytes) -> None:
    require_harmless(planned({**RUNNING, f"{KEYS.everything}{rest}": value}))


def test_a_bug_in_decoding_affects_one_record_and_not_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a bug in the decoding of one kind, the other keys and the other jobs are still decoded."""
    monkeypatch.setitem(PARSERS, "gone", PARSERS["gone"]._replace(decode=lambda _data: 1 // 0))
    assert planned(RUNNING).status is not None
    found = JobStore(KEYS)
    found.put(KeyValue(KEYS.tombstone(1, "000000ff"), b"x", create_revision=1, mod_revision=1, version=1, lease=0))
    assert ["an error of the operator" in text for text in found.view(1).unreadable] == [True]
    found.drop(KEYS.tombstone(1, "000000ff"))
    assert found.empty


def test_a_map_of_all_slots_creates_no_more_pods_than_the_maximum() -> None:
    flood = builders.record(*range(5000), max=MAX_REPLICAS)
    require_harmless(planned({**RUNNING, KEYS.spec: records.encode(flood)}))


def test_a_map_that_names_other_jobs_pods_does_not_affect_them() -> None:
    foreign = json.loads(RUNNING[KEYS.spec])
    for slots in ({"victim": {"": "0-abcde"}}, {"": {"": "1=../../x"}}, {"j": {"": "99999-a"}}):
        foreign["slots"] = slots
        require_harmless(planned({**RUNNING, KEYS.spec: json.dumps(foreign).encode()}))


def test_names_with_a_shared_prefix_use_no_more_memory_than_the_slots() -> None:
    """Each slot repeats the beginning of a name that the record has once: 900 KB became 24 GB of memory."""
    slots = {"x" * 400_000: {"": " ".join(f"{slot}-a" for slot in range(60))}}
    value = json.dumps({**json.loads(RUNNING[KEYS.spec]), "slots": slots}).encode()
    job_records = JobStore(KEYS)
    tracemalloc.start()
    try:
        job_records.put(KeyValue(KEYS.spec, value, create_revision=1, mod_revision=1, version=1, lease=0))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    [message] = job_records.view(1).unreadable
    assert len(message) < 1000
