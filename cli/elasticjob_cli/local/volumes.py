"""A pod's volumes as folders of this machine, and mount paths rewritten to them. Only `prepare` does I/O.

A process has no mounts. So in a container's command, args and variables, a mount path (`/ckpt`, `--out=/ckpt/last`,
`sh -c "ls /ckpt"`) is replaced by the path of its folder. Other words, such as `/ckpts` and `s3://b/ckpt`, remain. A
path inside a program cannot be changed: the program must read it from an argument or a variable.

An emptyDir is a folder of the pod, whatever its medium; only the volume of `spec.keep` is in memory. A hostPath is that
path if it exists. Otherwise it is a folder of the run that all pods share, because nothing is created outside the run
folder (`host_paths` has the exceptions). /dev/shm is that of the machine. Any other volume needs a cluster, and is
rejected by a sentence that names it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elasticjob_api.errors import FieldError
from elasticjob_cli.local.pod_template import Json, containers_of
from elasticjob_operator.model import pod_constants

SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a mount path in a manifest, not a file that this program creates
TERMINATION_LOG = "/dev/termination-log"
"""The file for the last message of a container, unless `terminationMessagePath` names another."""

_SUPPORTED = ("emptyDir", "hostPath")
_KINDS = {
    "persistentVolumeClaim": "a PersistentVolumeClaim",
    "configMap": "a ConfigMap",
    "secret": "a Secret",
    "nfs": "an NFS share",
    "csi": "a CSI volume",
    "ephemeral": "a claim of a storage class",
    "downwardAPI": "a downward API volume",
    "image": "an image volume",
}
_BEFORE = r"(?<![\w./~)}-])"
"""Begin of a path: not inside a name or a longer path, and not after `${HOME}`."""
_AFTER = r"(?![\w.-])"


@dataclass(frozen=True, slots=True)
class PathMap:
    """Mount path → folder of one container."""

    folders: Mapping[str, Path]

    def rewrite(self, text: str) -> str:
        """Return `text` with every mount path replaced; of nested mounts the innermost counts."""
        if not self.folders:
            return text
        # Longest first: of two alternatives that match, the first one is used.
        paths = "|".join(re.escape(path) for path in sorted(self.folders, key=len, reverse=True))
        return re.sub(f"{_BEFORE}(?:{paths}){_AFTER}", lambda match: str(self.folders[match[0]]), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePaths:
    """Folders of the run that contain volumes."""

    pod: Path
    """The folder of the pod, with its emptyDirs in `volumes`."""
    host: Path
    """The folder of hostPaths that this machine does not have, shared by all pods."""
    memory: Path | None = None
    """The folder of the pod in memory; None for a job without `spec.keep`."""


# --- checks ----------------------------------------------------------------------------------------------------


def volume_faults(pod_spec: Json, path: str) -> Iterator[FieldError]:
    """Yield a fault for each volume and mount that this machine cannot provide."""
    names: set[str] = set()
    for i, volume in enumerate(pod_spec.get("volumes") or []):
        if not volume.get("name"):
            yield FieldError(f"{path}.volumes[{i}].name", "is required")
            continue
        names.add(volume["name"])
        yield from _one_volume_faults(volume, f"{path}.volumes[{i}]")
    for where, container in containers_of(pod_spec):
        for i, mount in enumerate(container.get("volumeMounts") or []):
            yield from _mount_faults(mount, names, f"{path}.{where}.volumeMounts[{i}]")


def _one_volume_faults(volume: Json, path: str) -> Iterator[FieldError]:
    name = volume["name"]
    kinds = [kind for kind in volume if kind != "name"]
    for kind in kinds:
        if kind not in _SUPPORTED and not (volume[kind] or {}).get("optional"):
            yield FieldError(
                f"{path}.{kind}",
                f"volume {name!r} is {_KINDS.get(kind, kind)}, which needs a cluster; "
                "to run here, use an emptyDir or a hostPath",
            )
    if "hostPath" in kinds and not str((volume["hostPath"] or {}).get("path", "")).startswith("/"):
        yield FieldError(f"{path}.hostPath.path", f"volume {name!r} must have an absolute path")


def _mount_faults(mount: Json, names: set[str], path: str) -> Iterator[FieldError]:
    mount_path = str(mount.get("mountPath") or "")
    if mount.get("name") not in names:
        yield FieldError(f"{path}.name", f"is {mount.get('name')!r}; it must be the name of a volume")
    if not mount_path.startswith("/") or not mount_path.strip("/"):
        yield FieldError(f"{path}.mountPath", f"is {mount_path!r}; it must be an absolute path below /")
    if ".." in str(mount.get("subPath") or "").split("/"):
        yield FieldError(f"{path}.subPath", "must not contain '..'")


# --- mapping -----------------------------------------------------------------------------------------------------


def volume_folders(pod_spec: Json, roots: VolumePaths) -> dict[str, Path]:
    """Return volume name → folder; create nothing yet."""
    return {volume["name"]: _folder(volume, roots) for volume in pod_spec.get("volumes") or []}


def _folder(volume: Json, roots: VolumePaths) -> Path:
    if volume["name"] == pod_constants.KEEP_VOLUME and roots.memory is not None:
        return roots.memory
    host_path = (volume.get("hostPath") or {}).get("path")
    if host_path is None:
        return roots.pod / "volumes" / str(volume["name"])
    return Path(host_path) if Path(host_path).exists() else roots.host / str(host_path).strip("/")


def path_map(container: Json, folders: Mapping[str, Path], termination_log: Path) -> PathMap:
    """Return the path map of this container."""
    mounts = {
        str(mount["mountPath"]).rstrip("/"): folders[mount["name"]] / str(mount.get("subPath") or "")
        for mount in container.get("volumeMounts") or []
    }
    mounts.pop(SHARED_MEMORY, None)
    return PathMap({**mounts, container.get("terminationMessagePath") or TERMINATION_LOG: termination_log})


def prepare(folders: Iterable[Path]) -> None:
    """Create the folders that do not exist; raise OSError if one cannot be created."""
    for folder in folders:
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
