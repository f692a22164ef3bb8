"""Whole histories of one job with the real operator and I/O in memory, from `kubectl apply` to the end."""

import functools
from dataclasses import replace
from typing import Any

from elasticjob_api.bootstrap import bootstrap_of, decode_bootstrap
from elasticjob_api.constants import ENV_KEEP_PERSIST_TO, ENV_KEEP_PERSISTED, ENV_SPEC
from elasticjob_api.keys import Keys, job_prefix
from elasticjob_api.records import KeepReport, Progress, SpecRecord, StartReport, WorkerState, decode, encode
from elasticjob_api.rendezvous_state import Cause, RoundPhase
from elasticjob_etcd.interface import Put, Txn
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.objects import is_terminating, name_of, uid_of
from testing.operator_history import NAMESPACE, OperatorHistory, manifest, operator_history, running


async def test_a_new_job_gets_its_pods_named_by_the_map() -> None:
    async with operator_history(replicas=3) as stage:
        await stage.until("3 pods", lambda: len(stage.pods()) == 3)
        spec = stage.spec()
        assert spec is not None
        assert {owner.pod for owner in spec.slots.values()} == stage.pod_names()
        assert sorted(map(stage.slot_of, stage.pods())) == [0, 1, 2]


async def test_the_bootstrap_of_the_pods_is_still_current_when_all_of_them_run() -> None:
    """Otherwise each agent would have to read the spec with its map of all slots."""
    async with operator_history(replicas=3, rendezvous={"keepAliveSeconds": 9}) as stage:
        await running(stage, 3)
        spec = await stage.etcd.get(stage.keys.spec)
        assert spec is not None
        briefs = [decode_bootstrap(_variable(pod, ENV_SPEC)) for pod in stage.pods()]
        assert briefs == [bootstrap_of(decode(SpecRecord, spec.value), spec.mod_revision)] * 3
        assert briefs[0].keep_alive_s == 9.0


def _variable(pod: Object, name: str) -> str:
    (value,) = [env["value"] for env in pod["spec"]["containers"][0]["env"] if env["name"] == name]
    return str(value)


async def test_a_new_job_gets_a_headless_service() -> None:
    async with operator_history(replicas=1) as stage:
        await stage.until("a service", lambda: stage.cluster.objects(Resource.SERVICE))
        assert stage.cluster.objects(Resource.SERVICE)[0]["spec"]["clusterIP"] == "None"


async def test_the_status_shows_each_phase_from_pending_to_running() -> None:
    async with operator_history(replicas=2) as stage:
        await stage.until("phase Pending", lambda: stage.status().get("phase") == "Pending")
        await stage.run_pods(2)
        await stage.until("phase Starting", lambda: stage.status().get("phase") == "Starting")
        await stage.close_round()
        await stage.until("phase Running", lambda: stage.status().get("phase") == "Running")
        status = stage.status()
        assert (status["readyReplicas"], status["worldSize"], status["rendezvousRound"]) == (2, 4, 1)


async def test_worker_states_and_nodes_reach_the_status() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        await stage.until("4 running", lambda: stage.status()["workerStates"]["running"] == 4)
        nodes = stage.status()["nodes"]
        assert [(node["name"], node["rank"], node["ranks"]) for node in nodes] == [
            ("digits-0", 0, "RR"),
            ("digits-1", 1, "RR"),
        ]


async def test_a_failed_pod_is_replaced_under_a_new_name_and_counted_once() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        failed = stage.pod(1)
        await stage.end_pod(failed, exit_code=1)
        await stage.until("another pod", lambda: name_of(failed) not in stage.pod_names() and len(stage.pods()) == 2)
        await stage.until("the count", lambda: stage.status()["podReplacements"] == 1)
        assert stage.slot_of(stage.pod(1)) == 1
        assert [name_of(pod) for pod in stage.kept_pods()] == [name_of(failed)]


