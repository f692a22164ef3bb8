"""Plans for one job, row by row: from a snapshot to actions and the time of the next reconcile."""

import itertools
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

import pytest

from elasticjob_api.bootstrap import bootstrap_of, decode_bootstrap
from elasticjob_api.constants import ENV_SPEC
from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView
from elasticjob_api.spec import CleanPodPolicy
from elasticjob_api.status import JobStatus, KeepStatus
from elasticjob_operator.model.actions import (
    Action,
    Apply,
    CreatePod,
    DeleteJob,
    DeletePods,
    Evict,
    ForceDelete,
    GetPod,
    Plan,
    WriteExpected,
    WriteSpec,
)
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.failed_creation import FailedCreation
from elasticjob_operator.model.ids import Ids
from elasticjob_operator.model.job_state import JobState
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.model.slot_history import SlotHistory
from elasticjob_operator.model.snapshot import RejectedJob
from elasticjob_operator.planner.plan import plan
from elasticjob_operator.policy.lifecycle.spec_record import spec_record
from elasticjob_operator.render.disruption_budget import render_disruption_budget
from elasticjob_operator.render.pod import render_pod
from elasticjob_operator.render.service import render_service
from testing.builders import (
    NOW_S,
    active,
    ago,
    condition,
    deleted,
    job,
    member,
    membership,
    names,
    nodes,
    observation,
    pod,
    record,
    seen,
    state,
    view,
)

A = TypeVar("A", bound=Action)
STARTED = JobStatus(start_time=ago(100))


def ids() -> Ids:
    suffixes, nonces = itertools.count(), itertools.count()
    return Ids(suffix=lambda: f"new{next(suffixes)}", nonce=lambda: f"o{next(nonces)}")


def planned(
    at: RendezvousView,
    *pods: Pod,
    job_state: JobState | None = None,
    status: JobStatus = STARTED,
    applied: bool = True,
    **spec: Any,
) -> Plan:
    of, known = job(status=status, **spec), job_state or JobState()
    if applied:
        known.applied = {Resource.SERVICE: render_service(of), Resource.DISRUPTION_BUDGET: render_disruption_budget(of)}
    return plan(seen(of, at, *pods, job_state=known), ids())


def test_a_rejected_job_gets_a_status_with_the_reason_and_keeps_its_pods() -> None:
    observed = observation(view(0), pod(0))
    rejected = RejectedJob(**vars(observed), message="spec.replicas: 0", generation=8, status=JobStatus(restarts=1))
    made = plan(rejected, ids())
    assert (made.actions, made.requeue_in_s) == ((), None)
    assert made.status is not None
    assert (made.status.reason, made.status.message) == ("InvalidSpec", "spec.replicas: 0")
    assert (made.status.restarts, made.status.observed_generation) == (1, 8)


def test_a_deleted_job_is_planned_by_the_same_function() -> None:
    assert of(plan(deleted(view(0), pod(0)), ids()), DeletePods)


def body_of(creation: CreatePod) -> dict[str, Any]:
    return render_pod(creation.source, slot=creation.slot, name=creation.name)


def of(made: Plan, kind: type[A]) -> list[A]:
    return [action for action in made.actions if isinstance(action, kind)]


def written(*slots: int, before: SpecRecord | None = None, suspended: bool = False, **spec: Any) -> SpecRecord:
    """Return the correct record for this job, these slots and their usual pods."""
    return spec_record(job(**spec), before or record(), names(slots), suspended=suspended)


def at_rest(*slots: int, **fields: Any) -> RendezvousView:
    """Return a job of two nodes with a correct record and an active round."""
    given = {"spec": written(0, 1, replicas=2), "state": active(*slots), "membership": membership(*slots), **fields}
    return view(*slots, **given)


def pods_of(record_: SpecRecord) -> dict[int, str]:
    return {slot: owner.pod for slot, owner in record_.slots.items()}


def the_write(made: Plan) -> WriteSpec:
    (write,) = of(made, WriteSpec)
    return write


# The beginning of a job.


def test_a_new_job_gets_its_map_before_any_pod() -> None:
    made = planned(RendezvousView(), replicas=2)
    assert [type(action) for action in made.actions] == [WriteSpec]
    write = the_write(made)
    assert pods_of(write.record) == {0: "j-0-new0", 1: "j-1-new1"}
    assert (write.spec_revision, write.state_revision, write.state) == (0, 0, None)
    assert write.expected_pods == {"j-0-new0", "j-1-new1"}


