"""A node inside a program that continues: it releases its resources at its end, not at a garbage collection."""

import asyncio
import errno
import gc
import itertools
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.node.run_node import NodeSettings, run_node
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.supervisor import Supervisor
from elasticjob_agent.workers import log_dir
from elasticjob_api import keys, records
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.keys import Keys
from elasticjob_api.records import ExpectedSlots, NodeReport, NodeSamples, SlotOwner, SpecRecord, WorkerState
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.interface import Delete, KeyValue, Put, Txn
from testing.newer_version import newer_record
from testing.waiting import aeventually

pytestmark = pytest.mark.etcd


@pytest.fixture
def without_collector() -> Iterator[None]:
    """No garbage collection: cycles stay in memory, so an owner must release what it holds."""
    gc.disable()
    yield
    gc.enable()


def own_reservations() -> set[str]:
    """Return the names of the port reservations that this process holds."""
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            own.add(os.readlink(descriptor))  # noqa: PTH115 - the link's target is not a path
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines())
    return {row[7] for row in rows if row[-1].startswith("@elasticjob-port-") and f"socket:[{row[6]}]" in own}


def one_node(endpoint: EmbeddedEtcd, folder: Path) -> NodeSettings:
    run_id = secrets.token_hex(8)
    identity = NodeIdentity(
        keys=Keys(keys.cli_prefix(run_id)),
        pod="pod",
        pod_uid=run_id,
        host="host",
        address="127.0.0.1",
        nproc=1,
        own_spec=SpecRecord(min=1, max=1, desired=1),
    )
    return NodeSettings(
        endpoint=endpoint.endpoint,
        identity=identity,
        argv=("true",),
        environment=dict(os.environ),
        run_id=run_id,
        log_dir=folder,
        signals=(),
    )


@pytest.mark.usefixtures("without_collector")
async def test_the_port_of_rank_0_is_free_when_the_node_has_ended(etcd_server: EmbeddedEtcd, tmp_path: Path) -> None:
    before = own_reservations()  # those of servers under test
    outcome = await run_node(one_node(etcd_server, tmp_path))
    assert outcome.code == ExitCode.OK
    assert own_reservations() == before


def scripted(endpoint: EmbeddedEtcd, folder: Path, script: str, *, nproc: int = 1) -> NodeSettings:
    """Return a node whose workers create a file `started-RANK`, and then run `script`."""
    begin = "import os, pathlib, signal, sys, time; "
    mark = f"pathlib.Path({str(folder)!r}, 'started-' + os.environ['RANK']).touch(); "
    node = one_node(endpoint, folder)
    argv = (sys.executable, "-S", "-c", begin + script.replace("MARK; ", mark))
    return replace(node, argv=argv, identity=replace(node.identity, nproc=nproc))


async def all_started(folder: Path, count: int) -> None:
    await aeventually(lambda: len(list(folder.glob("started-*"))) == count, within_s=30, what=f"{count} workers")


