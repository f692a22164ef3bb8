"""A container as a process of this machine: argv, environment, working directory, files. Only `make_files` does I/O.

The image is ignored. A container's base environment is that of this program, with this Python's folder first in
PATH. So `python` and `elasticjob-agent` are those of this installation. The variables of a surrounding job are not
passed on.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elasticjob_api import constants
from elasticjob_cli.local.environment import PodFacts, expand, resolve
from elasticjob_cli.local.pod_template import Json
from elasticjob_cli.local.volumes import PathMap, VolumePaths, path_map, prepare, volume_folders

_SURROUNDING_POD_VARIABLES = {
    constants.ENV_PREFIX,
    constants.ENV_ENDPOINTS,
    constants.ENV_SLOT,
    constants.ENV_JOB,
    constants.ENV_JOB_UID,
    constants.ENV_POD_NAME,
    constants.ENV_POD_UID,
    constants.ENV_POD_IP,
    constants.ENV_NODE_NAME,
    constants.ENV_NPROC,
    constants.ENV_LOG_DIR,
    constants.ENV_TERMINATION_LOG,
    constants.ENV_KEEP_DIR,
    constants.ENV_KEEP_SIZE_LIMIT,
    constants.ENV_KEEP_COPIES,
    constants.ENV_KEEP_BANDWIDTH,
    constants.ENV_KEEP_RESTORE_TIMEOUT,
    constants.ENV_KEEP_PERSIST_TO,
    constants.ENV_KEEP_PERSIST_EVERY,
    constants.ENV_KEEP_PERSIST_KEEP,
    constants.ENV_KEEP_RESUME,
    constants.ENV_KEEP_PERSISTED,
    constants.ENV_ROUND,
    constants.ENV_PROGRESS,
    constants.ENV_KEEP,
    constants.ENV_KEPT,
    constants.ENV_KEPT_STEP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The parts of this machine that every pod uses."""

    environ: Mapping[str, str]
    """The base environment, instead of that of an image."""
    bin: Path
    """First in PATH."""
    cwd: Path
    """Working directory of containers, unless their workingDir is in a volume."""
    pods: Path
    """Parent of the pods' folders with volumes and termination logs."""
    volumes: Path
    """Folder for hostPaths that this machine does not have; shared by all pods."""
    logs: Path
    """Parent of the pods' folders with the output of containers."""
    memory: Path | None = None
    """Parent of the pods' folders in memory; None for a job without `spec.keep`."""
    ip: str = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """A container, ready to be started."""

    name: str
    image: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    stdout: Path
    stderr: Path
    termination_log: Path
    logs_on_error: bool
    """Whether the end of the output replaces an empty termination log after a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """A pod, ready to be started."""

    folders: tuple[Path, ...]
    init: tuple[ContainerPlan, ...]
    containers: tuple[ContainerPlan, ...]
    memory: Path | None = None
    """The folder that is removed when the containers have ended."""


def plan_pod(facts: PodFacts, host: Host, folder: str) -> PodPlan:
    """Return what must be created and started for a pod; `folder` is its name among the pods' folders."""
    spec = facts.pod["spec"]
    memory = host.memory / folder if host.memory is not None else None
    folders = volume_folders(spec, VolumePaths(pod=host.pods / folder, host=host.volumes, memory=memory))

    def planned(kind: str) -> tuple[ContainerPlan, ...]:
        return tuple(_plan(container, facts, host, folder, folders) for container in spec.get(kind) or [])

    return PodPlan(
        folders=tuple(folders.values()),
        init=planned("initContainers"),
        containers=planned("containers"),
        memory=memory,
    )


def _plan(container: Json, facts: PodFacts, host: Host, folder: str, folders: Mapping[str, Path]) -> ContainerPlan:
    name = str(container["name"])
    termination_log = host.pods / folder / f"{name}.termination-log"
    paths = path_map(container, folders, termination_log)
    own = resolve(container, facts)
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    return ContainerPlan(
        name=name,
        image=str(container.get("image") or ""),
        argv=tuple(paths.rewrite(expand(word, own)) for word in words),
        env=_environment(own, facts, host, paths, termination_log),
        cwd=_cwd(container, host, paths),
        stdout=host.logs / folder / name / "stdout.log",
        stderr=host.logs / folder / name / "stderr.log",
        termination_log=termination_log,
        logs_on_error=container.get("terminationMessagePolicy") == "FallbackToLogsOnError",
    )


def _environment(
    own: Mapping[str, str], facts: PodFacts, host: Host, paths: PathMap, termination_log: Path
) -> dict[str, str]:
    env = {name: value for name, value in host.environ.items() if name not in _SURROUNDING_POD_VARIABLES}
    env["HOSTNAME"] = str(facts.pod["spec"].get("hostname") or facts.pod["metadata"]["name"])
    env[constants.ENV_TERMINATION_LOG] = str(termination_log)
    env |= {name: paths.rewrite(value) for name, value in own.items()}
    env["PATH"] = os.pathsep.join([str(host.bin), *filter(None, [env.get("PATH", os.defpath)])])
    return env


def _cwd(container: Json, host: Host, paths: PathMap) -> Path:
    """Return the working directory: a folder of a volume, else that of the host."""
    # A workingDir in the image does not exist here.
    wanted = container.get("workingDir") or ""
    mapped = paths.rewrite(wanted)
    return Path(mapped) if mapped != wanted else host.cwd


def remove_memory(plan: PodPlan) -> None:
    """Delete the pod's folder in memory, which counts against the memory of this machine."""
    if plan.memory is not None:
        shutil.rmtree(plan.memory, ignore_errors=True)


def make_files(plan: PodPlan) -> None:
    """Create volumes, log folders and empty termination logs; raise OSError if one cannot be created."""
    prepare(plan.folders)
    for container in (*plan.init, *plan.containers):
        prepare([container.stdout.parent, container.termination_log.parent, container.cwd])
        container.termination_log.touch()
