"""The operator's role is the least: in the API server's audit log each granted verb is used, and none is refused.

One life of an operator with everything in it that it may ever have to do. The admission plugin of OpenShift that asks
for `elasticjobs/finalizers` is on: that verb it asks for by itself, outside of the log.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.kube.audit import Audit, granted
from testing.kube.jobs import waiting_job
from testing.kube.namespace import Namespace
from testing.kube.stack import RBAC, SYSTEM, KubeStack
from testing.kube.tls_stack import Release
from testing.processes.process import Process
from testing.servers.apiserver import ApiServer, Programs, await_crd
from testing.servers.secured_etcd import SecuredEtcd, program
from tests.integration.kube.conftest import CRD

pytestmark = [pytest.mark.kube, pytest.mark.nightly, pytest.mark.timeout(1000)]

BY_THE_PLUGIN = frozenset({("elasticjobs/finalizers", "update")})


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit(tmp_path)


@pytest.fixture
def rig(programs: Programs, audit: Audit, etcd_server: EmbeddedEtcd, tmp_path: Path) -> Iterator[KubeStack]:
    """Return a rig on an API server of its own, which writes the audit log."""
    plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    folder = tmp_path / "server"
    folder.mkdir()
    with ApiServer(programs, folder, (*audit.flags, plugin)) as server:
        assert server.kubectl("apply", "--server-side", "-f", str(CRD)).returncode == 0
        await_crd(server, "elasticjobs.elasticjob.io")
        assert server.kubectl("apply", f"--filename={RBAC[0]}").returncode == 0
        namespace = Namespace(server, "audited")
        namespace.create()
        made = KubeStack(namespace, etcd=etcd_server.endpoint, token="", folder=tmp_path)
        yield made
        made.close()


@pytest.fixture
def release(rig: KubeStack) -> Iterator[Release]:
    """Return a release for all namespaces."""
    folder = rig.folder / "secured"
    folder.mkdir()
    made = Release(rig, SecuredEtcd(folder, program()), "operator.verbose=false")
    made.provide_ca()
    yield made
    made.etcd.kill()


def start_operator(release: Release) -> Process:
    """Start an operator without a namespace and a cluster id, which it must find."""
    rig = release.stack
    lease = ("--leader-elect", "--lease-namespace", SYSTEM, "--lease-name", f"{release.name}-elasticjob-operator")
    options = (*release.options, *lease, "--etcd-endpoints", f"127.0.0.1:{release.etcd.port}")
    environ = {"KUBECONFIG": str(release.kubeconfig)}
    rig.operator = Process("elasticjob_operator.main", *options, log=rig.folder / "operator.log", environ=environ)
    rig._processes.append(rig.operator)
    return rig.operator


def test_each_granted_verb_is_used_and_none_is_refused(release: Release, rig: KubeStack, audit: Audit) -> None:
    account, allowed = f"{SYSTEM}:{release.name}-elasticjob-operator", granted(release.manifests)
    start_operator(release)
    a_pod_is_replaced_and_another_is_stuck_on_a_dead_node(rig)
    a_job_is_suspended_twice(rig)
    a_pod_is_deleted_while_no_operator_runs(release)
    a_job_fails_and_is_deleted(rig)

    def unused() -> set[tuple[str, str]]:
        return set(allowed - audit.used(account) - BY_THE_PLUGIN)

    rig.until("every verb used", lambda: not unused())
    assert audit.refused(account) == []
    assert audit.used(account) <= allowed


def a_pod_is_replaced_and_another_is_stuck_on_a_dead_node(rig: KubeStack) -> None:
    rig.namespace.apply(waiting_job(rig, replicas=2, stuckPodTimeoutSeconds=1))
    rig.until("two pods", lambda: len(rig.pod_names()) == 2)
    failed, stuck = rig.pod_names()
    rig.fail_pod(failed)
    rig.until("a successor", lambda: failed not in rig.pod_names() and len(rig.pod_names()) == 2)
    rig.bind(stuck, "a-node-that-is-not-there")
    rig.namespace.kubectl("delete", "pod", stuck, "--wait=false", "--grace-period=1")
    rig.until("it is gone", lambda: stuck not in [pod["metadata"]["name"] for pod in rig.pods()], within_s=60)


def a_job_is_suspended_twice(rig: KubeStack) -> None:
    for _ in range(2):
        rig.patch_job("j", {"suspend": True})
        rig.until("no pods", lambda: not rig.pod_names())
        rig.patch_job("j", {"suspend": False, "podDisruptionBudget": "None"})
        rig.until("two pods", lambda: len(rig.pod_names()) == 2)


def a_pod_is_deleted_while_no_operator_runs(release: Release) -> None:
    rig = release.stack
    rig.kill_operator()
    gone, _ = rig.pod_names()
    rig.namespace.kubectl("delete", "pod", gone, "--force", "--grace-period=0")
    start_operator(release)
    rig.until("a successor", lambda: len(rig.pod_names()) == 2)


def a_job_fails_and_is_deleted(rig: KubeStack) -> None:
    rig.namespace.apply(waiting_job(rig, "short", backoffLimit=0, ttlSecondsAfterFinished=1))
    pod = rig.until("its pod", lambda: next((name for name in rig.pod_names() if name.startswith("short")), ""))
    rig.fail_pod(pod)
    rig.until("it is gone", lambda: not rig.job("short"))
