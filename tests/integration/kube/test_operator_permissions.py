"""An operator without a permission: its messages, and its recovery once the permission is granted."""

import pytest

from testing.kube.jobs import waiting_job
from testing.kube.namespace import Namespace
from testing.kube.service_accounts import account_in, account_without, grant
from testing.kube.stack import KubeStack, write_kubeconfig

pytestmark = pytest.mark.kube


def start_without(rig: KubeStack, resource: str, verb: str) -> str:
    """Start an operator that lacks one verb; return the name of its account."""
    name = f"{rig.namespace.name}-{verb}-{resource}".replace("/", "-")
    token = account_without(rig.namespace.server, name, resource, verb)
    rig.start_operator(kubeconfig=write_kubeconfig(rig.folder / "limited.kubeconfig", rig.namespace.server, token))
    return name


def test_without_permission_to_create_pods_the_status_names_it_until_it_is_granted(rig: KubeStack) -> None:
    account = start_without(rig, "pods", "create")
    rig.namespace.apply(waiting_job(rig))
    refusal = 'cannot create resource "pods" in API group "" in the namespace'
    rig.until("the refusal", lambda: refusal in rig.condition("Running").get("message", ""))
    assert rig.namespace.row("j")["PHASE"] == "Pending"
    assert refusal in " ".join(rig.namespace.kubectl("describe", "ejob", "j").split())
    grant(rig.namespace.server, account)
    rig.until("a pod", rig.pods)
    rig.until("no more refusal", lambda: refusal not in rig.condition("Running")["message"])


@pytest.mark.parametrize(("resource", "verb"), [("elasticjobs", "list"), ("pods", "list")])
def test_without_permission_to_list_the_log_names_it_until_it_is_granted(
    rig: KubeStack, resource: str, verb: str
) -> None:
    account = start_without(rig, resource, verb)
    assert rig.operator is not None
    line = rig.operator.wait_for_output(f'cannot {verb} resource "{resource}"')
    assert "cannot watch jobs and pods: " in line
    assert line.endswith("trying again")
    rig.namespace.apply(waiting_job(rig))
    grant(rig.namespace.server, account)
    rig.until("a pod", rig.pods)


def test_without_permission_to_watch_the_log_names_it_until_it_is_granted(rig: KubeStack) -> None:
    account = start_without(rig, "pods", "watch")
    assert rig.operator is not None
    assert "cannot watch, trying again: GET" in rig.operator.wait_for_output('cannot watch resource "pods"')
    grant(rig.namespace.server, account)
    rig.namespace.apply(waiting_job(rig))
    [pod] = rig.until("a pod", rig.pod_names)
    rig.patch_pod_status(pod, {"phase": "Failed"})
    rig.until("a successor", lambda: rig.pod_names() not in ([], [pod]))


def test_without_permission_to_write_status_the_job_runs_and_the_log_names_it(rig: KubeStack) -> None:
    account = start_without(rig, "elasticjobs/status", "patch")
    rig.namespace.apply(waiting_job(rig))
    rig.until("a pod", rig.pods)
    assert rig.operator is not None
    rig.operator.wait_for_output('cannot patch resource "elasticjobs/status"')
    assert rig.status() == {}
    grant(rig.namespace.server, account)
    rig.until("a status", rig.status)


def test_without_permission_to_write_events_the_job_has_its_status(rig: KubeStack) -> None:
    start_without(rig, "events", "create")
    rig.namespace.apply(waiting_job(rig))
    assert rig.operator is not None
    rig.operator.wait_for_output("cannot write the event Created")
    assert rig.phase("Pending")["desiredReplicas"] == 1


def test_without_permission_for_budgets_the_job_runs_and_the_log_names_it(rig: KubeStack) -> None:
    start_without(rig, "poddisruptionbudgets", "patch")
    rig.start_node()
    rig.namespace.apply(waiting_job(rig))
    rig.running(nodes=1, round_=1)
    assert rig.operator is not None
    rig.operator.wait_for_output('cannot patch resource "poddisruptionbudgets"')


def test_a_role_in_one_namespace_is_enough_for_an_operator_of_that_namespace(rig: KubeStack) -> None:
    server = rig.namespace.server
    token = account_in(server, f"{rig.namespace.name}-alone", rig.namespace.name)
    rig.start_node()
    operator = rig.start_operator(kubeconfig=write_kubeconfig(rig.folder / "limited.kubeconfig", server, token))
    rig.namespace.apply(waiting_job(rig))
    rig.running(nodes=1, round_=1)
    assert "orbidden" not in operator.text()


def test_jobs_of_a_namespace_that_is_no_longer_watched_are_left_alone_without_a_request(rig: KubeStack) -> None:
    server = rig.namespace.server
    other = Namespace(server, f"{rig.namespace.name}-other")
    other.kubectl("create", "namespace", other.name)
    rig.start_operator("--namespace", other.name)
    other.apply(waiting_job(rig, "theirs"))
    rig.until("its keys", rig.etcd_keys)
    rig.kill_operator()
    before = rig.etcd_keys()
    token = account_in(server, f"{rig.namespace.name}-alone", rig.namespace.name)
    operator = rig.start_operator(kubeconfig=write_kubeconfig(rig.folder / "limited.kubeconfig", server, token))
    rig.namespace.apply(waiting_job(rig))
    rig.until("a pod", rig.pods)
    assert "orbidden" not in operator.text()
    assert set(before) <= set(rig.etcd_keys())


def test_a_forbidden_namespace_delays_no_other_and_is_listed_once_it_is_permitted(
    rig: KubeStack,
) -> None:
    server, account = rig.namespace.server, f"{rig.namespace.name}-two"
    other = Namespace(server, f"{rig.namespace.name}-other")
    other.kubectl("create", "namespace", other.name)
    other.apply(waiting_job(rig, "theirs"))
    token = account_in(server, account, rig.namespace.name)
    kubeconfig = write_kubeconfig(rig.folder / "limited.kubeconfig", server, token)
    operator = rig.start_operator("--namespace", other.name, kubeconfig=kubeconfig)
    rig.namespace.apply(waiting_job(rig))
    rig.until("a pod", rig.pods)
    operator.wait_for_output(f"cannot list pods of {other.name}, its cache remains unchanged")
    account_in(server, account, other.name)
    rig.until("a pod there, too", lambda: "Pending" in other.kubectl("get", "pods"))
    other.kubectl("delete", "rolebinding", account)
    rig.kill_operator()
    before = other.kubectl("get", "pods", "-o", "name"), {key for key in rig.etcd_keys() if other.name in key}
    rig.start_operator("--namespace", other.name, kubeconfig=kubeconfig)
    rig.namespace.kubectl("delete", "ejob", "j")
    rig.until("no pod", lambda: not rig.pods())
    assert before == (other.kubectl("get", "pods", "-o", "name"), {key for key in rig.etcd_keys() if other.name in key})
    assert before[1]
