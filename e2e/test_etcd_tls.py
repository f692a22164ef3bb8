"""A job's certificate: the job loses a pod and a worker and recovers, and no object of it is left behind."""

from collections.abc import Callable

import pytest

from e2e.manifests import ENDLESS, digits, injected, patient
from e2e.space import JOB, KINDS, Space, pod_of

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


def test_a_job_with_certificates_goes_through_a_deleted_pod_and_a_killed_worker(
    own_space: Space, measured: Callable[[str, float], None]
) -> None:
    own_space.apply(patient(injected(digits(epochs=ENDLESS))))
    first = own_space.wait(phase="Running", readyReplicas=3)
    assert own_space.kubectl("get", "secrets", "-o", "name") != ""
    own_space.reached(45)
    lost = pod_of(first, 1)
    deleted_at = own_space.delete_pod(lost)
    after = own_space.replaced(lost)
    measured(
        "with certificates: kubectl delete pod -> replaced, every worker started", own_space.running(2) - deleted_at
    )
    assert own_space.counts(after) == (2, 0, 0)
    killed_at = own_space.kill_worker(3)
    after = own_space.wait(restarts=1, rendezvousRound=3, readyReplicas=3)
    measured("with certificates: worker SIGKILLed -> every worker started", own_space.running(3) - killed_at)
    assert own_space.counts(after) == (3, 1, 0)
    own_space.kubectl("delete", "ejob", JOB)
    own_space.kubectl("wait", KINDS, "--all", "--for=delete", "--timeout=120s")
    assert own_space.kubectl("get", "secrets", "-o", "name") == ""