def test_the_first_map_expects_all_of_its_slots() -> None:
    assert the_write(planned(RendezvousView(), pod(0), replicas=2)).expected == frozenset({0, 1})


def test_after_a_wipe_pods_are_adopted_and_rounds_continue_far_above_the_known_one() -> None:
    status = JobStatus(start_time=ago(100), rendezvous_round=7, restarts=2, pod_replacements=1)
    write = the_write(planned(RendezvousView(), pod(0), pod(1), status=status, replicas=2))
    assert pods_of(write.record) == {0: "j-0-a", 1: "j-1-a"}
    assert (write.record.first_round, write.record.first_restarts, write.record.replacements) == (1007, 2, 1)
    assert write.expected_pods == frozenset()


def test_pods_are_created_from_a_map_that_the_watch_delivered() -> None:
    job_state = JobState(expected_pods={"j-0-a", "j-1-a"})
    made = planned(
        view(spec=written(0, 1, replicas=2), expected=frozenset({0, 1})), job_state=job_state, applied=False, replicas=2
    )
    assert [type(action) for action in made.actions] == [Apply, CreatePod, CreatePod, Apply]
    assert [action.name for action in of(made, CreatePod)] == ["j-0-a", "j-1-a"]
    assert [body_of(action)["metadata"]["labels"]["elasticjob.io/slot"] for action in of(made, CreatePod)] == ["0", "1"]


def test_a_pod_gets_its_bootstrap_and_revision_from_the_spec_that_names_it() -> None:
    spec = written(0)
    made = planned(view(spec=spec, spec_revision=48213), job_state=JobState(expected_pods={"j-0-a"}))
    (creation,) = of(made, CreatePod)
    (trainer,) = body_of(creation)["spec"]["containers"]
    (value,) = [env["value"] for env in trainer["env"] if env["name"] == ENV_SPEC]
    assert decode_bootstrap(value) == bootstrap_of(spec, 48213)


def test_a_pod_gets_the_step_that_is_known_to_be_on_disk() -> None:
    def source_with(kept: KeepStatus | None) -> int | None:
        job_state = JobState(expected_pods={"j-0-a"})
        made = planned(view(spec=written(0)), job_state=job_state, status=replace(STARTED, keep=kept))
        (creation,) = of(made, CreatePod)
        return creation.source.persisted_step

    assert source_with(KeepStatus(persisted_step=120)) == 120
    assert source_with(KeepStatus()) is None
    assert source_with(None) is None


def test_no_pod_is_rendered_before_it_is_created() -> None:
    """The plan of ten thousand pods has one source, and no body."""
    slots, job_state = range(50), JobState(expected_pods={f"j-{n}-a" for n in range(50)})
    creations = of(planned(view(spec=written(*slots, replicas=50)), job_state=job_state, replicas=50), CreatePod)
    assert len(creations) == 50
    assert len({id(creation.source) for creation in creations}) == 1
    assert {field.name for field in fields(CreatePod)} == {"name", "slot", "source", "strict"}


def test_only_the_first_pod_of_a_job_is_created_strictly() -> None:
    job_state = JobState(expected_pods={f"j-{n}-a" for n in range(3)})
    first = of(planned(view(spec=written(0, 1, 2, replicas=3)), job_state=job_state, replicas=3), CreatePod)
    assert [creation.strict for creation in first] == [True, False, False]
    later = of(planned(view(spec=written(0, 1, 2, replicas=3)), pod(0), job_state=job_state, replicas=3), CreatePod)
    assert [creation.strict for creation in later] == [False, False]


def test_no_pod_is_created_during_the_back_off_of_a_failed_creation() -> None:
    job_state = JobState(expected_pods={"j-0-a"}, failed_creation=FailedCreation("exceeded quota", 3, NOW_S + 2.0))
    made = planned(view(spec=written(0), expected=frozenset({0})), job_state=job_state)
    assert (of(made, CreatePod), made.requeue_in_s) == ([], 2.0)
    assert made.status is not None
    assert (made.status.reason, made.status.message) == ("PodsNotCreated", "exceeded quota")
    due = JobState(expected_pods={"j-0-a"}, failed_creation=FailedCreation("exceeded quota", 3, NOW_S))
    assert len(of(planned(view(spec=written(0)), job_state=due), CreatePod)) == 1


