"""The init container that copies the agent into the pod; it complies with quotas and restricted Pod Security."""

from collections.abc import Mapping
from typing import Any

from elasticjob_api.job import ElasticJob, trainer_container
from elasticjob_api.spec import AgentMode
from elasticjob_operator.model import pod_constants

NON_ROOT_USER = 65532
"""The user of our images. With runAsNonRoot a kubelet starts no container as the pod's user 0."""


def init_containers(job: ElasticJob, agent_image: str) -> list[dict[str, Any]]:
    """Return the operator's init containers: one with agent.mode Inject, none otherwise."""
    if job.spec.agent.mode is not AgentMode.INJECT:
        return []
    pod_context = job.spec.template["spec"].get("securityContext") or {}
    as_root = pod_context.get("runAsUser") == 0
    mount = {"name": pod_constants.AGENT_VOLUME, "mountPath": pod_constants.INJECT_TARGET}
    return [
        {
            "name": pod_constants.INIT_CONTAINER,
            "image": agent_image,
            "command": [pod_constants.INJECTED_AGENT, "--install", pod_constants.INJECT_TARGET],
            "volumeMounts": [mount],
            "resources": _resources(trainer_container(job.spec).get("resources") or {}),
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
                # Only instead of root: if a policy chooses the user, it would reject a fixed one.
                **({"runAsUser": NON_ROOT_USER} if as_root else {}),
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }
    ]


def _resources(trainer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return small requests; those of the trainer if they are its limits, or Kubernetes calls no pod Guaranteed."""
    limits, requests = trainer.get("limits") or {}, trainer.get("requests") or {}
    names = ("cpu", "memory")
    if all(name in limits and str(requests.get(name, limits[name])) == str(limits[name]) for name in names):
        # A pod needs the larger one of its init container and its containers, so this makes it no larger.
        same = {name: limits[name] for name in names}
        return {"requests": same, "limits": dict(same)}
    return {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}}
