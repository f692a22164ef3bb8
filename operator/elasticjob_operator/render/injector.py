"""PURE: the init container that copies the agent into the pod, fit for quotas and restricted Pod Security."""

from typing import Any

from elasticjob_api.job import ElasticJob
from elasticjob_api.spec import AgentMode
from elasticjob_operator.render import layout
from elasticjob_operator.settings import Settings


def injectors(job: ElasticJob, settings: Settings) -> list[dict[str, Any]]:
    """Our init containers: one with agent.mode Inject, none otherwise."""
    if job.spec.agent.mode is not AgentMode.INJECT:
        return []
    mount = {"name": layout.AGENT_VOLUME, "mountPath": layout.INJECT_TARGET}
    return [
        {
            "name": layout.INJECTOR,
            "image": job.spec.agent.image or settings.agent_image,
            "command": [layout.INJECTED_AGENT, "--install", layout.INJECT_TARGET],
            "volumeMounts": [mount],
            "resources": {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"cpu": "500m", "memory": "256Mi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }
    ]
