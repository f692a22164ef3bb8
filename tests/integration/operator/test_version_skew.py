"""The present operator beside another version: its agents' records, its status, and its CRD's fields.

Records of a newer version are made from those of this version (`testing.newer_version`). The tests check the policy in
docs/version-skew.md.
"""

import contextlib
import functools
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from elasticjob_api import constants
from elasticjob_api.records import KeepReport, NodeReport, NodeSamples, Progress, WorkerState, decode, encode
from elasticjob_api.rendezvous_state import Cause, RoundPhase, encode_state
from elasticjob_etcd.interface import Op, Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.objects import name_of
from testing.newer_version import NEW_FIELD, NEW_VALUE, newer_json, newer_op
from testing.operator_history import NAMESPACE, OperatorHistory, manifest, operator_history, running


class NewerAgents(OperatorHistory):
    """A stage whose agents and leader are of a newer version."""

    async def _put(self, *ops: Op) -> None:
        # A newer agent may write keys that this operator does not know, as samples once were.
        reports = [op for op in ops if isinstance(op, Put) and op.key.startswith(self.keys.reports)]
        unknown = [replace(op, key=f"{op.key}/future") for op in reports]
        await super()._put(*map(newer_op, [*ops, *unknown]))


class EarlierAgents(OperatorHistory):
    """A stage whose agents write samples into their reports."""

    async def _put(self, *ops: Op) -> None:
        puts = {op.key: op for op in ops if isinstance(op, Put)}
        await super()._put(*(_with_samples(op, puts.get(f"{op.key}/samples")) for op in ops if not _is_samples(op)))


class EarlierKeepers(OperatorHistory):
    """A stage whose agents keep steps, and know neither persisted steps nor times of copies."""

    async def _put(self, *ops: Op) -> None:
        await super()._put(*(_without_new_fields_of_keep(op) for op in ops))


def _without_new_fields_of_keep(op: Op) -> Op:
    if not isinstance(op, Put) or not _is_samples(op):
        return op
    samples = json.loads(op.value)
    known = ("round", "step", "copies", "heldBytes", "sizeLimitBytes", "skipped", "degraded")
    samples["keep"] = {name: samples["keep"][name] for name in known if name in samples.get("keep", {})}
    return replace(op, value=json.dumps(samples).encode())


def _is_samples(op: Op) -> bool:
    return op.key.endswith("/samples")


def _with_samples(op: Op, put: Put | None) -> Op:
    """Return the report with the samples that a newer agent writes beside it."""
    if put is None or not isinstance(op, Put):
        return op
    report, samples = decode(NodeReport, op.value), decode(NodeSamples, put.value)
    workers = tuple(replace(w, cpu_percent=cpu) for w, cpu in zip(report.workers, samples.cpu_percent, strict=True))
    return replace(op, value=encode(replace(report, workers=workers, progress=samples.progress, time_ns=1)))


@contextlib.asynccontextmanager
async def operated(stage: OperatorHistory, **spec: Any) -> AsyncIterator[OperatorHistory]:
    stage.start_operator()
    try:
        await stage.apply(manifest(**spec))
        yield stage
    finally:
        await stage.stop_operator()
        await stage.etcd.close()


# Earlier agents.


async def test_progress_and_cpu_of_earlier_agents_reach_the_status() -> None:
    async with operated(EarlierAgents(), replicas=1) as stage:
        await running(stage, 1)
        [member] = await stage.members()
        for step in (3, 4):
            await stage.report(member, 0, WorkerState.HEALTHY, Progress(step=step, total=10), cpu_percent=10.0 * step)
            await stage.until(f"step {step}", functools.partial(_shows, stage, step, 10 * step))
        assert [kv.key for kv in stage.etcd.store.range(stage.keys.reports).kvs if kv.key.endswith("/samples")] == []