async def test_the_agent_of_a_failed_pod_is_evicted() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        await stage.end_pod(stage.pod(1), exit_code=137)
        await stage.until("no node key", lambda: not [k for k in stage.etcd_keys() if "/nodes/0001." in k])
        assert [key for key in stage.etcd_keys() if "/gone/0001." in key]


async def test_a_deleted_pod_is_replaced_while_it_terminates_and_counts_for_nothing() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        doomed = stage.pod(0)
        await stage.cluster.delete(Resource.POD, NAMESPACE, name_of(doomed))
        await stage.until("a successor", lambda: len(stage.pods()) == 2)
        await stage.until("one terminating", lambda: stage.status().get("terminatingReplicas") == 1)
        assert [key for key in stage.etcd_keys() if "/nodes/0000." in key]  # it may be writing a checkpoint
        await stage.confirm_deletions()
        await stage.until("none terminating", lambda: stage.status().get("terminatingReplicas") == 0)
        assert stage.status()["podReplacements"] == 0


async def test_scaling_up_adds_the_next_slots() -> None:
    async with operator_history(replicas=2, minReplicas=1, maxReplicas=4) as stage:
        await running(stage, 2)
        before = stage.pod_names()
        await stage.scale(replicas=4)
        await stage.until("4 pods", lambda: len(stage.pods()) == 4)
        assert before < stage.pod_names()
        await stage.until("phase Resizing", lambda: stage.status()["phase"] == "Resizing")


async def test_scaling_down_takes_the_highest_slots() -> None:
    async with operator_history(replicas=3, minReplicas=1, maxReplicas=4) as stage:
        await running(stage, 3)
        survivors = {name_of(stage.pod(slot)) for slot in (0, 1)}
        await stage.scale(replicas=2)
        await stage.until("2 pods", lambda: stage.pod_names() == survivors)
        spec = stage.spec()
        assert spec is not None
        assert spec.desired == 2


async def test_suspending_frees_all_pods_and_resuming_opens_the_next_round_with_new_ones() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        before = stage.pod_names()
        await stage.scale(suspend=True)
        await stage.until("no pods", lambda: not stage.pods())
        await stage.confirm_deletions()
        await stage.until("phase Suspended", lambda: stage.status()["phase"] == "Suspended")
        state = stage.state()
        assert state is not None
        assert (state.phase, state.round) == (RoundPhase.SUSPENDED, 1)
        await stage.scale(suspend=False)
        await stage.until("2 pods", lambda: len(stage.pods()) == 2)
        resumed = stage.state()
        assert resumed is not None
        assert (resumed.phase, resumed.round, resumed.has_verdict) == (RoundPhase.FORMING, 2, True)
        assert not before & stage.pod_names()


async def test_a_job_created_suspended_has_neither_pods_nor_keys() -> None:
    async with operator_history(replicas=2, suspend=True) as stage:
        await stage.until("phase Suspended", lambda: stage.status().get("phase") == "Suspended")
        assert not stage.pods()
        assert not stage.etcd_keys()


async def test_the_status_shows_a_worker_failure_with_its_root_cause() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        await stage.fail_worker(1)
        await stage.until("phase Restarting", lambda: stage.status()["phase"] == "Restarting")
        failure = stage.status()["lastFailure"]
        assert (failure["round"], failure["exitCode"], failure["signal"]) == (1, 137, "SIGKILL")
        assert stage.status()["restarts"] == 1
        await stage.until("an event", lambda: "WorkerFailed" in stage.events())


async def test_success_ends_the_job_and_keeps_its_pods_that_ended() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        await stage.finish(0, 1)
        await stage.end(RoundPhase.SUCCEEDED, Cause.SUCCEEDED)
        await stage.until("phase Succeeded", lambda: stage.status()["phase"] == "Succeeded")
        for pod in stage.pods():
            await stage.end_pod(pod, exit_code=0)
        assert stage.status()["workerStates"]["succeeded"] == 4
        assert stage.status()["completionTime"]
        assert len(stage.pods()) == 2


