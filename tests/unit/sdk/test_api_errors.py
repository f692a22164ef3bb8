"""An error response of an API server is one error with its message and a cure."""

import json

import pytest

from elasticjob.api_errors import error_from_response
from elasticjob.errors import (
    AlreadyExists,
    ClusterError,
    CrdMissing,
    Forbidden,
    NotFound,
    Rejected,
    Unreachable,
)

NAMED = {"details": {"name": "digits", "kind": "elasticjobs"}}


@pytest.mark.parametrize(
    ("status", "response", "kind"),
    [
        (400, {"message": "no"}, Rejected),
        (401, {"message": "Unauthorized"}, Forbidden),
        (403, {"message": "no"}, Forbidden),
        (404, NAMED, NotFound),
        (404, {}, CrdMissing),
        (409, NAMED, AlreadyExists),
        (422, {"message": "no"}, Rejected),
        (429, {}, Unreachable),
        (500, {}, Unreachable),
        (503, {}, Unreachable),
        (418, {}, ClusterError),
    ],
)
def test_every_status_has_its_error(status: int, response: dict[str, object], kind: type[ClusterError]) -> None:
    assert type(error_from_response(status, "get the job digits", json.dumps(response).encode())) is kind


def test_the_error_has_the_request_the_servers_message_and_the_cure() -> None:
    body = json.dumps({"message": 'elasticjobs.elasticjob.io "digits" not found', **NAMED}).encode()
    assert str(error_from_response(404, "get the job digits", body)) == (
        'cannot get the job digits: elasticjobs.elasticjob.io "digits" not found; check name, namespace and context'
    )


@pytest.mark.parametrize("body", [b"", b"upstream gone", b"[1]", b"\xff"])
def test_a_response_that_is_not_a_status_is_reported_too(body: bytes) -> None:
    assert "cannot list jobs: " in str(error_from_response(502, "list jobs", body))