def test_a_pod_that_was_never_created_gets_a_new_name_without_an_event_and_without_a_wait() -> None:
    job_state = JobState(
        absent_pods={"j-0-a"},
        unanswered_creations={"j-0-a"},
        slot_histories={0: SlotHistory(pod="j-0-a", short_lived=9)},
    )
    write = the_write(planned(view(spec=written(0)), job_state=job_state))
    assert (pods_of(write.record), write.events) == ({0: "j-0-new0"}, ())


def test_a_name_of_another_process_is_read_and_never_created() -> None:
    made = planned(view(spec=written(0)), job_state=JobState())
    assert of(made, CreatePod) == []
    assert [action.name for action in of(made, GetPod)] == ["j-0-a"]


def test_a_created_pod_is_awaited_until_the_watch_delivers_it() -> None:
    job_state = JobState(created_at_s={"j-0-a": NOW_S - 1.0})
    made = planned(view(spec=written(0), expected=frozenset({0})), job_state=job_state)
    assert (made.actions, made.requeue_in_s) == ((), 4.0)


def test_a_name_without_a_pod_is_replaced_by_a_new_one() -> None:
    made = planned(view(spec=written(0)), job_state=JobState(absent_pods={"j-0-a"}))
    assert pods_of(the_write(made).record) == {0: "j-0-new0"}
    assert of(made, CreatePod) == []


# A job at rest.


def test_a_job_at_rest_needs_no_action() -> None:
    assert planned(at_rest(0, 1), pod(0), pod(1), replicas=2).actions == ()


@pytest.mark.parametrize(
    "fields", [{"etcd_trouble": "no answer"}, {"at": view(spec=None, spec_revision=3)}], ids=["trouble", "unreadable"]
)
def test_no_action_follows_from_an_incomplete_snapshot(fields: dict[str, Any]) -> None:
    at = fields.pop("at", RendezvousView())
    made = plan(seen(job(), at, pod(0, phase="Failed"), **fields), ids())
    assert made.actions == ()
    assert made.status is not None


# Lost pods.


def test_a_failed_pod_is_evicted_and_replaced_and_counted_in_one_write() -> None:
    made = planned(at_rest(0, 1), pod(0), pod(1, phase="Failed", exit_code=1), replicas=2)
    assert [type(action) for action in made.actions] == [Evict, WriteSpec]
    write = the_write(made)
    assert pods_of(write.record) == {0: "j-0-a", 1: "j-1-new0"}
    assert (write.record.replacements, write.expected, write.expected_pods) == (
        1,
        frozenset({1}),
        frozenset({"j-1-new0"}),
    )
    assert (write.spec_revision, write.state_revision, write.state) == (5, 6, None)


def test_a_terminating_pod_is_replaced_at_once_and_its_agent_is_left_alone() -> None:
    made = planned(at_rest(0, 1), pod(0), pod(1, terminating=True), replicas=2)
    assert of(made, Evict) == []
    assert pods_of(the_write(made).record)[1] == "j-1-new0"
    assert the_write(made).record.replacements == 0


def test_a_finished_members_pod_is_not_replaced_during_its_round() -> None:
    at = at_rest(0, 1, completions={(1, 1): member(1)})
    assert of(planned(at, pod(0), pod(1, phase="Succeeded"), replicas=2), WriteSpec) == []


def test_pods_of_a_round_that_all_members_have_finished_are_replaced_if_no_agent_is_left_to_end_it() -> None:
    finished = {(1, 0): member(0), (1, 1): member(1)}
    dead = at_rest(0, 1, nodes={}, completions=finished)
    gone = (pod(0, terminating=True), pod(1, terminating=True))
    assert pods_of(the_write(planned(dead, *gone, replicas=2)).record) == {0: "j-0-new0", 1: "j-1-new1"}
    for others in ({"nodes": nodes(0)}, {"completions": {(1, 1): member(1)}}):
        made = planned(at_rest(0, 1, **{"nodes": {}, "completions": finished, **others}), *gone, replicas=2)
        assert all(pods_of(write.record)[1] == "j-1-a" for write in of(made, WriteSpec))


def test_a_job_is_not_resized_once_a_member_has_finished() -> None:
    at = at_rest(0, 1, completions={(1, 1): member(1)})
    made = planned(at, pod(0), pod(1), replicas=1, min_replicas=1, max_replicas=2)
    assert len(the_write(made).record.slots) == 2