async def test_a_failure_written_by_the_leader_ends_the_job_with_its_reason() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        await stage.end(RoundPhase.FAILED, Cause.MAX_RESTARTS, "4 restarts, more than maxRestarts (3)")
        await stage.until("phase Failed", lambda: stage.status()["phase"] == "Failed")
        assert stage.condition("Failed")["reason"] == "MaxRestartsExceeded"


async def test_more_failed_pods_than_the_backoff_limit_fail_the_job() -> None:
    async with operator_history(replicas=2, backoffLimit=0) as stage:
        await running(stage, 2)
        await stage.end_pod(stage.pod(0), exit_code=1)
        await stage.until("phase Failed", lambda: stage.status()["phase"] == "Failed")
        assert stage.condition("Failed")["reason"] == "BackoffLimitExceeded"
        state, spec = stage.state(), stage.spec()
        assert state is not None
        assert spec is not None
        assert (state.phase, spec.slots) == (RoundPhase.FAILED, {})


async def test_deleting_the_job_leaves_neither_pod_nor_key() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        await stage.cluster.delete(Resource.JOB, NAMESPACE, "digits")
        await stage.until("terminating", lambda: all(map(is_terminating, stage.cluster.objects(Resource.POD))))
        await stage.confirm_deletions()
        await stage.until("no keys", lambda: not stage.etcd_keys())
        assert not stage.cluster.objects(Resource.POD)


def leave_behind(stage: OperatorHistory, name: str, operator: str) -> str:
    """Write the slot map of a deleted job of that operator; return its key."""
    keys = Keys(job_prefix(cluster="c1", namespace=NAMESPACE, name=name, uid=f"uid-of-{name}"))
    record = SpecRecord(min=1, max=1, desired=1, operator=operator)
    stage.etcd.store.txn(Txn((), (Put(keys.spec, encode(record)),)))
    return keys.spec


async def test_leftovers_of_deleted_jobs_are_removed_and_those_of_another_installation_are_not() -> None:
    async with operator_history(replicas=1) as stage:
        await stage.stop_operator()
        theirs, ours = leave_behind(stage, "theirs", "op2"), leave_behind(stage, "ours", "op1")
        stage.start_operator()
        await stage.until("ours is gone", lambda: ours not in stage.etcd_keys())
        await stage.scale(maxRestarts=5)  # so that all earlier work comes to its end
        await stage.until("the new limit", lambda: (spec := stage.spec()) is not None and spec.max_restarts == 5)
        assert theirs in stage.etcd_keys()


async def test_a_recreated_job_starts_beside_its_terminating_predecessor() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        await stage.cluster.delete(Resource.JOB, NAMESPACE, "digits")
        new = stage.second_operator()
        await new.apply(manifest(replicas=1))
        await new.until("one new pod", lambda: len(new.pods()) == 1)
        old = uid_of(stage.job)
        assert uid_of(new.job) != old
        await stage.confirm_deletions()
        await stage.until("old keys gone", lambda: not [key for key in stage.etcd_keys() if old in key])
        assert new.spec() is not None


async def test_after_a_wipe_live_pods_are_adopted_and_rounds_continue_far_above() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        before = stage.pod_names()
        await stage.wipe()
        await stage.until("a new spec", stage.spec)
        spec = stage.spec()
        assert spec is not None
        assert {owner.pod for owner in spec.slots.values()} == before
        assert spec.first_round == 1001


async def test_an_operator_that_restarts_changes_nothing() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        pods, revision = stage.pod_names(), stage.etcd.store.revision
        await stage.stop_operator()
        stage.start_operator()
        await stage.scale(maxRestarts=5)  # so that there is a change to wait for
        await stage.until("the new limit", lambda: (spec := stage.spec()) is not None and spec.max_restarts == 5)
        assert stage.pod_names() == pods
        assert stage.etcd.store.revision == revision + 1


async def test_pods_that_ended_while_the_operator_was_away_are_replaced_under_new_names() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        await stage.stop_operator()
        lost = stage.pod(1)
        await stage.cluster.delete(Resource.POD, NAMESPACE, name_of(lost), grace_s=0.0)
        stage.start_operator()
        await stage.until("2 pods", lambda: len(stage.pods()) == 2)
        assert name_of(lost) not in stage.pod_names()
        await stage.until("evicted", lambda: not [key for key in stage.etcd_keys() if "/nodes/0001." in key])


