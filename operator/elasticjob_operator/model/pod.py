"""One pod as the policies use it, parsed from Kubernetes' JSON.

Missing or unexpected parts of a pod read as "not known". A pod's status comes from kubelets of any version, and no part
of it may crash the reconciler. This module decides nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elasticjob_api import constants
from elasticjob_api.bootstrap import revision_word
from elasticjob_api.one_line import one_line
from elasticjob_operator.model import objects, pod_constants
from elasticjob_operator.model.compare import fields_except
from elasticjob_operator.model.timestamps import from_rfc3339

_DISRUPTED_REASONS = frozenset({"Evicted", "Preempting", "NodeShutdown", "NodeLost", "Shutdown", "Terminated"})
"""`status.reason` of pods that the cluster ended; a kubelet without the condition DisruptionTarget has only that."""
_LOST_BY_KUBELET = "ContainerStatusUnknown"
"""Reason of a container that the kubelet no longer found."""
_LOST_BY_RUNTIME = ("Unknown", 255)
"""Reason and exit code of a container that its runtime no longer knows, as after a reboot of the node."""
_REJECTED_REASONS = frozenset({
    "NodeAffinity", "NodeName", "NodePorts", "NodeUnschedulable", "PodFitsHostPorts", "TaintToleration",
    "UnexpectedAdmissionError", "TopologyAffinityError", "AppArmor", "SysctlForbidden", "InvalidNodeInfo",
    "UnexpectedPredicateFailureType", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch",
    "PodFeatureUnsupported", "PodLevelResourcesNotSupported", "SupplementalGroupsPolicyNotSupported",
    "VolumeAttachmentLimitExceeded",
})  # fmt: skip
"""`status.reason` of pods that a kubelet did not admit: no container of them ever ran."""
_OUT_OF_RESOURCE = "OutOf"
"""The kubelet's prefix of a resource that its node has exhausted: OutOfcpu, OutOfnvidia.com/gpu."""
_REJECTED = "Pod was rejected"
"""The beginning of the kubelet's message for every rejected pod, since Kubernetes 1.27."""


