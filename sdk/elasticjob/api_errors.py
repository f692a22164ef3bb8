"""Turn an error response of the API server into an error of the SDK, with the server's message and the cure."""

import json
from typing import Any

from elasticjob.errors import AlreadyExists, ClusterError, CrdMissing, Forbidden, NotFound, Rejected, Unreachable
from elasticjob_api import constants

FIRST_ERROR = 400
_UNAUTHORIZED, _NOT_FOUND = 401, 404
_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_KINDS: dict[int, type[ClusterError]] = {
    400: Rejected,
    _UNAUTHORIZED: Forbidden,
    403: Forbidden,
    409: AlreadyExists,
    422: Rejected,
}
_CURES: dict[type[ClusterError], str] = {
    Forbidden: "ask an administrator of the cluster for the permission",
    NotFound: "check name, namespace and context",
    CrdMissing: "install the operator, or kubectl apply -f crds/elasticjob.yaml",
    AlreadyExists: "delete it first, or choose another name",
    Rejected: "correct the manifest",
    Unreachable: "try again",
}


def error_from_response(status: int, request: str, body: bytes) -> ClusterError:
    """Return the error for a response with this HTTP status; `request` is a clause: "create the job digits"."""
    fields = _status(body)
    kind = _kind(status, fields)
    message = str(fields.get("message") or body[:200].decode(errors="replace")).strip() or f"HTTP status {status}"
    cure = _CURES.get(kind, "see the server's message")
    if status == _UNAUTHORIZED:
        message = "the server does not know this user"
        cure = "the token or certificate of the kubeconfig has expired: log in again"
    if kind is CrdMissing:
        message = f"the cluster does not know {constants.PLURAL}.{constants.GROUP}"
    return kind(f"cannot {request}: {message}; {cure}")


def _status(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _kind(status: int, fields: dict[str, Any]) -> type[ClusterError]:
    if status == _NOT_FOUND:  # the response names a missing object, but not a missing kind
        return NotFound if (fields.get("details") or {}).get("name") else CrdMissing
    return _KINDS.get(status, Unreachable if status in _TRANSIENT else ClusterError)