def test_a_running_pod_without_an_agent_is_replaced_after_its_time() -> None:
    at = at_rest(0, 1, nodes=nodes(0))
    job_state = JobState(agent_seen={"uid-j-1-a"}, agentless_since_s={"uid-j-1-a": NOW_S - 30.0})
    assert pods_of(the_write(planned(at, pod(0), pod(1), job_state=job_state, replicas=2)).record)[1] == "j-1-new0"


def test_a_pod_that_the_map_does_not_name_is_deleted_after_another_read_of_the_spec() -> None:
    late = pod(1, name="j-1-late")
    (deletion,) = of(planned(at_rest(0, 1), pod(0), pod(1), late, replicas=2), DeletePods)
    assert (deletion.pods, deletion.spec_revision) == ({"j-1-late": "uid-j-1-late"}, 5)


def test_a_plan_that_writes_the_map_neither_creates_nor_deletes() -> None:
    late, job_state = pod(1, name="j-1-late"), JobState(expected_pods={"j-1-a"})
    made = planned(at_rest(0, spec=written(0, 1, replicas=2)), pod(0), late, job_state=job_state, replicas=3)
    assert [type(action) for action in made.actions] == [WriteSpec]


def test_a_terminating_pod_is_not_deleted_again() -> None:
    late = pod(1, name="j-1-late", terminating=True)
    assert of(planned(at_rest(0, 1), pod(0), pod(1), late, replicas=2), DeletePods) == []


# A slot map that was restored from a backup. Revision 5 is that of the map in a view.


AFTER_ROUND_2 = JobStatus(start_time=ago(100), rendezvous_round=2)


def newer_pod(slot: int, **fields: Any) -> Pod:
    """Return a pod that was created from a later map than the one in etcd."""
    return pod(slot, **{"name": f"j-{slot}-later", "spec_revision": 40, **fields})


def test_pods_of_slots_that_a_restored_map_lacks_are_adopted_before_their_agents_are_back() -> None:
    """One agent has already written the newest round into the restored etcd, so its number shows no restore."""
    pods, at = (pod(0), newer_pod(1), newer_pod(2)), {"state": active(0, 1, 2, round=2), "nodes": nodes(0)}
    write = the_write(planned(view(0, spec=written(0), **at), *pods, status=AFTER_ROUND_2, replicas=3))
    assert pods_of(write.record) == {0: "j-0-a", 1: "j-1-later", 2: "j-2-later"}
    assert write.expected_pods == frozenset()


def test_a_pod_that_had_not_joined_when_etcd_was_restored_is_adopted() -> None:
    at = at_rest(0, spec=written(0))
    write = the_write(planned(at, pod(0), newer_pod(1, phase="Pending"), status=STARTED, replicas=2))
    assert pods_of(write.record) == {0: "j-0-a", 1: "j-1-later"}


@pytest.mark.parametrize(
    "replaced",
    [
        pytest.param((), id="not read yet"),
        pytest.param((pod(1, phase="Failed", exit_code=1),), id="kept for its logs"),
        pytest.param((pod(1, terminating=True),), id="still terminating"),
    ],
)
def test_the_successor_of_a_pod_in_a_restored_map_is_adopted_whatever_is_left_of_that_pod(
    replaced: tuple[Pod, ...],
) -> None:
    at = at_rest(0, 1, state=active(0, 1, round=2), nodes=nodes(0))
    write = the_write(planned(at, pod(0), *replaced, newer_pod(1), status=AFTER_ROUND_2, replicas=2))
    assert pods_of(write.record) == {0: "j-0-a", 1: "j-1-later"}


def test_a_restored_map_of_a_suspended_job_adopts_the_pods_of_the_resumed_one() -> None:
    status = JobStatus(start_time=ago(100), rendezvous_round=2)
    made = planned(suspended_view(), newer_pod(0), newer_pod(1), status=status, replicas=2)
    assert pods_of(the_write(made).record) == {0: "j-0-later", 1: "j-1-later"}


def test_a_pod_of_a_later_map_does_not_displace_a_pod_that_lives_or_is_created() -> None:
    """In an etcd that was emptied, all earlier pods have higher revisions than its maps."""
    at = at_rest(0, 1, nodes=nodes(0))
    assert not of(planned(at, pod(0), pod(1), newer_pod(1), replicas=2), WriteSpec)
    job_state = JobState(expected_pods={"j-1-a"})
    assert not of(planned(at, pod(0), newer_pod(1), job_state=job_state, replicas=2), WriteSpec)


