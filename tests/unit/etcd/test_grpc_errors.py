"""Which of our errors each of gRPC's becomes."""

from types import SimpleNamespace

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata

from elasticjob_etcd.errors import Compacted, EtcdError, LeaseNotFound, NoSpace, RequestRejected, Unavailable
from elasticjob_etcd.grpc_errors import from_rpc_error, from_watch_cancel


def translated(code: StatusCode, details: str) -> EtcdError:
    return from_rpc_error(AioRpcError(code, Metadata(), Metadata(), details, None), tried="read of /a", where="h:1")


@pytest.mark.parametrize(
    ("code", "details", "expected"),
    [
        (StatusCode.UNAVAILABLE, "failed to connect to all addresses; Connection refused", Unavailable),
        (StatusCode.UNAVAILABLE, "etcdserver: no leader", Unavailable),
        (StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", Unavailable),
        (StatusCode.CANCELLED, "context canceled", Unavailable),
        (StatusCode.INTERNAL, "Received RST_STREAM with error code 2", Unavailable),
        (StatusCode.UNKNOWN, "raft proposal dropped", Unavailable),
        (StatusCode.UNKNOWN, "auth: revision in header is old", Unavailable),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: revision of auth store is old", Unavailable),
        (StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests", Unavailable),
        (StatusCode.RESOURCE_EXHAUSTED, "the limit of one job of 60 leases is reached", Unavailable),
        (StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", NoSpace),
        (StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", Unavailable),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty", RequestRejected),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: key is not provided", RequestRejected),
        (StatusCode.UNIMPLEMENTED, "unknown service etcdserverpb.KV", RequestRejected),
        (StatusCode.UNIMPLEMENTED, "Received http2 header with status: 404", Unavailable),
        (StatusCode.NOT_FOUND, "etcdserver: requested lease not found", LeaseNotFound),
        (StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted", Compacted),
        (StatusCode.OUT_OF_RANGE, "etcdserver: too large lease TTL", RequestRejected),
    ],
)
def test_each_error_shows_whether_a_retry_can_help(code: StatusCode, details: str, expected: type[EtcdError]) -> None:
    assert type(translated(code, details)) is expected


def test_a_sentence_names_where_what_and_why() -> None:
    error = translated(StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")
    assert str(error) == "etcd at h:1: read of /a: etcdserver: permission denied"


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ("Tls handshake failed: SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: x", "we do not trust"),
        ("Custom verification check failed: Hostname Verification Check failed.", "is for another host name"),
        ("SSL routines:OPENSSL_internal:SSLV3_ALERT_BAD_CERTIFICATE: OK", "etcd refused our certificate"),
        ("Failed to create security handshaker.", "ca_cert holds no certificate, or key is not that of cert"),
    ],
)
def test_a_failed_tls_handshake_names_the_side_that_refused(details: str, message: str) -> None:
    error = translated(StatusCode.UNAVAILABLE, f"failed to connect to all addresses; last error: {details}")
    assert isinstance(error, RequestRejected)
    assert message in str(error)
    assert details in str(error)


def test_a_certificate_that_was_good_is_waited_for() -> None:
    details = "last error: SSL routines:OPENSSL_internal:SSLV3_ALERT_CERTIFICATE_EXPIRED"
    error = AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata(), details, None)
    known = from_rpc_error(error, tried="read of /a", where="h:1", known=True)
    assert isinstance(known, Unavailable)
    assert "etcd refused our certificate" in str(known)


def test_a_deadline_is_put_into_words() -> None:
    assert str(translated(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")).endswith("no answer in time")


def test_a_watch_that_was_compacted_names_the_oldest_revision_left() -> None:
    error = from_watch_cancel(SimpleNamespace(compact_revision=7, cancel_reason=""), tried="watch", where="h:1")
    assert isinstance(error, Compacted)
    assert error.compact_revision == 7


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("rpc error: permission denied", Unavailable),
        ("", RequestRejected),
        ("auth: revision in header is old", Unavailable),
    ],
)
def test_a_watch_that_was_canceled_is_over_unless_users_changed(reason: str, expected: type[EtcdError]) -> None:
    response = SimpleNamespace(compact_revision=0, cancel_reason=reason)
    assert type(from_watch_cancel(response, tried="watch", where="h:1")) is expected
