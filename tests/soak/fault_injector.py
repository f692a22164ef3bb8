"""The faults of a soak, each by its name. A fault is over when its call returns; its effects may last.

If its target does not exist any more, `strike` returns None and nothing is counted.
"""

import contextlib
import os
import random
import signal
import time
import urllib.error
from collections.abc import Callable
from typing import Any

import psutil

from tests.soak.job_generator import MAX_REPLICAS, SoakJob
from tests.soak.stack import Stage

FaultInjection = Callable[[Stage, SoakJob, random.Random], str | None]


def _worker(stage: Stage, life: SoakJob, rng: random.Random) -> tuple[int, int] | None:
    """Return rank and pid of one worker of the job, from the reports of its agents."""
    if not life.name or not stage.rig.job(life.name):
        return None
    workers = stage.rig.pids(stage.rig.keys(life.name))
    if not workers:
        return None
    rank = rng.choice(sorted(workers))
    return rank, workers[rank][0]


def _agent(stage: Stage, life: SoakJob, rng: random.Random) -> psutil.Process | None:
    """Return the agent of one worker of the job."""
    worker = _worker(stage, life, rng)
    with contextlib.suppress(psutil.Error):
        for parent in psutil.Process(worker[1]).parents() if worker else ():
            if any("elasticjob_agent.cli.main" in word or "elasticjob-agent" in word for word in parent.cmdline()):
                return parent
    return None


def worker_crashes(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Kill a worker by a signal."""
    worker = _worker(stage, life, rng)
    if worker is None:
        return None
    how = rng.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker[1], how)
        return f"rank {worker[0]} of {life.name} gets {how.name}"
    return None


def agent_dies(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Kill an agent, as if its node was lost."""
    agent = _agent(stage, life, rng)
    if agent is None:
        return None
    with contextlib.suppress(psutil.NoSuchProcess):
        agent.kill()
        return f"an agent of {life.name} is killed"
    return None


def agent_suspended(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Stop an agent for seconds while its workers run, and let it continue."""
    agent, pause_s = _agent(stage, life, rng), rng.uniform(0.2, 8.0)
    if agent is None:
        return None
    with contextlib.suppress(psutil.NoSuchProcess):
        agent.suspend()
        time.sleep(pause_s)
        agent.resume()
        return f"an agent of {life.name} stood still for {pause_s:.1f} s"
    return None


def pod_deleted(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Delete a pod as `kubectl delete pod` does."""
    pods = [pod for pod in stage.rig.pod_names() if life.name and pod.startswith(f"{life.name}-")]
    if not pods:
        return None
    pod = rng.choice(pods)
    stage.rig.delete_pod(pod)
    return f"pod {pod} is deleted"


def job_scaled(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Request another number of nodes."""
    if not life.name or not stage.rig.job(life.name):
        return None
    replicas = rng.randint(1, MAX_REPLICAS)
    life.scale(replicas)
    return f"{life.name} is scaled to {replicas}"


def job_suspended(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Take the job's nodes away as a queueing system does, and give them back."""
    if not life.name or not stage.rig.job(life.name):
        return None
    pause_s = rng.uniform(0.1, 4.0)
    life.suspend(suspended=True)
    time.sleep(pause_s)
    life.suspend(suspended=False)
    return f"{life.name} was suspended for {pause_s:.1f} s"


def operator_dies(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Kill the operator, and start it again after a while."""
    del life
    pause_s = rng.uniform(0.0, 4.0)
    stage.rig.kill_operator()
    time.sleep(pause_s)
    stage.start_operator()
    return f"the operator was killed, and away for {pause_s:.1f} s"


def api_server_dies(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Kill the API server, and start it again."""
    del life, rng
    stage.server.kill()
    stage.server.start()
    return "the API server was killed and started again"


def etcd_dies(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Kill etcd, and start it again with its data."""
    del life
    pause_s = rng.uniform(0.0, 3.0)
    stage.etcd.kill()
    time.sleep(pause_s)
    stage.etcd.start()
    return f"etcd was killed, and away for {pause_s:.1f} s"


def etcd_suspended(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Stop etcd: its connections remain open without an answer."""
    del life
    pause_s = rng.uniform(0.2, 8.0)
    with stage.etcd.stalled():
        time.sleep(pause_s)
    return f"etcd stood still for {pause_s:.1f} s"


def etcd_compacted(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Compact the history of etcd."""
    del life, rng
    with contextlib.suppress(urllib.error.HTTPError):  # 400: nothing was written since the last time
        stage.etcd.compact()
        return "etcd was compacted"
    return None


def network_cut(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Reset every connection to etcd, and refuse new ones for a while."""
    del life
    pause_s = rng.uniform(0.0, 4.0)
    stage.way.cut()
    time.sleep(pause_s)
    stage.way.restore()
    return f"the way to etcd was cut for {pause_s:.1f} s"


def node_dies(stage: Stage, life: SoakJob, rng: random.Random) -> str | None:
    """Kill the machine of all pods; start another one, and remove the pods of the first."""
    del life
    stage.kill_node()
    time.sleep(rng.uniform(0.0, 2.0))
    stage.start_node()
    return "the node of all pods died"


FAULTS: dict[FaultInjection, int] = {
    worker_crashes: 8,
    agent_dies: 5,
    agent_suspended: 3,
    pod_deleted: 5,
    job_scaled: 4,
    job_suspended: 2,
    operator_dies: 2,
    api_server_dies: 1,
    etcd_dies: 1,
    etcd_suspended: 1,
    etcd_compacted: 1,
    network_cut: 2,
    node_dies: 1,
}
"""Each fault with its weight."""


def draw(rng: random.Random) -> FaultInjection:
    """Return the next fault."""
    found: FaultInjection = rng.choices(list(FAULTS), weights=list(FAULTS.values()))[0]
    return found


def describe(counts: dict[str, Any]) -> str:
    """Return the counts as text, most frequent first."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(counts.items(), key=lambda i: -i[1]))