def _shows(stage: OperatorHistory, step: int, cpu: int) -> bool:
    [node] = stage.status()["nodes"]
    progress = stage.status().get("progress", {})
    return (progress.get("step"), node["ranks"], node.get("rankCpuPercent")) == (step, "RR", [cpu, cpu])


async def test_a_job_that_persists_steps_runs_with_agents_that_do_not_know_how() -> None:
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/ckpt"}]}
    container = {**manifest()["spec"]["template"]["spec"]["containers"][0], **mount}
    volume = {"name": "shared", "persistentVolumeClaim": {"claimName": "c"}}
    template = {"spec": {"containers": [container], "volumes": [volume]}}
    keep = {"sizeLimit": "1Gi", "copies": 0, "persistTo": "/ckpt", "resume": False}
    async with operated(EarlierKeepers(), replicas=1, keep=keep, template=template) as stage:
        await running(stage, 1)
        [member] = await stage.members()
        kept = KeepReport(round=1, step=7, copies=0, held_bytes=5, committed_ns=10**18, copy_s=1.0, persisted_step=6)
        await stage.report(member, 0, WorkerState.HEALTHY, keep=kept)
        await stage.until("the step", lambda: stage.status().get("keep", {}).get("step") == 7)
        unknown = {"committedTime", "copyMilliseconds", "persistedStep", "persistedTime"}
        assert unknown & stage.status()["keep"].keys() == set()
        assert stage.condition("KeepDegraded")["reason"] == "AllKept"
        await stage.end(RoundPhase.SUCCEEDED, Cause.SUCCEEDED)
        await stage.until("succeeded", lambda: stage.status().get("phase") == "Succeeded")


# Newer agents.


async def test_a_job_of_newer_agents_runs_recovers_and_ends() -> None:
    async with operated(NewerAgents(), replicas=2) as stage:
        await running(stage, 2)
        await stage.until("nodes", lambda: [node.get("ranks") for node in stage.status()["nodes"]] == ["RR", "RR"])
        await stage.fail_worker(1)
        await stage.until("the failure", lambda: stage.status().get("lastFailure", {}).get("exitCode") == 137)
        await stage.close_round(Cause.WORKER_FAILED)
        await stage.until("round 3", lambda: stage.status().get("rendezvousRound") == 3)
        await stage.end(RoundPhase.SUCCEEDED, Cause.SUCCEEDED)
        await stage.until("succeeded", lambda: stage.status().get("phase") == "Succeeded")
        assert stage.condition("RendezvousUnavailable")["status"] == "False"


async def test_unknown_values_of_newer_agents_are_shown_as_unknown() -> None:
    async with operator_history(replicas=1) as stage:
        await running(stage, 1)
        state = stage.state()
        assert state is not None
        text = encode_state(state).replace(b"cause=First", b"cause=Replaced")
        await stage.etcd.txn(Txn((), (Put(stage.keys.rendezvous_state, text.replace(b"round=1", b"round=2")),)))
        await stage.report(state.members[0], 0, WorkerState.HEALTHY)
        await stage.until("the round", lambda: stage.status().get("rendezvousRound") == 2)
        assert [each["cause"] for each in stage.status()["rounds"]] == ["First", "Unknown"]
        kv, _ = stage.etcd.store.range(stage.keys.reports).kvs
        paused = kv.value.replace(b"HEALTHY", b"PAUSED")
        await stage.etcd.txn(Txn((), (Put(kv.key, paused, kv.lease),)))
        await stage.until("the ranks", lambda: stage.status()["nodes"][0].get("ranks") == "UU")


