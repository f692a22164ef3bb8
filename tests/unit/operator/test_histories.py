"""Histories that broke simpler operators; each test names the rule that holds.

They use the model of the state machine, in an order that random tests rarely find.
"""

from collections.abc import Iterator

import pytest

from elasticjob_api.constants import ConditionType
from elasticjob_api.records import SlotOwner, SpecRecord, encode
from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_etcd.interface import Put, Txn
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.objects import name_of
from tests.unit.operator.cluster_model import Model, is_bound, is_live


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model(replicas=2, minReplicas=1, maxReplicas=3, backoffLimit=2)
    yield model
    model.close()


def answer_until(model: Model, what: str) -> int:
    """Run reconciles up to the first request that begins with `what`; return its index at the gate."""
    for _ in range(50):
        for index, held in enumerate(model.process.gate.held):
            if held.description.startswith(what):
                return index
        if model.process.turn is None:
            model.begin_reconcile()
        else:
            model.answer(0)
    raise AssertionError(f"no request begins with {what!r}")


def running(model: Model) -> None:
    model.quiesce()
    for pod in model.pods():
        if is_live(pod) and not is_bound(pod):
            model.start_pod(pod)
    model.close_round()
    model.quiesce()


def live_names(model: Model) -> set[str]:
    return {name_of(pod) for pod in model.pods() if is_live(pod)}


def test_a_spec_write_of_a_dead_operator_that_lands_late_changes_nothing(model: Model) -> None:
    answer_until(model, "txn spec")
    model.crash(land=[True])
    model.quiesce_without_landing()
    before = model.spec()
    model.land(0)
    assert model.spec() == before


def test_a_first_spec_that_lands_late_becomes_the_next_operators_map_under_new_names(model: Model) -> None:
    answer_until(model, "txn spec")
    model.crash(land=[True])
    model.land(0)
    written = model.named()
    model.quiesce()
    assert live_names(model) == model.named()
    assert not written & model.named()


def test_a_name_is_not_created_again_after_a_lost_response_and_a_deleted_pod(model: Model) -> None:
    index = answer_until(model, "create pods")
    model.answer(index, lose_answer=True)
    (pod,) = model.pods()
    model.delete_pod(pod)
    model.finish_reconcile()
    for _ in range(5):  # the watch has delivered no event of this pod yet
        model.begin_reconcile()
        model.finish_reconcile()
    model.quiesce()
    assert model.cluster.created[name_of(pod)] == 1
    assert live_names(model) == model.named()


def test_a_pod_that_a_dead_operator_creates_late_is_deleted(model: Model) -> None:
    answer_until(model, "create pods")
    model.crash(land=[True, True])
    model.quiesce_without_landing()
    named = model.named()
    while model.in_flight:
        model.land(0)
    assert live_names(model) > named
    model.quiesce()
    assert live_names(model) == model.named() == named


def test_a_pod_that_a_late_request_creates_for_a_suspended_job_is_deleted(model: Model) -> None:
    answer_until(model, "create pods")
    model.crash(land=[True, True])
    model.patch(suspend=True)
    model.quiesce()
    assert not model.pods()


def test_a_failed_pod_counts_once_although_the_operator_crashes_after_the_write(model: Model) -> None:
    running(model)
    failed = model.pods()[0]
    model.end_pod(failed, exit_code=1)
    model.process.deliver(Resource.POD)
    model.answer(answer_until(model, "txn spec"), lose_answer=True)
    assert name_of(failed) not in model.named()
    model.crash(land=[])
    model.quiesce()
    spec = model.spec()
    assert spec is not None
    assert spec.replacements == 1


def test_suspending_a_job_whose_members_have_all_finished_completes_it(model: Model) -> None:
    running(model)
    model.finish_all()
    model.patch(suspend=True)
    model.quiesce()
    ended = model.state()
    assert ended is not None
    assert ended.phase is RoundPhase.SUCCEEDED
    assert model.status()["phase"] == "Succeeded"


