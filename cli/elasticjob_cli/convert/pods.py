"""The common parts of all sources: metadata, pod templates, a command or a launcher's command line, a run policy."""

import copy
from collections.abc import Mapping
from typing import Any

from elasticjob_api import constants
from elasticjob_cli.convert import torchrun_args
from elasticjob_cli.convert.fields import Fields
from elasticjob_cli.convert.result import NoteKind

_SERVERS_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_FORCED = {
    "restartPolicy": "the operator sets it to Never: the agent restarts workers, the operator replaces pods",
    "hostname": "the operator sets it: every node needs its own",
    "subdomain": "the operator sets it to the job's headless service",
}
FILL_IN = "FILL-IN"


def metadata(source: Fields) -> dict[str, Any]:
    """Return name, namespace, labels and annotations."""
    # Fields that the API server sets are dropped without a note.
    meta = source.inner("metadata")
    result = {name: meta.pop(name) for name in ("name", "namespace", "labels", "annotations") if name in meta}
    for name in _SERVERS_OWN:
        meta.pop(name)
    annotations = {name: value for name, value in result.pop("annotations", {}).items() if name != _LAST_APPLIED}
    if "name" not in result:
        result["name"] = "job"
        meta.add_note("name", NoteKind.CHANGED, f"is missing, so it is {result['name']}")
    return {**result, **({"annotations": annotations} if annotations else {})}


def template(role: Fields) -> tuple[dict[str, Any], Fields]:
    """Return a copy of the pod template that may be changed, and the fields for notes about its pod."""
    value = role.pop("template")
    if not isinstance(value, Mapping):
        role.add_note("template", NoteKind.FILL_IN, "is missing: write the pod template with image and command")
        value = {}
    made: dict[str, Any] = copy.deepcopy(dict(value))
    made.pop("status", None)
    spec = made.setdefault("spec", {})
    for name, why in _FORCED.items():
        if spec.pop(name, None) is not None:
            role.add_note(f"template.spec.{name}", NoteKind.LEFT_OUT, why)
    meta = made.get("metadata") or {}
    for name in [name for name in meta if name not in {"labels", "annotations"}]:
        if meta.pop(name) is not None and name not in _SERVERS_OWN:
            role.add_note(f"template.metadata.{name}", NoteKind.LEFT_OUT, "the operator names the pods")
    if not meta:
        made.pop("metadata", None)
    return made, Fields({}, f"{role.path}.template.spec", role.notes)


def trainer_index(made: Mapping[str, Any], container_name: str) -> int:
    """Return the index of the container that trains: the one of this name, else the first."""
    containers = made["spec"].setdefault("containers", [])
    if not containers:
        containers.append({"name": "trainer"})
    return next((i for i, each in enumerate(containers) if each.get("name") == container_name), 0)


def unwrap_command(
    made: Mapping[str, Any], index: int, where: Fields, *, bare_arguments_are_launchers: bool = False
) -> dict[str, Any]:
    """Remove a launcher from the trainer's command; return the spec fields for its options.

    An ElasticJob needs the whole command, because the image's ENTRYPOINT is unknown.
    """
    container = made["spec"]["containers"][index]
    path = f"containers[{index}]"
    container.setdefault("name", "trainer")
    if container["name"].startswith(constants.RESERVED_PREFIX):
        where.add_note(
            f"{path}.name",
            NoteKind.CHANGED,
            f"{container['name']} is now trainer: {constants.RESERVED_PREFIX}* is reserved",
        )
        container["name"] = "trainer"
    if not container.get("image"):
        container["image"] = FILL_IN
        where.add_note(f"{path}.image", NoteKind.FILL_IN, "is missing: set the image")
    command, arguments = list(container.get("command") or ()), list(container.get("args") or ())
    if bare_arguments_are_launchers and not command:
        command = ["torchrun"]
        container["command"] = command
    if not command:
        where.add_note(
            f"{path}.command",
            NoteKind.FILL_IN,
            "is missing, and the image's ENTRYPOINT is unknown: write the command, without a launcher",
        )
        container["command"] = [FILL_IN]
        return {}
    found = torchrun_args.unwrap([*command, *arguments])
    if found is None:
        return {}
    container["command"] = list(found.command)
    container.pop("args", None)
    where.add_note(
        f"{path}.command", NoteKind.CHANGED, f"{found.program} is left out: the agent starts and restarts workers"
    )
    for option, kind, message in found.notes:
        where.add_note(f"{path}.command {option}", kind, message)
    return dict(found.spec)


def run_policy(policy: Fields) -> dict[str, Any]:
    """Return the spec fields for a `runPolicy` of the training operators."""
    spec: dict[str, Any] = {
        "cleanPodPolicy": policy.pop("cleanPodPolicy"),
        "ttlSecondsAfterFinished": policy.pop("ttlSecondsAfterFinished"),
        "activeDeadlineSeconds": policy.pop("activeDeadlineSeconds"),
        "backoffLimit": policy.pop("backoffLimit"),
        "suspend": policy.pop("suspend") or None,
    }
    policy.leave_out("managedBy", "it names another controller; set spec.managedBy if you need it")
    scheduling = policy.inner("schedulingPolicy")
    scheduling.leave_out("minAvailable", "there is no gang scheduling: a round begins with minReplicas nodes")
    scheduling.leave_out("queue", "label the job for your queue, for example kueue.x-k8s.io/queue-name")
    scheduling.leave_out("minResources", "there is no gang scheduling: the requests of the template count")
    scheduling.leave_out("priorityClass", "move it to spec.template.spec.priorityClassName")
    scheduling.leave_out("scheduleTimeoutSeconds", "spec.startupDeadlineSeconds ends a job that does not start")
    return spec


def exit_code_rule(policy: str | None) -> dict[str, Any]:
    """Return the failure policy for `restartPolicy: ExitCode`: codes 1 to 127 are permanent."""
    if policy != "ExitCode":
        return {}
    rule = {"name": "permanent", "action": "FailJob", "onExitCodes": {"operator": "In", "values": list(range(1, 128))}}
    return {"failurePolicy": {"rules": [rule]}}


def resolve_conflict(options: Mapping[str, Any], wanted: Mapping[str, Any], where: Fields) -> dict[str, Any]:
    """Return the spec fields of the launcher's options and of the object; the object's fields win."""
    made = {name: value for name, value in wanted.items() if value is not None}
    for name, value in options.items():
        if value is not None and made.get(name, value) != value:
            where.add_note(
                f"launcher's {name}", NoteKind.LEFT_OUT, f"{value} is overridden by the object's {made[name]}"
            )
    return {**options, **made}
