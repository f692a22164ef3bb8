"""The agent of a node is the loop of the API over real workers: one round, one failure, one end; in-memory etcd."""

import asyncio
import contextlib
import secrets
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.net.master_port import MasterPort
from elasticjob_agent.node.node_agent import POLL_S, BackgroundLoop, NodeAgent
from elasticjob_agent.rendezvous.handler import EtcdRendezvousHandler, HandlerDeps
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_agent.server import RunResult, WorkerSpec, WorkerState
from elasticjob_agent.supervisor import Supervisor
from elasticjob_agent.tracing import Tracer
from elasticjob_agent.workers.node_workers import NodeWorkers, WorkerTemplate
from elasticjob_api.keys import Keys
from elasticjob_api.records import SpecRecord
from elasticjob_etcd.interface import Etcd
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from testing.waiting import aeventually


@dataclass
class Node:
    """One node with two workers, and its end."""

    agent: NodeAgent
    handler: EtcdRendezvousHandler
    supervisor: Supervisor
    reports: Path

    async def run(self) -> RunResult:
        async with asyncio.timeout(60):
            return await asyncio.to_thread(self.agent.run)

    async def running(self, count: int) -> None:
        await aeventually(lambda: len(list(self.reports.glob("*"))) >= count, within_s=30, what=f"{count} starts")


@contextlib.asynccontextmanager
async def node(tmp_path: Path, script: str, *, max_restarts: int = 0) -> AsyncIterator[Node]:
    """Run a node whose workers report that they run, and then run `script`."""
    supervisor, store, loop = await Supervisor.create(), InMemoryStore(), BackgroundLoop()
    reports = tmp_path / "reports"
    reports.mkdir()
    begin = f"import os, pathlib, sys, time; pathlib.Path({str(reports)!r}, str(os.getpid())).touch(); "
    port = MasterPort("127.0.0.1")
    job = WorkerTemplate(
        argv=(sys.executable, "-S", "-c", begin + script),
        environment={},
        cwd=None,
        run_id="run",
        pod="pod-1",
        host="host-1",
        log_dir=tmp_path,
        progress=tmp_path / "progress",
        stdout=lambda _: None,
        stderr=lambda _: None,
    )
    spec = SpecRecord(min=1, max=1, desired=1, max_restarts=max_restarts, graceful_shutdown_s=20)
    identity = NodeIdentity(
        keys=Keys("/test/node"),
        pod="pod-1",
        pod_uid="u",
        host="h",
        address="127.0.0.1",
        nproc=2,
        lease_ttl_s=6,
        own_spec=spec,
    )

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[Etcd]:
        etcd = InMemoryEtcd(store)
        yield etcd
        await etcd.close()

    handler = EtcdRendezvousHandler(
        HandlerDeps(
            loop=loop,
            connect=connect,
            profile=lambda _: identity,
            port=port,
            run_id="run",
            clock=time.monotonic,
            wall_ns=time.time_ns,
            draw=lambda: secrets.token_hex(4),
            trace=Tracer(None, ""),
        )
    )
    worker_spec = WorkerSpec("default", 2, handler, entrypoint="x", monitor_interval=POLL_S)
    workers = NodeWorkers(supervisor=supervisor, template=job, port=port, wall_ns=time.time_ns)
    agent = NodeAgent(worker_spec, workers=workers, handler=handler, loop=loop, host="host-1")
    try:
        yield Node(agent, handler, supervisor, reports)
    finally:
        agent.stop()
        port.release()
        await supervisor.close()


async def test_workers_that_end_with_0_are_a_success_by_global_rank(tmp_path: Path) -> None:
    async with node(tmp_path, "pass") as made:
        result = await made.run()
        assert (result.state, result.return_values) == (WorkerState.SUCCEEDED, {0: None, 1: None})
        assert made.handler.run_result() == made.handler.outcome()


async def test_a_failure_is_reported_with_all_known_facts_and_charged_to_the_job(tmp_path: Path) -> None:
    script = "sys.exit('no more data') if os.environ['RANK'] == '1' else time.sleep(600)"
    async with node(tmp_path, script, max_restarts=1) as made:
        result = await made.run()
        assert (result.state, made.agent._restart_count) == (WorkerState.FAILED, 1)
        assert [failure.exitcode for failure in result.failures.values()] == [1]
        outcome = made.handler.run_result()
        assert isinstance(outcome, Outcome)
        assert "rank 1 on pod-1 exited with code 1: no more data" in outcome.detail


async def test_stop_ends_workers_and_agent_and_is_urgent_the_second_time(tmp_path: Path) -> None:
    script = "import signal; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    async with node(tmp_path, script) as made:
        run = asyncio.create_task(made.run())
        await made.running(2)
        made.agent.stop()
        await aeventually(made.handler.stop_order, within_s=30, what="order to stop")
        made.agent.stop()
        with pytest.raises(Exception, match="got signal: 15"):
            await run


async def test_workers_end_with_an_abandoned_member(tmp_path: Path) -> None:
    async with node(tmp_path, "time.sleep(600)") as made:
        run = asyncio.create_task(made.run())
        await made.running(2)
        made.handler.cancel()
        with pytest.raises(Exception, match="the rendezvous ended"):
            await run
        assert not psutil.Process(made.supervisor.server_pid).children()
