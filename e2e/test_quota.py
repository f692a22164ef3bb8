"""Pods that a quota does not let in: the status says why, and the job starts by itself when it is lifted."""

import pytest

from e2e.manifests import digits
from e2e.space import JOB, KINDS, Space
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(180)


def test_a_quota_is_told_by_kubectl_describe_and_its_end_starts_the_job(space: Space) -> None:
    space.kubectl("create", "quota", "tight", "--hard=pods=1")
    space.apply(digits(epochs=12))
    told = eventually(lambda: _told(space), within_s=60, what="kubectl describe tells of the quota")
    assert "exceeded quota: tight" in told
    assert 'pods "digits-' in told
    assert space.row()["PHASE"] in {"Pending", "Starting"}
    space.kubectl("delete", "quota", "tight")
    end = space.wait(phase="Succeeded")
    assert (end["restarts"], end["nodeLosses"]) == (0, 0)
    space.delete_job()
    assert space.objects(KINDS) == []


def _told(space: Space) -> str:
    said = space.kubectl("describe", "ejob", JOB).splitlines()
    return next((line for line in said if "exceeded quota" in line), "")
