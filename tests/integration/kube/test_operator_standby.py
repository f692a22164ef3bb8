"""Two operator processes with a real API server: the leader is killed, frozen or cut off, and the other takes over."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.kube.jobs import waiting_job
from testing.kube.stack import ACCOUNT, SYSTEM, KubeStack
from testing.network.ports import unused_port
from testing.network.proxy import Proxy, proxy
from testing.processes.process import Process

pytestmark = pytest.mark.kube


class Replica:
    """One operator process."""

    def __init__(self, rig: KubeStack, *, elects: bool = True, kubeconfig: Path | None = None) -> None:
        self._port = unused_port()
        lease = ("--leader-elect", "--lease-namespace", SYSTEM, "--lease-name", "elasticjob-operator")
        liveness = ("--liveness", f"http://127.0.0.1:{self._port}/healthz")
        self.process: Process = rig.start_operator(*(lease if elects else ()), *liveness, kubeconfig=kubeconfig)

    def role(self) -> str:
        """Return the role from `/readyz`; empty while the process is not ready."""
        with contextlib.suppress(OSError), urllib.request.urlopen(self._url, timeout=5) as response:
            return str(json.load(response)["role"])
        return ""

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._port}/readyz"


@pytest.fixture
def two(rig: KubeStack) -> Iterator[tuple[Replica, Replica]]:
    """Return two operators, of which the first leads, with a running job of two nodes."""
    rig.start_node()
    first = Replica(rig)
    rig.until("a leader", lambda: first.role() == "leader")
    second = Replica(rig)
    rig.until("a standby", lambda: second.role() == "standby")
    rig.namespace.apply(waiting_job(rig, replicas=2, minReplicas=1, maxReplicas=3))
    rig.running(nodes=2, round_=1)
    yield first, second
    with contextlib.suppress(ProcessLookupError):
        os.kill(first.process.pid, signal.SIGCONT)


def holder(rig: KubeStack) -> str:
    """Return the holder of the Lease, as `kubectl get lease` shows it."""
    path = "jsonpath={.spec.holderIdentity}"
    found = rig.namespace.server.kubectl("get", "lease", "elasticjob-operator", "-o", path, namespace=SYSTEM)
    return str(found.stdout)


def test_the_standby_takes_over_when_the_leader_is_killed(rig: KubeStack, two: tuple[Replica, Replica]) -> None:
    first, second = two
    before = holder(rig)
    first.process.kill()
    rig.patch_job("j", {"replicas": 3})
    status = rig.running(nodes=3, round_=2)
    assert second.role() == "leader"
    assert holder(rig) not in {"", before}
    assert {status[name] for name in ("restarts", "nodeLosses", "podReplacements")} == {0}


def test_a_stopped_leader_releases_the_lease(rig: KubeStack, two: tuple[Replica, Replica]) -> None:
    first, second = two
    assert first.process.stop() == 0
    assert "released the lease" in first.process.text()
    rig.until("the other leads", lambda: second.role() == "leader")
    assert second.process.stop() == 0
    assert holder(rig) == ""


def test_a_frozen_leader_becomes_a_standby_of_the_other(rig: KubeStack, two: tuple[Replica, Replica]) -> None:
    first, second = two
    os.kill(first.process.pid, signal.SIGSTOP)
    rig.until("the other leads", lambda: second.role() == "leader")
    gone = rig.pod_names()[0]
    rig.delete_pod(gone)
    rig.running(nodes=2, round_=rig.status()["rendezvousRound"] + 1)
    os.kill(first.process.pid, signal.SIGCONT)
    rig.until("the first stands by", lambda: first.role() == "standby")
    assert second.role() == "leader"
    rig.finish.touch()
    rig.phase("Succeeded")
    assert (len(rig.pods()), rig.status()["restarts"], rig.status()["podReplacements"]) == (2, 0, 0)


@pytest.fixture
def connection(rig: KubeStack) -> Iterator[Proxy]:
    """Return a connection to the API server that the test can stall."""
    host, port = rig.namespace.server.url.removeprefix("https://").rsplit(":", 1)
    with proxy(host, int(port)) as made:
        yield made
        made.restore()


@pytest.fixture
def role(rig: KubeStack) -> Iterator[dict[str, Any]]:
    """Return the operator's role, and restore it at the end."""
    server = rig.namespace.server
    found: dict[str, Any] = json.loads(server.kubectl("get", "clusterrole", ACCOUNT, "-o", "json").stdout)
    yield found
    rules = json.dumps({"rules": found["rules"]})
    assert server.kubectl("patch", "clusterrole", ACCOUNT, "--type=merge", "-p", rules).returncode == 0


