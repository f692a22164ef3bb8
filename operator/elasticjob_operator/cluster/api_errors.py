"""Refusals of the API server as errors of ours: one table.

Its own message is kept, after what was tried; the type shows what may be done about it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from elasticjob_operator.errors import (
    AlreadyExists,
    ClusterError,
    ClusterUnavailable,
    Conflict,
    Forbidden,
    InvalidObject,
    RetryLater,
)
from elasticjob_operator.model.one_line import one_line

FIRST_ERROR = 400
_NOT_FOUND, _GONE = 404, 410
_TOO_MANY_REQUESTS = 429
_TRANSIENT = frozenset({500, 502, 503, 504})
_UNKNOWN_FIELD = "strict decoding error"
_WEBHOOK = re.compile(r"failed calling webhook|admission webhook .* denied the request", re.DOTALL)
"""Admission comes before storage. After this sentence of the API server the object certainly does not exist."""
_MESSAGE_LIMIT = 32768
"""The API server quotes values whole."""
_MAX_RETRY_AFTER_S = 300.0
"""No Retry-After holds us back for longer."""
_ERRORS: dict[tuple[int, str], type[ClusterError]] = {
    (409, "AlreadyExists"): AlreadyExists,
    (409, "Conflict"): Conflict,
    (403, "Forbidden"): Forbidden,
    (401, "Unauthorized"): Forbidden,
    (422, "Invalid"): InvalidObject,
}


class NotFound(ClusterError):
    """There is no such object."""


class KindNotFound(ClusterError):
    """There is no such path: a CRD is missing. That says nothing about any object."""


class ResourceExpired(ClusterError):
    """The version from which to watch is forgotten: all there is has to be read anew."""


def error_from_response(
    status: int, request: str, data: bytes, headers: Mapping[str, str] | None = None
) -> ClusterError:
    """The API server's own sentence, as the error that its status and reason stand for."""
    try:
        parsed = json.loads(data)
    except ValueError:
        parsed = None
    said: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    reason, message = str(said.get("reason", "")), str(said.get("message") or data[:200].decode(errors="replace"))
    words = one_line(message.strip(), _MESSAGE_LIMIT)  # it may quote names that a tenant chose
    error = _error_type(status, reason, said)(f"{request}: {words} ({status} {reason or 'no reason'})")
    error.retry_after_s = _retry_after_s((headers or {}).get("Retry-After", ""))
    return error


def _retry_after_s(retry_after: str) -> float:
    """Seconds of a Retry-After header. The API server never sends its other form, a date."""
    return min(_MAX_RETRY_AFTER_S, float(retry_after)) if retry_after.isdecimal() else 0.0


def _error_type(status: int, reason: str, sentence: Mapping[str, Any]) -> type[ClusterError]:
    if status == _TOO_MANY_REQUESTS:
        return RetryLater
    message = str(sentence.get("message") or "")
    if _WEBHOOK.search(message):
        return RetryLater if status in _TRANSIENT else Forbidden  # whatever its code: the webhook's verdict may change
    if reason == "BadRequest" and _UNKNOWN_FIELD in message:
        return InvalidObject
    if status == _GONE:
        return ResourceExpired
    if status == _NOT_FOUND:
        return NotFound if (sentence.get("details") or {}).get("name") else KindNotFound
    return _ERRORS.get((status, reason), ClusterUnavailable if status in _TRANSIENT else ClusterError)
