"""Pods that a quota rejects: the status has the reason, and the job starts by itself when the quota is lifted."""

import pytest

from e2e.manifests import digits
from e2e.space import JOB, KINDS, Space
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(180)


def test_kubectl_describe_shows_a_quota_and_its_end_starts_the_job(space: Space) -> None:
    space.kubectl("create", "quota", "tight", "--hard=pods=1")
    space.apply(digits(epochs=12))
    reported = eventually(lambda: _reported(space), within_s=60, what="kubectl describe shows the quota")
    assert "exceeded quota: tight" in reported
    assert 'pods "digits-' in reported
    assert space.row()["PHASE"] in {"Pending", "Starting"}
    space.kubectl("delete", "quota", "tight")
    end = space.wait(phase="Succeeded")
    assert (end["restarts"], end["nodeLosses"]) == (0, 0)
    space.delete_job()
    assert space.objects(KINDS) == []


def _reported(space: Space) -> str:
    lines = space.kubectl("describe", "ejob", JOB).splitlines()
    return next((line for line in lines if "exceeded quota" in line), "")