def test_a_first_spec_is_not_written_for_a_job_that_was_deleted_meanwhile(model: Model) -> None:
    answer_until(model, "get j")
    model.delete_job()
    model.quiesce()
    assert model.store.get(model.keys.spec) is None


def test_an_operator_with_a_stale_pod_watch_replaces_no_live_pod(model: Model) -> None:
    running(model)
    before = live_names(model)
    model.crash(land=[], deliver_pods=False)
    for _ in range(5):
        model.begin_reconcile()
        model.finish_reconcile()
    assert live_names(model) == model.named() == before


def test_an_operator_with_a_stale_job_watch_ends_no_running_job(model: Model) -> None:
    running(model)
    before = live_names(model)
    model.crash(land=[], deliver_jobs=False)
    for _ in range(5):
        model.begin_reconcile()
        model.finish_reconcile()
    assert live_names(model) == model.named() == before


def test_a_status_of_a_dead_operator_that_lands_late_is_corrected(model: Model) -> None:
    answer_until(model, "status")
    model.crash(land=[True])
    running_without_landing(model)
    assert model.status()["phase"] == "Running"
    model.land(0)
    assert model.status()["phase"] == "Pending"
    model.quiesce()
    assert model.status()["phase"] == "Running"


def running_without_landing(model: Model) -> None:
    model.quiesce_without_landing()
    for pod in model.pods():
        model.start_pod(pod)
    model.close_round()
    model.quiesce_without_landing()


def test_at_rest_no_further_request_is_sent(model: Model) -> None:
    running(model)
    model.begin_reconcile()
    assert not model.process.gate.held


def test_a_finished_member_without_a_pod_gets_none_while_all_other_agents_are_unreachable(model: Model) -> None:
    model.patch(replicas=3)
    running(model)
    before = model.spec()
    model.finish_member(0)
    finished, *others = model.pods()
    model.delete_pod(finished)
    model.confirm_deletion(finished)
    for pod in others:
        model.expire(pod)
    model.quiesce()  # the operator looks again and again, as long as the agents are unreachable
    assert model.status()["reason"] == ConditionType.AGENTS_UNREACHABLE
    assert model.process.again_at_s is not None
    model.now_s = model.process.again_at_s
    model.begin_reconcile()
    assert model.process.turn is None, [held.description for held in model.process.gate.held]
    assert model.spec() == before
    assert live_names(model) == model.named() - {name_of(finished)}


def test_a_job_of_another_controller_is_never_written_to() -> None:
    model = Model(replicas=2, managedBy="example.com/other")
    try:
        model.quiesce()
        model.patch(suspend=True)
        model.quiesce()
        assert (model.pods(), model.status(), list(model.store.range("/").kvs)) == ([], {}, [])
    finally:
        model.close()


# Findings of the protocol's model check that concern the operator, by number.


def test_17_a_job_without_agents_can_be_suspended_and_its_old_rounds_do_not_continue(model: Model) -> None:
    running(model)
    before = live_names(model)
    for pod in model.pods():
        model.expire(pod)  # no agent is left that could write the state
    model.patch(suspend=True)
    model.quiesce()
    suspended = model.state()
    assert suspended is not None
    assert (suspended.phase, model.named()) == (RoundPhase.SUSPENDED, set())
    model.patch(suspend=False)
    model.quiesce()
    assert not before & model.named()


def test_18_a_map_of_a_dead_operator_that_lands_after_the_job_has_ended_creates_no_pod(model: Model) -> None:
    running(model)
    model.patch(replicas=3)
    model.process.deliver(Resource.JOB)
    answer_until(model, "txn spec")
    model.crash(land=[True])
    for index in range(2):
        model.finish_member(index)
    model.quiesce()
    created = sum(model.cluster.created.values())
    assert created == 2
    assert model.status()["phase"] == "Succeeded"


def test_19_a_name_whose_pod_was_force_deleted_is_never_created_again(model: Model) -> None:
    running(model)
    (lost, _) = model.pods()
    model.confirm_deletion(lost)
    model.crash(land=[])  # the new process has not received the deletion: only a 404 shows it
    model.quiesce()
    assert model.cluster.created[name_of(lost)] == 1
    assert name_of(lost) not in model.named()


