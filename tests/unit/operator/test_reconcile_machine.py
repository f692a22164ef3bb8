"""Random histories of one job with every kind of fault, and the invariants that hold in any order of events.

The Reconciler is the real one. Each of its requests may get a response, lose it, fail and take effect later, or be the
last of the process. Watches lag. Numbers in names are those of the protocol's invariants.
"""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from elasticjob_api.constants import ConditionType, FailedReason
from elasticjob_api.rendezvous_state import RoundPhase
from elasticjob_operator.controller.job_parser import parse, read_status
from elasticjob_operator.errors import Forbidden
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.objects import is_terminating, name_of, pod_phase, uid_of
from elasticjob_operator.policy.status.conditions import is_true, phase
from tests.unit.operator import expected_status
from tests.unit.operator.cluster_model import Model, is_bound, is_live, slot_of, template

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
PICK = st.integers(min_value=0, max_value=7)
MAX = 3
COUNTERS = ("restarts", "nodeLosses", "podReplacements", "rendezvousRound")


class ReconcileMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model(replicas=2, minReplicas=1, maxReplicas=MAX, backoffLimit=2)
        self.counters: dict[str, int] = {}
        self.times: dict[str, str] = {}
        self.desired = 0
        self.conditions: dict[str, tuple[str, str]] = {}
        self.ended: str | None = None
        self.final_spec: int | None = None
        self.counting: set[str] = set()
        self.deleted = False
        self.deleted_or_not_to_be = True

    def teardown(self) -> None:
        self.model.cluster.refusal = None
        try:
            self._check_the_end()
        finally:
            self.model.close()

    @initialize(
        replicas=st.integers(min_value=1, max_value=MAX),
        deletable=st.booleans(),
        runs=st.booleans(),
        policy=st.sampled_from(["TerminatingOrFailed", "Failed"]),
    )
    def a_job_has_begun(self, replicas: int, policy: str, *, deletable: bool, runs: bool) -> None:
        self.deleted_or_not_to_be = not deletable
        self.model.patch(replicas=replicas, podReplacementPolicy=policy)
        self.model.quiesce()
        if runs:
            self.all_pods_start_and_join()
            self.a_round_closes()

    # The operator, disturbed.

    @rule(requests=st.integers(min_value=0, max_value=6))
    def the_operator_works(self, requests: int) -> None:
        """Begin a reconcile if none is in progress, and answer that many requests."""
        self.model.begin_reconcile()
        for _ in range(requests):
            if self.model.process.gate.held:
                self.model.answer(0)
            self.model.begin_reconcile()

    @rule()
    def the_operator_comes_to_rest(self) -> None:
        self.model.finish_reconcile()
        self.model.catch_up()

    @precondition(lambda self: self.model.process.gate.held)
    @rule(pick=PICK, fate=st.sampled_from(["answer", "lose the answer", "get lost", "land later"]))
    def a_request_fails(self, pick: int, fate: str) -> None:
        index = pick % len(self.model.process.gate.held)
        if fate in {"answer", "lose the answer"}:
            self.model.answer(index, lose_answer=fate == "lose the answer")
        else:
            self.model.refuse(index, lands_later=fate == "land later")

    @rule(refuses=st.booleans())
    def a_quota_refuses_pods_or_has_room_again(self, *, refuses: bool) -> None:
        self.model.cluster.refusal = Forbidden("exceeded quota") if refuses else None

    @rule(land=st.lists(st.booleans(), max_size=3))
    def the_operator_crashes(self, land: list[bool]) -> None:
        self.model.crash(land=land)

    @rule(land=st.lists(st.booleans(), max_size=3), version=st.integers(min_value=0, max_value=1))
    def the_operator_is_upgraded(self, land: list[bool], version: int) -> None:
        """Start another process with another agent image in its settings."""
        self.model.agent_image = f"agent:{version}"
        self.model.crash(land=land)

    @rule()
    def a_newer_operator_writes_the_status(self) -> None:
        """Write a status with fields at every depth that this version does not know."""
        self.model.leave_newer_status()
        self.model.crash(land=[])

    @precondition(lambda self: self.model.in_flight)
    @rule(pick=PICK)
    def a_late_request_lands(self, pick: int) -> None:
        self.model.land(pick % len(self.model.in_flight))

    @rule(resource=st.sampled_from([Resource.JOB, Resource.POD]), count=st.integers(min_value=1, max_value=9))
    def watch_events_arrive(self, resource: Resource, count: int) -> None:
        self.model.process.deliver(resource, count)

    @rule(connected=st.booleans())
    def the_mirror_lags_or_catches_up(self, *, connected: bool) -> None:
        etcd = self.model.process.mirror_etcd
        (etcd.reconnect if connected else etcd.disconnect)()
        self.model.settle()

    @rule(away=st.booleans())
    def etcd_goes_away_or_comes_back(self, *, away: bool) -> None:
        self.model.etcd_is_away(away=away)

    @rule(seconds=st.sampled_from([0.5, 6.0, 40.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.model.now_s += seconds

    @rule()
    def the_wall_clock_is_set_forward(self) -> None:
        """Backward is in `test_clocks`: it would move the times in a status back, which must not happen here."""
        self.model.set_wall_clock(self.model.wrong_by_s + 3600.0)

    # Pods, agents and the leader.

    def _running_pod(self, pick: int) -> Any:
        found = [pod for pod in self.model.pods() if is_live(pod) and is_bound(pod)]
        return found[pick % len(found)] if found else None

    @rule()
    def all_pods_start_and_join(self) -> None:
        for pod in self.model.pods():
            if is_live(pod) and not is_bound(pod):
                self.model.start_pod(pod)

    @rule(pick=PICK)
    def a_pod_fails(self, pick: int) -> None:
        if (pod := self._running_pod(pick)) is not None:
            self.model.end_pod(pod, exit_code=1)
            self.counting.add(uid_of(pod))

    @rule(pick=PICK, disrupted=st.booleans())
    def a_pod_ends_without_blame(self, pick: int, *, disrupted: bool) -> None:
        if (pod := self._running_pod(pick)) is not None:
            self.model.end_pod(pod, exit_code=1 if disrupted else 143, disrupted=disrupted)

    @rule(pick=PICK)
    def an_agent_falls_silent(self, pick: int) -> None:
        if (pod := self._running_pod(pick)) is not None:
            self.model.expire(pod)

    @rule(pick=PICK)
    def a_user_deletes_a_pod(self, pick: int) -> None:
        pods = self.model.pods()
        if pods:
            self.model.delete_pod(pods[pick % len(pods)])

    @rule()
    def kubelets_confirm_deletions(self) -> None:
        for pod in self.model.pods():
            if is_terminating(pod):
                self.model.confirm_deletion(pod)

    @rule()
    def a_round_closes(self) -> None:
        self.model.close_round()

    @rule()
    def a_worker_fails(self) -> None:
        self.model.fail_worker()

    @rule(pick=PICK)
    def a_member_finishes(self, pick: int) -> None:
        self.model.finish_member(pick)

    # The user.

    @rule(replicas=st.integers(min_value=1, max_value=MAX))
    def the_user_scales(self, replicas: int) -> None:
        self.model.patch(replicas=replicas)

    @rule(suspend=st.booleans())
    def the_user_suspends_or_resumes(self, *, suspend: bool) -> None:
        self.model.patch(suspend=suspend)

    @rule(image=st.sampled_from(["example/trainer:1", "example/trainer:2"]))
    def the_user_changes_the_template_of_a_suspended_job_and_resumes_it(self, image: str) -> None:
        """In three requests, of which the operator may see only the last."""
        self.model.patch(suspend=True)
        self.model.patch(template=template(image))
        self.model.patch(suspend=False)

    @precondition(lambda self: not self.deleted_or_not_to_be)
    @rule()
    def the_user_deletes_the_job(self) -> None:
        self.model.delete_job()
        self.deleted = self.deleted_or_not_to_be = True

    # Invariants.

    @invariant()
    def no_pod_name_is_created_twice_12(self) -> None:
        assert all(count == 1 for count in self.model.cluster.created.values()), self.model.cluster.created

    @invariant()
    def the_map_is_never_larger_than_max(self) -> None:
        assert len(self.model.named()) <= MAX

    @invariant()
    def at_most_max_of_the_mapped_pods_are_alive(self) -> None:
        live = [name_of(pod) for pod in self.model.pods() if is_live(pod) and name_of(pod) in self.model.named()]
        assert len(set(live)) == len(live) <= MAX

    @invariant()
    def all_live_mapped_pods_have_one_template_and_one_agent(self) -> None:
        live = [pod for pod in self.model.pods() if is_live(pod) and name_of(pod) in self.model.named()]
        assert len({pod["spec"]["containers"][0]["image"] for pod in live}) <= 1
        assert len({pod["metadata"]["labels"]["elasticjob.io/template-hash"] for pod in live}) <= 1
        assert len({pod["spec"]["initContainers"][0]["image"] for pod in live}) <= 1

    @invariant()
    def no_slot_has_two_running_pods_with_that_replacement_policy(self) -> None:
        obj = self.model.job_object()
        if obj is None or obj["spec"].get("podReplacementPolicy") != "Failed":
            return
        may_run = [pod for pod in self.model.pods() if pod_phase(pod) in {"Pending", "Running"}]
        slots = [slot_of(pod) for pod in may_run if name_of(pod) not in self.model.landed_late]
        assert len(set(slots)) == len(slots), sorted(map(name_of, may_run))

    @invariant()
    def every_write_of_the_spec_is_compared_with_spec_and_state_13(self) -> None:
        assert not self.model.store.unfenced

    @invariant()
    def an_active_round_has_one_owner_a_slot(self) -> None:
        state = self.model.state()
        slots = [member.slot for member in state.members] if state is not None else []
        assert len(set(slots)) == len(slots)

    @invariant()
    def nothing_is_written_after_a_final_state_13(self) -> None:
        state, spec = self.model.store.get(self.model.keys.rendezvous_state), self.model.store.get(self.model.keys.spec)
        decoded = self.model.state()
        if state is not None and spec is not None and decoded is not None and decoded.phase.is_final:
            assert spec.mod_revision <= state.mod_revision

    @invariant()
    def the_state_is_suspended_exactly_with_the_spec_13(self) -> None:
        state, spec = self.model.state(), self.model.spec()
        if state is not None and spec is not None and not state.phase.is_final:
            assert (state.phase is RoundPhase.SUSPENDED) == spec.suspended

    @invariant()
    def replacements_count_failed_pods_once_and_never_fall_14(self) -> None:
        spec = self.model.spec()
        if spec is not None and not self.deleted:
            before = self.counters.get("replacements", 0)
            assert before <= spec.replacements <= len(self.counting)
            self.counters["replacements"] = spec.replacements

    @invariant()
    def counters_of_the_status_never_fall(self) -> None:
        if self.model.job_object() is None or self.model.status_is_stale:
            return
        status = self.model.status()
        for name in COUNTERS:
            assert status.get(name, 0) >= self.counters.get(name, 0), name
            self.counters[name] = status.get(name, 0)

    @invariant()
    def times_never_go_back(self) -> None:
        if self.model.job_object() is None or self.model.status_is_stale:
            self.times.clear()  # the only source of a new process may be an old status
            return
        status = self.model.status()
        current = {name: status[name] for name in expected_status.TIMES if status.get(name)}
        assert not {name: time for name, time in current.items() if time < self.times.get(name, time)}
        self.times |= current

    @invariant()
    def the_status_of_a_scaled_job_has_the_time(self) -> None:
        if self.model.job_object() is None or self.model.status_is_stale:
            self.desired = 0
            return
        status = self.model.status()
        now = status.get("desiredReplicas", 0)
        assert self.desired in {0, now} or status["lastScaleTime"]
        self.desired = now

    @invariant()
    def the_time_of_a_condition_never_goes_back(self) -> None:
        if self.model.job_object() is None or self.model.status_is_stale:
            self.conditions.clear()
            return
        current = {c["type"]: (c["status"], c["lastTransitionTime"]) for c in self.model.status().get("conditions", [])}
        for name, (status, since) in current.items():
            _, was_since = self.conditions.get(name, (status, since))
            assert since >= was_since, name  # the current value may have changed and changed back in between
        self.conditions = current

    @invariant()
    def an_ended_job_remains_ended(self) -> None:
        if self.model.job_object() is None or self.model.status_is_stale:
            return
        phase = self.model.status().get("phase")
        assert self.ended in {None, phase}
        if phase in {"Succeeded", "Failed"}:
            self.ended = phase

    @invariant()
    def conditions_and_phase_agree(self) -> None:
        job = self.model.job_object()
        if job is not None and job.get("status"):
            status = read_status(job)
            assert status.phase == phase(status.conditions)
            exclusive = (ConditionType.COMPLETE, ConditionType.FAILED, ConditionType.RUNNING)
            assert sum(is_true(status.conditions, name) for name in exclusive) <= 1

    @invariant()
    def the_reason_agrees_with_the_conditions(self) -> None:
        job = self.model.job_object()
        if job is None or not job.get("status"):
            return
        status = read_status(job)
        failed = next((c for c in status.conditions if c.type == ConditionType.FAILED and c.status == "True"), None)
        if failed is not None:
            assert status.reason == failed.reason
            assert failed.reason in set(FailedReason)
        if is_true(status.conditions, ConditionType.COMPLETE):
            assert status.reason == ""

    @invariant()
    def no_two_nodes_of_the_status_have_one_rank_or_one_name(self) -> None:
        job = self.model.job_object()
        nodes = read_status(job).nodes if job is not None else ()
        ranks = [node.rank for node in nodes if node.rank is not None]
        assert len(set(ranks)) == len(ranks)
        assert len({node.name for node in nodes}) == len(nodes) <= MAX

    # The final state.

    def _check_the_end(self) -> None:
        self.model.quiesce()
        self._confirm_everything()
        self.counters_of_the_status_never_fall()
        self.an_ended_job_remains_ended()
        if self.deleted:
            self._check_nothing_is_left()
        elif self.ended or self.model.status().get("phase") in {"Succeeded", "Failed"}:
            self._check_no_pod_still_runs()
        else:
            self._check_pods_are_as_specified_20()
        expected_status.check(self.model)
        self.no_pod_name_is_created_twice_12()

    def _confirm_everything(self) -> None:
        self.kubelets_confirm_deletions()
        self.model.quiesce()

    def _check_nothing_is_left(self) -> None:
        assert not self.model.pods()
        assert not self.model.store.range(self.model.keys.everything).kvs

    def _check_no_pod_still_runs(self) -> None:
        self.model.now_s += 60.0
        self.model.quiesce()
        self._confirm_everything()
        self._check_only_ended_pods_exist()
        self._check_that_it_never_starts_again()

    def _check_only_ended_pods_exist(self) -> None:
        assert not [name_of(pod) for pod in self.model.pods() if pod_phase(pod) in {"Pending", "Running"}]

    def _check_that_it_never_starts_again(self) -> None:
        """Etcd loses its data, a newer operator has written the status, and an operator of this version starts."""
        self.model.leave_newer_status()
        self.model.lose_keys()
        self.model.crash(land=[])
        self.model.quiesce()
        self._check_only_ended_pods_exist()
        self.an_ended_job_remains_ended()

    def _check_pods_are_as_specified_20(self) -> None:
        obj = self.model.job_object()
        assert obj is not None
        live = {name_of(pod) for pod in self.model.pods() if is_live(pod)}
        if obj["spec"].get("suspend"):
            assert not self.model.pods()
        elif not self._finished_members():
            assert live == self.model.named()
            assert len(live) == parse(obj).spec.desired_nodes
            images = {pod["spec"]["containers"][0]["image"] for pod in self.model.pods() if is_live(pod)}
            assert images == {obj["spec"]["template"]["spec"]["containers"][0]["image"]}
            self._check_the_disruption_budget(parse(obj).spec.effective_min)

    def _check_the_disruption_budget(self, lowest: int) -> None:
        [budget] = self.model.cluster.objects(Resource.DISRUPTION_BUDGET)
        assert budget["spec"]["minAvailable"] == lowest

    def _finished_members(self) -> set[tuple[int, str]]:
        state = self.model.state()
        if state is None or state.phase is not RoundPhase.ACTIVE:
            return set()
        keys = {kv.key for kv in self.model.store.range(self.model.keys.completions(state.round)).kvs}
        return {
            (m.slot, m.incarnation) for m in state.members if self.model.keys.completion(state.round, m.slot) in keys
        }


TestReconcile = pytest.mark.timeout(3600)(ReconcileMachine.TestCase)  # the number of steps is the bound, not the time
TestReconcile.settings = settings(
    max_examples=5000 if NIGHTLY else 80,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