async def test_an_invalid_spec_is_refused_with_a_message_and_a_corrected_one_is_accepted() -> None:
    async with operator_history(replicas=2, maxReplicas=1) as stage:
        await stage.until("refused", lambda: stage.condition("Accepted").get("status") == "False")
        assert "spec.replicas" in stage.condition("Accepted")["message"]
        assert not stage.pods()
        await stage.scale(replicas=1)
        await stage.until("1 pod", lambda: len(stage.pods()) == 1)
        await stage.until("accepted", lambda: stage.condition("Accepted")["status"] == "True")


async def test_a_job_that_another_controller_manages_is_left_alone() -> None:
    async with operator_history(replicas=2, managedBy="example.com/other") as stage:
        ours = stage.second_operator()
        await ours.apply(manifest("ours", replicas=1))
        await ours.until("the other job's pod", ours.pods)
        assert not stage.pods()
        assert not stage.status()


async def test_an_outage_of_etcd_is_shown_until_it_ends() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        stage.etcd.disconnect()
        await stage.cluster.delete(Resource.POD, NAMESPACE, name_of(stage.pod(0)), grace_s=0.0)
        unavailable = "RendezvousUnavailable"
        await stage.until("unavailable", lambda: stage.condition(unavailable).get("status") == "True")
        assert len(stage.pods()) == 1
        stage.etcd.reconnect()
        await stage.until("2 pods", lambda: len(stage.pods()) == 2)
        await stage.until("available", lambda: stage.condition(unavailable)["status"] == "False")


async def test_progress_alone_reaches_the_status() -> None:
    async with operator_history(replicas=1) as stage:
        await running(stage, 1)
        [member] = await stage.members()
        for step in (3, 4):
            await stage.report(member, 0, WorkerState.HEALTHY, Progress(step=step, total=10))
            shown = functools.partial(_status_has_step, stage, step)
            await stage.until(f"step {step}", shown)


async def test_cpu_alone_reaches_the_status_of_a_job_without_progress() -> None:
    async with operator_history(replicas=1) as stage:
        await running(stage, 1)
        [member] = await stage.members()
        for cpu in (30, 40):
            await stage.report(member, 0, WorkerState.HEALTHY, cpu_percent=cpu)
            shown = functools.partial(_status_has_cpu, stage, [cpu, cpu])
            await stage.until(f"{cpu} %", shown)


async def test_the_start_of_the_workers_and_then_their_first_output_reach_the_status() -> None:
    async with operator_history(replicas=1) as stage:
        await running(stage, 1)
        [member] = await stage.members()
        cold = StartReport(cold_reason="FOO differs")
        await stage.report(member, 0, WorkerState.HEALTHY, start=cold)
        start = {"kind": "Cold", "reason": "FOO differs"}
        await stage.until("the start", lambda: stage.status()["nodes"][0].get("start") == start)
        await stage.report(member, 0, WorkerState.HEALTHY, start=replace(cold, first_output_s=5.1))
        start_with_output = {**start, "firstOutputMilliseconds": 5100}
        await stage.until("the output", lambda: stage.status()["nodes"][0].get("start") == start_with_output)


