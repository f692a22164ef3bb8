"""A pod as the policies use it, parsed from the output of API servers and kubelets of any version."""

from typing import Any

import pytest

from elasticjob_operator.model.pod import Pod, parse_pod
from testing.builders import NOW, NOW_S


def obj(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    meta = {"name": "j-0-a", "uid": "u", "labels": {"elasticjob.io/slot": "3"}, **metadata}
    return {"metadata": meta, "spec": {"containers": [{"name": "trainer"}, {"name": "side"}]}, "status": status or {}}


def with_state(state: dict[str, Any], *, phase: str = "Failed", name: str = "trainer", **status: Any) -> Pod:
    return parse_pod(obj({"phase": phase, "containerStatuses": [{"name": name, "state": state}], **status}))


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": "words"}}


@pytest.mark.parametrize("empty", [{}, {"metadata": None, "spec": None, "status": None}, {"status": {"phase": ""}}])
def test_a_pod_without_any_field_is_pending(empty: dict[str, Any]) -> None:
    assert parse_pod(empty) == Pod(name="", uid="")


def test_names_times_and_slot_are_read() -> None:
    pod = parse_pod(obj(creationTimestamp=NOW))
    assert (pod.name, pod.uid, pod.slot, pod.created_s) == ("j-0-a", "u", 3, NOW_S)


def test_the_hash_of_the_template_is_read_and_is_empty_for_a_pod_of_an_older_version() -> None:
    assert parse_pod(obj(labels={"elasticjob.io/template-hash": "0123456789"})).template_hash == "0123456789"
    assert parse_pod(obj()).template_hash == ""


@pytest.mark.parametrize(
    ("value", "revision"),
    [("48213 6.0 1 SIGTERM", 48213), ("48213", 48213), ("", 0), ("x 6.0", 0), ("-1", 0), ("²", 0), ("9" * 5000, 0)],
)
def test_the_revision_of_the_spec_is_read_and_is_0_if_it_is_not_known(value: str, revision: int) -> None:
    env = [{"name": "ELASTICJOB_SPEC", "value": value}]
    assert parse_pod({"spec": {"containers": [{"name": "trainer", "env": env}]}}).spec_revision == revision


@pytest.mark.parametrize("slot", ["", "x", "-1", "1.5"])
def test_a_slot_that_is_no_number_is_unknown(slot: str) -> None:
    assert parse_pod(obj(labels={"elasticjob.io/slot": slot})).slot is None


@pytest.mark.parametrize(
    ("phase", "ended", "live"),
    [
        ("Pending", False, True),
        ("Running", False, True),
        ("Unknown", False, True),
        ("Succeeded", True, False),
        ("Failed", True, False),
    ],
)
def test_a_pod_is_live_until_all_its_containers_have_ended(phase: str, *, ended: bool, live: bool) -> None:
    pod = parse_pod(obj({"phase": phase}))
    assert (pod.ended, pod.is_live) == (ended, live)


def test_a_pod_whose_deletion_was_requested_is_not_live() -> None:
    pod = parse_pod(obj({"phase": "Running"}, deletionTimestamp=NOW))
    assert (pod.terminating, pod.is_live, pod.ended) == (True, False, False)


def test_the_exit_code_is_that_of_the_trainer() -> None:
    assert with_state({"terminated": {"exitCode": 3}}).exit_code == 3
    assert with_state({"terminated": {"exitCode": 3}}, name="side").exit_code is None


def test_the_trainer_is_the_container_with_the_agent_at_any_position() -> None:
    states = [{"name": name, "state": {"terminated": {"exitCode": n}}} for n, name in enumerate(["trainer", "side"])]
    pod = obj({"containerStatuses": states})
    pod["spec"]["containers"][1]["env"] = [{"name": "OTHER"}, {"name": "ELASTICJOB_PREFIX", "value": "/elasticjob/…"}]
    assert parse_pod(pod).exit_code == 1


def test_a_running_container_has_its_start_time() -> None:
    assert with_state({"running": {"startedAt": NOW}}, phase="Running").running_since_s == NOW_S
    assert with_state({}, phase="Running", startTime=NOW).running_since_s == NOW_S
    assert with_state({}, phase="Pending", startTime=NOW).running_since_s is None


# Reasons.


def test_the_pods_own_reason_takes_precedence_over_its_containers() -> None:
    pod = with_state({"terminated": {"reason": "Error", "exitCode": 137}}, reason="Evicted", message="disk")
    assert (pod.reason, pod.message) == ("Evicted", "disk")


def test_an_oom_kill_is_read_from_the_trainer() -> None:
    assert with_state({"terminated": {"reason": "OOMKilled", "exitCode": 137}}).reason == "OOMKilled"


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError"])
def test_a_container_that_cannot_start_has_its_reason(reason: str) -> None:
    pod = with_state(waiting(reason), phase="Pending")
    assert (pod.reason, pod.message, pod.is_blocked) == (reason, "words", True)


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_container_that_is_about_to_start_does_not_block_the_pod(reason: str) -> None:
    pod = with_state(waiting(reason), phase="Pending")
    assert (pod.reason, pod.is_blocked) == ("", False)


def test_an_init_container_that_cannot_start_has_its_reason() -> None:
    inits = [{"name": "elasticjob-inject", "state": waiting("ErrImagePull")}]
    assert with_state(waiting("PodInitializing"), phase="Pending", initContainerStatuses=inits).reason == "ErrImagePull"


def test_an_unschedulable_pod_has_its_reason() -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    pod = parse_pod(obj({"phase": "Pending", "conditions": [unscheduled]}))
    assert (pod.reason, pod.message, pod.is_blocked) == ("Unschedulable", "0/3 nodes", True)


def test_a_running_pod_is_not_blocked() -> None:
    assert not with_state(waiting("CrashLoopBackOff"), phase="Running").is_blocked


# Causes.


@pytest.mark.parametrize("status", ["True", "False"])
def test_conditions_are_read_by_type(status: str) -> None:
    pod = parse_pod(obj({"conditions": [{"type": "DisruptionTarget", "status": status}]}))
    assert pod.conditions == {"DisruptionTarget": status}
    assert pod.is_disrupted is (status == "True")


@pytest.mark.parametrize("reason", ["Evicted", "Preempting", "NodeShutdown", "NodeLost", "Shutdown", "Terminated"])
def test_a_kubelet_without_that_condition_reports_a_disruption_by_the_pods_reason(reason: str) -> None:
    assert parse_pod(obj({"phase": "Failed", "reason": reason})).is_disrupted


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("OutOfcpu", ""),
        ("OutOfnvidia.com/gpu", ""),
        ("NodeAffinity", ""),
        ("UnexpectedAdmissionError", ""),
        ("TopologyAffinityError", ""),
        ("ANewReason", "Pod was rejected: the node has another idea"),
    ],
)
def test_a_pod_that_a_kubelet_did_not_admit_is_recognised_by_its_reason_or_message(reason: str, message: str) -> None:
    assert parse_pod(obj({"phase": "Failed", "reason": reason, "message": message})).is_rejected
    assert not parse_pod(obj({"phase": "Pending", "reason": reason, "message": message})).is_rejected


