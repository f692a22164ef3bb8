"""Bad input and faults around a job: each is said in one sentence, where a user looks first, and heals by itself."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elasticjob_etcd.server import EtcdServer
from tests.integration.kube.jobs import waiting_job
from tests.integration.kube.manifests import changed
from tests.integration.kube.rig import Rig

pytestmark = pytest.mark.kube

TRAINER = "spec.template.spec.containers.0"


def described(rig: Rig) -> str:
    """`kubectl describe ejob j`, in one line."""
    return " ".join(rig.namespace.kubectl("describe", "ejob", "j").split())


def says(rig: Rig, kind: str, status: str, text: str) -> dict[str, Any]:
    """Wait until a condition has this status, and this text in its message; the condition."""

    def holds() -> bool:
        condition = rig.condition(kind)
        return condition.get("status") == status and text in condition["message"]

    rig.until(f"{kind} {status}: {text}", holds)
    return rig.condition(kind)


# What the user wrote.


def test_a_spec_that_no_schema_can_refuse_is_not_accepted_and_nothing_is_made(rig: Rig) -> None:
    rig.start_operator()
    rig.namespace.apply(changed(waiting_job(rig), {f"{TRAINER}.env": [{"name": "ELASTICJOB_SLOT", "value": "7"}]}))
    why = "variable ELASTICJOB_SLOT: ELASTICJOB_* is set by the operator; remove it"
    assert says(rig, "Accepted", "False", why)["reason"] == "InvalidSpec"
    rig.until("the event", lambda: [e for e in rig.events() if e[0] == "InvalidSpec" and why in e[1]])
    assert why in described(rig)
    assert (rig.pods(), rig.etcd_keys()) == ([], [])


def test_a_spec_that_is_corrected_while_suspended_goes_on(rig: Rig) -> None:
    rig.start_operator()
    rig.namespace.apply(changed(waiting_job(rig), {f"{TRAINER}.env": [{"name": "ELASTICJOB_SLOT", "value": "7"}]}))
    says(rig, "Accepted", "False", "ELASTICJOB_SLOT")
    rig.namespace.apply(waiting_job(rig, suspend=True))
    says(rig, "Accepted", "True", "")
    rig.namespace.patch("j", {"spec": {"suspend": False}})
    rig.until("a pod", rig.pods)


def test_an_image_that_does_not_exist_is_told_by_the_job(rig: Rig) -> None:
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig))
    [pod] = rig.until("a pod", rig.pod_names)
    message = 'Back-off pulling image "example/trainer:1"'
    waiting = {"name": "trainer", "image": "example/trainer:1", "imageID": "", "ready": False, "restartCount": 0}
    state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    rig.patch_pod_status(pod, {"phase": "Pending", "containerStatuses": [{**waiting, "state": state}]})
    says(rig, "Running", "False", f"pod {pod}: ImagePullBackOff: {message}")
    assert rig.namespace.row("j")["PHASE"] == "Pending"
    assert f"ImagePullBackOff: {message}" in described(rig)


# etcd.


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    """An etcd that the test may stop; the one that follows it is not this fixture's."""
    server = asyncio.run(EtcdServer.start(tmp_path / "etcd"))
    yield server
    server.kill()


def test_an_etcd_outage_is_told_and_the_workers_go_on(rig: Rig, own_etcd: EtcdServer, tmp_path: Path) -> None:
    rig.etcd = own_etcd.endpoint
    rig.start_node()
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig, replicas=2))
    rig.running(nodes=2, round_=1)
    before = rig.pids(rig.keys())
    own_etcd.kill()
    says(rig, "RendezvousUnavailable", "True", "etcd does not answer")
    assert "etcd does not answer" in described(rig)
    assert rig.namespace.row("j")["PHASE"] == "Running"
    again = asyncio.run(EtcdServer.start(tmp_path / "etcd", client_port=own_etcd.port))
    try:
        says(rig, "RendezvousUnavailable", "False", "")
        rig.until("the same workers", lambda: rig.pids(rig.keys()) == before)
        assert rig.running(nodes=2, round_=1)["restarts"] == 0
    finally:
        again.kill()


def test_an_etcd_that_never_answered_is_told_by_a_new_job(rig: Rig, own_etcd: EtcdServer) -> None:
    own_etcd.kill()
    rig.etcd = own_etcd.endpoint
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig))
    says(rig, "RendezvousUnavailable", "True", "etcd does not answer")
    assert rig.namespace.row("j")["PHASE"] == "Pending"
    assert rig.pods() == []


def test_a_service_of_the_users_that_has_the_jobs_name_is_not_taken_over_and_the_job_says_so(rig: Rig) -> None:
    spec = {"selector": {"app": "theirs"}, "ports": [{"port": 80}], "clusterIP": "None"}
    theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "j"}, "spec": spec}
    rig.namespace.kubectl("create", "-f", "-", stdin=theirs)
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig))
    rig.until("the reason", lambda: rig.status().get("reason") == "PodsNotCreated")
    assert "conflict" in rig.status()["message"]
    assert not rig.pods()
    selector = rig.namespace.kubectl("get", "service", "j", "-o", "jsonpath={.spec.selector}")
    assert selector == '{"app":"theirs"}'
    rig.namespace.kubectl("delete", "service", "j")
    rig.until("a pod", rig.pods, within_s=60.0)