async def test_the_end_of_a_failed_job_names_the_worker_and_its_last_line(
    etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    script = "MARK; sys.exit('no more data') if os.environ['RANK'] == '1' else time.sleep(600)"
    outcome = await run_node(scripted(etcd_server, tmp_path, script, nproc=2))
    assert outcome.code == 1
    assert "rank 1 on pod exited with code 1: no more data" in outcome.detail


async def test_a_second_signal_kills_workers_that_ignore_the_first(etcd_server: EmbeddedEtcd, tmp_path: Path) -> None:
    script = "signal.signal(15, signal.SIG_IGN); MARK; time.sleep(600)"
    received: list[signal.Signals] = []
    node = replace(scripted(etcd_server, tmp_path, script), signals=(signal.SIGUSR1,))
    run = asyncio.create_task(run_node(node, received))
    await all_started(tmp_path, 1)
    for count in (1, 2):
        os.kill(os.getpid(), signal.SIGUSR1)
        await aeventually(lambda count=count: len(received) == count, within_s=30, what="the signal")
    outcome = await asyncio.wait_for(run, 25.0)
    assert (outcome.code, outcome.detail) == (ExitCode.LEFT, "left in order")


async def test_a_signal_during_the_clean_up_does_not_end_the_process(
    etcd_server: EmbeddedEtcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Supervisor.close
    received: list[signal.Signals] = []

    async def signalled(supervisor: Supervisor) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        await close(supervisor)

    monkeypatch.setattr(Supervisor, "close", signalled)
    outcome = await run_node(replace(one_node(etcd_server, tmp_path), signals=(signal.SIGUSR1,)), received)
    assert (outcome.code, received) == (ExitCode.OK, [signal.SIGUSR1])


async def test_each_node_logs_its_round_and_why_its_workers_stop(
    etcd_server: EmbeddedEtcd, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = "MARK; sys.exit('no more data') if os.environ['RANK'] == '1' else time.sleep(600)"
    caplog.set_level("INFO")
    one = scripted(etcd_server, tmp_path, script)
    spec = SpecRecord(min=2, max=2, desired=2, max_restarts=0)
    one = replace(one, identity=replace(one.identity, own_spec=spec))
    two = replace(one, identity=replace(one.identity, pod="pod-2", pod_uid="2"))
    await asyncio.gather(run_node(one), run_node(two))
    for number in (0, 1):
        assert f"rendezvous complete: round 1, node {number} of 2, master 127.0.0.1:" in caplog.text
    assert caplog.text.count("stopping the workers: round 2 is forming: WorkerFailed\n") == 2


@asynccontextmanager
async def reporting(node: NodeSettings) -> AsyncIterator[EtcdClient]:
    """Run a node with one restart, which writes samples ten times a second; return a client of its etcd."""
    own_spec = SpecRecord(min=1, max=1, desired=1, max_restarts=1, report_period_s=0.1)
    client = EtcdClient(node.endpoint)
    run = asyncio.create_task(run_node(replace(node, identity=replace(node.identity, own_spec=own_spec))))
    try:
        yield client
    finally:
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
        await client.close()


async def test_a_new_round_has_no_progress_of_the_one_before(etcd_server: EmbeddedEtcd, tmp_path: Path) -> None:
    first = "open(os.environ['ELASTICJOB_PROGRESS'], 'w').write('{\"step\": 7}\\n'); "
    ends = f"go = pathlib.Path({str(tmp_path / 'go')!r})\nwhile not go.exists(): time.sleep(0.01)\nsys.exit(1)"
    script = f"MARK; round_ = os.environ['ELASTICJOB_ROUND']\nif round_ == '2': time.sleep(600)\n{first}\n{ends}"
    node = scripted(etcd_server, tmp_path, script)
    async with reporting(node) as client:

        async def steps() -> set[tuple[int, int | None]]:
            found = (await client.range(node.identity.keys.reports)).kvs
            samples = [records.decode(NodeSamples, kv.value) for kv in found if kv.key.endswith("/samples")]
            return {(each.round, each.progress.step if each.progress else None) for each in samples}

        async def has_progress() -> bool:
            return (1, 7) in await steps()

        async def has_none() -> bool:
            return (2, None) in await steps()

        shown: bool = await aeventually(has_progress, within_s=30, what="the progress of round 1")
        (tmp_path / "go").touch()
        gone: bool = await aeventually(has_none, within_s=30, what="samples of round 2 without progress")
        assert shown
        assert gone


async def test_samples_leave_the_report_as_it_is_and_a_deleted_report_is_written_again(
    etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    node = scripted(etcd_server, tmp_path, "MARK; time.sleep(600)")
    async with reporting(node) as client:

        async def sampled() -> list[KeyValue]:
            """Return the report, once samples were written three times after it."""
            held = sorted((await client.range(node.identity.keys.reports)).kvs, key=lambda kv: kv.key)
            return held[:1] if len(held) == 2 and held[1].mod_revision >= held[0].mod_revision + 3 else []

        reports: list[KeyValue] = await aeventually(sampled, within_s=30, what="samples without a report")
        [report] = reports
        assert records.decode(NodeReport, report.value).workers[0].state is WorkerState.HEALTHY
        await client.txn(Txn((), (Delete(report.key),)))
        reports = await aeventually(sampled, within_s=30, what="the report again")
        [again] = reports
        assert (again.value, again.lease) == (report.value, report.lease)


async def test_a_full_disk_of_the_logs_costs_a_restart_and_is_named(
    etcd_server: EmbeddedEtcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = log_dir.worker_logs, itertools.count()

    def full_twice(folder: Path, round_: int, rank: int) -> log_dir.WorkerLogs:
        if next(calls) < 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        return real(folder, round_, rank)

    monkeypatch.setattr(log_dir, "worker_logs", full_twice)
    node = one_node(etcd_server, tmp_path)

    def allowed(restarts: int) -> NodeSettings:
        own_spec = SpecRecord(min=1, max=1, desired=1, max_restarts=restarts)
        return replace(node, identity=replace(node.identity, own_spec=own_spec))

    outcome = await run_node(allowed(0))
    assert "exited with code 126: not started: [Errno 28] No space left on device" in outcome.detail
    assert (await run_node(allowed(1))).code == ExitCode.OK


async def test_an_internal_error_leaves_no_task_that_renews_the_lease(
    etcd_server: EmbeddedEtcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_self: Supervisor, _commands: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Supervisor, "spawn", fail)
    node, before = one_node(etcd_server, tmp_path), asyncio.all_tasks()
    with pytest.raises(RuntimeError, match="a bug"):
        await run_node(node)
    assert asyncio.all_tasks() - before == set()


async def test_a_node_that_is_cancelled_stops_its_workers(etcd_server: EmbeddedEtcd, tmp_path: Path) -> None:
    run = asyncio.create_task(run_node(scripted(etcd_server, tmp_path, "MARK; time.sleep(600)", nproc=2)))
    await all_started(tmp_path, 2)
    workers = [child for child in psutil.Process().children(recursive=True) if "time.sleep(600)" in child.cmdline()[-1]]
    run.cancel()
    with suppress(asyncio.CancelledError):
        await run
    assert len(workers) == 2
    assert [worker for worker in workers if worker.is_running()] == []


async def test_a_node_runs_to_its_end_with_records_of_a_newer_operator(
    etcd_server: EmbeddedEtcd, tmp_path: Path
) -> None:
    node = one_node(etcd_server, tmp_path)
    identity = replace(node.identity, own_spec=None, slot=0)
    spec = SpecRecord(min=1, max=1, desired=1, operator="op", slots={0: SlotOwner(identity.pod)})
    written = {identity.keys.spec: spec, identity.keys.expected: ExpectedSlots((0,))}
    client = EtcdClient(etcd_server.endpoint)
    try:
        puts = tuple(Put(key, newer_record(records.encode(record))) for key, record in written.items())
        await client.txn(Txn((), puts))
        outcome = await run_node(replace(node, identity=identity))
    finally:
        await client.close()
    assert outcome.code == ExitCode.OK
