"""Records of a running job: there and back, the bytes that older agents wrote, and refusal of all else."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_api import records
from elasticjob_api.errors import RecordError
from elasticjob_api.records import (
    Completion,
    ExpectedSlots,
    FailureRule,
    KeepReport,
    NodeRecord,
    NodeReport,
    NodeSamples,
    Progress,
    RecoveryTimings,
    SlotOwner,
    SpecRecord,
    StartReport,
    Tombstone,
    TombstoneReason,
    WorkerFailure,
    WorkerReport,
    WorkerState,
)

NODE = NodeRecord(pod="p", pod_uid="u", lease=7, host="h", address="10.0.0.1", nproc=2)
RECORDS: list[Any] = [
    NODE,
    NodeRecord(
        pod="p", pod_uid="u", lease=2**63 - 1, host="h", address="fd00::1", nproc=8, role="ps", master_port=1,
        link_port=2, ready=3, leaving=True, topology="rack/a",
    ),
    WorkerFailure(incarnation="0000000a", rank=3, exit_code=-9, signal="SIGKILL", message="ä\n\x00", late=True,
        oom=True),
    WorkerFailure(incarnation="0000000a", rank=3, exit_code=1, pod="p", host="h", pid=1, time_ns=2**62,
        stopped_by_agent=True),
    Completion("0000000a"),
    ExpectedSlots((0, 3, 65535)),
    ExpectedSlots(),
    Tombstone(TombstoneReason.POD_FAILED, "OOMKilled"),
    SpecRecord(min=1, max=2, desired=2),
    SpecRecord(
        min=1, max=8, desired=3, slots={0: SlotOwner("a", "r"), 0xFFFF: SlotOwner("b")}, operator="id",
        max_restarts=0, failure_rules=(FailureRule("FailJob", (1, 137), negate=True), FailureRule("Ignore")),
        success_policy="AnyWorker", join_timeout_s=0.5, suspended=True, restart_id="r", replacements=4,
        first_round=1001, first_restarts=2,
    ),
    SpecRecord(min=1, max=2, desired=2, keep_copies=0),
    SpecRecord(min=1, max=2, desired=2, keep_copies=1),
    NodeReport(pod="p", pod_uid="u", round=1, group_rank=None),
    NodeReport(
        pod="p", pod_uid="u", round=1, group_rank=0, progress=Progress(3, None, {"loss": "0.1"}),
        workers=(WorkerReport(rank=0, state=WorkerState.FAILED, exit_code=0, cpu_percent=12.5, memory_bytes=0),),
    ),
    NodeReport(pod="p", pod_uid="u", round=1, start=StartReport()),
    NodeReport(pod="p", pod_uid="u", round=1, start=StartReport(warm=1, cold_reason="why", first_output_s=0.19)),
    NodeSamples(round=1),
    NodeSamples(
        round=1, cpu_percent=(12.5, None), memory_bytes=(None, 0), progress=Progress(3, None, {"loss": "0.1"}),
        time_ns=2**62,
    ),
    NodeSamples(round=1, keep=KeepReport()),
    NodeSamples(
        round=9,
        keep=KeepReport(round=7, step=10**15 - 1, copies=0, held_bytes=2**40, size_limit_bytes=2**41, skipped=3,
        persisted_step=0, persisted_ns=2**62, persist_error="ö", degraded="ä", committed_ns=1, copy_s=0.25,
        restoring=7),
    ),
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_comes_back_as_it_was(record: Any) -> None:
    assert records.decode(type(record), records.encode(record)) == record


def test_what_is_at_its_default_is_not_written() -> None:
    assert json.loads(records.encode(NODE)) == {
        "v": 1,
        "pod": "p",
        "podUid": "u",
        "lease": 7,
        "host": "h",
        "address": "10.0.0.1",
        "nproc": 2,
    }


def test_a_report_of_an_agent_whose_warm_start_is_off_has_no_field_about_starts() -> None:
    plain = NodeReport(pod="p", pod_uid="u", round=1)
    assert "start" not in json.loads(records.encode(plain))
    assert json.loads(records.encode(replace(plain, start=StartReport(warm=2, first_output_s=0.19))))["start"] == {
        "warm": 2,
        "firstOutputSeconds": 0.19,
    }


def test_records_of_a_job_without_keep_have_no_field_about_it() -> None:
    spec, samples = SpecRecord(min=1, max=2, desired=2), NodeSamples(round=1)
    assert "keepCopies" not in json.loads(records.encode(spec))
    assert "keep" not in json.loads(records.encode(samples))
    assert json.loads(records.encode(replace(spec, keep_copies=0)))["keepCopies"] == 0
    kept = KeepReport(round=7, step=120, copies=1, held_bytes=10, size_limit_bytes=99, skipped=2, degraded="why")
    kept = replace(kept, persisted_step=60, persist_error="full")
    assert json.loads(records.encode(replace(samples, keep=kept)))["keep"] == {
        "round": 7,
        "step": 120,
        "copies": 1,
        "heldBytes": 10,
        "sizeLimitBytes": 99,
        "skipped": 2,
        "persistedStep": 60,
        "persistError": "full",
        "degraded": "why",
    }


def test_names_are_those_of_the_manifest() -> None:
    written = json.loads(
        records.encode(SpecRecord(min=1, max=2, desired=2, join_timeout_s=60.0, graceful_shutdown_s=1.0))
    )
    assert {"joinTimeoutSeconds": 60, "stopGraceSeconds": 1}.items() <= written.items()


CORRUPT = [
    pytest.param(b"", id="empty"),
    pytest.param(b"{", id="half"),
    pytest.param(b"[]", id="a list"),
    pytest.param(b"null", id="null"),
    pytest.param(b'{"incarnation":"0000000a"}', id="no version"),
    pytest.param(b'{"v":2,"incarnation":"0000000a"}', id="another version"),
    pytest.param(b'{"v":1}', id="a field missing"),
    pytest.param(b'{"v":1,"incarnation":10}', id="a wrong type"),
    pytest.param(b"\xff\xfe\x00\x01", id="not text"),
    pytest.param(b"[" * 100_000, id="too deep"),
]


@pytest.mark.parametrize("data", CORRUPT)
def test_a_corrupt_record_is_a_record_error_that_says_which(data: bytes) -> None:
    with pytest.raises(RecordError, match=r"^Completion record"):
        records.decode(Completion, data)


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_with_fields_of_a_newer_version_is_the_same_record(record: Any) -> None:
    newer = {**json.loads(records.encode(record)), "colour": {"v": 1, "deep": [{"er": None}]}}
    assert records.decode(type(record), json.dumps(newer).encode()) == record


def test_fields_of_a_newer_version_are_ignored_at_every_depth() -> None:
    newer = {
        "v": 1, "pod": "p", "podUid": "u", "round": 1, "colour": "blue",
        "recovery": {"stopSeconds": 1, "warmSeconds": 2},
        "workers": [{"rank": 0, "state": "HEALTHY", "gpuPercent": 7}], "progress": {"step": 3, "phase": "warm-up"},
    }  # fmt: skip
    assert records.decode(NodeReport, json.dumps(newer).encode()) == NodeReport(
        pod="p",
        pod_uid="u",
        round=1,
        workers=(WorkerReport(rank=0, state=WorkerState.HEALTHY),),
        progress=Progress(3),
        recovery=RecoveryTimings(stop_s=1.0),
    )


def test_a_word_of_a_newer_version_is_unknown() -> None:
    assert records.decode(Tombstone, b'{"v":1,"reason":"eaten","detail":"by mice"}') == Tombstone(
        TombstoneReason.UNKNOWN, "by mice"
    )
    paused = records.decode(WorkerReport, b'{"v":1,"rank":0,"state":"PAUSED"}')
    assert paused == WorkerReport(rank=0, state=WorkerState.UNKNOWN)


@pytest.mark.parametrize("reason", ["5", "null", '["left"]', "{}"])
def test_what_no_version_writes_is_no_word_of_a_newer_one(reason: str) -> None:
    with pytest.raises(RecordError, match="is not one of left, refused"):
        records.decode(Tombstone, f'{{"v":1,"reason":{reason}}}'.encode())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
names = st.sampled_from(["pod", "podUid", "lease", "slots", "min", "max", "desired", "reason", "workers", "progress"])


@given(
    st.sampled_from([NodeRecord, SpecRecord, Tombstone, NodeReport, WorkerFailure, ExpectedSlots]),
    st.dictionaries(names, json_values),
)
def test_any_json_is_a_record_or_a_record_error(cls: type[Any], fields: dict[str, Any]) -> None:
    try:
        decoded = records.decode(cls, json.dumps({"v": 1, **fields}).encode())
    except RecordError:
        return
    assert isinstance(decoded, cls)


def test_a_slot_is_owned_by_the_pod_that_the_map_names() -> None:
    spec = SpecRecord(min=1, max=2, desired=2, slots={10: SlotOwner("pod-a")})
    assert (spec.owner(10), spec.owner(0)) == (SlotOwner("pod-a"), None)


def test_a_huge_usage_that_can_be_read_can_be_written_and_read_again() -> None:
    samples = records.decode(NodeSamples, b'{"v":1,"round":1,"cpuPercent":[' + b"9" * 60 + b".5]}")
    assert records.decode(NodeSamples, records.encode(samples)) == samples
