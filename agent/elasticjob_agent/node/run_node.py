"""The composition of one node agent from supervisor, etcd, workers, rendezvous and reports; and its end.

The fork server is exec'd first, while this process is small and has no connection. On SIGTERM, SIGINT, SIGQUIT or
SIGHUP the node leaves the job in order. A second signal kills the workers at once.
"""

import asyncio
import contextlib
import functools
import logging
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elasticjob_agent.host.cpu_topology import Cpus, format_cpus
from elasticjob_agent.host.oom import OomCounter, find_folder
from elasticjob_agent.monitoring.reporter import Reporter
from elasticjob_agent.net.ports import FixedPort, ReservedPort
from elasticjob_agent.node.keep_settings import KeepSettings
from elasticjob_agent.node.self_fencing import SelfFencing
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.rendezvous.member.no_keep import NoKeep
from elasticjob_agent.rendezvous.member.rendezvous_member import RendezvousMember
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_agent.supervisor import Console, Supervisor
from elasticjob_agent.tracing import Tracer
from elasticjob_agent.workers.env import varying_variables
from elasticjob_agent.workers.node_workers import NodeWorkers, WorkerTemplate
from elasticjob_agent.workers.output import DEFAULT_OUTPUT, Output
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_api.constants import JOIN_TIMEOUT_S
from elasticjob_api.exit_codes import ExitCode
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint, Etcd

if TYPE_CHECKING:
    from elasticjob_agent.node.node_keep import NodeKeep
    from elasticjob_agent.warm_start.warm_starter import WarmStart

_STOP_S = 15.0
"""Seconds for the workers of a job that is over to end; their short grace is 5."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """All settings of one agent."""

    endpoint: Endpoint
    identity: NodeIdentity
    argv: tuple[str, ...]
    environment: dict[str, str]
    run_id: str
    log_dir: Path
    join_timeout_s: float = JOIN_TIMEOUT_S
    cwd: str | None = None
    trace: str | None = None
    termination_log: str | None = None
    signals: tuple[signal.Signals, ...] = _SIGNALS
    """Signals on which the node leaves the job in order."""
    fixed_port: int | None = None
    """MASTER_PORT, if the user chose it."""
    output: Output = DEFAULT_OUTPUT
    virtual_local_rank: bool = False
    is_warm_start: bool = False
    """Whether restarted workers may be forked from a zygote."""
    cpus: tuple[Cpus, ...] = ()
    """The processors of each local rank, if workers are bound; else empty."""
    keep: KeepSettings | None = None
    """None: this node keeps no steps."""


async def run_node(settings: NodeSettings, received_signals: list[signal.Signals] | None = None) -> Outcome:
    """Run one node until the job ends or this node leaves. Return the outcome.

    Signals on which the node leaves are appended to `received_signals`.

    Raises:
        RendezvousError: the rendezvous failed.
        EtcdError: etcd refused or did not answer.
        SupervisorError: the fork server failed.
    """
    supervisor = Supervisor.begin()  # it starts while this node joins
    consoles = Console(1), Console(2)
    trace = Tracer(settings.trace, settings.identity.pod)
    kills = OomCounter(find_folder())
    progress = ProgressFifo(settings.log_dir / f"progress-{secrets.token_hex(4)}")
    port = _master_port(settings)
    etcd = EtcdClient(settings.endpoint)
    starter = None
    if settings.is_warm_start:
        starter = _warm_starter(settings, supervisor, consoles[1], kills, etcd, writer=lambda: _identity_of(member))
    if settings.cpus:
        log.info("workers are bound to CPUs, by local rank: %s", "; ".join(map(format_cpus, settings.cpus)))
    with contextlib.ExitStack() as signals:  # a signal must not end the process while it cleans up
        try:
            async with _kept_steps(settings, etcd) as keep:
                workers = NodeWorkers(
                    supervisor=supervisor,
                    starter=starter,
                    template=_worker_template(settings, consoles),
                    port=port,
                    progress=progress,
                    wall_ns=time.time_ns,
                    memory=kills,
                    kept_steps=dict if keep is None else keep.variables,
                )
                member = _member(settings, etcd, workers, trace, keep)
                reporter = Reporter(
                    etcd=etcd,
                    member=member,
                    workers=workers,
                    progress=progress,
                    wall_ns=time.time_ns,
                    trace=trace,
                    keep=keep,
                )
                received = [] if received_signals is None else received_signals
                kill = functools.partial(_kill, workers, keep)
                signals.enter_context(_signals(settings.signals, received, leave=member.request_leave, kill=kill))
                return await _run_all(member, reporter, SelfFencing(etcd, member))
        finally:
            try:
                await etcd.close()
            finally:
                try:
                    if starter is not None:
                        await starter.close()
                finally:
                    await supervisor.close()
            port.close()
            progress.close()
            trace.close()
            for console in consoles:
                console.close()


async def run_node_until(
    end: Coroutine[Any, Any, str], settings: NodeSettings, received_signals: list[signal.Signals] | None = None
) -> Outcome:
    """Run one node as `run_node` does, but only until `end` returns; its sentence is then the outcome's detail."""
    node = asyncio.create_task(run_node(settings, received_signals), name="node")
    over = asyncio.create_task(end, name="end of etcd")
    await asyncio.wait({node, over}, return_when=asyncio.FIRST_COMPLETED)
    over.cancel()
    if node.done():
        return node.result()
    node.cancel()
    await asyncio.wait({node}, timeout=_STOP_S)  # a node that is not done by then is cancelled again when the loop ends
    return Outcome(ExitCode.UNAVAILABLE, over.result())


