"""Records that no agent and no operator could have written are rejected, with the reason."""

import re
from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api.errors import RecordError
from elasticjob_api.records import KeepReport, Progress, SlotOwner
from elasticjob_operator.informers.record_validation import require_size, validate
from testing import builders

IMPLAUSIBLE = [
    pytest.param(builders.record(restart_id="x" * 9000), "restart_id has 9000 characters", id="long text"),
    pytest.param(builders.record(replacements=-1), "replacements is -1", id="negative count"),
    pytest.param(
        builders.record(slots={1: SlotOwner("k-1-a")}),
        "slot 1 names 'k-1-a', which is not a pod of job j",
        id="pod of another job",
    ),
    pytest.param(builders.record(slots={1: SlotOwner("j-2-a")}), "which is not a pod", id="other slot's pod"),
    pytest.param(builders.active(0, restarts=1 << 31), "restarts is 2147483648", id="32 bits"),
    pytest.param(builders.active(0, nprocs="2x99999"), "more than 65536 nodes", id="too many nodes"),
    pytest.param(builders.active(0, nprocs="-2x2"), "run lengths '-2x2' are corrupt", id="negative workers"),
    pytest.param(builders.report(time_ns=-1), "time_ns is -1", id="before all clocks"),
    pytest.param(builders.samples(memory_bytes=(1, -1)), "memory_bytes is -1", id="negative memory"),
    pytest.param(builders.samples(cpu_percent=(0.0,) * 9), "9 workers are more than 8", id="samples of many workers"),
    pytest.param(
        builders.samples(Progress(metrics={str(n): "" for n in range(65)})),
        "65 metrics are more than 64",
        id="metrics in samples",
    ),
    pytest.param(builders.samples(keep=KeepReport(held_bytes=-1)), "held_bytes is -1", id="negative kept bytes"),
    pytest.param(builders.samples(keep=KeepReport(skipped=1 << 31)), "skipped is 2147483648", id="skipped of 32 bits"),
    pytest.param(builders.samples(keep=KeepReport(persisted_step=-1)), "persisted_step is -1", id="negative step"),
    pytest.param(builders.record(keep_copies=-1), "keep_copies is -1", id="negative copies"),
    pytest.param(
        builders.report(progress=Progress(metrics={str(n): "" for n in range(65)})),
        "65 metrics are more than 64",
        id="metrics",
    ),
]


@pytest.mark.parametrize(("record", "why"), IMPLAUSIBLE)
def test_an_impossible_record_is_rejected_with_the_reason(record: Any, why: str) -> None:
    with pytest.raises(RecordError, match=re.escape(why)):
        validate(record, job="j", workers=8)


@pytest.mark.parametrize(("kind", "most"), [("report", 1 << 16), ("node", 1 << 16), ("world", 1 << 20)])
def test_a_record_of_too_many_bytes_is_rejected_before_decoding(kind: str, most: int) -> None:
    require_size(bytes(most), kind)
    with pytest.raises(RecordError, match=f"{most + 1} bytes are more than a {kind} record can have"):
        require_size(bytes(most + 1), kind)


def test_kept_bytes_may_have_63_bits_and_a_step_too() -> None:
    most = 2**63 - 1
    kept = KeepReport(step=most, held_bytes=most, size_limit_bytes=most, persisted_step=most)
    kept = replace(kept, committed_ns=most, persisted_ns=most)
    validate(builders.samples(keep=kept), job="j")


@pytest.mark.parametrize("lease", [8649059720856813070, 2**63 - 1])
def test_a_lease_may_have_63_bits(lease: int) -> None:
    validate(builders.node(lease=lease).record, job="j")
