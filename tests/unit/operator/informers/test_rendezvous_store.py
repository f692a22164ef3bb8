"""Kinds of changes of a job's keys: only a change that a status shows causes a reconcile at once."""

import itertools
import logging
from dataclasses import replace

import pytest

from elasticjob_api.keys import Keys
from elasticjob_api.records import (
    KeepReport,
    NodeReport,
    NodeSamples,
    Progress,
    RecoveryTimings,
    StartReport,
    WorkerReport,
    WorkerState,
    encode,
)
from elasticjob_etcd.interface import KeyValue
from elasticjob_operator.cluster.log_limit import MAX_LINES
from elasticjob_operator.informers.rendezvous_store import ChangeKind, JobStore
from testing import builders

REVISIONS = itertools.count(1000)
KEYS = Keys("/elasticjob/c/n/j/u")
KEY = KEYS.report(0, "00000001")
WORKER = WorkerReport(rank=0, state=WorkerState.HEALTHY, pid=7)
REPORT = NodeReport(pod="j-0-a", pod_uid="u", round=1, workers=(WORKER,))
SAMPLES = NodeSamples(round=1, cpu_percent=(1.0,), memory_bytes=(1,), progress=Progress(step=1), time_ns=1)
EARLIER = replace(
    REPORT, workers=(replace(WORKER, cpu_percent=1.0, memory_bytes=1),), progress=Progress(step=1), time_ns=1
)
"""The same, as an earlier agent writes it."""


def put(records: JobStore, record: NodeReport | NodeSamples) -> ChangeKind:
    key = KEY if isinstance(record, NodeReport) else KEYS.samples(0, "00000001")
    return records.put(KeyValue(key, encode(record), 1, mod_revision=next(REVISIONS), version=1))


@pytest.fixture
def store() -> JobStore:
    records = JobStore(KEYS)
    assert put(records, REPORT) is ChangeKind.STATE, "the first report of an agent"
    return records


def test_samples_are_no_change_of_state(store: JobStore) -> None:
    for samples in (SAMPLES, replace(SAMPLES, progress=Progress(step=2), time_ns=2)):
        assert put(store, samples) is ChangeKind.PROGRESS
        assert list(store.view(3).samples.values()) == [samples]
    assert list(store.view(3).reports.values()) == [REPORT]


CHANGED = [
    replace(REPORT, workers=(replace(WORKER, state=WorkerState.FAILED),)),
    replace(REPORT, workers=(replace(WORKER, pid=8),)),
    replace(REPORT, workers=()),
    replace(REPORT, round=2),
    replace(REPORT, stalled_since_ns=5),
    replace(REPORT, recovery=RecoveryTimings(stop_s=1.0)),
    replace(REPORT, start=StartReport(warm=1)),
]


@pytest.mark.parametrize("changed", CHANGED)
def test_a_report_is_a_change_of_state(store: JobStore, changed: NodeReport) -> None:
    assert put(store, changed) is ChangeKind.STATE


def test_a_report_of_an_earlier_agent_has_state_and_samples() -> None:
    records = JobStore(KEYS)
    assert put(records, EARLIER) is ChangeKind.STATE
    view = records.view(3)
    assert (list(view.reports.values()), list(view.samples.values())) == ([REPORT], [SAMPLES])
    later = replace(EARLIER, progress=Progress(step=2), time_ns=2)
    assert put(records, later) is ChangeKind.PROGRESS
    assert list(records.view(3).samples.values()) == [replace(SAMPLES, progress=Progress(step=2), time_ns=2)]


@pytest.mark.parametrize("changed", CHANGED)
def test_any_other_field_of_an_earlier_agents_report_is_a_change_of_state(changed: NodeReport) -> None:
    records = JobStore(KEYS)
    put(records, EARLIER)
    assert put(records, replace(changed, progress=Progress(step=2), time_ns=2)) is ChangeKind.STATE


def test_a_deleted_report_of_an_earlier_agent_leaves_no_samples() -> None:
    records = JobStore(KEYS)
    put(records, EARLIER)
    records.drop(KEY)
    assert (records.view(3).samples, records.empty) == ({}, True)


def test_what_an_agent_has_on_disk_is_a_change_of_state_and_remembered_when_it_has_left(store: JobStore) -> None:
    samples = replace(SAMPLES, keep=KeepReport(step=7, round=1))
    assert put(store, samples) is ChangeKind.PROGRESS
    written = replace(samples, keep=KeepReport(step=7, round=1, persisted_step=8))
    assert put(store, written) is ChangeKind.STATE
    assert put(store, replace(written, time_ns=9)) is ChangeKind.PROGRESS
    store.delete(KEYS.samples(0, "00000001"))
    assert [each.keep for each in store.view(3).samples.values()] == [written.keep]


