"""Records of a newer version, made from this version's: fields at every depth, and words after the known ones.

Each function takes a text of this version and returns it with additions that this version does not know.
"""

import json
from collections.abc import Mapping
from typing import Any

from elasticjob_etcd.interface import Op, Put

NEW_FIELD = "futureField"
NEW_VALUE: dict[str, Any] = {"v": 1, "deep": [{"er": "x"}]}
_FREE = {"slots", "metrics"}
"""Fields of a record that are maps: a new name in them is data, not a field."""


def newer_json(value: Any) -> Any:
    """Return the value with a new field in every object; items of lists are objects, too."""
    if isinstance(value, Mapping):
        known = {name: each if name in _FREE else newer_json(each) for name, each in value.items()}
        return {**known, NEW_FIELD: NEW_VALUE}
    return [newer_json(each) for each in value] if isinstance(value, list) else value


def newer_record(data: bytes) -> bytes:
    """Return a JSON record of etcd as a newer version writes it."""
    return json.dumps(newer_json(json.loads(data))).encode()


def newer_line(data: bytes) -> bytes:
    """Return a state, a leader, a membership or holdings with one more word in the first line."""
    head, newline, tail = data.partition(b"\n")
    return head + b" future=x:1" + newline + tail


def newer_value(key: str, data: bytes) -> bytes:
    """Return the value of any key of a job as a newer version writes it."""
    if data.startswith(b"{"):
        return newer_record(data)
    is_line = key.endswith(("/c/ctl/world", "/c/ctl/closer", "/c/ctl/terms", "/c/members")) or "/c/held/" in key
    return newer_line(data) if is_line else data


def newer_op(op: Op) -> Op:
    """Return a write of a newer agent."""
    return Put(op.key, newer_value(op.key, op.value), op.lease) if isinstance(op, Put) else op
