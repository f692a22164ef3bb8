"""A volume that all nodes mount, as `spec.keep.persistTo` requires: a claim of a namespace.

It is a part of the folder that the workers of the cluster share. A test reads the steps there as files of this machine.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.kept_job import undisturbed
from e2e.kind_config import SHARED
from e2e.manifests import trainer
from e2e.programs import run
from e2e.space import JOB, Space
from e2e.training import exact
from elasticjob_api.kept_steps import PersistedStep
from testing.waiting import eventually

PERSIST_TO = "/checkpoints"
_CLAIM = "steps"
_WHOLE = re.compile(r"step-(\d+)\..+")


@dataclass(frozen=True, slots=True)
class SharedVolume:
    """The volume of a namespace."""

    space: Space

    @property
    def folder(self) -> Path:
        """The folder of the job, on this machine."""
        return self.space.cluster.shared / self.space.name / f"{self.space.name}.{JOB}"

    def mounted(self, manifest: dict[str, Any], **keep: Any) -> dict[str, Any]:
        """Return the same job, which persists its steps here, with more fields of `spec.keep`."""
        manifest["spec"]["keep"] |= {"persistTo": PERSIST_TO, "persistEverySeconds": 10, **keep}
        volume = {"name": _CLAIM, "persistentVolumeClaim": {"claimName": _CLAIM}}
        manifest["spec"]["template"]["spec"].setdefault("volumes", []).append(volume)
        mount = {"name": _CLAIM, "mountPath": PERSIST_TO}
        trainer(manifest).setdefault("volumeMounts", []).append(mount)
        return manifest

    def whole_steps(self) -> list[int]:
        """Return the numbers of the whole steps; the files of each must be those of an undisturbed training."""
        found = {int(name[1]): path for path in self.folder.glob("step-*") if (name := _WHOLE.fullmatch(path.name))}
        for number, path in found.items():
            assert exact.read(path, number).digest() == undisturbed(number)
        return sorted(found)

    def await_whole(self, step: int) -> None:
        """Wait until this step is the newest one here, and the status has it."""
        what = f"step {step} in the shared volume"
        eventually(lambda: max(self.whole_steps(), default=None) == step, within_s=120, what=what, pause_s=0.5)
        eventually(lambda: self.shown() == step, within_s=60, what=f"{what} and in the status", pause_s=0.5)

    def shown(self) -> int | None:
        """Return the persisted step of the status."""
        found: int | None = self.space.status().get("keep", {}).get("persistedStep")
        return found

    def await_unfinished(self, step: int) -> None:
        """Wait until the bytes of this step are being written here."""

        def is_begun() -> bool:
            return step in self.unfinished_steps() and any(self.folder.glob(".unfinished/*/writing/*"))

        eventually(is_begun, within_s=120, what=f"a part of step {step} that is being written", pause_s=0.1)

    def unfinished_steps(self) -> list[int]:
        """Return the numbers of the steps that are not whole."""
        return sorted(PersistedStep.parse(path.name).step.number for path in self.folder.glob(".unfinished/*"))


@contextmanager
def shared_volume(space: Space) -> Iterator[SharedVolume]:
    """Make the volume and its claim; at the end remove both, and the files."""
    on_node, name = SHARED / space.name, f"shared-{space.name}"
    _on_a_worker(space, f"rm -rf {on_node} && mkdir --mode=0777 {on_node}")
    space.cluster.kubectl("delete", "persistentvolume", name, "--ignore-not-found")
    for manifest in _manifests(name, str(on_node)):
        space.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    space.kubectl("wait", f"persistentvolumeclaim/{_CLAIM}", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s")
    try:
        yield SharedVolume(space)
    finally:
        space.cluster.kubectl("delete", "persistentvolume", name, "--wait=false")
        _on_a_worker(space, f"rm -rf {on_node}")


def _on_a_worker(space: Space, script: str) -> None:
    run("docker", "exec", space.cluster.workers()[0], "sh", "-c", script)


def _manifests(name: str, path: str) -> Iterator[dict[str, Any]]:
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": path, "type": "Directory"}}
    retain = {"persistentVolumeReclaimPolicy": "Retain"}
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**common, **volume, **retain},
    }
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": _CLAIM},
        "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }
