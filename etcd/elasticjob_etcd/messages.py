"""Conversion between etcd's messages and the protocol's records; only this module has etcd's field names.

Keys are text here and bytes there, UTF-8. A foreign key that is not UTF-8 is decoded with surrogates and can be sent
again unchanged.
"""

from typing import Any, assert_never

from elasticjob_etcd._etcd3_shim import load
from elasticjob_etcd.interface import (
    Compare,
    Delete,
    Get,
    KeyValue,
    Op,
    Put,
    Range,
    Target,
    Txn,
    TxnResult,
    WatchEvent,
)

rpc = load()

_EVERY_KEY = b"\0"  # as a range's end: no end; as its begin: before every key
_TARGETS = {
    Target.CREATE: (rpc.Compare.CREATE, "create_revision"),
    Target.MOD: (rpc.Compare.MOD, "mod_revision"),
    Target.VERSION: (rpc.Compare.VERSION, "version"),
    Target.LEASE: (rpc.Compare.LEASE, "lease"),
    Target.VALUE: (rpc.Compare.VALUE, "value"),
}


def encode_key(key: str) -> bytes:
    """Return the bytes of a key."""
    return key.encode("utf-8", "surrogateescape")


def prefix_range(prefix: str) -> dict[str, bytes]:
    """Return the `key` and `range_end` of exactly the keys that start with `prefix`."""
    begin = encode_key(prefix)
    stem = begin.rstrip(b"\xff")  # 0xff has no successor: the byte before it gets the next value
    end = stem[:-1] + bytes([stem[-1] + 1]) if stem else _EVERY_KEY
    return {"key": begin or _EVERY_KEY, "range_end": end}


def key_or_prefix(op: Get | Delete) -> dict[str, bytes]:
    """Return the fields that select the keys of a read or a deletion."""
    return prefix_range(op.key) if op.prefix else {"key": encode_key(op.key)}


def txn_request(txn: Txn) -> Any:
    """Return the TxnRequest for `txn`."""
    success, failure = txn.success, txn.failure
    if not success and not failure:
        # etcd answers a transaction without operations from one member's memory, which may be stale: so it reads a key.
        success = failure = tuple(Get(compare.key) for compare in txn.compares[:1])
    return rpc.TxnRequest(
        compare=[_compare(compare) for compare in txn.compares],
        success=[_request_op(op) for op in success],
        failure=[_request_op(op) for op in failure],
    )


def _compare(compare: Compare) -> Any:
    target, field = _TARGETS[compare.target]
    message = rpc.Compare(key=encode_key(compare.key), target=target, result=rpc.Compare.EQUAL)
    setattr(message, _compare_field(compare, field), compare.equals)
    return message


def _compare_field(compare: Compare, field: str) -> str:
    expected = bytes if compare.target is Target.VALUE else int
    if not isinstance(compare.equals, expected):
        message = f"compare of {compare.key} by {field} needs {expected.__name__}, not {compare.equals!r}"
        raise TypeError(message)
    return field


def _request_op(op: Op) -> Any:
    match op:
        case Put():
            put = rpc.PutRequest(key=encode_key(op.key), value=op.value, lease=op.lease)
            return rpc.RequestOp(request_put=put)
        case Delete():
            return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(**key_or_prefix(op)))
        case Get():
            return rpc.RequestOp(request_range=rpc.RangeRequest(**key_or_prefix(op)))
    assert_never(op)


def key_value(message: Any) -> KeyValue:
    """Return the record of one mvccpb.KeyValue."""
    return KeyValue(
        key=message.key.decode("utf-8", "surrogateescape"),
        value=message.value,
        create_revision=message.create_revision,
        mod_revision=message.mod_revision,
        version=message.version,
        lease=message.lease,
    )


def range_of(response: Any) -> Range:
    """Return the record of a RangeResponse; etcd sorts it by key."""
    return Range(tuple(key_value(kv) for kv in response.kvs), response.header.revision)


def txn_result(txn: Txn, response: Any) -> TxnResult:
    """Return the record of a TxnResponse to `txn`."""
    branch = txn.success if response.succeeded else txn.failure
    reads = tuple(
        tuple(key_value(kv) for kv in answer.response_range.kvs)
        for op, answer in zip(branch, response.responses, strict=False)
        if isinstance(op, Get)
    )
    return TxnResult(succeeded=response.succeeded, revision=response.header.revision, reads=reads)


def watch_event(message: Any) -> WatchEvent:
    """Return the record of one mvccpb.Event."""
    return WatchEvent(kv=key_value(message.kv), deleted=message.type == message.DELETE)
