"""The group of one node's workers without a process: a file in place of the log folder makes each start fail."""

import time
from pathlib import Path

from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.net.ports import ReservedPort
from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.supervisor import Supervisor
from elasticjob_agent.supervisor.launchers import ExecLauncher
from elasticjob_agent.workers.node_workers import NodeWorkers, WorkerTemplate
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_api.records import Progress, SpecRecord
from elasticjob_api.rendezvous_state import Member
from elasticjob_api.runtime_config import runtime_config_of

CONFIG = runtime_config_of(SpecRecord(min=1, max=1, desired=1))
PLACE = Assignment(
    round=2,
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
    master_addr="127.0.0.1",
    master_port=29876,
    restart_count=1,
)


async def test_progress_of_the_previous_round_does_not_count(tmp_path: Path) -> None:
    log_dir, fifo = tmp_path / "file", ProgressFifo(tmp_path / "progress")
    log_dir.touch()
    template = WorkerTemplate(
        argv=("true",),
        environment={},
        cwd=None,
        run_id="run",
        pod="pod",
        host="host",
        log_dir=log_dir,
        stdout=lambda _: None,
        stderr=lambda _: None,
    )
    workers = NodeWorkers(
        supervisor=Supervisor(reap_s=5.0, launcher=ExecLauncher()),
        template=template,
        port=ReservedPort("127.0.0.1"),
        progress=fifo,
        wall_ns=time.time_ns,
        memory=OomCounter(tmp_path),
    )
    fifo.last = Progress(step=7)
    try:
        await workers.start(PLACE, CONFIG)
    finally:
        fifo.close()
    assert workers.phase is Workers.FAILED, "no process was started"
    assert fifo.last is None
