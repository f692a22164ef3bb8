"""Random writes of a pod to the job's keys: the leader continues to plan, and logs the records that it ignores.

The operator's side of the same: tests/unit/operator/test_hostile_records.py.
"""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elasticjob_agent.rendezvous.protocol.leader_plan import Decision, WriteState, plan
from elasticjob_api import rendezvous_view
from elasticjob_api.records import TombstoneReason
from elasticjob_api.rendezvous_state import decode_state, encode_state
from testing.hostile_keys import HOSTILE_KEYS
from testing.mutations import NOT_FINITE, VALUES, mutate
from tests.unit.rendezvous.views import KEYS, OPERATOR, ViewBuilder, observed_at, view_builder

INCARNATION = "0000000a"


def a_job() -> ViewBuilder:
    """Round 3 runs in three slots, with a record of every kind."""
    job = view_builder(1, 3, operator=OPERATOR).owned_by(s0="pod-0", s1="pod-1", s2="pod-2").nodes(0, 1, 2)
    return job.active(3, 0, 1, 2).expected(2).failure(3, 1).completion(3, 0).tombstone(7, TombstoneReason.LEFT)


HELD = {key: kv.value for key, kv in a_job().items.items()}
RECORDS = sorted(key for key, value in HELD.items() if value.startswith(b"{"))


def next_act(key: str, value: bytes) -> Decision:
    """The closer's decision with this in that place; if it writes a state, one that can be read again."""
    decision = plan(a_job().put_raw(key, value).build(), observed_at(100.0), "fresh")
    if isinstance(decision, WriteState):
        assert decode_state(encode_state(decision.state)) == decision.state
    return decision


def test_there_are_records_of_every_kind_to_be_spoiled() -> None:
    kinds = {at.kind for key in HELD if (at := KEYS.parse(key)) is not None}
    assert kinds >= {"spec", "expected", "world", "terms", "link", "members", "node", "failure", "done", "gone"}
    assert len(RECORDS) >= 6


@settings(max_examples=400, deadline=None)
@given(rng=st.randoms(use_true_random=False), key=st.sampled_from(RECORDS), times=st.integers(1, 3))
def test_hostile_values_in_a_record(rng: random.Random, key: str, times: int) -> None:
    value = mutate(json.loads(HELD[key]), rng, times=times, values=(*VALUES, *NOT_FINITE))
    next_act(key, json.dumps(value).encode(errors="replace"))


@settings(max_examples=400, deadline=None)
@given(key=st.sampled_from(sorted(HELD)), value=st.binary(max_size=300))
def test_any_bytes_in_any_place(key: str, value: bytes) -> None:
    next_act(key, value)


@settings(max_examples=200, deadline=None)
@given(rng=st.randoms(use_true_random=False), key=st.sampled_from(sorted(HELD)))
def test_a_few_other_bytes_in_any_record(rng: random.Random, key: str) -> None:
    data = bytearray(HELD[key])
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        data[at : at + rng.randrange(3)] = rng.choice([b"", b"9" * 40, b"-1", b"\xff", b" ", b"=", b"\n", b"%00", b"x"])
    next_act(key, bytes(data))


@pytest.mark.parametrize("key", sorted(HELD))
def test_a_megabyte_in_any_place(key: str) -> None:
    next_act(key, HELD[key] + b" " * (1 << 20))
    next_act(key, b"x" * (1 << 20))


@pytest.mark.parametrize("key", HOSTILE_KEYS, ids=lambda key: f"{key!r:.30}")
def test_hostile_keys_of_the_job_change_nothing(key: str) -> None:
    assert next_act(f"{KEYS.prefix}{key}", b"x") == plan(a_job().build(), observed_at(100.0), "fresh")


@settings(max_examples=300, deadline=None)
@given(rest=st.text(max_size=60), value=st.binary(max_size=60))
def test_any_key_below_the_prefix(rest: str, value: bytes) -> None:
    next_act(f"{KEYS.everything}{rest}", value)


def test_a_fault_in_a_reader_costs_its_record_and_not_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rendezvous_view._AGENT_DECODERS, "gone", lambda _data: 1 // 0)
    found = a_job().build()
    assert ["a fault of elasticjob" in text for text in found.unreadable] == [True]
    assert len(found.nodes) == 3
