"""Invalid input and faults of a job: each is one message where a user looks first, and ends with its cause."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.kube.jobs import waiting_job
from testing.kube.manifests import changed
from testing.kube.namespace import Namespace
from testing.kube.stack import KubeStack

pytestmark = pytest.mark.kube

TRAINER = "spec.template.spec.containers.0"


def described(rig: KubeStack) -> str:
    """Return `kubectl describe ejob j` in one line."""
    return " ".join(rig.namespace.kubectl("describe", "ejob", "j").split())


def wait_for_condition(rig: KubeStack, kind: str, status: str, text: str) -> dict[str, Any]:
    """Wait until a condition has this status and this text in its message; return the condition."""

    def holds() -> bool:
        condition = rig.condition(kind)
        return condition.get("status") == status and text in condition["message"]

    rig.until(f"{kind} {status}: {text}", holds)
    return rig.condition(kind)


# Errors of the user.


def test_an_invalid_spec_that_passes_the_schema_is_not_accepted_and_nothing_is_created(rig: KubeStack) -> None:
    rig.start_operator()
    rig.namespace.apply(changed(waiting_job(rig), {f"{TRAINER}.env": [{"name": "ELASTICJOB_SLOT", "value": "7"}]}))
    why = "variable ELASTICJOB_SLOT: ELASTICJOB_* is set by the operator; remove it"
    assert wait_for_condition(rig, "Accepted", "False", why)["reason"] == "InvalidSpec"
    rig.until("the event", lambda: [e for e in rig.events() if e[0] == "InvalidSpec" and why in e[1]])
    assert why in described(rig)
    assert (rig.pods(), rig.etcd_keys()) == ([], [])


def test_a_spec_that_is_corrected_while_suspended_is_accepted(rig: KubeStack) -> None:
    rig.start_operator()
    rig.namespace.apply(changed(waiting_job(rig), {f"{TRAINER}.env": [{"name": "ELASTICJOB_SLOT", "value": "7"}]}))
    wait_for_condition(rig, "Accepted", "False", "ELASTICJOB_SLOT")
    rig.namespace.apply(waiting_job(rig, suspend=True))
    wait_for_condition(rig, "Accepted", "True", "")
    rig.namespace.patch("j", {"spec": {"suspend": False}})
    rig.until("a pod", rig.pods)


def test_an_unknown_field_of_the_template_is_named_and_no_pod_is_created(rig: KubeStack) -> None:
    rig.start_operator()
    rig.namespace.apply(changed(waiting_job(rig, replicas=2), {f"{TRAINER}.resource": {"limits": {"cpu": "1"}}}))
    condition = wait_for_condition(rig, "Accepted", "False", 'unknown field "spec.containers[0].resource"')
    assert (condition["reason"], rig.pods()) == ("InvalidTemplate", [])
    rig.namespace.patch("j", {"spec": {"suspend": True}})
    rig.until("it is suspended", lambda: rig.condition("Suspended").get("status") == "True")
    rig.namespace.apply(waiting_job(rig, replicas=2, suspend=True))
    rig.namespace.patch("j", {"spec": {"suspend": False}})
    rig.until("its pods", lambda: len(rig.pod_names()) == 2)
    wait_for_condition(rig, "Accepted", "True", "")


def test_the_status_names_an_image_that_does_not_exist(rig: KubeStack) -> None:
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig))
    [pod] = rig.until("a pod", rig.pod_names)
    message = 'Back-off pulling image "example/trainer:1"'
    waiting = {"name": "trainer", "image": "example/trainer:1", "imageID": "", "ready": False, "restartCount": 0}
    state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    rig.patch_pod_status(pod, {"phase": "Pending", "containerStatuses": [{**waiting, "state": state}]})
    wait_for_condition(rig, "Running", "False", f"pod {pod}: ImagePullBackOff: {message}")
    assert rig.namespace.row("j")["PHASE"] == "Pending"
    assert f"ImagePullBackOff: {message}" in described(rig)


def webhook(namespace: str, port: int = 1) -> dict[str, Any]:
    """Create a webhook for the pods of a namespace, at a port of this machine; nothing listens at port 1."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "mutate.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/mutate"},
        "failurePolicy": "Fail",
        "timeoutSeconds": 30,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": f"webhook-{namespace}"}, "webhooks": [hook]}


def test_the_status_names_an_unavailable_webhook_and_no_pod_is_dropped(rig: KubeStack) -> None:
    hook = webhook(rig.namespace.name)
    rig.namespace.kubectl("create", "-f", "-", stdin=hook)
    try:
        probe: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "probe-"}}
        probe["spec"] = {"containers": [{"name": "c", "image": "i"}]}
        rig.until("the webhook to be asked", lambda: _is_refused(rig, probe))
        operator = rig.start_operator()
        rig.namespace.apply(waiting_job(rig, replicas=4))
        wait_for_condition(rig, "Running", "False", 'failed calling webhook "mutate.example.com"')
        slots = rig.slots(rig.keys())
        assert slots is not None
        rig.until("a second attempt", lambda: operator.text().count("failed calling webhook") > 2)
    finally:
        rig.namespace.kubectl("delete", hook["kind"], hook["metadata"]["name"])
    rig.until("the pods", lambda: len(rig.pod_names()) == 4, within_s=60.0)
    assert set(rig.pod_names()) == {owner.pod for owner in slots.slots.values()}
    assert not [event for event in rig.events() if event[0] == "PodReplaced"]


class SilentServer:
    """Accepts connections and never answers; each creation of a pod opens one."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._socket.getsockname()[1]
        self._accepted: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the server is closed
            while True:
                self._accepted.append(self._socket.accept()[0])

    def asked(self) -> int:
        """Return the number of connections so far."""
        return len(self._accepted)

    def close(self) -> None:
        """Close all connections."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for accepted in self._accepted:
            accepted.close()


