"""Agents without a lease: their workers may still train, so no healthy pod is deleted, and the status shows it.

The operator is the real one; what it watches is in memory. Agents fall silent by losing their leases.
"""

import asyncio
from typing import Any

import pytest

from elasticjob_api.rendezvous_state import Cause
from elasticjob_etcd.interface import KeyValue, Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.objects import name_of, uid_of
from testing.operator_history import NAMESPACE, OperatorHistory, manifest, operator_history, running

KEEP_ALIVE_S = 2
LOST: dict[str, Any] = {"lostPodTimeoutSeconds": 1, "rendezvous": {"keepAliveSeconds": KEEP_ALIVE_S}, "minReplicas": 1}


async def fall_silent(stage: OperatorHistory, *slots: int) -> None:
    for slot in slots:
        await stage.leave(stage.pod(slot))


async def until_unreachable(stage: OperatorHistory) -> None:
    await stage.until("AgentsUnreachable", lambda: stage.condition("AgentsUnreachable").get("status") == "True")


async def until_judged(stage: OperatorHistory) -> None:
    """Wait until the operator has acted on a single, later silence of another job."""
    loop = asyncio.get_running_loop()
    witness, from_s = stage.second_operator(), loop.time() + 2 * KEEP_ALIVE_S
    await witness.apply(manifest(name="witness", replicas=4, **LOST))
    await running(witness, 4)
    before = witness.pod_names()
    await stage.until("it is no silence of the same moment", lambda: loop.time() > from_s)
    await fall_silent(witness, 3)
    await witness.until("the single silent pod is replaced", lambda: len(before - witness.pod_names()) == 1)


async def test_no_pod_of_a_job_is_deleted_when_all_of_its_agents_fall_silent_at_once() -> None:
    async with operator_history(replicas=4, **LOST) as stage:
        await running(stage, 4)
        pods = stage.pod_names()
        await fall_silent(stage, 0, 1, 2, 3)
        await until_unreachable(stage)
        await until_judged(stage)
        assert stage.pod_names() == pods
        assert stage.status().get("readyReplicas", 0) == 0
        assert stage.status()["phase"] == "Starting"
        assert stage.status()["reason"] == "AgentsUnreachable"
        assert stage.condition("Running")["status"] == "Unknown"
        assert "AgentsUnreachable" in stage.events()
        times = stage.status()["lastRendezvousTime"]
        for slot in range(4):  # they join again as the same members
            await stage.join(stage.pod(slot))
        await stage.until("4 of them ready", lambda: stage.status().get("readyReplicas") == 4)
        assert stage.status()["phase"] == "Running"
        assert stage.status()["lastRendezvousTime"] == times
        await stage.until("reachable", lambda: stage.condition("AgentsUnreachable")["status"] == "False")
        assert stage.pod_names() == pods


async def test_an_unreachable_half_of_a_job_is_not_deleted_and_the_other_half_continues() -> None:
    async with operator_history(replicas=4, **LOST) as stage:
        await running(stage, 4)
        pods = stage.pod_names()
        await fall_silent(stage, 2, 3)
        await stage.close_round(Cause.NODE_LOST)
        await until_judged(stage)
        assert stage.pod_names() == pods
        assert stage.status()["phase"] == "Running"
        assert stage.status()["readyReplicas"] == 2
        assert stage.condition("Degraded")["status"] == "True"
        assert stage.condition("AgentsUnreachable")["status"] == "True"


async def test_proof_about_one_of_them_still_causes_its_replacement() -> None:
    async with operator_history(replicas=4, backoffLimit=5, **LOST) as stage:
        await running(stage, 4)
        pods = stage.pod_names()
        failed, deleted = stage.pod(0), stage.pod(1)
        await fall_silent(stage, 0, 1, 2, 3)
        await stage.end_pod(failed, exit_code=1)
        await stage.cluster.delete(Resource.POD, NAMESPACE, name_of(deleted), uid=uid_of(deleted))
        gone = {name_of(failed), name_of(deleted)}
        await stage.until("both are replaced", lambda: pods - stage.pod_names() == gone and len(stage.pods()) == 4)
        await until_judged(stage)
        assert pods - stage.pod_names() == gone


async def test_one_job_of_many_small_ones_is_left_alone_when_the_installation_falls_silent() -> None:
    async with operator_history(name="first", replicas=1, **LOST) as stage:
        stages = [stage]
        for name in ("second", "third"):
            stages.append(stage.second_operator())
            await stages[-1].apply(manifest(name=name, replicas=1, **LOST))
        for each in stages:
            await running(each, 1)
        pods = [each.pod_names() for each in stages]
        for each in stages:
            await fall_silent(each, 0)
        for each in stages:
            await until_unreachable(each)
        await until_judged(stage)
        assert [each.pod_names() for each in stages] == pods


async def test_an_operator_that_starts_while_agents_are_unreachable_deletes_no_pod() -> None:
    lost = {**LOST, "rendezvous": {"keepAliveSeconds": KEEP_ALIVE_S, "joinTimeoutSeconds": 1}}
    async with operator_history(replicas=3, **lost) as stage:
        await running(stage, 3)
        pods = stage.pod_names()
        await stage.stop_operator()
        await fall_silent(stage, 0, 1, 2)
        stage.start_operator()
        await stage.until("Unknown", lambda: stage.condition("Running")["status"] == "Unknown")
        await until_judged(stage)
        assert stage.pod_names() == pods