def test_a_lost_pod_is_not_adopted_again_although_its_map_was_a_later_one() -> None:
    uid = newer_pod(1).uid
    job_state = JobState(absent_pods={"j-1-a"}, agent_seen={uid}, agentless_since_s={uid: NOW_S - 30.0})
    made = planned(at_rest(0, 1, nodes=nodes(0)), pod(0), newer_pod(1), job_state=job_state, replicas=2)
    assert pods_of(the_write(made).record) == {0: "j-0-a", 1: "j-1-new0"}


def test_a_pod_that_the_map_dropped_is_not_adopted() -> None:
    dropped = pod(1, name="j-1-dropped", spec_revision=5)
    made = planned(at_rest(0, nodes=nodes(0), spec=written(0)), pod(0), dropped, replicas=2)
    assert pods_of(the_write(made).record) == {0: "j-0-a", 1: "j-1-new0"}


# Scaling.


def test_scaling_up_gives_names_to_new_slots_and_expects_them() -> None:
    write = the_write(planned(at_rest(0, 1), pod(0), pod(1), replicas=3))
    assert pods_of(write.record) == {0: "j-0-a", 1: "j-1-a", 2: "j-2-new0"}
    assert (write.record.desired, write.expected) == (3, frozenset({2}))


def test_scaling_down_only_changes_the_map_and_a_later_plan_deletes() -> None:
    made = planned(at_rest(0, 1), pod(0), pod(1), replicas=1)
    assert [type(action) for action in made.actions] == [WriteSpec]
    assert pods_of(the_write(made).record) == {0: "j-0-a"}
    after = planned(at_rest(0, spec=written(0)), pod(0), pod(1))
    assert [set(action.pods) for action in of(after, DeletePods)] == [{"j-1-a"}]


def test_a_requested_restart_is_copied_into_the_record() -> None:
    asked = job(status=STARTED, annotations={"elasticjob.io/restart": "r7"}, replicas=2)
    made = plan(seen(asked, at_rest(0, 1), pod(0), pod(1)), ids())
    assert the_write(made).record.restart_id == "r7"
    assert the_write(made).state is None


# Suspension.


def test_suspending_empties_the_slots_and_suspends_the_state_in_one_write() -> None:
    write = the_write(planned(at_rest(0, 1), pod(0), pod(1), replicas=2, suspend=True))
    assert (write.record.suspended, write.record.slots) == (True, {})
    assert write.state is not None
    assert (write.state.phase, write.state.round) == (RoundPhase.SUSPENDED, 1)


def test_an_absent_state_stays_absent_when_a_job_is_suspended() -> None:
    assert the_write(planned(view(0, nodes={}), suspend=True)).state is None


def test_a_job_that_is_created_suspended_gets_no_keys_and_no_pods() -> None:
    assert planned(RendezvousView(), status=JobStatus(), suspend=True).actions == ()


def suspended_view(**fields: Any) -> RendezvousView:
    spec = written(replicas=2, suspended=True)
    return view(**{"spec": spec, "state": state(RoundPhase.SUSPENDED), "membership": membership(0, 1), **fields})


def test_a_suspended_jobs_pods_are_deleted() -> None:
    (deletion,) = planned(suspended_view(), pod(0), replicas=2, suspend=True).actions
    assert deletion == DeletePods({"j-0-a": "uid-j-0-a"}, 5)


def test_resuming_takes_new_names_only_and_opens_the_next_round() -> None:
    write = the_write(planned(suspended_view(), pod(0, terminating=True), pod(1), replicas=2))
    assert pods_of(write.record) == {0: "j-0-new0", 1: "j-1-new1"}
    assert (write.record.suspended, write.expected) == (False, frozenset({0, 1}))
    assert write.state is not None
    assert (write.state.phase, write.state.round, write.state.cause) == (RoundPhase.FORMING, 2, Cause.RESUMED)


def test_a_job_that_had_finished_when_it_was_suspended_has_succeeded() -> None:
    dones = {(1, slot): member(slot) for slot in (0, 1)}
    write = the_write(planned(suspended_view(completions=dones), replicas=2, suspend=True))
    assert write.state is not None
    assert write.state.phase is RoundPhase.SUCCEEDED


# Failures.