def test_the_reason_of_a_container_does_not_make_its_pod_rejected() -> None:
    assert not with_state(
        {"terminated": {"reason": "OutOfcpu", "message": "Pod was rejected", "exitCode": 1}}
    ).is_rejected
    assert not parse_pod(obj({"phase": "Failed", "reason": "DeadlineExceeded"})).is_rejected


def test_the_reason_of_a_container_does_not_make_its_pod_disrupted() -> None:
    assert not with_state({"terminated": {"reason": "Evicted", "exitCode": 1}}).is_disrupted


@pytest.mark.parametrize(
    ("reason", "code", "expected"),
    [
        ("Unknown", 255, True),  # the container runtime no longer knew how it ended, as after a reboot of the node
        ("ContainerStatusUnknown", 137, True),  # the kubelet found no container
        ("Error", 255, False),
        ("Unknown", 1, False),
        ("OOMKilled", 137, False),
        ("Completed", 0, False),
        (None, 255, False),
    ],
)
def test_a_container_that_its_node_has_lost_is_recognised(reason: str | None, code: int, *, expected: bool) -> None:
    assert with_state({"terminated": {"reason": reason, "exitCode": code}}, phase="Failed").is_lost is expected


def test_an_init_container_that_its_node_has_lost_is_recognised() -> None:
    lost = {"name": "fetch", "state": {"terminated": {"exitCode": 255, "reason": "Unknown"}}}
    assert with_state(waiting("PodInitializing"), phase="Failed", initContainerStatuses=[lost]).is_lost
    failed = {"name": "fetch", "state": {"terminated": {"exitCode": 255, "reason": "Error"}}}
    assert not with_state(waiting("PodInitializing"), phase="Failed", initContainerStatuses=[failed]).is_lost


def test_a_lost_init_container_does_not_excuse_the_trainer() -> None:
    lost = {"name": "proxy", "state": {"terminated": {"exitCode": 255, "reason": "Unknown"}}}
    trainer = {"terminated": {"exitCode": 1, "reason": "Error"}}
    assert not with_state(trainer, phase="Failed", initContainerStatuses=[lost]).is_lost


def test_the_reason_of_a_pod_and_the_end_of_a_sidecar_do_not_make_its_container_lost() -> None:
    assert not parse_pod(obj({"phase": "Failed", "reason": "ContainerStatusUnknown"})).is_lost
    assert not with_state({"terminated": {"reason": "Unknown", "exitCode": 255}}, name="side").is_lost


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")])
def test_a_pod_whose_trainer_has_ended_has_ended_although_its_sidecars_run(code: int, phase: str) -> None:
    pod = with_state({"terminated": {"exitCode": code}}, phase="Running")
    assert (pod.phase, pod.ended, pod.has_running_sidecar) == (phase, True, True)


def test_the_end_of_a_sidecar_does_not_end_the_pod() -> None:
    pod = with_state({"terminated": {"exitCode": 1}}, phase="Running", name="side")
    assert (pod.phase, pod.has_running_sidecar) == ("Running", False)


def test_a_failed_init_container_is_the_reason_of_the_pod() -> None:
    inits = [
        {"name": "elasticjob-inject", "state": {"terminated": {"exitCode": 0}}},
        {"name": "fetch", "state": {"terminated": {"exitCode": 3, "reason": "Error", "message": "no such bucket"}}},
    ]
    pod = with_state(waiting("PodInitializing"), initContainerStatuses=inits)
    expected = ("InitContainerFailed", "init container fetch ended with exit code 3: no such bucket")
    assert (pod.reason, pod.message) == expected
