"""Warm starts in a cluster: of restarted workers, of a replaced pod, and of a later job in the same namespace."""

import secrets
from typing import Any

import pytest

from e2e.manifests import ENDLESS, digits, patient
from e2e.space import JOB, Space
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(600)
_ZYGOTE = r"warm start: the zygote and 2 waiting workers take"


def _job(epochs: int) -> dict[str, Any]:
    manifest = patient(digits(epochs=epochs))
    manifest["spec"]["agent"]["warmStart"] = "Auto"
    return manifest


def _starts(space: Space, round_: int) -> list[str]:
    """Wait until each node of this round has reported the start of its workers; return the kinds."""

    def shown() -> list[str]:
        status = space.status()
        nodes = [node for node in status.get("nodes", ()) if "rank" in node]
        kinds = [node["start"]["kind"] for node in nodes if "start" in node]
        is_whole = status.get("rendezvousRound") == round_ and len(kinds) == status["desiredReplicas"]
        return kinds if is_whole else []

    return eventually(shown, within_s=120, what=f"the starts of round {round_}", pause_s=0.5)


def test_replaced_pods_and_later_jobs_start_warm(space: Space) -> None:
    # Another command each time: on a cluster that is kept, the operator has the import profile of the last run.
    job = _job(ENDLESS + secrets.randbelow(ENDLESS))
    space.apply(job)
    status = space.wait(phase="Running", readyReplicas=3)
    first = status["rendezvousRound"]
    assert _starts(space, first) == ["Cold"] * 3
    for node in status["nodes"]:
        space.log(node["podName"], until=_ZYGOTE)
    uid = space.job()["metadata"]["uid"]
    eventually(
        lambda: any(key.endswith("/w/imports") for key in space.cluster.etcd_keys(uid)),
        within_s=60,
        what="an import profile",
        pause_s=0.5,
    )
    lost = max(status["nodes"], key=lambda node: int(node["rank"]))["podName"]
    space.delete_pod(lost)
    after = space.replaced(lost)
    assert _starts(space, after["rendezvousRound"]) == ["Warm"] * 3
    space.delete_job()
    space.apply(job)
    again = space.wait(phase="Running", readyReplicas=3)
    assert _starts(space, again["rendezvousRound"]) == ["Warm"] * 3
    space.kubectl("delete", "ejob", JOB, "--wait=false")
