"""Responses of the API server that prove that nothing was written, and those that leave it open."""

import json

import pytest

from elasticjob_operator.cluster.api_errors import error_from_response
from elasticjob_operator.errors import (
    ClusterError,
    ClusterUnavailable,
    Conflict,
    Forbidden,
    InvalidObject,
    RetryLater,
)

WEBHOOK = 'Internal error occurred: failed calling webhook "mutate.example.com": connection refused'
DENIED = 'admission webhook "deny.example.com" denied the request: no pods on Fridays'
QUOTA = 'pods "j-0-a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4'


def answer(status: int, reason: str, message: str, retry_after: str = "") -> ClusterError:
    body = json.dumps({"kind": "Status", "status": "Failure", "reason": reason, "message": message}).encode()
    return error_from_response(status, "POST pods", body, {"Retry-After": retry_after} if retry_after else {})


@pytest.mark.parametrize(
    ("status", "reason", "message", "kind"),
    [
        pytest.param(403, "Forbidden", QUOTA, Forbidden, id="quota"),
        pytest.param(409, "Conflict", "the object has been modified", Conflict, id="two pods for one quota"),
        pytest.param(429, "TooManyRequests", "too many requests", RetryLater, id="too many requests"),
        pytest.param(500, "InternalError", WEBHOOK, RetryLater, id="webhook away"),
        pytest.param(503, "ServiceUnavailable", DENIED, RetryLater, id="webhook denies with a code of its own"),
        pytest.param(403, "Forbidden", DENIED, Forbidden, id="webhook denies"),
    ],
)
def test_a_refusal_of_admission_proves_that_nothing_was_written(
    status: int, reason: str, message: str, kind: type[ClusterError]
) -> None:
    error = answer(status, reason, message)
    assert type(error) is kind
    assert message in str(error)


UNKNOWN_FIELD = 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.x"'


@pytest.mark.parametrize(
    ("status", "reason", "message", "invalid"),
    [
        pytest.param(400, "BadRequest", UNKNOWN_FIELD, True, id="unknown field"),
        pytest.param(422, "Invalid", 'Pod "j-0-a" is invalid: spec.containers[0].image: Required', True, id="value"),
        pytest.param(422, "Invalid", DENIED, False, id="a webhook's verdict, which may change"),
        pytest.param(400, "BadRequest", DENIED, False, id="the same with another code"),
        pytest.param(400, "BadRequest", "the body of the request was empty", False, id="another bad request"),
        pytest.param(403, "Forbidden", QUOTA, False, id="quota"),
    ],
)
def test_only_the_api_servers_own_verdict_on_the_object_calls_it_invalid(
    status: int, reason: str, message: str, *, invalid: bool
) -> None:
    assert isinstance(answer(status, reason, message), InvalidObject) is invalid


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        pytest.param(500, "", "etcdserver: request timed out", id="etcd may have written it"),
        pytest.param(500, "InternalError", "Internal error occurred: unexpected object", id="after the write, perhaps"),
        pytest.param(504, "Timeout", "request did not complete within the requested timeout", id="timeout"),
        pytest.param(503, "ServiceUnavailable", "the server is unable to handle the request", id="unavailable"),
    ],
)
def test_any_other_failure_of_the_server_leaves_the_outcome_open(status: int, reason: str, message: str) -> None:
    assert type(answer(status, reason, message)) is ClusterUnavailable


@pytest.mark.parametrize("body", [b"<html>failed calling webhook</html>", b"", b"[]", b'"text"', b"null"])
def test_a_response_of_a_proxy_proves_nothing(body: bytes) -> None:
    assert type(error_from_response(500, "POST pods", body)) is ClusterUnavailable


@pytest.mark.parametrize(
    ("header", "pause_s"),
    [("", 0.0), ("7", 7.0), ("0", 0.0), ("999999999999", 300.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("-1", 0.0)],
)
def test_the_pause_of_a_retry_after_header_is_read_and_bounded(header: str, pause_s: float) -> None:
    assert answer(429, "TooManyRequests", "later", header).retry_after_s == pause_s
    assert answer(503, "ServiceUnavailable", "later", header).retry_after_s == pause_s