async def test_kept_steps_reach_the_record_the_status_and_an_event_and_are_gone_with_the_pods() -> None:
    async with operator_history(replicas=2, keep={"sizeLimit": "1Gi", "copies": 1}) as stage:
        await running(stage, 2)
        spec = stage.etcd.store.get(stage.keys.spec)
        assert spec is not None
        assert decode(SpecRecord, spec.value).keep_copies == 1
        first, second = await stage.members()
        kept = KeepReport(round=2, step=120, copies=1, held_bytes=7, committed_ns=1_767_225_600 * 10**9, copy_s=0.25)
        await stage.report(first, 0, WorkerState.HEALTHY, keep=kept)
        await stage.report(second, 1, WorkerState.HEALTHY, keep=KeepReport(held_bytes=7, degraded="no peer"))
        await stage.until("degraded", lambda: stage.condition("KeepDegraded").get("status") == "True")
        assert stage.condition("KeepDegraded")["message"] == "digits-1: no peer"
        await stage.until("the event", lambda: "KeepDegraded" in stage.events())
        shown = {"step": 120, "round": 2, "copies": 1, "bytes": 14, "skipped": 0, "degraded": "no peer"}
        times = {"committedTime": "2026-01-01T00:00:00Z", "copyMilliseconds": 250}
        assert stage.status()["keep"] == {**shown, **times, "persistError": ""}
        assert [node["keep"]["bytes"] for node in stage.status()["nodes"]] == [7, 7]
        await stage.report(second, 1, WorkerState.HEALTHY, keep=kept)
        await stage.until("well again", lambda: stage.condition("KeepDegraded").get("reason") == "AllKept")
        await stage.scale(suspend=True)
        await stage.until("no pods", lambda: not stage.pods())
        await stage.confirm_deletions()
        await stage.until("suspended", lambda: stage.condition("Suspended").get("status") == "True")
        await stage.until("nothing kept", lambda: "keep" not in stage.status())


def _persisting() -> dict[str, Any]:
    """Return the spec of a job that writes its steps to a shared volume."""
    mounts = {"volumeMounts": [{"name": "shared", "mountPath": "/ckpt"}]}
    container = {**manifest()["spec"]["template"]["spec"]["containers"][0], **mounts}
    claim = {"name": "shared", "persistentVolumeClaim": {"claimName": "checkpoints"}}
    template = {"spec": {"containers": [container], "volumes": [claim]}}
    return {"replicas": 2, "keep": {"sizeLimit": "1Gi", "persistTo": "/ckpt"}, "template": template}


async def test_a_persisted_step_and_the_reason_without_one_reach_the_status_and_outlive_a_suspension() -> None:
    async with operator_history(**_persisting()) as stage:
        await running(stage, 2)
        first, second = await stage.members()
        whole = KeepReport(persisted_step=100, persisted_ns=1_767_225_600 * 10**9)
        await stage.report(first, 0, WorkerState.HEALTHY, keep=whole)
        await stage.report(second, 1, WorkerState.HEALTHY, keep=replace(whole, persist_error="the disk is full"))
        await stage.until("the reason", lambda: stage.condition("KeepDegraded").get("reason") == "PersistFailed")
        assert stage.condition("KeepDegraded")["message"] == "digits-1: the disk is full"
        await stage.until("the event", lambda: "PersistFailed" in stage.events())
        assert "KeepDegraded" not in stage.events()
        on_disk = {"persistedStep": 100, "persistedTime": "2026-01-01T00:00:00Z"}
        assert stage.status()["keep"].items() >= {**on_disk, "persistError": "the disk is full"}.items()
        await stage.scale(suspend=True)
        await stage.until("no pods", lambda: not stage.pods())
        await stage.confirm_deletions()
        await stage.until("suspended", lambda: stage.condition("Suspended").get("status") == "True")
        # Its agents have not taken the reason back, so a newer step may be lost.
        assert stage.status()["keep"].items() >= {**on_disk, "persistError": "the disk is full"}.items()


