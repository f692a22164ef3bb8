"""What a change of a job's keys is worth: only what a status tells makes the operator look at once."""

from dataclasses import replace

import pytest

from elasticjob_api.keys import Keys
from elasticjob_api.records import Progress, Recovery, Report, WorkerReport, WorkerState, encode
from elasticjob_etcd.protocol import KeyValue
from elasticjob_operator.cluster.job_records import JobRecords, News

KEYS = Keys("/elasticjob/c/n/j/u")
WORKER = WorkerReport(rank=0, state=WorkerState.HEALTHY, pid=7, cpu_percent=1.0, memory_bytes=1)
REPORT = Report(pod="j-0-a", pod_uid="u", round=1, workers=(WORKER,), progress=Progress(step=1), time_ns=1)


def put(records: JobRecords, report: Report) -> News:
    kv = KeyValue(KEYS.report(0, "00000001"), encode(report), create_revision=1, mod_revision=2, version=1)
    return records.put(kv)


@pytest.fixture
def told() -> JobRecords:
    records = JobRecords(KEYS)
    assert put(records, REPORT) is News.STATE, "the first report of an agent"
    return records


def test_samples_and_time_alone_are_less_than_a_change_of_state(told: JobRecords) -> None:
    later = replace(REPORT, time_ns=2, workers=(replace(WORKER, cpu_percent=99.0, memory_bytes=10**9),))
    assert put(told, later) is News.SOFT
    assert list(told.view(3).reports.values()) == [later], "it is known all the same"


def test_progress_is_less_than_a_change_of_state(told: JobRecords) -> None:
    assert put(told, replace(REPORT, progress=Progress(step=2))) is News.SOFT


@pytest.mark.parametrize(
    "changed",
    [
        replace(REPORT, workers=(replace(WORKER, state=WorkerState.FAILED),)),
        replace(REPORT, workers=(replace(WORKER, pid=8),)),
        replace(REPORT, workers=()),
        replace(REPORT, round=2),
        replace(REPORT, stalled_since_ns=5),
        replace(REPORT, recovery=Recovery(stop_s=1.0)),
    ],
)
def test_anything_else_of_a_report_is_a_change_of_state(told: JobRecords, changed: Report) -> None:
    assert put(told, replace(changed, progress=Progress(step=2))) is News.STATE


def test_a_report_that_cannot_be_read_is_a_change_of_state(told: JobRecords) -> None:
    key = KEYS.report(0, "00000001")
    assert told.put(KeyValue(key, b"{", create_revision=1, mod_revision=3, version=2)) is News.STATE


def test_any_other_key_is_a_change_of_state(told: JobRecords) -> None:
    assert told.put(KeyValue(KEYS.spec, b"{}", create_revision=1, mod_revision=3, version=1)) is News.STATE


def test_a_report_with_new_samples_is_read_when_it_is_looked_at_in_its_newest_version(
    told: JobRecords,
) -> None:
    for memory in (2, 3, 4):
        assert put(told, replace(REPORT, workers=(replace(WORKER, memory_bytes=memory),))) is News.SOFT
    assert [report.workers[0].memory_bytes for report in told.view(3).reports.values()] == [4]


def test_after_reports_that_nobody_looked_at_a_change_of_state_is_seen(told: JobRecords) -> None:
    put(told, replace(REPORT, time_ns=2))
    assert put(told, replace(REPORT, time_ns=3, round=2)) is News.STATE
    assert [report.round for report in told.view(3).reports.values()] == [2]


def test_every_report_is_counted_once_whether_it_is_read_or_not() -> None:
    counted: list[bool] = []
    records = JobRecords(KEYS, lambda *, readable: counted.append(readable))
    for report in (REPORT, replace(REPORT, time_ns=2), replace(REPORT, time_ns=3, round=2)):
        put(records, report)
    records.put(KeyValue(KEYS.report(0, "00000001"), b"{", create_revision=1, mod_revision=3, version=2))
    assert counted == [True, True, True, False]
