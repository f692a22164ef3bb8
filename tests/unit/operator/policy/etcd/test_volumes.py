"""When the volume of an etcd member is considered lost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import lists, sampled_from

from elasticjob_etcd.members import EtcdMember
from elasticjob_operator.model.cluster_interface import Object
from elasticjob_operator.policy.etcd.volumes import (
    PROOF_DURATION_S,
    PendingLoss,
    VolumeLoss,
    confirm_loss,
    loss_of,
    node_of,
    only_silent,
)

PODS = {f"m{number}": f"http://m{number}:2380" for number in range(3)}
AFTER_S = 600.0


def member(number: int, *, learns: bool = False) -> EtcdMember:
    return EtcdMember(number, f"m{number}", (), (PODS[f"m{number}"],), is_learner=learns)


A, B, C = member(0), member(1), member(2)
FOREIGN = EtcdMember(9, "s", (), ("http://s:2380",), is_learner=False)


def pod(**spec: Any) -> Object:
    return {"metadata": {"name": "m2", "uid": "p"}, "spec": spec}


def claim(node: str = "n2", volume: str = "v") -> Object:
    annotations = {"volume.kubernetes.io/selected-node": node} if node else {}
    return {"metadata": {"name": "data-m2", "uid": "c", "annotations": annotations}, "spec": {"volumeName": volume}}


def volume(key: str = "kubernetes.io/hostname", *values: str) -> Object:
    expression = {"key": key, "operator": "In", "values": list(values or ("n2",))}
    return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}}


def node(ready: str = "True", *, since: str = "t1", out_of_service: bool = False) -> Object:
    taints = [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}] if out_of_service else []
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": since}
    return {"spec": {"taints": taints}, "status": {"conditions": [condition]}}


NETWORK: Object = {"spec": {}}


@pytest.mark.parametrize(
    ("members", "answering", "found"),
    [
        pytest.param((A, B, C), {"m0", "m1"}, "m2", id="one is silent"),
        pytest.param((A, B), {"m0", "m1"}, "m2", id="one is silent and not a member"),
        pytest.param((A, B, C), {"m0", "m1", "m2"}, None, id="whole"),
        pytest.param((A, B, C), {"m0"}, None, id="two are silent"),
        pytest.param((A, member(1, learns=True), C), {"m0", "m1"}, None, id="another has no vote yet"),
        pytest.param((A, B, member(2, learns=True)), {"m0", "m1"}, None, id="it is about to join"),
        pytest.param((A, C), {"m0", "m1"}, None, id="another is not a member"),
        pytest.param((A, B, C, FOREIGN), {"m0", "m1"}, None, id="a member that is not of ours"),
    ],
)
def test_only_a_single_silent_pod_is_returned_while_all_others_are_healthy(
    members: tuple[EtcdMember, ...], answering: set[str], found: str | None
) -> None:
    assert only_silent(members, PODS, answering) == found


def test_no_member_of_fewer_than_three_is_ever_replaced() -> None:
    two = {name: PODS[name] for name in ("m0", "m1")}
    assert only_silent((A, B), two, {"m0"}) is None


@pytest.mark.parametrize(
    ("made", "found"),
    [
        pytest.param(volume(), "n2", id="by its hostname, as local-path does"),
        pytest.param(volume("kubernetes.io/hostname", "n2.example.com"), "n2", id="a hostname that is not the name"),
        pytest.param(volume("topology.topolvm.io/node"), "n2", id="by a label of the driver's own"),
        pytest.param(volume("topology.kubernetes.io/zone", "z"), "", id="of a zone"),
        pytest.param(volume("kubernetes.io/hostname", "n1", "n2"), "", id="of two nodes"),
        pytest.param(NETWORK, "", id="of the network"),
        pytest.param(None, "", id="unknown"),
    ],
)
def test_a_local_volume_has_a_single_node(made: Object | None, found: str) -> None:
    assert node_of(claim(), made) == found


def test_the_node_is_unknown_without_the_schedulers_annotation() -> None:
    assert node_of(claim(node=""), volume()) == ""


@pytest.mark.parametrize(
    ("objects", "why", "must_hold_s"),
    [
        pytest.param((pod(), claim(), volume(), None), "node n2 is gone", PROOF_DURATION_S, id="deleted"),
        pytest.param(
            (pod(), claim(), volume(), node("Unknown", out_of_service=True)),
            "node n2 is out of service",
            PROOF_DURATION_S,
            id="out of service",
        ),
        pytest.param((pod(), claim(), volume(), node("Unknown")), "node n2 is not ready", AFTER_S, id="not ready"),
        pytest.param((pod(), claim(), None, None), "its volume is gone", PROOF_DURATION_S, id="the volume is deleted"),
        pytest.param((pod(), None, None, None), "its claim is gone", PROOF_DURATION_S, id="the claim is deleted"),
    ],
)
def test_the_volume_of_an_unscheduled_pod_is_lost_with_its_node_claim_or_volume(
    objects: tuple[Object | None, Object | None, Object | None, Object | None], why: str, must_hold_s: float
) -> None:
    found = loss_of(*objects, replace_after_s=AFTER_S)
    assert found is not None
    assert (found.reason, found.confirm_after_s, found.pod_uid) == (why, must_hold_s, "p")


TERMINATING = {**pod(), "metadata": {"name": "m2", "uid": "p", "deletionTimestamp": "t"}}


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((pod(), claim(), volume(), node()), id="its node is healthy: it waits for free resources there"),
        pytest.param((pod(), claim(), NETWORK, None), id="a network volume"),
        pytest.param((pod(), claim(), volume("topology.kubernetes.io/zone", "z"), None), id="a volume of a zone"),
        pytest.param((pod(), claim(volume=""), None, None), id="a volume that does not exist yet"),
        pytest.param((None, claim(), volume(), None), id="no pod"),
        pytest.param((TERMINATING, claim(), volume(), None), id="its pod is being deleted"),
    ],
)
def test_a_volume_that_may_still_exist_is_not_lost(
    objects: tuple[Object | None, Object | None, Object | None, Object | None],
) -> None:
    assert loss_of(*objects, replace_after_s=AFTER_S) is None


@given(
    claimed=sampled_from([None, claim(), claim(node=""), claim(volume="")]),
    made=sampled_from([None, volume(), NETWORK]),
    there=sampled_from([None, node(), node("False"), node("Unknown", out_of_service=True)]),
)
def test_the_volume_of_a_scheduled_pod_is_never_lost(
    claimed: Object | None, made: Object | None, there: Object | None
) -> None:
    assert loss_of(pod(nodeName="n2"), claimed, made, there, replace_after_s=AFTER_S) is None


def test_a_node_that_was_ready_in_between_restarts_the_time() -> None:
    first, later = (
        loss_of(pod(), claim(), volume(), node("Unknown", since=since), replace_after_s=AFTER_S)
        for since in ("t1", "t2")
    )
    held = confirm_loss(None, first, 0.0)
    assert held is not None
    assert (held.is_due(599.0), held.is_due(600.0)) == (False, True)
    assert later is not None
    assert confirm_loss(confirm_loss(held, later, 599.0), later, 1198.0) == PendingLoss(later, 599.0)


@given(lists(sampled_from(["gone", "not ready", "back"]), max_size=40))
def test_evidence_is_due_only_if_it_has_held_without_interruption(checks: list[str]) -> None:
    """Check every 30 s, and compare with the number of consecutive equal checks."""
    held, alike = None, 0
    for number, why in enumerate(checks):
        alike = alike + 1 if number and why == checks[number - 1] else 1
        must_hold_s = AFTER_S if why == "not ready" else PROOF_DURATION_S
        held = confirm_loss(held, None if why == "back" else VolumeLoss("p", "c", why, "", must_hold_s), 30.0 * number)
        is_due = held is not None and held.is_due(30.0 * number)
        assert is_due is (why != "back" and 30.0 * (alike - 1) >= must_hold_s)
