"""`elasticjob doctor` with an etcd that does not answer and with wrong clocks, both real."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testing.clocks.jumping_wall_clock import JumpingWallClock
from testing.kube.namespace import Namespace
from testing.kube.stack import KubeStack
from testing.servers.etcds import OwnEtcd, own_etcd
from testing.waiting import eventually
from tests.integration.cli.on_a_cluster import Command
from tests.integration.sdk.kubelet import Kubelet

pytestmark = pytest.mark.kube
OPERATOR = "elasticjob-operator"


def labels(component: str) -> dict[str, str]:
    """Return the labels of the chart."""
    return {"app.kubernetes.io/part-of": "elasticjob", "app.kubernetes.io/component": component}


def workload(kind: str, name: str, component: str) -> dict[str, Any]:
    """Return a Deployment or a StatefulSet of one pod."""
    container = {"name": component, "image": f"elasticjob/{component}:local"}
    template = {"metadata": {"labels": labels(component)}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels(component)}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "labels": labels(component)}}
    return {**body, "spec": {**spec, "serviceName": name} if kind == "StatefulSet" else spec}


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[OwnEtcd]:
    with own_etcd(tmp_path) as server:
        yield server


@pytest.fixture
def installed(namespace: Namespace, kubelet: Kubelet) -> Iterator[None]:
    """Create the objects of an operator and its etcd, and delete them afterwards: doctor checks all namespaces."""
    namespace.apply(workload("Deployment", OPERATOR, "operator"))
    namespace.apply(workload("StatefulSet", "etcd", "etcd"))
    kubelet.start_pod(OPERATOR)
    namespace.kubectl("label", "pod", OPERATOR, *(f"{name}={value}" for name, value in labels("operator").items()))
    yield
    namespace.kubectl("delete", "deployment", OPERATOR)
    namespace.kubectl("delete", "statefulset", "etcd")


def findings(command: Command, what: str) -> list[dict[str, str]]:
    """Return the findings about one subject."""
    output = json.loads(command("doctor", "-o", "json", code=None).out)
    return [each for each in output if each["what"] == what]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_unavailable_etcd_is_reported_as_in_the_operators_log_until_it_is_back(
    log_format: str, rig: KubeStack, etcd: OwnEtcd, kubelet: Kubelet, command: Command
) -> None:
    """The operator and etcd are real; doctor reads the log as it reads that of a pod."""
    running = rig.start_operator(f"--log-format={log_format}", etcd=etcd.endpoint)
    eventually(running.text, within_s=30, what="the operator's first words")
    etcd.kill()
    kubelet.write(OPERATOR, running.wait_for_output("etcd does not answer", within_s=60))
    away = findings(command, "etcd")[-1]
    assert away["grade"] == "FAIL"
    assert re.match(r"etcd does not answer: \w.*[^}]$", away["message"])
    assert etcd.endpoint in away["message"]
    etcd.start()
    kubelet.write(OPERATOR, running.wait_for_output("etcd answers again", within_s=60))
    assert findings(command, "etcd")[-1]["grade"] == "ok"


@pytest.mark.usefixtures("installed")
def test_members_of_etcd_that_are_not_ready_are_counted(namespace: Namespace, command: Command) -> None:
    (found,) = (each for each in findings(command, "etcd") if namespace.name in each["message"])
    assert (found["grade"], found["message"]) == ("FAIL", f"{namespace.name}/etcd: 0 of 1 members are ready")
    assert found["cure"] == f"kubectl -n {namespace.name} describe statefulset etcd"


@pytest.mark.parametrize(("hours", "side"), [(-0.5, "ahead of"), (0.5, "behind")])
def test_a_wrong_clock_of_the_machine_is_reported(hours: float, side: str, command: Command, tmp_path: Path) -> None:
    clock = JumpingWallClock(tmp_path)
    clock.jump_to(hours)
    output = command("doctor", code=None, **clock.environment).out
    assert re.search(rf"the API server is (29 min 5\d s|30 min.*) {side} this machine", output), output
    assert "-> synchronise both by NTP" in output


def test_an_invalid_certificate_suggests_a_wrong_clock(command: Command, tmp_path: Path) -> None:
    clock = JumpingWallClock(tmp_path)
    clock.jump_to(-48)
    output = command("doctor", code=1, **clock.environment).out
    assert "certificate is not yet valid" in output
    assert "-> check the clock of this machine" in output


def test_a_node_whose_clock_is_ahead_is_named(namespace: Namespace, command: Command) -> None:
    # A kubelet renews its lease with the time of its own clock.
    ahead = (datetime.now(UTC) + timedelta(minutes=5)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    meta = {"name": f"fast-{namespace.name}", "namespace": "kube-node-lease"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {"renewTime": ahead}}
    server = namespace.server
    made = server.kubectl("apply", "-f", "-", namespace="kube-node-lease", stdin=lease)
    assert made.returncode == 0, made.stderr
    try:
        (found,) = findings(command, "clocks of nodes")
    finally:
        server.kubectl("delete", "lease", meta["name"], namespace="kube-node-lease")
    assert found["grade"] == "warn"
    assert f"1 of 1 nodes are ahead, fast-{namespace.name} by" in found["message"]
    assert found["cure"] == "synchronise the nodes by NTP"
