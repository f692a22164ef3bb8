"""The group of one node's workers without a process: a file in place of the log folder makes each start fail."""

from dataclasses import replace
from pathlib import Path

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.supervisor import Supervisor
from elasticjob_agent.supervisor.launchers import ExecLauncher
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_api.records import Progress, SpecRecord
from elasticjob_api.runtime_config import runtime_config_of
from testing.worker_group import ONE_WORKER, node_workers

CONFIG = runtime_config_of(SpecRecord(min=1, max=1, desired=1))


async def test_progress_of_the_previous_round_does_not_count(tmp_path: Path) -> None:
    log_dir, fifo = tmp_path / "file", ProgressFifo(tmp_path / "progress")
    log_dir.touch()
    supervisor = Supervisor(reap_s=5.0, launcher=ExecLauncher())
    workers = node_workers(supervisor, fifo, "true", log_dir=log_dir, counter_dir=tmp_path)
    fifo.last = Progress(step=7)
    try:
        await workers.start(replace(ONE_WORKER, round=2, restart_count=1), CONFIG)
    finally:
        fifo.close()
    assert workers.phase is Workers.FAILED, "no process was started"
    assert fifo.last is None
