"""Whether `spec.keep.persistTo` lies in a volume of the template that outlives a pod and that its container may write.

Whether all pods see the same files there cannot be read from a template: that is the user's promise.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from elasticjob_api.errors import FieldError
from elasticjob_api.job import ElasticJob, trainer_container
from elasticjob_operator.model import pod_constants
from elasticjob_operator.render.volumes import mounts

_FIELD = "spec.keep.persistTo"
_CURE = "mount a volume that all pods share, such as a PersistentVolumeClaim, at or above it"
_OF_ONE_POD = {"emptyDir": "an emptyDir", "ephemeral": "a claim of its pod"}
_READ_ONLY = {
    "configMap": "a ConfigMap",
    "secret": "a Secret",
    "downwardAPI": "a downward API volume",
    "projected": "a projected volume",
    "image": "an image",
}


def persist_errors(job: ElasticJob) -> Iterator[FieldError]:
    """Yield an error if steps cannot be persisted in the directory that the spec names."""
    keep = job.spec.keep
    if keep is None or keep.persist_to is None:
        return
    mount = _mount(job, keep.persist_to)
    is_own = mount in (trainer_container(job.spec).get("volumeMounts") or ())
    if why := _fault(mount, persist_volume(job) or {}, is_own=is_own):
        yield FieldError(_FIELD, f"is {keep.persist_to}, {why}")


def persist_volume(job: ElasticJob) -> Mapping[str, Any] | None:
    """Return the volume of the template in which steps are persisted; None if they are not, or in none of its own."""
    keep = job.spec.keep
    mount = None if keep is None or keep.persist_to is None else _mount(job, keep.persist_to)
    volumes = job.spec.template["spec"].get("volumes") or ()
    return next((each for each in volumes if mount is not None and each.get("name") == mount.get("name")), None)


def _mount(job: ElasticJob, path: str) -> Mapping[str, Any] | None:
    """Return the mount of the trainer container in which a path lies, also one of the operator."""
    trainer = trainer_container(job.spec)
    credentials = {"mountPath": pod_constants.CREDENTIALS_DIR}
    return _innermost(path, [*(trainer.get("volumeMounts") or ()), *mounts(job, trainer), credentials])


def _innermost(path: str, candidates: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the mount in which a path lies."""
    above = [mount for mount in candidates if f"{path.rstrip('/')}/".startswith(_path(mount))]
    return max(above, key=lambda mount: len(_path(mount)), default=None)


def _path(mount: Mapping[str, Any]) -> str:
    return str(mount.get("mountPath", "")).rstrip("/") + "/"


def _fault(mount: Mapping[str, Any] | None, volume: Mapping[str, Any], *, is_own: bool) -> str:
    if mount is None:
        return f"where the trainer container mounts no volume; {_CURE}"
    if not is_own:
        return f"in {_path(mount)[:-1]}, a directory of the operator; {_CURE}"
    if mount.get("readOnly"):
        where = f"in volume {mount.get('name')}, which the trainer container mounts read-only"
        return f"{where}; remove readOnly from that mount"
    return _volume_fault(volume)


def _volume_fault(volume: Mapping[str, Any]) -> str:
    name = volume.get("name")
    for kind, source in volume.items():
        if kind in _OF_ONE_POD:
            return f"in volume {name}, {_OF_ONE_POD[kind]}: no other pod sees it, and it goes with its pod; {_CURE}"
        if kind in _READ_ONLY:
            return f"in volume {name}, {_READ_ONLY[kind]}, which cannot be written; {_CURE}"
        if isinstance(source, Mapping) and source.get("readOnly"):
            return f"in volume {name}, which is read-only; remove readOnly from that volume"
    return ""
