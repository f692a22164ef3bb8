"""Pods with a sidecar: for the API server they still run after their trainer has ended; they delay nothing.

The test writes the statuses and records of the kubelet and the agents; the kubelet of `elasticjob run` has no sidecars.
"""

import asyncio
from typing import Any

import pytest

from elasticjob_api.rendezvous_state import Cause, RendezvousState, RoundPhase, encode_state
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Put, Txn
from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack

pytestmark = pytest.mark.kube

SIDECAR = {"name": "logs", "image": "example/logs:1", "restartPolicy": "Always"}


def with_sidecar(rig: KubeStack, **spec: Any) -> dict[str, Any]:
    job = waiting_job(rig, **spec)
    job["spec"]["template"]["spec"]["initContainers"] = [SIDECAR]
    return job


def report_trainer_ended(rig: KubeStack, pod: str, exit_code: int) -> None:
    """Report as a kubelet that the trainer's container has ended; the sidecar runs, so the pod's phase is Running."""
    ended = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed", "startedAt": None}
    trainer = {"name": "trainer", "image": "t", "imageID": "", "ready": False, "restartCount": 0}
    sidecar = {"name": "logs", "image": "l", "imageID": "", "ready": True, "restartCount": 0}
    status = {
        "phase": "Running",
        "containerStatuses": [{**trainer, "state": {"terminated": ended}}],
        "initContainerStatuses": [{**sidecar, "state": {"running": {}}}],
    }
    assert rig.put_status(pod, status)


def write_success(rig: KubeStack) -> None:
    """Write the success of a round of one, as its leader does."""
    state = RendezvousState(phase=RoundPhase.SUCCEEDED, round=1, nonce="n", cause=Cause.SUCCEEDED)

    async def write() -> None:
        client = EtcdClient(rig.etcd)
        await client.txn(Txn((), (Put(rig.keys().rendezvous_state, encode_state(state)),)))
        await client.close()

    asyncio.run(write())


def test_a_pod_whose_trainer_failed_is_replaced_although_its_sidecar_runs(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(with_sidecar(rig))
    [failed] = rig.until("a pod", rig.pod_names)
    report_trainer_ended(rig, failed, 1)
    rig.until("another one", lambda: len(rig.pod_names()) == 1 and failed not in rig.pod_names())
    rig.until("the count", lambda: rig.status()["podReplacements"] == 1)


def test_a_job_whose_trainers_succeeded_has_succeeded_and_its_sidecars_end(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(with_sidecar(rig))
    [name] = rig.until("a pod", rig.pod_names)
    write_success(rig)  # first, as agents do: a trainer that ends before its job is replaced
    report_trainer_ended(rig, name, 0)
    rig.phase("Succeeded")
    assert rig.pod_names() == [name], "its logs can be read for a moment"
    # That moment is not waited for: the job has ended a minute ago for the operator that comes next.
    rig.kill_operator()
    rig.namespace.patch("j", {"status": {"completionTime": "2026-01-02T03:04:05Z"}}, "--subresource=status")
    rig.start_operator()
    rig.until("no pod", lambda: not rig.pods())
    assert rig.status()["phase"] == "Succeeded"