async def test_an_unknown_rendezvous_state_causes_no_action_and_is_named_in_the_status() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        pods, known = stage.pod_names(), stage.etcd.store.get(stage.keys.rendezvous_state)
        assert known is not None
        strange = known.value.replace(b"state=active", b"state=draining")
        await stage.etcd.txn(Txn((), (Put(stage.keys.rendezvous_state, strange),)))
        unavailable = "RendezvousUnavailable"
        await stage.until("unreadable", lambda: stage.condition(unavailable).get("reason") == "RecordUnreadable")
        assert "draining" in stage.condition(unavailable)["message"]
        await stage.scale(replicas=3, maxReplicas=3)
        await stage.until("a look", lambda: stage.status().get("observedGeneration") == 2)
        assert (stage.pod_names(), stage.status()["startTime"] > "") == (pods, True)
        await stage.etcd.txn(Txn((), (Put(stage.keys.rendezvous_state, known.value),)))
        await stage.until("3 pods", lambda: len(stage.pods()) == 3)


# A newer operator's status.

FINISHED: list[Any] = [
    pytest.param(lambda status: status, id="as this version wrote it"),
    pytest.param(newer_json, id="as a newer version wrote it"),
    pytest.param(lambda status: {**newer_json(status), "phase": "Dreaming"}, id="with a new phase"),
    pytest.param(
        lambda status: {"conditions": status["conditions"], "nodes": 5, "replicas": "x"}, id="only its conditions"
    ),
    pytest.param(lambda status: {"completionTime": status["completionTime"]}, id="only its completion time"),
]


@pytest.mark.parametrize("doctored", FINISHED)
async def test_a_finished_job_is_never_started_again(doctored: Any) -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        await stage.end(RoundPhase.SUCCEEDED, Cause.SUCCEEDED)
        await stage.until("succeeded", lambda: stage.status().get("phase") == "Succeeded")
        await _lose_everything_but_the_status(stage)
        await stage.cluster.patch_status(Resource.JOB, NAMESPACE, name_of(stage.job), doctored(stage.status()))
        stage.start_operator()
        await stage.scale(maxRestarts=5)
        await stage.until("a look", lambda: stage.status().get("observedGeneration") == 2)
        assert (stage.pods(), stage.etcd_keys()) == ([], [])
        assert stage.condition("Running").get("status") != "True"


async def _lose_everything_but_the_status(stage: OperatorHistory) -> None:
    """End the operator, delete all pods, and empty etcd, as when a member with an emptyDir moves."""
    await stage.stop_operator()
    for pod in stage.cluster.objects(Resource.POD):
        await stage.cluster.remove_pod(NAMESPACE, name_of(pod), pod["metadata"]["uid"])
    stage.etcd = InMemoryEtcd(InMemoryStore())


async def test_a_running_job_keeps_its_start_its_counters_and_unknown_fields() -> None:
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        await stage.fail_worker(1)
        await stage.close_round(Cause.WORKER_FAILED)
        await stage.until("round 3", lambda: stage.status().get("rendezvousRound") == 3)
        await stage.stop_operator()
        before = {**stage.status(), "startTime": "2026-01-01T00:00:00Z", "lastScaleTime": "2026-01-01T00:00:00Z"}
        newer = {**newer_json(before), "nodes": [*newer_json(before["nodes"]), {"name": 7}]}
        await stage.cluster.patch_status(Resource.JOB, NAMESPACE, name_of(stage.job), newer)
        await stage.wipe()
        stage.start_operator()
        await stage.scale(maxRestarts=5)
        await stage.until("a look", lambda: stage.status().get("observedGeneration") == 2)
        now = stage.status()
        assert (now["startTime"], now["restarts"]) == (before["startTime"], before["restarts"])
        assert [each["round"] for each in now["rounds"]] == [each["round"] for each in before["rounds"]]
        assert now[NEW_FIELD] == NEW_VALUE
        assert now["lastFailure"] == newer["lastFailure"]


# A newer CRD.


