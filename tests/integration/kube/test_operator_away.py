"""Recovery does not depend on the operator: agents recover alone, and a new operator catches up."""

import os
import signal
from typing import Any

import psutil
import pytest

from elasticjob_api.records import Completion, encode
from elasticjob_api.rendezvous_state import RoundPhase, decode_state
from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack
from tests.integration.kube.test_operator_changes import agent_of

pytestmark = pytest.mark.kube


def state_of(rig: KubeStack) -> Any:
    found = rig.etcd_range(rig.keys().rendezvous_state).kvs
    return decode_state(found[0].value)


def active(rig: KubeStack, *, round_: int, nodes: int) -> bool:
    state = state_of(rig)
    return (state.phase, state.round, len(state.members)) == (RoundPhase.ACTIVE, round_, nodes)


def workers_of(rig: KubeStack, nodes: int) -> dict[int, tuple[int, str]]:
    """Return all workers by rank, once the agents of that many nodes have reported."""

    def reported() -> dict[int, tuple[int, str]]:
        found = rig.pids(rig.keys())
        return found if len(found) == nodes and all(psutil.pid_exists(pid) for pid, _ in found.values()) else {}

    return rig.until(f"workers of {nodes} nodes", reported)


def test_without_an_operator_a_job_survives_a_worker_and_a_node_and_the_operator_catches_up(rig: KubeStack) -> None:
    rig.start_node()
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig, replicas=2, minReplicas=1, maxReplicas=2))
    rig.until("both nodes run", lambda: rig.status().get("readyReplicas") == 2, within_s=60.0)
    first = rig.status()["rendezvousRound"]
    rig.kill_operator()
    os.kill(workers_of(rig, 2)[0][0], signal.SIGKILL)
    rig.until("the next round", lambda: active(rig, round_=first + 1, nodes=2))
    pid, lost = workers_of(rig, 2)[1]
    os.kill(agent_of(pid), signal.SIGKILL)
    rig.until("a round without the lost node", lambda: active(rig, round_=first + 2, nodes=1))
    rig.start_operator()
    status = rig.running(nodes=2, round_=first + 3)
    assert lost not in {node["podName"] for node in status["nodes"]}
    assert (status["restarts"], status["nodeLosses"], status["podReplacements"]) == (1, 1, 1)


def test_a_job_whose_workers_have_all_finished_ends_though_all_agents_die_before_the_end_is_written(
    rig: KubeStack,
) -> None:
    node = rig.start_node()
    rig.start_operator()
    rig.namespace.apply(waiting_job(rig, replicas=2, minReplicas=1, maxReplicas=2))
    rig.running(nodes=2, round_=1)
    started = workers_of(rig, 2)
    rig.kill_operator()
    node.kill()  # with all of its pods
    rig.until("no worker is left", lambda: not any(psutil.pid_exists(pid) for pid, _ in started.values()))
    keys, members = rig.keys(), state_of(rig).members
    rig.etcd_put({keys.completion(1, m.slot): encode(Completion(m.incarnation)) for m in members})
    for pod in rig.pod_names():
        rig.forget_pod(pod)
    rig.start_operator()
    rig.start_node()
    status = rig.phase("Succeeded")  # a worker that ran again would wait for the file
    assert not rig.finish.exists()
    assert (status["rendezvousRound"], status["restarts"]) == (1, 0)
