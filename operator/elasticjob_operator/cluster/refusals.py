"""What the API server says when it does not do what was asked, as errors of ours: one table.

Its own sentence is kept, after what was tried; the type says what may be done about it.
"""

import json

from elasticjob_operator.cluster.protocol import Object
from elasticjob_operator.errors import AlreadyExists, ClusterError, ClusterUnavailable, Conflict, Forbidden

FIRST_ERROR = 400
_NOT_FOUND, _GONE = 404, 410
_PASSING = frozenset({429, 500, 502, 503, 504})
_ERRORS: dict[tuple[int, str], type[ClusterError]] = {
    (409, "AlreadyExists"): AlreadyExists,
    (409, "Conflict"): Conflict,
    (403, "Forbidden"): Forbidden,
    (401, "Unauthorized"): Forbidden,
    (422, "Invalid"): Forbidden,
}


class NotFound(ClusterError):
    """There is no such object."""


class NotServed(ClusterError):
    """There is no such path: a CRD is missing. That says nothing about any object."""


class TooOld(ClusterError):
    """The version from which to watch is forgotten: all there is has to be read anew."""


def refusal(status: int, tried: str, data: bytes) -> ClusterError:
    """The API server's own sentence, as the error that its status and reason stand for."""
    try:
        said = json.loads(data)
    except ValueError:
        said = {}
    reason, message = str(said.get("reason", "")), str(said.get("message") or data[:200].decode(errors="replace"))
    return _type(status, reason, said)(f"{tried}: {message.strip()} ({status} {reason or 'no reason'})")


def _type(status: int, reason: str, said: Object) -> type[ClusterError]:
    if status == _GONE:
        return TooOld
    if status == _NOT_FOUND:
        return NotFound if (said.get("details") or {}).get("name") else NotServed
    return _ERRORS.get((status, reason), ClusterUnavailable if status in _PASSING else ClusterError)