async def test_a_running_job_with_an_unknown_field_is_still_reconciled() -> None:
    async with operator_history(replicas=2, minReplicas=1, maxReplicas=3, ttlSecondsAfterFinished=0) as stage:
        await running(stage, 2)
        await stage.scale(newThing={"v": 1})
        await stage.until("named", lambda: "spec.newThing" in stage.condition("UnknownFields").get("message", ""))
        assert stage.condition("UnknownFields")["reason"] == "Ignored"
        lost = stage.pod(1)
        await stage.cluster.delete(Resource.POD, NAMESPACE, name_of(lost), grace_s=0.0)
        await stage.until("a replacement", lambda: len(stage.pods()) == 2 and name_of(lost) not in stage.pod_names())
        await stage.scale(replicas=3)
        await stage.until("scaled", lambda: len(stage.pods()) == 3)
        await running(stage, 3)
        await stage.end(RoundPhase.SUCCEEDED, Cause.SUCCEEDED)
        await stage.until("deleted by its TTL", lambda: not stage.cluster.objects(Resource.JOB))
        assert stage.events().count("UnknownFields") == 1


async def test_a_running_job_with_an_unknown_field_is_suspended_and_then_waits() -> None:
    async with operator_history(replicas=1) as stage:
        await running(stage, 1)
        await stage.scale(newThing="x", suspend=True)
        await stage.until("no pods", lambda: not stage.pods())
        await stage.confirm_deletions()
        await stage.until("suspended", lambda: stage.condition("Suspended").get("status") == "True")
        await stage.scale(suspend=False)
        await stage.until("it waits", lambda: stage.status().get("reason") == "UnknownFields")
        assert stage.condition("UnknownFields")["reason"] == "Waits"
        await stage.scale(newThing=None)
        await stage.until("a pod", lambda: len(stage.pods()) == 1)


@pytest.mark.parametrize("field", ["agent", "keep"])
async def test_a_job_that_has_not_begun_waits_and_names_the_field(field: str) -> None:
    required = {"sizeLimit": "1Gi"} if field == "keep" else {}
    async with operator_history(replicas=1, **{field: {**required, "newThing": "x"}}) as stage:
        await stage.until("it waits", lambda: stage.status().get("reason") == "UnknownFields")
        assert f"spec.{field}.newThing" in stage.status()["message"]
        assert (stage.pods(), stage.etcd_keys(), "startTime" in stage.status()) == ([], [], False)
        assert "UnknownFields" in stage.events()
        await stage.scale(**{field: {"newThing": None}})
        await stage.until("a pod", lambda: len(stage.pods()) == 1)
        await stage.until("named no more", lambda: stage.condition("UnknownFields")["status"] == "False")
        assert stage.status()["startTime"]


def test_the_doctored_version_is_newer() -> None:
    """Check the premise of the other tests."""
    value: Object = {"a": [{"b": 1}], "metrics": {"loss": "1"}}
    assert newer_json(value) == {
        "a": [{"b": 1, NEW_FIELD: NEW_VALUE}],
        "metrics": {"loss": "1"},
        NEW_FIELD: NEW_VALUE,
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"agent": {"ofTomorrow": "x"}},
        {"agent": {"mode": "OfTomorrow"}},
        {"agent": {"warmStart": "OfTomorrow"}},
        {"keep": {"sizeLimit": "1Gi", "ofTomorrow": "x"}},
    ],
)
async def test_a_running_job_whose_pods_have_a_field_of_a_newer_version_keeps_them(spec: dict[str, Any]) -> None:
    """Its hash differs from that of the newer version on the pods, but its template does not."""
    async with operator_history(replicas=2) as stage:
        await running(stage, 2)
        pods = stage.pod_names()
        await stage.stop_operator()
        await stage.scale(**spec)
        for pod in stage.pods():
            await stage.relabel(pod, {constants.LABEL_TEMPLATE_HASH: "0fnewerone"})
        stage.start_operator()
        await stage.until("the field named", lambda: stage.condition("UnknownFields").get("status") == "True")
        other = stage.second_operator()
        await other.apply(manifest("other", replicas=1))
        await other.until("a pod of a job that came later", other.pods)
        assert stage.pod_names() == pods
        assert "TemplateChanged" not in stage.events()
