"""The group of one node's workers for tests: an assignment with one worker, and `NodeWorkers` over a supervisor."""

import time
from collections.abc import Mapping
from pathlib import Path

from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.net.ports import ReservedPort
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.supervisor import Supervisor
from elasticjob_agent.workers.node_workers import NodeWorkers, WorkerStart, WorkerTemplate
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_api.rendezvous_state import Member

LOOPBACK = "127.0.0.1"
ONE_WORKER = Assignment(
    round=1,
    nonce="n",
    member=Member(0, "0000000a"),
    group_rank=0,
    group_world_size=1,
    nproc=1,
    base_rank=0,
    world_size=1,
    role="default",
    role_base_rank=0,
    role_world_size=1,
    master_addr=LOOPBACK,
    master_port=29876,
    restart_count=0,
)
"""The assignment of the only node of a job, which has one worker."""


def node_workers(
    supervisor: Supervisor,
    progress: ProgressFifo,
    *argv: str,
    log_dir: Path,
    counter_dir: Path,
    environment: Mapping[str, str] | None = None,
    starter: WorkerStart | None = None,
) -> NodeWorkers:
    """Return a group whose workers run this command; `counter_dir` has the kernel's counters of a memory group."""
    template = WorkerTemplate(
        argv=argv,
        environment=environment or {},
        cwd=None,
        run_id="run",
        pod="pod",
        host="host",
        log_dir=log_dir,
        stdout=lambda _: None,
        stderr=lambda _: None,
    )
    return NodeWorkers(
        supervisor=supervisor,
        starter=starter,
        template=template,
        port=ReservedPort(LOOPBACK),
        progress=progress,
        wall_ns=time.time_ns,
        memory=OomCounter(counter_dir),
    )
