"""A Kubernetes event about a job."""

import hashlib
from typing import Any

from elasticjob_api import constants
from elasticjob_api.one_line import one_line
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.model.event import Event
from elasticjob_operator.model.timestamps import to_rfc3339

COMPONENT = "elasticjob-operator"
MESSAGE_LIMIT = 1024
"""The API server rejects longer messages."""


def render_event(job: Object, event: Event, *, first_s: float, last_s: float, count: int = 1) -> dict[str, Any]:
    """Return the event; a repeated one is the same object with a higher count, as kubectl shows it."""
    namespace = objects.namespace_of(job)
    about = {
        "apiVersion": constants.API_VERSION,
        "kind": constants.KIND,
        "name": objects.name_of(job),
        "namespace": namespace,
        "uid": objects.uid_of(job),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{objects.name_of(job)}.{_token(job, event)}", "namespace": namespace},
        "involvedObject": about,
        "reason": str(event.reason),
        "message": one_line(event.message, MESSAGE_LIMIT),
        "type": "Warning" if event.warning else "Normal",
        "source": {"component": COMPONENT},
        "firstTimestamp": to_rfc3339(first_s),
        "lastTimestamp": to_rfc3339(last_s),
        "count": count,
    }


def _token(job: Object, event: Event) -> str:
    """Return a name that is the same for the same message about the same object."""
    identity = f"{objects.uid_of(job)}/{event.reason}/{event.message}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
