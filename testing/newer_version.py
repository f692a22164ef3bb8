"""What a newer version writes, made from what this version writes: fields at every depth, and words behind the known.

Each function takes what this version has written and returns it with additions that this version does not know.
"""

import json
from collections.abc import Mapping
from typing import Any

from elasticjob_etcd.interface import Op, Put

NEW_FIELD = "futureField"
NEW_VALUE: dict[str, Any] = {"v": 1, "deep": [{"er": "x"}]}
_FREE = {"slots", "metrics"}
"""Fields of a record that are maps: a new name in them is data, no new field."""


def newer_json(value: Any) -> Any:
    """Every object in it has a new field; items of lists are objects in their own right."""
    if isinstance(value, Mapping):
        known = {name: each if name in _FREE else newer_json(each) for name, each in value.items()}
        return {**known, NEW_FIELD: NEW_VALUE}
    return [newer_json(each) for each in value] if isinstance(value, list) else value


def newer_record(data: bytes) -> bytes:
    """A JSON record of etcd."""
    return json.dumps(newer_json(json.loads(data))).encode()


def newer_line(data: bytes) -> bytes:
    """A world, a closer or a membership: its first line has one more word."""
    head, newline, tail = data.partition(b"\n")
    return head + b" future=x:1" + newline + tail


def newer_value(key: str, data: bytes) -> bytes:
    """The value of any key of a job."""
    if data.startswith(b"{"):
        return newer_record(data)
    return newer_line(data) if key.endswith(("/c/ctl/world", "/c/ctl/closer", "/c/ctl/terms", "/c/members")) else data


def newer_op(op: Op) -> Op:
    """A write of a newer agent."""
    return Put(op.key, newer_value(op.key, op.value), op.lease) if isinstance(op, Put) else op