@pytest.fixture
def silent() -> Iterator[SilentServer]:
    server = SilentServer()
    yield server
    server.close()


def test_a_hanging_webhook_of_one_namespace_does_not_stop_another_namespace(
    rig: KubeStack, silent: SilentServer
) -> None:
    jobs = 80
    stuck = Namespace(rig.namespace.server, f"{rig.namespace.name}-stuck")
    stuck.kubectl("create", "namespace", stuck.name)
    hook = webhook(stuck.name, silent.port)
    rig.namespace.kubectl("create", "-f", "-", stdin=hook)
    try:
        items = [waiting_job(rig, f"j{n}") for n in range(jobs)]
        stuck.kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})
        rig.start_operator("--namespace", stuck.name)
        rig.until("creations that hang", lambda: silent.asked() > 9)
        rig.namespace.apply(waiting_job(rig))
        rig.until("the pod", rig.pod_names)
        assert silent.asked() < jobs / 2, "the other namespace had to wait for time-outs"
    finally:
        rig.namespace.kubectl("delete", hook["kind"], hook["metadata"]["name"])
        rig.namespace.kubectl("delete", "namespace", stuck.name, "--wait=false")


def _is_refused(rig: KubeStack, pod: dict[str, Any]) -> bool:
    arguments = ("create", "--dry-run=server", "-f", "-")
    done = rig.namespace.server.kubectl(*arguments, namespace=rig.namespace.name, stdin=pod)
    return "failed calling webhook" in done.stderr


# etcd.


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EmbeddedEtcd]:
    """Return an etcd that the test may stop; a later one belongs to the test."""
    server = asyncio.run(EmbeddedEtcd.start(tmp_path / "etcd", client_port=0))
    yield server
    server.kill()


def test_an_etcd_outage_is_in_the_status_and_the_workers_continue(
    rig: KubeStack, own_etcd: EmbeddedEtcd, tmp_path: Path
) -> None:
    rig.etcd = own_etcd.endpoint
    rig.start_node()
    rig.start_operator()
    # After two report periods without etcd the status no longer shows a round, and the phase changes.
    agent = {"mode": "Provided", "reportPeriodSeconds": 60}
    rig.namespace.apply(waiting_job(rig, replicas=2, agent=agent, rendezvous={"keepAliveSeconds": 60}))
    rig.running(nodes=2, round_=1)
    before = rig.pids(rig.keys())
    own_etcd.kill()
    wait_for_condition(rig, "RendezvousUnavailable", "True", "etcd does not answer")
    assert "etcd does not answer" in described(rig)
    assert rig.namespace.row("j")["PHASE"] == "Running"
    again = asyncio.run(EmbeddedEtcd.start(tmp_path / "etcd", client_port=own_etcd.port))
    try:
        wait_for_condition(rig, "RendezvousUnavailable", "False", "")
        rig.until("the same workers", lambda: rig.pids(rig.keys()) == before)
        assert rig.running(nodes=2, round_=1)["restarts"] == 0
    finally:
        again.kill()


def test_the_status_of_a_new_job_names_an_etcd_that_never_answered(rig: KubeStack, own_etcd: EmbeddedEtcd) -> None:
    own_etcd.kill()
    rig.etcd = own_etcd.endpoint
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig))
    wait_for_condition(rig, "RendezvousUnavailable", "True", "etcd does not answer")
    assert rig.namespace.row("j")["PHASE"] == "Pending"
    assert rig.pods() == []


@pytest.mark.parametrize(
    "more", [{"selector": {"app": "theirs"}}, {}, {"publishNotReadyAddresses": True}], ids=["selector", "none", "alike"]
)
def test_a_users_service_with_the_jobs_name_is_not_taken_over_and_the_status_names_it(
    rig: KubeStack, more: dict[str, Any]
) -> None:
    family = {"ipFamilyPolicy": "SingleStack"}  # of a headless one without a selector it would be two families
    theirs = users_object("Service", "v1", {"ports": [{"port": 80}], "clusterIP": "None", **family, **more})
    rig.namespace.kubectl("create", "-f", "-", stdin=theirs)
    before = rig.namespace.kubectl("get", "service", "j", "-o", "json")
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig))
    rig.until("the reason", lambda: rig.status().get("reason") == "PodsNotCreated")
    assert "j has another owner: delete or rename it, or rename the job" in rig.status()["message"]
    assert not rig.pods()
    assert rig.namespace.kubectl("get", "service", "j", "-o", "json") == before
    rig.namespace.kubectl("delete", "service", "j")
    rig.until("a pod", rig.pods, within_s=60.0)
    rig.until("the job's", lambda: "ElasticJob" in rig.namespace.kubectl("get", "service", "j", "-o", "json"))


def users_object(kind: str, version: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return an object of a user with the job's name."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "j"}, "spec": spec}


def test_a_users_disruption_budget_with_the_jobs_name_is_not_changed(rig: KubeStack) -> None:
    theirs = users_object("PodDisruptionBudget", "policy/v1", {"minAvailable": 1})
    rig.namespace.kubectl("create", "-f", "-", stdin=theirs)
    before = json.loads(rig.namespace.kubectl("get", "pdb", "j", "-o", "json"))
    operator = rig.start_operator()
    rig.namespace.apply(waiting_job(rig))
    rig.until("a pod", rig.pods)
    operator.wait_for_output("j has another owner")
    after = json.loads(rig.namespace.kubectl("get", "pdb", "j", "-o", "json"))
    assert (after["spec"], after["metadata"].get("ownerReferences")) == (before["spec"], None)
