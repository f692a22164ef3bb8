"""Warm workers that die early: after two starts in a row, all later ones are cold, and the log has the sentence."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.supervisor import Exit, Supervisor
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_api.records import SpecRecord
from elasticjob_api.runtime_config import runtime_config_of
from testing.waiting import aeventually
from testing.worker_group import ONE_WORKER, node_workers
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]
CONFIG = runtime_config_of(SpecRecord(min=1, max=1, desired=1))
_SENTENCE = "not warm: 2 warm starts in a row ended early"


async def _fail(node: WarmNode, number: signal.Signals) -> None:
    """End a worker by this signal, and report its end as the group of workers does."""
    os.kill(node.children[0].pid, number)
    node.starter.worker_failed(await node.children[0].exit, has_progress=False)


async def _forked(node: WarmNode) -> None:
    node.script("import decimal, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))")
    await node.start()
    await node.ran()
    await node.forked_ahead()


async def test_two_crashes_in_a_row_end_the_warm_starts(node: WarmNode, sentences: Sentences) -> None:
    await _forked(node)
    assert await node.restart() == [True, True]
    await node.ran()
    await _fail(node, signal.SIGSEGV)
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    await node.ran()
    await _fail(node, signal.SIGABRT)
    for _ in range(3):
        assert await node.restart() == [False, False]
        await node.ran()
    await node.settled()
    assert node.waiting() == []
    assert sentences() == [_SENTENCE]
    assert node.starter.reason == _SENTENCE.removeprefix("not warm: ")


async def test_a_kill_from_outside_is_no_sign_against_the_warm_start(node: WarmNode, sentences: Sentences) -> None:
    await _forked(node)
    for _ in range(3):
        assert await node.restart() == [True, True]
        await node.ran()
        await _fail(node, signal.SIGKILL)
        await aeventually(lambda: len(node.waiting()) == node.nproc, what="workers that wait")
    assert sentences() == []


class _RecordingStarter:
    """Starts workers cold, and records the failures that it learns of."""

    reason = ""

    def __init__(self, supervisor: Supervisor) -> None:
        self.spawn = supervisor.spawn
        self.failures: list[tuple[int, bool]] = []

    def stop_waiting(self) -> None:
        """It never waits."""

    def worker_failed(self, end: Exit, *, has_progress: bool) -> None:
        self.failures.append((end.code, has_progress))


@pytest.mark.parametrize(("script", "failures"), [("exit 3", [(3, False)]), ("kill -SEGV $$", [(-11, False)])])
async def test_the_group_of_workers_reports_its_failures(
    supervisor: Supervisor, tmp_path: Path, script: str, failures: list[tuple[int, bool]]
) -> None:
    starter, progress = _RecordingStarter(supervisor), ProgressFifo(tmp_path / "progress")
    command = ("/bin/sh", "-c", f"ulimit -c 0; {script}")
    workers = node_workers(
        supervisor, progress, *command, log_dir=tmp_path / "logs", counter_dir=tmp_path, starter=starter
    )
    await workers.start(ONE_WORKER, CONFIG)
    await aeventually(lambda: workers.phase is Workers.FAILED, what="a failed round")
    progress.close()
    assert starter.failures == failures


async def test_the_group_of_workers_reports_no_end_of_its_own(supervisor: Supervisor, tmp_path: Path) -> None:
    starter, progress = _RecordingStarter(supervisor), ProgressFifo(tmp_path / "progress")
    workers = node_workers(
        supervisor, progress, "/bin/sleep", "1000", log_dir=tmp_path / "logs", counter_dir=tmp_path, starter=starter
    )
    await workers.start(ONE_WORKER, CONFIG)
    workers.kill()
    await aeventually(lambda: workers.phase is Workers.NONE, what="the end of the round")
    progress.close()
    assert starter.failures == []