async def test_a_suspended_job_without_persist_to_forgets_its_step_and_may_get_another_directory() -> None:
    async with operator_history(**_persisting()) as stage:
        await running(stage, 2)
        whole = KeepReport(persisted_step=100, persisted_ns=10**9)
        await stage.report((await stage.members())[0], 0, WorkerState.HEALTHY, keep=whole)
        await stage.until("the step", lambda: stage.status().get("keep", {}).get("persistedStep") == 100)
        await stage.scale(suspend=True)
        await stage.until("no pods", lambda: not stage.pods())
        await stage.confirm_deletions()
        await stage.until("suspended", lambda: stage.condition("Suspended").get("status") == "True")
        assert stage.status()["keep"]["persistedStep"] == 100
        await stage.scale(keep={"persistTo": None})
        await stage.until("no step", lambda: "keep" not in stage.status())
        seen = stage.status()["observedGeneration"]
        await stage.scale(keep={"persistTo": "/ckpt/other"})
        await stage.until("a look", lambda: stage.status()["observedGeneration"] > seen)
        await stage.scale(suspend=False)
        await stage.until("new pods", lambda: len(stage.pods()) == 2)
        names = {env["name"] for pod in stage.pods() for env in pod["spec"]["containers"][0]["env"]}
        assert ENV_KEEP_PERSIST_TO in names
        assert ENV_KEEP_PERSISTED not in names


async def test_a_volume_of_kept_steps_without_memory_for_it_is_remarked_at_once() -> None:
    async with operator_history(replicas=2, keep={"sizeLimit": "1Gi"}) as stage:
        spec = stage.job["spec"]
        container = {**spec["template"]["spec"]["containers"][0], "resources": {"limits": {"memory": "512Mi"}}}
        await stage.scale(suspend=True)
        await stage.scale(template={"spec": {"containers": [container]}}, suspend=False)
        await stage.until("the event", lambda: "KeepTooSmall" in stage.events())
        assert "memory limit of 512Mi" in stage.condition("KeepDegraded")["message"]


def _status_has_cpu(stage: OperatorHistory, cpu: list[int]) -> bool:
    return [node.get("rankCpuPercent") for node in stage.status().get("nodes", [])] == [cpu]


def _status_has_step(stage: OperatorHistory, step: int) -> bool:
    found = stage.status().get("progress", {})
    return (found.get("step"), found.get("percentage")) == (step, 10 * step)


def _slots_that_may_run(stage: OperatorHistory) -> list[int]:
    """Return the slots of pods that may run, terminating ones included."""
    return sorted(map(stage.slot_of, stage.unended_pods()))


async def test_with_policy_failed_a_resumed_job_waits_for_the_earlier_pods() -> None:
    async with operator_history(replicas=2, podReplacementPolicy="Failed") as stage:
        await running(stage, 2)
        await stage.scale(suspend=True)
        await stage.until("all terminate", lambda: not stage.pods())
        await stage.scale(suspend=False)
        await stage.until("a reason", lambda: stage.status().get("reason") == "PredecessorRuns")
        assert _slots_that_may_run(stage) == [0, 1]
        await stage.confirm_deletions()
        await stage.run_pods(2)


async def test_with_policy_failed_a_lost_pod_ends_before_its_replacement_is_created() -> None:
    async with operator_history(
        replicas=3, minReplicas=1, podReplacementPolicy="Failed", lostPodTimeoutSeconds=1
    ) as stage:
        await running(stage, 3)
        lost = name_of(stage.pod(0))
        await stage.leave(stage.pod(0))
        await stage.until("its deletion", lambda: lost not in stage.pod_names())
        await stage.until("a reason", lambda: lost in stage.status().get("message", ""))
        assert _slots_that_may_run(stage) == [0, 1, 2]
        await stage.confirm_deletions()
        await stage.until("its replacement", lambda: len(stage.pods()) == 3)


async def test_with_policy_failed_a_removed_slot_returns_when_its_pod_has_ended() -> None:
    async with operator_history(replicas=3, minReplicas=1, podReplacementPolicy="Failed") as stage:
        await running(stage, 3)
        await stage.scale(replicas=2)
        await stage.until("the third goes", lambda: len(stage.pods()) == 2)
        await stage.scale(replicas=3)
        await stage.until("a map of three", lambda: len(stage.owners()) == 3)
        other = stage.second_operator()
        await other.apply(manifest("other", replicas=1))
        await other.until("a pod of a job that came later", other.pods)
        assert _slots_that_may_run(stage) == [0, 1, 2]
        await stage.confirm_deletions()
        await stage.until("the third is back", lambda: len(stage.pods()) == 3)
