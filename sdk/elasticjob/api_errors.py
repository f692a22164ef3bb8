"""PURE: an API server's refusal as an error of ours, with its own sentence and the cure."""

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
    Forbidden: "ask an administrator of the cluster for the right to do it",
    NotFound: "check name, namespace and context",
    CrdMissing: "install the operator, or kubectl apply -f crds/elasticjob.yaml",
    AlreadyExists: "delete it first, or give another name",
    Rejected: "correct the manifest",
    Unreachable: "try again",
}


def error_from_response(status: int, request: str, body: bytes) -> ClusterError:
    """The error for an answer with this HTTP status; `request` is a clause: "create the job digits"."""
    said = _status(body)
    kind = _kind(status, said)
    words = str(said.get("message") or body[:200].decode(errors="replace")).strip() or f"HTTP status {status}"
    cure = _CURES.get(kind, "see the server's message")
    if status == _UNAUTHORIZED:
        words, cure = "it does not know this user", "the token or certificate of the kubeconfig has ended: log in again"
    if kind is CrdMissing:
        words = f"the cluster does not know {constants.PLURAL}.{constants.GROUP}"
    return kind(f"cannot {request}: {words}; {cure}")


def _status(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _kind(status: int, said: dict[str, Any]) -> type[ClusterError]:
    if status == _NOT_FOUND:  # of an object the answer has the name, of a missing kind it has not
        return NotFound if (said.get("details") or {}).get("name") else CrdMissing
    return _KINDS.get(status, Unreachable if status in _TRANSIENT else ClusterError)
