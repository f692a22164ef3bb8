"""etcd's checks of a transaction before it runs, and its comparisons.

The rules and messages are etcd's own: at most 128 comparisons, and 128 operations a branch. No empty key, no key
written twice in a branch, and 1.5 MiB for the whole request.
"""

from collections.abc import Iterable

from elasticjob_etcd.errors import RequestRejected
from elasticjob_etcd.interface import Compare, Delete, KeyValue, Op, Put, Target, Txn

_MAX_OPERATIONS = 128
_MAX_BYTES = 1536 * 1024
_MISSING = KeyValue(key="", value=b"", create_revision=0, mod_revision=0, version=0)


def compare_holds(compare: Compare, kv: KeyValue | None) -> bool:
    """Whether `kv` (None for a missing key) is as `compare` requires; a missing key equals no value."""
    if kv is None and compare.target is Target.VALUE:
        return False
    actual: int | bytes = getattr(kv or _MISSING, compare.target.value)
    return actual == compare.equals


def check_request(txn: Txn) -> None:
    """Raise `RequestRejected` for requests that etcd rejects before it runs them."""
    if max(len(txn.compares), len(txn.success), len(txn.failure)) > _MAX_OPERATIONS:
        raise RequestRejected("transaction: too many operations in txn request")
    if any(not part.key and not getattr(part, "prefix", False) for part in (*txn.compares, *txn.success, *txn.failure)):
        raise RequestRejected("transaction: key is not provided")
    for branch in (txn.success, txn.failure):
        _check_written_once(branch)
    if _size(txn) > _MAX_BYTES:
        raise RequestRejected("transaction: request is too large")


def _check_written_once(branch: tuple[Op, ...]) -> None:
    puts = [op.key for op in branch if isinstance(op, Put)]
    deletions = [op for op in branch if isinstance(op, Delete)]
    twice = len(set(puts)) < len(puts)
    if twice or any(_covers(deletion, key) for deletion in deletions for key in puts):
        raise RequestRejected("transaction: duplicate key given in txn request")


def _covers(deletion: Delete, key: str) -> bool:
    if deletion.prefix:
        return bool(deletion.key) and key.startswith(deletion.key)  # etcd does not check a deletion of every key
    return key == deletion.key


def _size(txn: Txn) -> int:
    puts: Iterable[Put] = (op for op in (*txn.success, *txn.failure) if isinstance(op, Put))
    return sum(len(op.key.encode("utf-8", "surrogateescape")) + len(op.value) for op in puts)