INIT_FAILED = "InitContainerFailed"
_REVISION_DIGITS = 19
"""Most digits of a revision of etcd, which has 63 bits."""
_REASON_LIMIT, _MESSAGE_LIMIT = 128, 4096
"""A kubelet keeps 4 KiB of a container's termination message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod of a job."""

    name: str
    uid: str
    version: str = ""
    """The resourceVersion."""
    slot: int | None = None
    prefix: str = ""
    """The prefix of the job's keys in etcd, as its agent uses it."""
    installation: str = ""
    """The installation of the operator that created it; empty for a pod of a version that did not record it."""
    template_hash: str = ""
    """Hash of its template; empty for a pod of an operator that set no such label."""
    agent_image: str = ""
    """Image of its agent; empty if the pod's own image contains the agent."""
    spec_revision: int = 0
    """Revision of the spec record that it was created from, which names it; 0 if it is not known."""
    phase: str = "Pending"
    """The phase, which ends with the trainer: a sidecar that still runs is no progress."""
    has_running_sidecar: bool = False
    """Whether the trainer has ended and another container has not."""
    terminating: bool = False
    grace_ends_s: float | None = None
    """When a requested deletion should be complete."""
    created_s: float = 0.0
    running_since_s: float | None = None
    """Start of the trainer container, or of the pod if that is not known."""
    ended_s: float | None = None
    """When the trainer, or a failed init container, ended; None if no kubelet reported it."""
    node_name: str = ""
    exit_code: int | None = None
    """Exit code of the trainer container, once it has ended."""
    reason: str = ""
    """The most specific reason why it ended, or why it does not start."""
    message: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Type → status."""
    is_rejected: bool = False
    """Whether a kubelet did not admit it."""
    is_disrupted: bool = False
    """Whether the cluster ended it (eviction, preemption, drain), not a program in it."""
    is_lost: bool = False
    """Whether its node no longer knows how the trainer or an init container ended, as after a reboot."""

    @property
    def ended(self) -> bool:
        """Whether its trainer has ended for good, or all of its containers."""
        return self.phase in objects.ENDED_PHASES

    @property
    def is_live(self) -> bool:
        """Whether it runs or may run, and its deletion was not requested."""
        return not self.ended and not self.terminating

    @property
    def running(self) -> bool:
        """Whether its containers run, and its deletion was not requested."""
        return self.is_live and self.phase == "Running"

    @property
    def is_blocked(self) -> bool:
        """Whether it does not run and the cluster gives a reason, so that it is not expected soon."""
        return self.phase == "Pending" and bool(self.reason)


_state = fields_except(Pod, "version")
_progress_of = fields_except(Pod, "version", "phase", "running_since_s", "node_name", "conditions")


def is_same(before: Pod | None, after: Pod) -> bool:
    """Return whether no field that is used has changed."""
    return before is not None and _state(before) == _state(after)


def is_progressing(before: Pod | None, after: Pod) -> bool:
    """Return whether the change is normal start-up progress, which needs no action."""
    return after.is_live and not after.reason and (before is None or _progress_of(before) == _progress_of(after))


def parse_pod(obj: Mapping[str, Any]) -> Pod:
    """Return the pod in `obj`; the trainer is the container with the agent, or else the first."""
    status = obj.get("status") or {}
    container = _trainer_status(obj, status)
    state = container.get("state") or {}
    ended = state.get("terminated") or {}
    conditions = {str(c.get("type")): c for c in status.get("conditions") or []}
    created_s = from_rfc3339(objects.metadata(obj).get("creationTimestamp")) or 0.0
    reason, message = _reason(status, state, conditions)  # untrusted: containers and tenants write them
    return Pod(
        name=objects.name_of(obj),
        uid=objects.uid_of(obj),
        version=objects.version_of(obj),
        slot=_slot(obj),
        prefix=_prefix(obj),
        installation=str(_annotations(obj).get(constants.ANNOTATION_INSTALLATION, "")),
        template_hash=str(objects.labels_of(obj).get(constants.LABEL_TEMPLATE_HASH, "")),
        agent_image=_agent_image(obj),
        spec_revision=_spec_revision(obj),
        phase=_phase(obj, ended),
        has_running_sidecar=objects.pod_phase(obj) == "Running" and ended.get("exitCode") is not None,
        terminating=objects.is_terminating(obj),
        grace_ends_s=from_rfc3339(objects.metadata(obj).get("deletionTimestamp")),
        created_s=created_s,
        running_since_s=_running_since_s(status, state),
        ended_s=_ended_s(status, ended),
        node_name=str((obj.get("spec") or {}).get("nodeName") or ""),
        exit_code=ended.get("exitCode"),
        reason=one_line(reason, _REASON_LIMIT),
        message=one_line(message, _MESSAGE_LIMIT),
        conditions={name: str(c.get("status")) for name, c in conditions.items()},
        is_rejected=_is_refused(status),
        is_disrupted=_is_disrupted(status, conditions),
        is_lost=_is_lost(ended or _end_of_init(status)),
    )


def _phase(obj: Mapping[str, Any], ended: Mapping[str, Any]) -> str:
    phase = objects.pod_phase(obj)
    if phase != "Running" or ended.get("exitCode") is None:
        return phase
    return "Succeeded" if ended["exitCode"] == 0 else "Failed"


def _slot(obj: Mapping[str, Any]) -> int | None:
    text = str(objects.labels_of(obj).get(constants.LABEL_SLOT, ""))
    return int(text) if text.isdecimal() else None


def _annotations(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return objects.metadata(obj).get("annotations") or {}


def _prefix(obj: Mapping[str, Any]) -> str:
    return _variable(obj, constants.ENV_PREFIX)


def _spec_revision(obj: Mapping[str, Any]) -> int:
    text = revision_word(_variable(obj, constants.ENV_SPEC))
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _REVISION_DIGITS else 0


def _variable(obj: Mapping[str, Any], name: str) -> str:
    """Return the value of the first variable of this name in any container; empty without one."""
    containers = (obj.get("spec") or {}).get("containers") or []
    variables = (variable for container in containers for variable in container.get("env") or [])
    return next((str(v.get("value") or "") for v in variables if v.get("name") == name), "")


def _agent_image(obj: Mapping[str, Any]) -> str:
    """Return the image in the annotation; for a pod of an older version that of its init container."""
    if image := _annotations(obj).get(constants.ANNOTATION_AGENT_IMAGE):
        return str(image)
    containers = (obj.get("spec") or {}).get("initContainers") or []
    return next((str(c.get("image") or "") for c in containers if c.get("name") == pod_constants.INIT_CONTAINER), "")


def _trainer_status(obj: Mapping[str, Any], status: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = (obj.get("spec") or {}).get("containers") or [{}]
    trainer = next((c for c in containers if _has_agent(c)), containers[0])
    statuses = status.get("containerStatuses") or []
    return next((c for c in statuses if c.get("name") == trainer.get("name")), {})


def _has_agent(container: Mapping[str, Any]) -> bool:
    return any(variable.get("name") == constants.ENV_PREFIX for variable in container.get("env") or [])


def _running_since_s(status: Mapping[str, Any], state: Mapping[str, Any]) -> float | None:
    if status.get("phase") != "Running":
        return None
    return from_rfc3339((state.get("running") or {}).get("startedAt") or status.get("startTime"))


def _ended_s(status: Mapping[str, Any], ended: Mapping[str, Any]) -> float | None:
    return from_rfc3339(ended.get("finishedAt") or _end_of_init(status).get("finishedAt"))


def _end_of_init(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the end of the first init container that failed; empty if none has."""
    inits = [(c.get("state") or {}).get("terminated") or {} for c in status.get("initContainerStatuses") or []]
    return next((init for init in inits if init.get("exitCode")), {})


def _reason(status: Mapping[str, Any], state: Mapping[str, Any], conditions: Mapping[str, Any]) -> tuple[str, str]:
    """Return reason and message of the end, else of a waiting container, else of the failed scheduling."""
    if (failed := _failed_init(status)) is not None:
        return failed
    ended, waiting = state.get("terminated") or {}, state.get("waiting") or {}
    scheduled = conditions.get("PodScheduled") or {}
    for part in (status, ended):
        if part.get("reason"):
            return str(part["reason"]), str(part.get("message") or "")
    for part in (waiting, *_init_container_waits(status)):
        if part.get("reason") not in {None, "", "ContainerCreating", "PodInitializing"}:
            return str(part["reason"]), str(part.get("message") or "")
    if scheduled.get("status") == "False":
        return str(scheduled.get("reason") or "Unschedulable"), str(scheduled.get("message") or "")
    return "", ""


def _failed_init(status: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return reason and message of a failed init container; the others then never start and have no status."""
    if status.get("phase") != "Failed" or status.get("reason"):
        return None
    for container in status.get("initContainerStatuses") or []:
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            why = ended.get("message") or ended.get("reason") or ""
            message = f"init container {container.get('name')} ended with exit code {ended['exitCode']}"
            return INIT_FAILED, f"{message}: {why}".rstrip(": ")
    return None


def _init_container_waits(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [(c.get("state") or {}).get("waiting") or {} for c in status.get("initContainerStatuses") or []]


def _is_refused(status: Mapping[str, Any]) -> bool:
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    return status.get("phase") == "Failed" and (
        reason in _REJECTED_REASONS or reason.startswith(_OUT_OF_RESOURCE) or message.startswith(_REJECTED)
    )


def _is_disrupted(status: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    target = conditions.get("DisruptionTarget") or {}
    return target.get("status") == "True" or status.get("reason") in _DISRUPTED_REASONS


def _is_lost(ended: Mapping[str, Any]) -> bool:
    reason = ended.get("reason")
    return reason == _LOST_BY_KUBELET or (reason, ended.get("exitCode")) == _LOST_BY_RUNTIME