def test_22_a_failed_pod_is_counted_in_the_write_that_drops_it_and_in_no_other(model: Model) -> None:
    running(model)
    failed = model.pods()[0]
    model.end_pod(failed, exit_code=1)
    model.process.deliver(Resource.POD)
    index = answer_until(model, "txn spec")
    before = model.spec()
    model.answer(index)
    after = model.spec()
    assert before is not None
    assert after is not None
    assert (before.replacements, after.replacements) == (0, 1)
    assert name_of(failed) not in model.named()
    model.quiesce()
    assert model.status()["podReplacements"] == 1


def test_28_a_deletion_removes_all_keys_of_the_job_and_none_of_another_installation(model: Model) -> None:
    running(model)
    other = JobKey("default", "other", "00000000-0000-0000-0000-00000000ffff")
    foreign = other.keys("c").spec
    theirs = SpecRecord(min=1, max=1, desired=1, slots={0: SlotOwner("other-0-x")}, operator="somebody else")
    model.store.txn(Txn((), (Put(foreign, encode(theirs)),)))
    model.delete_job()
    for _ in range(3):
        model.quiesce()
        for pod in model.pods():
            model.confirm_deletion(pod)
        model.begin_reconcile(other)  # its keys queue the job, and it has neither an object nor a pod
        model.finish_reconcile()
    model.quiesce()
    assert [kv.key for kv in model.store.range("/").kvs] == [foreign]


def test_28_leftovers_of_a_deleted_job_are_removed(model: Model) -> None:
    other = JobKey("default", "other", "00000000-0000-0000-0000-00000000ffff")
    ours = SpecRecord(min=1, max=1, desired=1, slots={0: SlotOwner("other-0-x")}, operator="op")
    model.store.txn(Txn((), (Put(other.keys("c").spec, encode(ours)),)))
    model.settle()
    model.begin_reconcile(other)
    model.finish_reconcile()
    assert not model.store.range(other.keys("c").everything).kvs


def test_28_a_pod_under_a_job_that_is_being_deleted_is_not_created_again(model: Model) -> None:
    running(model)
    created = sum(model.cluster.created.values())
    model.delete_pod(model.pods()[0])
    model.delete_job()
    model.quiesce()
    assert sum(model.cluster.created.values()) == created


# Known faults of other operators, by number.


@pytest.mark.parametrize("seen_each", [True, False], ids=["each is seen", "only the last is seen"])
def test_43_alternating_scales_stop_no_member_and_leave_nothing_behind(model: Model, *, seen_each: bool) -> None:
    running(model)
    members, round_, created = live_names(model), model.state(), sum(model.cluster.created.values())
    for _ in range(10):
        for replicas in (3, 2):  # the third pod never joins: it is in no round
            model.patch(replicas=replicas)
            if seen_each:
                model.quiesce()
    model.quiesce()
    for pod in model.pods():
        if not is_live(pod):
            model.confirm_deletion(pod)
    model.quiesce()
    assert model.state() == round_, "nothing was opened, so no worker was stopped"
    spec = model.spec()
    assert spec is not None
    assert spec.desired == 2
    assert {name_of(pod) for pod in model.pods()} == model.named() == members
    assert sum(model.cluster.created.values()) - created == (10 if seen_each else 0)
    charges = [model.status()[name] for name in ("restarts", "nodeLosses", "podReplacements")]
    assert (model.status()["phase"], charges) == ("Running", [0, 0, 0])


def test_43_alternating_scales_end_with_the_last_one(model: Model) -> None:
    running(model)
    for replicas in (3, 1, 3, 2, 1, 3):
        model.patch(replicas=replicas)
        model.process.deliver(Resource.JOB)
        model.begin_reconcile()
        while model.process.gate.held[1:]:  # the last request is still in progress when the next change comes
            model.answer(0)
    running(model)
    spec = model.spec()
    assert spec is not None
    assert (spec.desired, sorted(spec.slots)) == (3, [0, 1, 2])
    assert (live_names(model), model.status()["readyReplicas"]) == (model.named(), 3)
