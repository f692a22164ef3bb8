"""Kinds of changes of a job's keys: only a change that a status shows causes a reconcile at once."""

import itertools
import logging
from dataclasses import replace

import pytest

from elasticjob_api.keys import Keys
from elasticjob_api.records import NodeReport, Progress, RecoveryTimings, WorkerReport, WorkerState, encode
from elasticjob_etcd.interface import KeyValue
from elasticjob_operator.cluster.log_limit import MAX_LINES
from elasticjob_operator.informers.rendezvous_store import ChangeKind, JobStore
from testing import builders

REVISIONS = itertools.count(1000)
KEYS = Keys("/elasticjob/c/n/j/u")
WORKER = WorkerReport(rank=0, state=WorkerState.HEALTHY, pid=7, cpu_percent=1.0, memory_bytes=1)
REPORT = NodeReport(pod="j-0-a", pod_uid="u", round=1, workers=(WORKER,), progress=Progress(step=1), time_ns=1)


def put(records: JobStore, report: NodeReport) -> ChangeKind:
    kv = KeyValue(KEYS.report(0, "00000001"), encode(report), 1, mod_revision=next(REVISIONS), version=1)
    return records.put(kv)


@pytest.fixture
def store() -> JobStore:
    records = JobStore(KEYS)
    assert put(records, REPORT) is ChangeKind.STATE, "the first report of an agent"
    return records


def test_samples_and_time_alone_are_no_change_of_state(store: JobStore) -> None:
    later = replace(REPORT, time_ns=2, workers=(replace(WORKER, cpu_percent=99.0, memory_bytes=10**9),))
    assert put(store, later) is ChangeKind.PROGRESS
    assert list(store.view(3).reports.values()) == [later], "it is known all the same"


def test_progress_is_no_change_of_state(store: JobStore) -> None:
    assert put(store, replace(REPORT, progress=Progress(step=2))) is ChangeKind.PROGRESS


@pytest.mark.parametrize(
    "changed",
    [
        replace(REPORT, workers=(replace(WORKER, state=WorkerState.FAILED),)),
        replace(REPORT, workers=(replace(WORKER, pid=8),)),
        replace(REPORT, workers=()),
        replace(REPORT, round=2),
        replace(REPORT, stalled_since_ns=5),
        replace(REPORT, recovery=RecoveryTimings(stop_s=1.0)),
    ],
)
def test_any_other_field_of_a_report_is_a_change_of_state(store: JobStore, changed: NodeReport) -> None:
    assert put(store, replace(changed, progress=Progress(step=2))) is ChangeKind.STATE


def test_an_unreadable_report_is_a_change_of_state(store: JobStore) -> None:
    key = KEYS.report(0, "00000001")
    assert store.put(KeyValue(key, b"{", create_revision=1, mod_revision=3, version=2)) is ChangeKind.STATE


def test_any_other_key_is_a_change_of_state(store: JobStore) -> None:
    assert store.put(KeyValue(KEYS.spec, b"{}", create_revision=1, mod_revision=3, version=1)) is ChangeKind.STATE


def test_a_report_with_new_samples_is_decoded_for_the_view_in_its_newest_version(
    store: JobStore,
) -> None:
    for memory in (2, 3, 4):
        assert put(store, replace(REPORT, workers=(replace(WORKER, memory_bytes=memory),))) is ChangeKind.PROGRESS
    assert [report.workers[0].memory_bytes for report in store.view(3).reports.values()] == [4]


def test_a_change_of_state_after_undecoded_reports_is_detected(store: JobStore) -> None:
    put(store, replace(REPORT, time_ns=2))
    assert put(store, replace(REPORT, time_ns=3, round=2)) is ChangeKind.STATE
    assert [report.round for report in store.view(3).reports.values()] == [2]


def test_every_report_is_counted_once_decoded_or_not() -> None:
    counted: list[bool] = []
    records = JobStore(KEYS, lambda *, readable: counted.append(readable))
    for report in (REPORT, replace(REPORT, time_ns=2), replace(REPORT, time_ns=3, round=2)):
        put(records, report)
    records.put(KeyValue(KEYS.report(0, "00000001"), b"{", create_revision=1, mod_revision=3, version=2))
    assert counted == [True, True, True, False]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(
            KEYS.rendezvous_state, b"w1 state=draining round=1 nonce=n\n", id="a world of a state that is not known"
        ),
        pytest.param(KEYS.rendezvous_state, b"w2 \n", id="a world of another version"),
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
