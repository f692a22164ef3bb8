"""Validation of records: a pod may write any value below the prefix of its own job.

A rejected record counts as unreadable: the log and the view name it, and it is not used otherwise. The limits are far
above the values that an agent writes. A false record within the limits can only mislead about its own job, and the plan
limits the consequences.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from elasticjob_api import records
from elasticjob_api.errors import RecordError
from elasticjob_api.keys import SLOT_LIMIT
from elasticjob_api.records import NodeReport, NodeSamples, Progress, SpecRecord, WorkerFailure
from elasticjob_api.rendezvous_state import RendezvousState
from elasticjob_operator.policy.etcd.quota import REDUCED, report_bytes

BYTES_LIMITS = {"spec": 1 << 22, "expected": 1 << 20, "world": 1 << 20, "members": 1 << 20}
"""Bytes of records that name every node, by kind."""
BYTES_LIMIT = 1 << 16
"""Bytes of a record that one node writes; a report of 500 workers has half as many."""

_INT32 = 1 << 31
_INT64_FIELDS = {
    *("time_ns", "stalled_since_ns", "lease", "memory_bytes", "step", "total", "pid", "held_bytes", "size_limit_bytes"),
    *("persisted_step", "committed_ns", "persisted_ns"),
}
"""Fields with numbers of up to 63 bits, such as leases of etcd; others have 32 bits in the status."""
_TEXT_LIMIT = 8192
_TEXT_LIMITS = {"charged_failures": 1 << 16, "nprocs": 1 << 19, "roles": 1 << 19}
_METRICS_LIMIT = 64
_REDUCED_MESSAGE = 128
"""Characters of a reduced message; each is at most six bytes of JSON."""
_SUFFIX = re.compile("[a-z0-9]{1,10}")
_NOT_NEGATIVE = {
    *("restarts", "node_losses", "round", "startup_failures", "replacements", "min", "max", "desired", "rank", "nproc"),
    *("copies", "skipped", "keep_copies"),
}


def require_size(data: bytes, kind: str) -> None:
    """Raise RecordError if data is longer than any record of this kind; call this before decoding."""
    if len(data) > BYTES_LIMITS.get(kind, BYTES_LIMIT):
        raise RecordError(f"{len(data)} bytes are more than a {kind} record can have")


def require_report(data: bytes, workers: int) -> None:
    """Raise RecordError if a report or its samples are longer than those of a node; call this before decoding."""
    if len(data) > report_bytes(workers):
        raise RecordError(f"{len(data)} bytes are more than a report of {workers} workers can have")
    if (reported := data.count(b'"rank"')) > workers:  # quotes within a text would be escaped
        raise RecordError(f"{reported} workers are more than {workers}")


def reduced_failure(data: bytes) -> bytes:
    """Return a failure record without output and with a shortened message; b"" if the data is no failure record."""
    try:
        failure = records.decode(WorkerFailure, data)
    except RecordError:
        return b""
    reduced = records.encode(replace(failure, message=failure.message[:_REDUCED_MESSAGE], stderr=""))
    return reduced if len(reduced) <= REDUCED else b""


def validate(record: Any, *, job: str, workers: int = SLOT_LIMIT) -> None:
    """Raise RecordError if no agent and no operator could have written this record for the job of this name.

    `workers` is the most that a node of the job has.
    """
    _require("", record)
    if isinstance(record, SpecRecord):
        _require_slots(record, job)
    if isinstance(record, RendezvousState):
        record.workers_per_node()  # raises RecordError
    if isinstance(record, NodeSamples) and (most := max(len(record.cpu_percent), len(record.memory_bytes))) > workers:
        raise RecordError(f"{most} workers are more than {workers}")
    if isinstance(record, (NodeReport, NodeSamples)) and record.progress:
        _require_metrics(record.progress)


def _require_metrics(progress: Progress) -> None:
    if len(progress.metrics) > _METRICS_LIMIT:
        raise RecordError(f"{len(progress.metrics)} metrics are more than {_METRICS_LIMIT}")


def _require(name: str, value: Any) -> None:
    """Validate every number and text in a value; `name` is the field that has it."""
    kind: type = type(value)  # runs for every report, so types are compared directly
    if kind is str:
        _require_text(name, value)
    elif kind is int:
        _require_number(name, value)
    elif kind is tuple:
        for item in value:
            _require(name, item)
    elif names := _checked_fields(kind):
        for field in names:
            _require(field, getattr(value, field))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _require(name, key)
            _require(name, item)


@functools.cache
def _checked_fields(kind: type) -> tuple[str, ...]:
    """Return the fields of a record to validate; none if it is not a record."""
    # `members` is left out: decoding checks the form of its items, and there is one for each node.
    return tuple(each.name for each in fields(kind) if each.name != "members") if is_dataclass(kind) else ()


def _require_text(name: str, value: str) -> None:
    if len(value) > _TEXT_LIMITS.get(name, _TEXT_LIMIT):
        raise RecordError(f"{name} has {len(value)} characters")


def _require_number(name: str, value: int) -> None:
    limit, lowest = (1 << 63, 0) if name in _INT64_FIELDS else (_INT32, 0 if name in _NOT_NEGATIVE else -_INT32)
    if not lowest <= value < limit:
        raise RecordError(f"{name} is {value}")


def _require_slots(record: SpecRecord, job: str) -> None:
    """Raise RecordError if a slot map names a pod that is not of its own job, or has too many slots."""
    # The operator creates and keeps pods by this map.
    if len(record.slots) > SLOT_LIMIT:
        raise RecordError(f"{len(record.slots)} slots are more than {SLOT_LIMIT}")
    for slot, owner in record.slots.items():
        start = f"{job}-{slot}-"
        if not (owner.pod.startswith(start) and _SUFFIX.fullmatch(owner.pod.removeprefix(start))):
            raise RecordError(f"slot {slot} names {owner.pod!r:.80}, which is not a pod of job {job}")
