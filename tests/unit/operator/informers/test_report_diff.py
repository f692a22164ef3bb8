"""Reports that need no decoding: only readable ones in which nothing but samples has changed."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_api.errors import RecordError
from elasticjob_api.records import NodeReport, Progress, WorkerReport, WorkerState, decode, encode
from elasticjob_operator.informers.record_validation import validate
from elasticjob_operator.informers.report_diff import differs_only_in_samples

WORKER = WorkerReport(rank=0, state=WorkerState.HEALTHY, pid=7, cpu_percent=1.5, memory_bytes=1)
REPORT = NodeReport(pod="j-0-a", pod_uid="u", round=1, workers=(WORKER, replace(WORKER, rank=1)), time_ns=1)
NUMBERS = st.text('0123456789.-+eE#"\\,:{}[] ntu', max_size=22) | st.floats().map(str) | st.integers().map(str)
FIELDS = ("cpuPercent", "memoryBytes", "timeNs", "pid", "round")


def test_only_samples_and_time_differ() -> None:
    workers = (replace(WORKER, cpu_percent=100.0, memory_bytes=1 << 40), replace(WORKER, rank=1, cpu_percent=0.25))
    later = replace(REPORT, time_ns=1_763_745_600_000_000_000, workers=workers)
    assert differs_only_in_samples(encode(REPORT), encode(later))


@pytest.mark.parametrize(
    "other",
    [
        replace(REPORT, round=2),
        replace(REPORT, workers=(replace(WORKER, state=WorkerState.FAILED), replace(WORKER, rank=1))),
        replace(REPORT, workers=(WORKER,)),
        replace(REPORT, workers=(replace(WORKER, memory_bytes=None), replace(WORKER, rank=1))),
        replace(REPORT, progress=Progress(step=1)),
        replace(REPORT, stalled_since_ns=1),
    ],
)
def test_any_other_difference_is_detected(other: NodeReport) -> None:
    assert not differs_only_in_samples(encode(REPORT), encode(other))


@pytest.mark.parametrize("number", [b"", b"-1", b"01", b"9223372036854775808", b"1.5", b"1e3", b'"1"', b"NaN"])
def test_an_invalid_time_is_a_difference(number: bytes) -> None:
    assert not differs_only_in_samples(encode(REPORT), encode(REPORT).replace(b'"timeNs":1', b'"timeNs":' + number))


def test_a_text_that_looks_like_a_sample_is_not_one() -> None:
    def progress_text(text: str) -> bytes:
        return encode(replace(REPORT, progress=Progress(metrics={"loss": text})))

    assert not differs_only_in_samples(progress_text('"cpuPercent":1,'), progress_text('"cpuPercent":2,'))
    assert not differs_only_in_samples(progress_text('x","cpuPercent":1,'), progress_text('x","cpuPercent":2,'))


@given(st.sampled_from(FIELDS), NUMBERS, st.text(max_size=8))
def test_a_report_that_is_not_decoded_is_readable(field: str, number: str, text: str) -> None:
    before = encode(replace(REPORT, progress=Progress(step=1, metrics={text: text})))
    values = json.loads(before) | json.loads(before)["workers"][0]
    after = before.replace(f'"{field}":{json.dumps(values[field])}'.encode(), f'"{field}":{number}'.encode(), 1)
    if differs_only_in_samples(before, after):
        validate(decode(NodeReport, after), job="j")


@given(st.binary(max_size=40), st.integers(0, 200), st.integers(0, 20))
def test_a_change_that_makes_a_report_unreadable_is_detected(junk: bytes, at: int, length: int) -> None:
    before = encode(REPORT)
    after = before[:at] + junk + before[at + length :]
    if differs_only_in_samples(before, after):
        try:
            validate(decode(NodeReport, after), job="j")
        except RecordError as error:  # pragma: no cover -- never so
            raise AssertionError(after) from error