async def test_one_agent_that_fell_silent_before_the_operator_started_is_given_no_time_to_join() -> None:
    async with operator_history(replicas=3, **LOST) as stage:
        await running(stage, 3)
        pods, lost = stage.pod_names(), name_of(stage.pod(2))
        await stage.stop_operator()
        await fall_silent(stage, 2)
        await stage.close_round(Cause.NODE_LOST)
        stage.start_operator()
        await stage.until("it is replaced", lambda: pods - stage.pod_names() == {lost} and len(stage.pods()) == 3)


async def test_the_last_missing_agent_gets_its_whole_time_and_its_pod_is_then_replaced() -> None:
    async with operator_history(replicas=3, **LOST) as stage:
        await running(stage, 3)
        pods = stage.pod_names()
        hung = name_of(stage.pod(2))
        await fall_silent(stage, 0, 1, 2)
        await until_unreachable(stage)
        for slot in (0, 1):
            await stage.join(stage.pod(slot))
        await stage.until("it is replaced", lambda: pods - stage.pod_names() == {hung} and len(stage.pods()) == 3)


def durable_keys(stage: OperatorHistory) -> list[KeyValue]:
    """Return what a backup has: the keys without a lease."""
    return [kv for kv in stage.etcd.store.range("/elasticjob/").kvs if not kv.lease]


async def restore(stage: OperatorHistory, backup: list[KeyValue], *newer: Put) -> None:
    """Become another cluster with the keys of the backup; agents that are first back have written `newer`."""
    stage.etcd.store.wipe()
    puts = {kv.key: Put(kv.key, kv.value) for kv in backup} | {put.key: put for put in newer}
    await InMemoryEtcd(stage.etcd.store).txn(Txn((), tuple(puts.values())))


async def newest_round(stage: OperatorHistory) -> tuple[Put, ...]:
    """Return the writes by which an agent puts the newest round into a restored etcd."""
    found = [await stage.etcd.get(key) for key in (stage.keys.rendezvous_state, stage.keys.members)]
    return tuple(Put(kv.key, kv.value) for kv in found if kv is not None)


async def test_pods_of_slots_that_are_newer_than_a_restored_map_remain_while_their_agents_are_away() -> None:
    """The first agent that is back writes the newest round; the operator then sees no sign of a restore in it."""
    async with operator_history(replicas=2, maxReplicas=4, **LOST) as stage:
        await running(stage, 2)
        backup = durable_keys(stage)
        await stage.scale(replicas=4)
        await stage.run_pods(4)
        await stage.close_round(Cause.NODE_JOINED)
        await stage.until("round 2", lambda: stage.status()["rendezvousRound"] == 2)
        pods = stage.pod_names()

        await restore(stage, backup, *await newest_round(stage))
        await stage.until("a map of the pods", lambda: len(stage.owners()) == 4)
        assert stage.owners() == pods
        await asyncio.gather(*(stage.join(pod) for pod in stage.pods()))
        await until_judged(stage)
        assert stage.pod_names() == pods


async def test_the_successor_of_a_failed_pod_remains_if_the_restored_map_names_the_failed_one() -> None:
    """The failed pod still exists: the operator keeps it for its logs."""
    async with operator_history(replicas=2, backoffLimit=5, **LOST) as stage:
        await running(stage, 2)
        backup = durable_keys(stage)
        failed = name_of(stage.pod(1))
        await stage.end_pod(stage.pod(1), exit_code=1)
        await stage.until("a successor", lambda: len(stage.pods()) == 2 and stage.kept_pods())
        await stage.run_pods(2)
        await stage.close_round(Cause.NODE_LOST)
        await stage.until("round 2", lambda: stage.status()["rendezvousRound"] == 2)
        pods = stage.pod_names()

        await restore(stage, backup, *await newest_round(stage))
        await stage.until("another map", lambda: stage.owners() and failed not in stage.owners())
        assert stage.owners() == pods
        await asyncio.gather(*(stage.join(pod) for pod in stage.pods()))
        await until_judged(stage)
        assert stage.pod_names() == pods


async def test_pods_that_are_newer_than_a_restored_map_remain() -> None:
    async with operator_history(replicas=4, **LOST) as stage:
        await running(stage, 4)
        backup = durable_keys(stage)
        for pod in stage.pods()[:3]:
            await stage.cluster.delete(Resource.POD, NAMESPACE, name_of(pod), uid=uid_of(pod))
        await stage.until("new names", lambda: len(stage.pods()) == 4)
        await stage.confirm_deletions()
        await stage.run_pods(4)
        await stage.close_round(Cause.NODE_LOST)
        await stage.until("round 2", lambda: stage.status()["rendezvousRound"] == 2)
        pods = stage.pod_names()

        await restore(stage, backup)
        await stage.until("a map of the pods", lambda: stage.owners() == pods)
        await asyncio.gather(*(stage.join(pod) for pod in stage.pods()))
        await stage.close_round(Cause.NODE_LOST)
        await until_judged(stage)
        assert stage.pod_names() == pods


async def test_a_lost_pod_stays_dropped_if_the_operator_ends_before_its_replacement_is_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with operator_history(replicas=4, **LOST) as stage:
        await running(stage, 4)
        lost = name_of(stage.pod(3))
        create = stage.cluster.create

        async def hang_for_pods(resource: Resource, body: Object) -> Object:
            if resource is Resource.POD:
                await asyncio.Event().wait()
            return await create(resource, body)

        monkeypatch.setattr(stage.cluster, "create", hang_for_pods)
        await fall_silent(stage, 3)
        await stage.until("another name in the map", lambda: lost not in stage.owners())
        await stage.stop_operator()
        monkeypatch.undo()
        stage.start_operator()
        await stage.until("its replacement", lambda: len(stage.pods()) == 4 and lost not in stage.pod_names())
        assert lost not in stage.owners()