def failure(made: Plan) -> str:
    """Return the verdict in the only write of this plan, which must empty the slots."""
    write = the_write(made)
    assert write.state is not None
    assert (write.state.phase, write.state.cause, write.record.slots) == (RoundPhase.FAILED, Cause.OPERATOR, {})
    return write.state.message


def test_more_failed_pods_than_backoff_limit_fail_the_job_and_name_the_last() -> None:
    at = at_rest(0, 1, spec=written(0, 1, before=record(replacements=2), replicas=2))
    made = planned(at, pod(0), pod(1, phase="Failed", reason="OOMKilled"), replicas=2, backoff_limit=2)
    last = "pod j-1-a: it ran out of memory (OOMKilled)"
    assert failure(made) == f"BackoffLimitExceeded: 3 pod failures, more than backoffLimit (2); the last: {last}"
    assert the_write(made).record.replacements == 3


def test_as_many_failed_pods_as_backoff_limit_are_replaced() -> None:
    at = at_rest(0, 1, spec=written(0, 1, before=record(replacements=1), replicas=2))
    made = planned(at, pod(0), pod(1, phase="Failed"), replicas=2, backoff_limit=2)
    assert the_write(made).state is None


@pytest.mark.parametrize(("after_s", "broken"), [(99.0, True), (101.0, False)])
def test_a_deadline_fails_the_job(after_s: float, *, broken: bool) -> None:
    made = planned(at_rest(0, 1), pod(0), pod(1), replicas=2, active_deadline_s=after_s)
    if broken:
        assert failure(made).startswith("DeadlineExceeded: ")
    else:
        assert (made.actions, made.requeue_in_s) == ((), 1.0)


# After the end of a job.


ENDED = JobStatus(start_time=ago(200), completion_time=ago(50), conditions=(condition("Complete"),))


@pytest.mark.parametrize(
    ("policy", "deleted"),
    [(CleanPodPolicy.RUNNING, {"j-0-a"}), (CleanPodPolicy.ALL, {"j-0-a", "j-1-a"}), (CleanPodPolicy.NONE, set())],
)
def test_pods_of_an_ended_job_are_cleaned_up_by_policy(policy: CleanPodPolicy, deleted: set[str]) -> None:
    made = planned(RendezvousView(), pod(0), pod(1, phase="Succeeded"), status=ENDED, clean_pod_policy=policy)
    assert _names(of(made, DeletePods)) == deleted


def _names(deletions: Iterable[DeletePods]) -> set[str]:
    return {name for deletion in deletions for name in deletion.pods}


def test_running_pods_of_a_job_that_has_just_ended_get_time_to_end() -> None:
    just = JobStatus(completion_time=ago(1), conditions=(condition("Complete"),))
    made = planned(RendezvousView(), pod(0), status=just)
    assert (made.actions, made.requeue_in_s) == ((), 39.0)


def test_an_ended_job_is_deleted_when_its_time_is_over() -> None:
    assert planned(RendezvousView(), pod(0), status=ENDED, ttl_seconds_after_finished=50).actions == (
        DeleteJob("job-uid"),
    )
    assert planned(RendezvousView(), status=ENDED, ttl_seconds_after_finished=51).requeue_in_s == 1.0


@pytest.mark.parametrize("at", [RendezvousView(), at_rest(0, 1), suspended_view()])
def test_nothing_is_created_or_written_for_an_ended_job(at: RendezvousView) -> None:
    made = planned(at, status=ENDED, replicas=2)
    assert made.actions == ()


@pytest.mark.parametrize("phase", [RoundPhase.SUCCEEDED, RoundPhase.FAILED])
def test_a_final_state_is_never_overwritten(phase: RoundPhase) -> None:
    made = planned(at_rest(0, 1, state=state(phase, cause=Cause.MAX_RESTARTS)), replicas=3)
    assert made.actions == ()


# Expectations and time.


def test_a_slot_that_is_no_longer_expected_is_removed_from_the_record() -> None:
    stuck = pod(1, phase="Pending", reason="Unschedulable")
    at = at_rest(0, nodes=nodes(0), expected=frozenset({1}))
    assert planned(at, pod(0), stuck, replicas=2).actions == (WriteExpected(frozenset(), 5),)


