"""The hostPaths of a template that this machine does not have: an error, or a folder of the run.

It only looks whether a path exists.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elasticjob_api.errors import FieldError
from elasticjob_api.job import ElasticJob
from elasticjob_operator.render.persist_mount import persist_volume

_MUST_EXIST = {"Directory", "File", "Socket", "CharDevice", "BlockDevice"}
"""Types of a hostPath with which a pod of a cluster would wait for the path, too."""


def host_path_faults(job: ElasticJob, path: str) -> Iterator[FieldError]:
    """Yield a fault for each hostPath that is missing and that no folder of the run can replace."""
    persisted = persist_volume(job)
    for number, volume, host_path in _missing(job):
        field = f"{path}.volumes[{number}].hostPath.path"
        cure = f"create it (mkdir -p {host_path}), or name a path that exists"
        kind = volume["hostPath"].get("type")
        if volume == persisted:
            why = "so the steps of spec.keep.persistTo would go with the folder of this run"
            yield FieldError(field, f"{host_path} does not exist on this machine, {why}; {cure}")
        elif kind in _MUST_EXIST:
            yield FieldError(field, f"{host_path} does not exist on this machine, and its type is {kind}; {cure}")


def replaced_host_paths(job: ElasticJob) -> Iterator[tuple[str, str]]:
    """Yield name and hostPath of each volume whose files are in a folder of the run."""
    return ((str(volume.get("name")), host_path) for _, volume, host_path in _missing(job))


def _missing(job: ElasticJob) -> Iterator[tuple[int, Mapping[str, Any], str]]:
    for number, volume in enumerate(job.spec.template["spec"].get("volumes") or ()):
        host_path = str((volume.get("hostPath") or {}).get("path") or "")
        if host_path.startswith("/") and not Path(host_path).exists():
            yield number, volume, host_path