@contextlib.asynccontextmanager
async def _kept_steps(settings: NodeSettings, etcd: Etcd) -> "AsyncIterator[NodeKeep | None]":
    if settings.keep is None:
        yield None
        return
    # Most agents keep no steps, and need not read these modules.
    from elasticjob_agent.node.keep_start import keeping_steps  # noqa: PLC0415

    async with keeping_steps(settings.keep, settings.identity, etcd) as keep:
        yield keep


def _kill(workers: NodeWorkers, keep: "NodeKeep | None") -> None:
    """Kill the workers, and let a node that leaves wait no longer for those that need its steps."""
    workers.kill()
    if keep is not None:
        keep.stop_lingering()


def _member(
    settings: NodeSettings, etcd: Etcd, workers: NodeWorkers, trace: Tracer, keep: "NodeKeep | None"
) -> RendezvousMember:
    return RendezvousMember(
        etcd=etcd,
        identity=settings.identity,
        workers=workers,
        clock=time.monotonic,
        random_hex=lambda: secrets.token_hex(4),
        trace=trace,
        join_timeout_s=settings.join_timeout_s,
        keep=keep or NoKeep(),
    )


def _identity_of(member: RendezvousMember) -> SessionIdentity | None:
    return member.session.me if member.session is not None else None


def _warm_starter(
    settings: NodeSettings,
    supervisor: Supervisor,
    console: Console,
    kills: OomCounter,
    etcd: Etcd,
    *,
    writer: Callable[[], SessionIdentity | None],
) -> "WarmStart":
    # Most agents start no worker warm, and need not read these modules.
    from elasticjob_agent.node.profile_store import EtcdProfileStore  # noqa: PLC0415
    from elasticjob_agent.warm_start.memory_monitor import MemoryMonitor  # noqa: PLC0415
    from elasticjob_agent.warm_start.profiles import Profiles  # noqa: PLC0415
    from elasticjob_agent.warm_start.warm_starter import WarmStart  # noqa: PLC0415

    varying = varying_variables(virtual=settings.virtual_local_rank)
    profiles = Profiles(EtcdProfileStore(etcd, settings.identity.keys, writer))
    return WarmStart(supervisor, varying=varying, output=console.write, memory=MemoryMonitor(kills), profiles=profiles)


def _worker_template(settings: NodeSettings, consoles: tuple[Console, Console]) -> WorkerTemplate:
    return WorkerTemplate(
        argv=settings.argv,
        environment=settings.environment,
        cwd=settings.cwd,
        run_id=settings.run_id,
        pod=settings.identity.pod,
        host=settings.identity.host,
        log_dir=settings.log_dir,
        stdout=consoles[0].write,
        stderr=consoles[1].write,
        output=settings.output,
        virtual_local_rank=settings.virtual_local_rank,
        cpus=settings.cpus,
    )


def _master_port(settings: NodeSettings) -> ReservedPort:
    address = settings.identity.address
    return ReservedPort(address) if settings.fixed_port is None else FixedPort(address, settings.fixed_port)


async def _run_all(member: RendezvousMember, reporter: Reporter, isolation: SelfFencing) -> Outcome:
    """Return the outcome of the member when it ends; an error of any task ends all."""
    tasks = {
        asyncio.create_task(member.run(), name="member"),
        asyncio.create_task(reporter.run(), name="reporter"),
        asyncio.create_task(isolation.run(), name="isolation"),
    }
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        outcomes = [task.result() for task in done]
        return next(outcome for outcome in outcomes if isinstance(outcome, Outcome))
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _signals(
    numbers: tuple[signal.Signals, ...],
    received: list[signal.Signals],
    *,
    leave: Callable[[], None],
    kill: Callable[[], None],
) -> Iterator[None]:
    """Leave the job on the first signal; kill the workers on each later one."""
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        log.info("got %s: %s", number.name, "killing the workers" if received else "leaving the job")
        (kill if received else leave)()
        received.append(number)

    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
