"""The operator's errors for refusals of the API server: one table.

A message names the request and has the API server's own message. The type shows how the caller can react.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from elasticjob_api.one_line import one_line
from elasticjob_operator.errors import (
    AlreadyExists,
    ClusterError,
    ClusterUnavailable,
    Conflict,
    Forbidden,
    InvalidObject,
    RetryLater,
)

FIRST_ERROR = 400
_NOT_FOUND, _GONE = 404, 410
_TOO_MANY_REQUESTS = 429
_TRANSIENT = frozenset({500, 502, 503, 504})
_UNKNOWN_FIELD = "strict decoding error"
_WEBHOOK = re.compile(r"failed calling webhook|admission webhook .* denied the request", re.DOTALL)
"""Admission precedes storage: with one of these messages the API server has not stored the object."""
_MESSAGE_LIMIT = 32768
"""Characters of a message; the API server quotes values without a limit."""
_MAX_RETRY_AFTER_S = 300.0
"""Limit for the pause that a Retry-After header asks for."""
_ERRORS: dict[tuple[int, str], type[ClusterError]] = {
    (409, "AlreadyExists"): AlreadyExists,
    (409, "Conflict"): Conflict,
    (403, "Forbidden"): Forbidden,
    (401, "Unauthorized"): Forbidden,
    (422, "Invalid"): InvalidObject,
}


class NotFound(ClusterError):
    """The object does not exist."""


class KindNotFound(ClusterError):
    """The path does not exist: a CRD is missing. Its objects may still exist."""


class ResourceExpired(ClusterError):
    """The API server no longer knows the version from which to watch: a new list is needed."""


def error_from_response(
    status: int, request: str, data: bytes, headers: Mapping[str, str] | None = None
) -> ClusterError:
    """Return the error for a response's status and reason, with the API server's own message."""
    try:
        parsed = json.loads(data)
    except ValueError:
        parsed = None
    body: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    reason, message = str(body.get("reason", "")), str(body.get("message") or data[:200].decode(errors="replace"))
    line = one_line(message.strip(), _MESSAGE_LIMIT)  # it may quote names that a tenant chose
    error = _error_type(status, reason, body)(f"{request}: {line} ({status} {reason or 'no reason'})")
    error.retry_after_s = _retry_after_s((headers or {}).get("Retry-After", ""))
    return error


def _retry_after_s(retry_after: str) -> float:
    """Return the seconds of a Retry-After header; 0 without one."""
    # The API server never sends the other form of the header, a date.
    return min(_MAX_RETRY_AFTER_S, float(retry_after)) if retry_after.isdecimal() else 0.0


def _error_type(status: int, reason: str, body: Mapping[str, Any]) -> type[ClusterError]:
    if status == _TOO_MANY_REQUESTS:
        return RetryLater
    message = str(body.get("message") or "")
    if _WEBHOOK.search(message):
        return RetryLater if status in _TRANSIENT else Forbidden  # with any code: a webhook may decide otherwise later
    if reason == "BadRequest" and _UNKNOWN_FIELD in message:
        return InvalidObject
    if status == _GONE:
        return ResourceExpired
    if status == _NOT_FOUND:
        return NotFound if (body.get("details") or {}).get("name") else KindNotFound
    return _ERRORS.get((status, reason), ClusterUnavailable if status in _TRANSIENT else ClusterError)