def test_the_next_plan_is_due_when_a_young_pod_is_no_longer_expected() -> None:
    at = at_rest(0, nodes=nodes(0), expected=frozenset({1}))
    made = planned(at, pod(0, created_s=0.0), pod(1, phase="Pending", created_s=NOW_S - 20.0), replicas=2)
    assert (made.actions, made.requeue_in_s) == ((), 40.0)


def test_the_node_of_a_stuck_pod_is_checked() -> None:
    stuck = pod(0, terminating=True, grace_ends_s=NOW_S - 400)
    (look,) = of(planned(view(0), stuck), ForceDelete)
    assert (look.name, look.uid, look.node_name) == ("j-0-a", stuck.uid, "node-0")


def test_a_terminating_pod_is_checked_in_time_even_after_the_end() -> None:
    ended = JobStatus(start_time=ago(9), completion_time=ago(0), conditions=(condition("Complete"),))
    slow = pod(0, terminating=True, grace_ends_s=NOW_S + 5)
    made = planned(view(0, state=state(RoundPhase.SUCCEEDED)), slow, status=ended, clean_pod_policy=CleanPodPolicy.NONE)
    assert (made.actions, made.requeue_in_s) == ((), 305)


def test_a_disruption_budget_follows_the_job_when_its_minimum_changes() -> None:
    job_state, at = JobState(), at_rest(0, 1)
    assert not of(planned(at, pod(0), pod(1), job_state=job_state, replicas=2), Apply)
    smaller = at_rest(0, 1, spec=written(0, 1, replicas=2, min_replicas=1))
    made = planned(smaller, pod(0), pod(1), job_state=job_state, applied=False, replicas=2, min_replicas=1)
    (applied,) = of(made, Apply)
    assert (applied.resource, applied.body["spec"]["minAvailable"]) == (Resource.DISRUPTION_BUDGET, 1)


def test_objects_of_an_earlier_process_are_applied_again_after_a_while() -> None:
    job_state, at = JobState(resync_at_s=NOW_S + 3), at_rest(0, 1)
    early = planned(at, pod(0), pod(1), job_state=job_state, applied=False, replicas=2)
    assert (of(early, Apply), early.requeue_in_s) == ([], 3)
    job_state.resync_at_s = NOW_S
    due = planned(at, pod(0), pod(1), job_state=job_state, applied=False, replicas=2)
    assert [action.resource for action in of(due, Apply)] == [Resource.SERVICE, Resource.DISRUPTION_BUDGET]


def test_a_pod_that_is_created_does_not_wait_for_its_service() -> None:
    job_state, at = JobState(expected_pods={"j-1-a"}, resync_at_s=NOW_S + 3), at_rest(0, 1)
    made = planned(at, pod(0), job_state=job_state, applied=False, replicas=2)
    assert [type(action) for action in made.actions if not isinstance(action, GetPod)] == [Apply, CreatePod]


def test_the_first_pods_of_a_job_have_service_and_budget_at_once() -> None:
    job_state, at = (
        JobState(expected_pods={"j-0-a", "j-1-a"}, resync_at_s=NOW_S + 3),
        view(spec=written(0, 1, replicas=2)),
    )
    made = planned(at, job_state=job_state, applied=False, replicas=2)
    assert [action.resource for action in of(made, Apply)] == [Resource.SERVICE, Resource.DISRUPTION_BUDGET]


def test_a_replacement_avoids_a_node_that_recently_lost_a_pod() -> None:
    job_state = JobState(expected_pods={"j-0-a"}, avoided_until_s={"node-9": NOW_S + 1, "node-8": NOW_S - 1})
    (creation,) = of(planned(view(spec=written(0)), job_state=job_state), CreatePod)
    (wish,) = body_of(creation)["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wish["preference"]["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["node-9"]}]


def test_thirty_pods_that_end_together_are_replaced_by_one_write_and_one_batch() -> None:
    slots = range(256)
    lost = {f"j-{slot}-a" for slot in range(30)}
    at = at_rest(*slots, spec=written(*slots, replicas=256), nodes=nodes(*slots[30:]))
    left = [pod(slot) for slot in slots[30:]]
    made = planned(at, *left, job_state=JobState(absent_pods=set(lost)), replicas=256)
    write = the_write(made)
    assert len(write.expected_pods) == 30
    after = view(*slots[30:], spec=write.record, expected=write.expected or frozenset())
    again = planned(after, *left, job_state=JobState(expected_pods=set(write.expected_pods)), replicas=256)
    assert {creation.name for creation in of(again, CreatePod)} == write.expected_pods
