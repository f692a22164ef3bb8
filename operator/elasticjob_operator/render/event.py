"""PURE: one event as Kubernetes keeps it, about the job."""

from typing import Any

from elasticjob_api import names
from elasticjob_operator.actions import Event
from elasticjob_operator.cluster import objects
from elasticjob_operator.cluster.protocol import Object
from elasticjob_operator.timestamps import to_rfc3339

COMPONENT = "elasticjob-operator"
MESSAGE_LIMIT = 1024
"""The API server refuses longer ones."""


def render_event(job: Object, event: Event, now_s: float) -> dict[str, Any]:
    """The event; the cluster completes its name."""
    meta, now = objects.metadata(job), to_rfc3339(now_s)
    namespace = objects.namespace_of(job)
    about = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": objects.name_of(job),
        "namespace": namespace,
        "uid": objects.uid_of(job),
        "resourceVersion": meta.get("resourceVersion", ""),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{objects.name_of(job)}.", "namespace": namespace},
        "involvedObject": about,
        "reason": str(event.reason),
        "message": event.message[:MESSAGE_LIMIT],
        "type": "Warning" if event.warning else "Normal",
        "source": {"component": COMPONENT},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
