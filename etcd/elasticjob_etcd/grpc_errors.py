"""Conversion of gRPC's errors into ours; no error of gRPC leaves the package.

The criterion is whether a retry can help. A definite rejection is `RequestRejected`; an error that may heal by itself
is `Unavailable`. So is an error that cannot be classified: its outcome is unknown, which is the safe reading. Each
message has the request, the address and the other side's answer.
"""

from typing import Any

from elasticjob_etcd.errors import Compacted, EtcdError, LeaseNotFound, NoSpace, RequestRejected, Unavailable
from elasticjob_etcd.silent_grpc import grpc

_Code = grpc.StatusCode

_DEFINITE = frozenset(
    {
        _Code.INVALID_ARGUMENT,
        _Code.NOT_FOUND,
        _Code.ALREADY_EXISTS,
        _Code.PERMISSION_DENIED,
        _Code.UNAUTHENTICATED,
        _Code.RESOURCE_EXHAUSTED,
        _Code.FAILED_PRECONDITION,
        _Code.OUT_OF_RANGE,
        _Code.UNIMPLEMENTED,
        _Code.DATA_LOSS,
    }
)
_LEASE_GONE = "requested lease not found"
_COMPACTED = "required revision has been compacted"
_STRANGER = "Received http2 header with status"
"""An answer that is not gRPC: the address belongs to another server, or etcd is still starting."""
_NO_SPACE = "database space exceeded"
_LEARNER = "rpc not supported for learner"
"""A member without a vote, as each is for some seconds when it replaces another; it answers soon."""
_AT_LIMIT = "the limit of one job"
"""This job has as many leases, watches or streams as one job may have (images/etcd); some must end first."""
_TRANSIENT = ("too many requests", _NO_SPACE, _LEARNER, _STRANGER, _AT_LIMIT)
"""An etcd that is busy, full until space is freed, or still starting: the request itself is not rejected."""
_DENIED = "permission denied"
"""etcd loses its users with its data: until the operator has restored them, every request is denied."""
_STALE_AUTH = ("revision in header is old", "revision of auth store is old")
_NOT_TAKEN = (
    "etcd refused our certificate, or misses one (see cert and key): it may have expired, or its "
    "authority is unknown to etcd; etcd's log has the reason"
)
# Texts in gRPC's details when the TLS handshake failed, and their meaning for the user who set the files.
_TLS_REASONS = {
    "CERTIFICATE_VERIFY_FAILED": "we do not trust the certificate of etcd (see ca_cert)",
    "Hostname Verification Check failed": "the certificate of etcd is for another host name than the one dialed",
    "_ALERT_": _NOT_TAKEN,
    "TSI_DATA_CORRUPTED": _NOT_TAKEN,  # gRPC's error for an alert after the handshake, as with TLS 1.3
    "Failed to create security handshaker": "ca_cert holds no certificate, or key is not that of cert",
}


def from_rpc_error(error: grpc.RpcError, *, tried: str, where: str, known: bool = False) -> EtcdError:
    """Return our error for one of gRPC's; `tried` and `where` begin its sentence.

    With `known`, etcd has answered before. Then a certificate that is rejected now was good, and the client waits for
    its replacement.
    """
    code, details = error.code(), error.details() or "no reason given"
    if code is _Code.DEADLINE_EXCEEDED:
        details = "no answer in time"  # gRPC reports only "Deadline Exceeded"
    sentence = f"etcd at {where}: {tried}: {details}"
    if _LEASE_GONE in details:
        return LeaseNotFound(sentence)
    if _COMPACTED in details:
        return Compacted(0)
    if _NO_SPACE in details:
        return NoSpace(sentence)
    if code is _Code.UNAVAILABLE and (reason := _tls_reason(details)):
        return (Unavailable if known else RequestRejected)(f"etcd at {where}: {tried}: {reason}; {details}")
    if code not in _DEFINITE or is_transient(details):
        return Unavailable(sentence)
    return RequestRejected(sentence)


def from_watch_cancel(response: Any, *, tried: str, where: str) -> EtcdError:
    """Return our error for a watch that etcd ended by an answer."""
    if response.compact_revision:
        return Compacted(response.compact_revision)
    reason = response.cancel_reason or "it was canceled, no reason given"
    sentence = f"etcd at {where}: {tried}: {reason}"
    return Unavailable(sentence) if is_transient(reason) else RequestRejected(sentence)


def is_transient(details: str) -> bool:
    """Whether an error is not about the request itself, or may be gone at the next attempt."""
    return any(text in details for text in (*_TRANSIENT, *_STALE_AUTH, _DENIED))


def is_stale_auth(details: str | None) -> bool:
    """Whether users or roles changed between etcd's check of the request and its execution: not applied, retry."""
    return any(text in (details or "") for text in _STALE_AUTH)


def is_wrong_address(details: str | None) -> bool:
    """Whether the peer cannot serve: it is not etcd, or a learner; another address may."""
    return any(text in (details or "") for text in (_STRANGER, _LEARNER))


def is_of_learner(details: str | None) -> bool:
    """Whether a member without a vote rejected it."""
    return _LEARNER in (details or "")


def _tls_reason(details: str) -> str | None:
    return next((reason for text, reason in _TLS_REASONS.items() if text in details), None)
