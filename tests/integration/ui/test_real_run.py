"""A real run, from agents' trace points to metrics and page: real etcd, agents and workers, and the reconciler."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from elasticjob_api.records import WorkerState
from elasticjob_cli.local.fault_injector import signal_descendant
from elasticjob_cli.local.localize import localized
from elasticjob_cli.local.run_dir import make_run_dir
from elasticjob_cli.local.stack import EtcdOptions, LocalStack, build_stack
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.metrics.prometheus import PrometheusRecorder
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.settings import Settings
from elasticjob_operator.ui import PageServer, PageState
from elasticjob_operator.ui.serialize import job_details
from elasticjob_operator.ui.state import JobEntry
from testing.waiting import aeventually

pytestmark = pytest.mark.etcd

WITHIN_S = 60.0
STEPS = {"detect", "stop", "agree", "start"}
WORKER = "import sys, time; print('my last words', file=sys.stderr, flush=True); time.sleep(1000)"


def manifest() -> dict[str, Any]:
    container = {"name": "trainer", "image": "none", "command": [sys.executable, "-c", WORKER]}
    spec = {"replicas": 2, "nprocPerNode": 2, "template": {"spec": {"containers": [container]}}}
    return {"apiVersion": "elasticjob.io/v1alpha1", "kind": "ElasticJob", "metadata": {"name": "j"}, "spec": spec}


@dataclass
class Run:
    """A running job, with a recorder and an observer."""

    rig: LocalStack
    meter: PrometheusRecorder
    board: PageState
    page: PageServer
    said: bytearray

    @property
    def shown(self) -> JobEntry:
        return self.board.jobs["default", "j"]

    async def measured(self, number: int) -> dict[str, Any]:
        """Return the round, once its agents have reported its durations."""

        def seen() -> dict[str, Any] | None:
            rounds = job_details(self.shown)["rounds"] if self.board.jobs else ()
            return next((each for each in rounds if each["round"] == number and each["steps"]), None)

        found = await aeventually(seen, within_s=WITHIN_S, what=f"round {number} measured")
        assert found is not None
        return found

    def workers(self) -> list[int]:
        """Return the process ids of the running workers."""
        reports = self.shown.view.reports.values()
        return [w.pid for report in reports for w in report.workers if w.state is WorkerState.HEALTHY]

    async def all_have_spoken(self) -> None:
        await aeventually(lambda: self.said.count(b"my last words") == 4, within_s=WITHIN_S, what="last words")

    def lines(self) -> list[str]:
        return self.meter.text().decode().splitlines()


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Run]:
    async with contextlib.AsyncExitStack() as stack:
        folder, said = make_run_dir(tmp_path / "run"), bytearray()
        rig = await build_stack(
            stack,
            folder=folder,
            cwd=tmp_path,
            environ=os.environ,
            options=EtcdOptions(),
            write=lambda _pod, lines: said.extend(lines),
        )
        meter, board = PrometheusRecorder(), PageState()
        endpoints = rig.server.endpoint.targets
        settings = Settings(cluster_id=rig.cluster_id, operator_id=rig.cluster_id, etcd_endpoints=endpoints)
        rig = replace(
            rig,
            operator=Controller(
                rig.cluster, rig.etcd, settings, watch=rig.cluster.watch, metrics=meter, observer=board
            ),
        )
        meter.serve_state(rig.operator.phases, rig.operator.depth)
        page = await stack.enter_async_context(PageServer(board))
        tasks = [asyncio.create_task(rig.operator.run()), asyncio.create_task(rig.kubelet.run())]
        await rig.cluster.create(Resource.JOB, localized(manifest()))
        try:
            yield Run(rig, meter, board, page, said)
        finally:
            await rig.kubelet.stop(0.0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_killed_worker_is_in_every_step_and_on_the_page(run: Run) -> None:
    assert set((await run.measured(1))["steps"]) >= {"start"}
    await run.all_have_spoken()
    signal_descendant(run.workers()[0], signal.SIGKILL)
    second = await run.measured(2)
    assert set(second["steps"]) == STEPS
    assert (second["cause"], second["workers"]) == ("WorkerFailed", 4)
    lines = run.lines()
    assert 'elasticjob_rounds_total{cause="WorkerFailed",namespace="default"} 1.0' in lines
    for step in STEPS:
        counted = f'elasticjob_recovery_step_seconds_count{{cause="WorkerFailed",step="{step}"}} 1.0'
        assert counted in lines
    async with aiohttp.ClientSession() as session, session.get(f"{run.page.url}api/jobs/default/j") as answer:
        told = json.loads((await answer.content.readline()).decode().removeprefix("data: "))["job"]
    assert [each["round"] for each in told["rounds"]] == [1, 2]
    assert told["failures"][0]["signal"] == "SIGKILL"
    assert told["failures"][0]["tail"] == "my last words"


async def test_a_killed_agent_is_a_loss_that_begins_with_its_end(run: Run) -> None:
    await run.measured(1)
    [pod] = [pod for pod in run.rig.cluster.objects(Resource.POD) if "-1-" in objects.name_of(pod)]
    for pid in run.rig.kubelet.pids_of(objects.uid_of(pod)):
        signal_descendant(pid, signal.SIGKILL)
    second = await run.measured(2)
    assert second["cause"] == "NodeLost"
    assert {"stop", "agree", "start"} <= set(second["steps"])
    assert 'elasticjob_recovery_seconds_count{cause="NodeLost"} 1.0' in run.lines()