def test_an_unreadable_report_is_a_change_of_state(store: JobStore) -> None:
    assert store.put(KeyValue(KEY, b"{", create_revision=1, mod_revision=3, version=2)) is ChangeKind.STATE


def test_any_other_key_is_a_change_of_state(store: JobStore) -> None:
    assert store.put(KeyValue(KEYS.spec, b"{}", create_revision=1, mod_revision=3, version=1)) is ChangeKind.STATE


def test_a_report_with_its_samples_is_counted_once() -> None:
    counted: list[bool] = []
    records = JobStore(KEYS, lambda *, readable: counted.append(readable))
    put(records, REPORT)
    put(records, SAMPLES)
    assert counted == [True]
    put(records, replace(SAMPLES, time_ns=2))
    put(records, EARLIER)
    assert counted == [True] * 3, "samples alone, and a report of an earlier agent, count too"
    records.put(KeyValue(KEYS.samples(0, "00000001"), b"{", create_revision=1, mod_revision=3, version=2))
    assert counted == [True, True, True, False]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(KEYS.rendezvous_state, b"w1 state=draining round=1 nonce=n\n", id="a state of an unknown phase"),
        pytest.param(KEYS.rendezvous_state, b"w2 \n", id="a state of another version"),
        pytest.param(KEYS.spec, b'{"v":2}', id="a spec of another version"),
    ],
)
def test_an_unreadable_record_that_plans_depend_on_makes_the_view_unreadable(key: str, value: bytes) -> None:
    records = JobStore(KEYS)
    assert not records.view(1).is_unreadable
    records.put(KeyValue(key, value, create_revision=1, mod_revision=3, version=1))
    view = records.view(3)
    assert (view.is_unreadable, len(view.unreadable)) == (True, 1)


def test_a_repeated_list_changes_nothing_although_bytes_were_dropped(store: JobStore) -> None:
    node = KeyValue(KEYS.node(0, "00000001"), encode(builders.node(0).record), 1, mod_revision=7, version=1, lease=9)
    store.put(node)
    assert store.put(replace(node, value=b"")) is ChangeKind.PROGRESS
    assert [live.lease for live in store.view(9).nodes.values()] == [9]


@pytest.mark.parametrize(
    ("workers", "metrics", "why"),
    [
        (65, {}, "65 workers are more than 64"),
        (1, {str(n): "x" * 800 for n in range(60)}, "bytes are more than a report of 64 workers can have"),
    ],
)
def test_a_report_with_too_many_workers_is_rejected(workers: int, metrics: dict[str, str], why: str) -> None:
    records = JobStore(KEYS)
    records.most_workers = 64
    put(records, replace(REPORT, workers=(WORKER,) * workers, progress=Progress(step=1, metrics=metrics)))
    (message,) = records.view(3).unreadable
    assert why in message
    assert not records.view(3).reports


def test_samples_of_too_many_workers_are_rejected(store: JobStore) -> None:
    store.most_workers = 64
    put(store, replace(SAMPLES, cpu_percent=(1.0,) * 65))
    (message,) = store.view(3).unreadable
    assert "65 workers are more than 64" in message
    assert not store.view(3).samples


def test_foreign_text_cannot_forge_a_log_line(store: JobStore, caplog: pytest.LogCaptureFixture) -> None:
    forged = b'{"v":1,"pod":"p","podUid":"u","round":"x\\n2026 INFO team-b/other: FORGED \\u001b[2J"}'
    field = b'{"v":1,"pod":"p","podUid":"u","round":0,"progress":{"metrics":{"x\\nFORGED\\u001b":7}}}'
    for number, value in enumerate((forged, field)):
        store.put(KeyValue(KEYS.report(1, f"{number:08x}"), value, 1, mod_revision=next(REVISIONS), version=1))
    assert len(store.view(3).unreadable) == 2
    assert all(record.getMessage().isprintable() for record in caplog.records)
    assert all(message.isprintable() for message in store.view(3).unreadable)


def test_many_unreadable_records_cause_few_log_lines_and_a_short_status(
    store: JobStore, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(500):
            key = KEYS.report(number % 250, "0000000a")
            store.put(KeyValue(key, b"x", 1, mod_revision=next(REVISIONS), version=1))
    assert len(caplog.records) == MAX_LINES
    assert len(store.view(3).unreadable) == 9
    assert store.view(3).unreadable[-1] == "and 242 more"


def test_a_text_that_looks_like_a_worker_is_not_counted() -> None:
    records = JobStore(KEYS)
    records.most_workers = 1
    put(records, replace(REPORT, progress=Progress(step=1, metrics={"text": '"rank":1'})))
    assert len(records.view(3).reports) == 1