def test_a_leader_resigns_while_the_api_server_hangs_and_leads_again_without_a_list(
    rig: KubeStack, connection: Proxy, role: dict[str, Any]
) -> None:
    """Meanwhile it loses the right to list, so it depends on its caches and its watches."""
    config = json.loads((rig.folder / "operator.kubeconfig").read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://{connection.endpoint}"
    path = rig.folder / "proxied.kubeconfig"
    path.write_text(json.dumps(config))
    rig.start_node()
    replica = Replica(rig, kubeconfig=path)
    rig.until("a leader", lambda: replica.role() == "leader")
    rig.namespace.apply(waiting_job(rig, replicas=2, minReplicas=1, maxReplicas=3))
    rig.running(nodes=2, round_=1)
    pods, pid = rig.pod_names(), replica.process.pid
    connection.stall()
    rig.until("it leads no more", lambda: replica.role() != "leader")
    without = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb != "list"]} for rule in role["rules"]]
    rules = json.dumps({"rules": without})
    server = rig.namespace.server
    assert server.kubectl("patch", "clusterrole", ACCOUNT, "--type=merge", "-p", rules).returncode == 0
    rig.until("it may list no more", lambda: not may_list(rig))
    rig.patch_job("j", {"replicas": 3})
    connection.restore()
    rig.until("it leads again", lambda: replica.role() == "leader")
    rig.running(nodes=3, round_=2)
    assert (set(pods) < set(rig.pod_names()), replica.process.pid) == (True, pid)
    assert {rig.status()[name] for name in ("restarts", "nodeLosses", "podReplacements")} == {0}


def may_list(rig: KubeStack) -> bool:
    """Return whether the operator's account may list, as `kubectl auth can-i` reports."""
    account = f"--as=system:serviceaccount:{SYSTEM}:{ACCOUNT}"
    asked = ("auth", "can-i", "list", "pods", account)
    return rig.namespace.server.kubectl(*asked, namespace=rig.namespace.name).stdout.strip() == "yes"


def test_one_leads_beside_eight_busy_processes_and_the_job_continues(
    rig: KubeStack, two: tuple[Replica, Replica]
) -> None:
    """The Lease may change hands; no request is sent twice, and in the end one leads and one is a standby."""
    with contextlib.ExitStack() as ending:
        for _ in range(8):
            busy = ending.enter_context(subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]))
            ending.callback(busy.kill)
        rig.patch_job("j", {"replicas": 3})
        rig.until("three nodes", lambda: rig.status().get("readyReplicas") == 3, within_s=120.0)
        gone = rig.pod_names()[0]
        rig.delete_pod(gone)
        rig.until("another pod", lambda: gone not in named(rig) and named(rig) == live(rig), within_s=120.0)
        rig.until("three nodes again", lambda: rig.status().get("readyReplicas") == 3, within_s=120.0)
    roles = {"leader", "standby"}
    rig.until("one leads, one stands by", lambda: {replica.role() for replica in two} == roles)
    assert len(rig.pods()) == 3
    assert (rig.status()["restarts"], rig.status()["podReplacements"]) == (0, 0)


def test_an_operator_without_election_beside_a_leader_does_no_harm(rig: KubeStack) -> None:
    """This happens in an upgrade from a version without a Lease, and in a rollback to it."""
    rig.start_node()
    older, newer = Replica(rig, elects=False), Replica(rig)
    rig.until("two leaders", lambda: (older.role(), newer.role()) == ("leader", "leader"))
    rig.namespace.apply(waiting_job(rig, replicas=2, minReplicas=1, maxReplicas=3))
    rig.running(nodes=2, round_=1)
    rig.patch_job("j", {"replicas": 3})
    rig.running(nodes=3, round_=2)
    gone = rig.pod_names()[0]
    rig.delete_pod(gone)
    rig.until("another pod", lambda: gone not in named(rig) and named(rig) == live(rig))
    rig.until("three nodes", lambda: rig.status().get("readyReplicas") == 3)
    older.process.kill()
    rig.patch_job("j", {"replicas": 2})
    rig.until("two pods", lambda: len(named(rig)) == 2 and named(rig) == live(rig))
    rig.until("two nodes", lambda: rig.status().get("readyReplicas") == 2)
    rig.finish.touch()
    status = rig.phase("Succeeded")
    assert {status[name] for name in ("restarts", "nodeLosses", "podReplacements")} == {0}


def named(rig: KubeStack) -> list[str]:
    """Return names of the pods that own a slot."""
    slots = rig.slots(rig.keys())
    return sorted(owner.pod for owner in slots.slots.values()) if slots is not None else []


def live(rig: KubeStack) -> list[str]:
    """Return names of the pods that have not ended."""
    ended = {"Failed", "Succeeded"}
    pods = [pod for pod in rig.pods() if pod.get("status", {}).get("phase") not in ended]
    return sorted(pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"])
