"""A pod's status as a kubelet writes it, from the states of its containers. Only `termination_message` does I/O."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elasticjob_api import exit_codes

_MESSAGE_BYTES = 4096
_LOG_BYTES = 2048


@dataclass(slots=True)
class ContainerState:
    """The state of one container; only the pod's runner changes it."""

    name: str
    image: str = ""
    started_at: str = ""
    """Empty while it waits, or if it could not be started."""
    ended: "ContainerEnd | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnd:
    """The end of a container; `code` as in `subprocess`."""

    code: int
    at: str
    message: str = ""
    reason: str = ""
    """The reason why it could not be started; empty if it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPodState:
    """The state of a pod and its containers."""

    start_time: str
    pod_ip: str
    host_ip: str
    init: Sequence[ContainerState] = ()
    containers: Sequence[ContainerState] = ()
    failure: tuple[str, str] | None = None
    """Reason and message of a pod that the kubelet rejected."""


def pod_status(state: LocalPodState, now: str) -> dict[str, Any]:
    """Return the whole status."""
    phase = pod_phase(state)
    ready = "True" if phase == "Running" and all(_is_running(c) for c in state.containers) else "False"
    reason, message = state.failure or ("", "")
    return {
        "phase": phase,
        **({"reason": reason, "message": message} if reason else {}),
        "startTime": state.start_time,
        "podIP": state.pod_ip,
        "podIPs": [{"ip": state.pod_ip}],
        "hostIP": state.host_ip,
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": state.start_time},
            {"type": "Ready", "status": ready, "lastTransitionTime": now},
        ],
        **({"initContainerStatuses": [_container_status(c) for c in state.init]} if state.init else {}),
        "containerStatuses": [_container_status(c) for c in state.containers],
    }


def pod_phase(state: LocalPodState) -> str:
    """Return the phase: Running once a container ran, ended when all have ended or an init container failed."""
    if state.failure or any(c.ended and c.ended.code != 0 for c in state.init):
        return "Failed"
    ends = [c.ended for c in state.containers]
    if ends and all(ends):
        return "Failed" if any(end and end.code != 0 for end in ends) else "Succeeded"
    return "Running" if any(c.started_at or c.ended for c in state.containers) else "Pending"


def _is_running(state: ContainerState) -> bool:
    return bool(state.started_at) and state.ended is None


def _container_status(state: ContainerState) -> dict[str, Any]:
    return {
        "name": state.name,
        "image": state.image,
        "imageID": "",
        "restartCount": 0,
        "ready": _is_running(state),
        "started": _is_running(state),
        "state": _state(state),
    }


def _state(state: ContainerState) -> dict[str, Any]:
    if state.ended:
        return {"terminated": _terminated(state.ended, state.started_at)}
    if state.started_at:
        return {"running": {"startedAt": state.started_at}}
    return {"waiting": {"reason": "PodInitializing"}}


def _terminated(end: ContainerEnd, started_at: str) -> dict[str, Any]:
    return {
        "exitCode": exit_codes.exit_code_of(end.code),
        **({"signal": -end.code} if end.code < 0 else {}),
        "reason": end.reason or ("Error" if end.code else "Completed"),
        **({"message": end.message} if end.message else {}),
        "startedAt": started_at or end.at,
        "finishedAt": end.at,
    }


def termination_message(termination_log: Path, *output: Path) -> str:
    """Return the end of the termination log, else of the first of `output` that is not empty; at most 4 KiB."""
    for path, most in ((termination_log, _MESSAGE_BYTES), *((log, _LOG_BYTES) for log in output)):
        if text := _tail_bytes(path, most).strip():
            return text
    return ""


def _tail_bytes(path: Path, most: int) -> str:
    """Return the last bytes of a regular file, else an empty text."""
    # The container may have replaced the file by anything.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return ""
        file.seek(max(0, status.st_size - most))
        return file.read(most).decode(errors="replace")
