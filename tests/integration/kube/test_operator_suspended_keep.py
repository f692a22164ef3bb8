"""A job that keeps steps and is suspended: its last step is written to a shared volume, and restored at the resume."""

from pathlib import Path
from typing import Any

import pytest

from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack

pytestmark = pytest.mark.kube

# The first life publishes 1 to 5 and waits; a later one writes what it has restored, and waits for the file to finish.
_TRAIN = """
import os, pathlib, sys, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
folder, finish = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
kept = os.environ.get("ELASTICJOB_KEPT")
found = sorted(path.read_text() for path in pathlib.Path(kept).iterdir()) if kept else []
lives = len(list(folder.glob(f"life-*.{rank}")))
draft = folder / f"draft.{rank}"
draft.write_text(" ".join(found) or "nothing")
draft.rename(folder / f"life-{lives + 1}.{rank}")
keep = pathlib.Path(os.environ["ELASTICJOB_KEEP"])
first = int(os.environ.get("ELASTICJOB_KEPT_STEP", "0"))
for step in range(first + 1, first + 6):
    part = keep / f"tmp-{rank}"
    part.mkdir()
    (part / f"state-{rank}").write_text(f"{step}.{rank}")
    part.rename(keep / f"step-{step}.{rank}-of-{world}")
while not finish.exists():
    time.sleep(0.02)
"""


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory that all pods of the job mount."""
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


def keeping_job(rig: KubeStack, shared: Path, journal: Path) -> dict[str, Any]:
    """Return a job of two workers that publish steps, with a shared volume at /ckpt."""
    # Only at the end: no period brings a step to disk.
    keep = {"sizeLimit": "16Mi", "persistTo": str(shared), "persistEverySeconds": 3600}
    job = waiting_job(rig, replicas=2, keep=keep)
    pod = job["spec"]["template"]["spec"]
    pod["containers"][0]["command"] = ["python", "-S", "-c", _TRAIN, str(journal), str(rig.finish)]
    pod["containers"][0]["volumeMounts"] = [{"name": "shared", "mountPath": str(shared)}]
    pod["volumes"] = [{"name": "shared", "hostPath": {"path": str(shared)}}]
    return job


def restored(journal: Path, life: int) -> set[str]:
    """Return what the workers of one life have restored; empty until both have written it."""
    found = [path.read_text() for path in journal.glob(f"life-{life}.?")]
    return set(found) if len(found) == 2 else set()


def train_until_committed(rig: KubeStack, shared: Path, folder: Path) -> Path:
    """Start a job that publishes steps, wait until step 5 is committed, and return its journal."""
    journal = folder / "journal"
    journal.mkdir()
    rig.start_node(cwd=folder)
    rig.start_operator()
    rig.create_job(keeping_job(rig, shared, journal))
    rig.until("the first life", lambda: restored(journal, 1) == {"nothing"}, within_s=90)
    rig.until("a committed step", lambda: rig.status().get("keep", {}).get("step") == 5, within_s=90)
    return journal


def suspend(rig: KubeStack) -> None:
    rig.patch_job("j", {"suspend": True})
    rig.phase("Suspended")
    rig.until("no pod", lambda: not rig.pods(), within_s=90)


def test_a_resumed_job_restores_the_step_that_its_suspension_has_written(
    rig: KubeStack, shared: Path, tmp_path: Path
) -> None:
    journal = train_until_committed(rig, shared, tmp_path)
    assert list(shared.glob("*/step-*")) == []

    suspend(rig)
    (whole,) = shared.glob("*/step-*")
    assert whole.name.startswith("step-5.")

    rig.patch_job("j", {"suspend": False})
    rig.until("the second life", lambda: restored(journal, 2) == {"5.0 5.1"}, within_s=90)
    rig.until("a newer committed step", lambda: rig.status().get("keep", {}).get("step") == 10, within_s=90)
    rig.finish.touch()
    rig.phase("Succeeded")


def test_a_resumed_job_whose_volume_is_empty_waits_for_its_step_and_shows_that(
    rig: KubeStack, shared: Path, tmp_path: Path
) -> None:
    journal = train_until_committed(rig, shared, tmp_path)
    suspend(rig)
    rig.until("the step on disk", lambda: rig.status().get("keep", {}).get("persistedStep") == 5, within_s=90)
    (whole,) = shared.glob("*/step-*")
    away = whole.rename(tmp_path / whole.name)

    rig.patch_job("j", {"suspend": False})
    rig.until("the reason", lambda: rig.status().get("reason") == "PersistUnreadable", within_s=90)
    message = rig.status()["message"]
    assert f"{shared} has no step from 5 on, which status.keep.persistedStep names" in message
    assert "mount the volume that has" in message
    assert restored(journal, 2) == set()

    away.rename(whole)
    rig.until("the second life", lambda: restored(journal, 2) == {"5.0 5.1"}, within_s=90)
    rig.until("no reason", lambda: not rig.status().get("reason"), within_s=90)
    rig.finish.touch()
    rig.phase("Succeeded")
