"""Advice for a job, by the reason in its status. It names only commands that exist."""

from collections.abc import Callable, Mapping
from typing import Any

from elasticjob_api.failure_text import is_command_at_fault
from elasticjob_cli.views.last_failure import read_last_failure

Facts = Mapping[str, Any]

_NOT_STARTED = {126, 127}

_PULL = "check the image's name, the node's access to the registry, and spec.template.spec.imagePullSecrets"


def advice(meta: Facts, spec: Facts, status: Facts, *, command: str, folder: str = "") -> list[str]:
    """Return sentences with the most likely cure first; empty for a job without a problem.

    `folder` is the folder of a run on this machine, which is not on a cluster.
    """
    if folder:
        return _of_run(_JobContext(command, folder, "", spec, status))
    name, reason, phase = str(meta.get("name")), str(status.get("reason") or ""), status.get("phase")
    where = f" -n {meta['namespace']}" if meta.get("namespace") not in {None, "default"} else ""
    job = _JobContext(command, name, where, spec, status)
    if not phase:
        return [f"`{command} doctor` shows whether an operator runs and watches this namespace."]
    if phase == "Suspended":
        return [f"`{command} resume {name}{where}` continues the job."]
    found = _BY_REASON.get(reason)
    if found is not None:
        return found(job)
    return _of_failure(job) if phase == "Failed" else []


class _JobContext:
    """The parts of the sentences."""

    def __init__(self, command: str, name: str, where: str, spec: Facts, status: Facts) -> None:
        self.command, self.name, self.where, self.spec, self.status = command, name, where, spec, status

    def call(self, verb: str, options: str = "") -> str:
        """Return a command line of this program."""
        return f"`{self.command} {verb} {self.name}{self.where}{' ' + options if options else ''}`"

    def pod(self) -> str:
        """Return the first pod that does not run: a reason is usually about this pod."""
        nodes = self.status.get("nodes") or ()
        return next((str(n.get("podName")) for n in nodes if n.get("state") not in {"Running", "Succeeded"}), "POD")


def _of_run(job: _JobContext) -> list[str]:
    phase = job.status.get("phase")
    if phase == "Suspended":
        return ["The run was stopped before its end. Run the manifest again; it begins from its newest checkpoint."]
    if phase != "Failed":
        return []
    return _max_restarts(job) if job.status.get("reason") == "MaxRestartsExceeded" else _of_failure(job)


def command_cure(spec: Facts, status: Facts) -> str:
    """Return how to correct a command that no node could start; nothing after another failure."""
    failure = read_last_failure(status)
    # A command that never ran has written nothing; the message is the agent's.
    if failure is None or failure.exit_code not in _NOT_STARTED or failure.stderr_tail:
        return ""
    if not is_command_at_fault(failure.message):
        return ""
    field = f"spec.template.spec.containers[{_trainer(spec)}].command"
    return f"Correct {field}, its PATH or the image: the node cannot find or execute this program."


def _trainer(spec: Facts) -> str:
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or [{}]
    return str(spec.get("trainerContainer") or containers[0].get("name") or 0)


def _of_failure(job: _JobContext) -> list[str]:
    if cure := command_cure(job.spec, job.status):
        rule = "A rule of spec.failurePolicy with action FailJob and onExitCodes 126 and 127 ends such a job at once."
        return [cure, rule]
    return [f"{job.call('logs', '--failed')} shows the output of the worker that failed first."]


def _max_restarts(job: _JobContext) -> list[str]:
    if command_cure(job.spec, job.status):
        return _of_failure(job)
    return [
        *_of_failure(job),
        (
            f"If you expect such failures, raise spec.maxRestarts above {job.spec.get('maxRestarts', 3)}, "
            "or count only recent ones with spec.restartWindowSeconds."
        ),
    ]


def _pull(job: _JobContext) -> list[str]:
    return [f"The image cannot be pulled: {_PULL}; `kubectl describe pod {job.pod()}{job.where}` shows the details."]


def _unschedulable(job: _JobContext) -> list[str]:
    return [
        f"No node has room: `kubectl describe pod {job.pod()}{job.where}` shows what is missing.",
        f"{job.call('scale', '--replicas N')} runs the job with fewer nodes, if minReplicas allows it.",
    ]


def _etcd(job: _JobContext) -> list[str]:
    return [f"`{job.command} doctor` shows whether etcd runs; running workers continue meanwhile."]


def _unreachable(job: _JobContext) -> list[str]:
    return [
        "The agents have no lease in etcd, but their pods run: check network policies, DNS and the CNI between them.",
        f"`{job.command} logs` shows whether the workers still train.",
    ]


def _spec(job: _JobContext) -> list[str]:
    return [f"Correct the field and apply the manifest again: `kubectl edit ejob {job.name}{job.where}`."]


def _unknown_fields(job: _JobContext) -> list[str]:
    edit = f"`kubectl edit ejob {job.name}{job.where}`"
    return [f"The CRD is newer than the operator: upgrade the operator, or remove the field: {edit}."]


def _stalled(job: _JobContext) -> list[str]:
    return [
        f"{job.call('logs')} has the stacks of all workers, written when a hang was suspected.",
        f"{job.call('restart')} restarts them from their newest checkpoint.",
    ]


def _deadline(_: _JobContext) -> list[str]:
    return ["Raise the deadline that ended it (spec.activeDeadlineSeconds, spec.startupDeadlineSeconds), or remove it."]


def _backoff(job: _JobContext) -> list[str]:
    return [
        (
            "Pods failed more often than spec.backoffLimit allows; their statuses have the reasons: "
            f"`kubectl get pods -l elasticjob.io/job-name={job.name}{job.where}`."
        ),
        *_of_failure(job),
    ]


def _below_min(job: _JobContext) -> list[str]:
    return [
        (
            f"It needs {job.spec.get('minReplicas') or job.spec.get('replicas') or 1} nodes: "
            "add capacity, or lower spec.minReplicas."
        ),
    ]


_BY_REASON: Mapping[str, Callable[[_JobContext], list[str]]] = {
    "MaxRestartsExceeded": _max_restarts,
    "FailJobRule": _of_failure,
    "BackoffLimitExceeded": _backoff,
    "BelowMinReplicas": _below_min,
    "DeadlineExceeded": _deadline,
    "StartupDeadlineExceeded": _deadline,
    "ImagePullBackOff": _pull,
    "ErrImagePull": _pull,
    "InvalidImageName": _pull,
    "ErrImageNeverPull": _pull,
    "Unschedulable": _unschedulable,
    "RendezvousUnavailable": _etcd,
    "AgentsUnreachable": _unreachable,
    "InvalidSpec": _spec,
    "UnknownFields": _unknown_fields,
    "Stalled": _stalled,
}
