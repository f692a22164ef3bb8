"""A launch: run a function on every local rank, handle signals, and raise one error.

The order makes it safe: handlers first, then the port, then the workers. Nothing is raised before every tree is gone. A
handler only records a signal; this module acts on it where it waits.
"""

import functools
import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any

from elasticjob_agent.launch._env import LaunchTopology, worker_variables
from elasticjob_agent.launch._signals import SignalWaiter
from elasticjob_agent.launch.errors import MainProcessError, WorkerError
from elasticjob_agent.net.ports import ReservedPort
from elasticjob_agent.spawn.group import Group
from elasticjob_agent.spawn.process import FunctionProcess
from elasticjob_agent.spawn.start import configured_preload
from elasticjob_agent.supervisor import fd_registry
from elasticjob_agent.supervisor.function_workers import START_METHODS, Function
from elasticjob_agent.supervisor.process_types import Inherit


def set_start_method(method: str) -> None:
    """Set the start method of `multiprocessing`, and so of every launch without one of its own.

    Raises:
        AssertionError: it is none of `fork`, `spawn`, `forkserver`.
        RuntimeError: it was set before.
    """
    if method not in START_METHODS:
        raise AssertionError(f"unknown start method {method!r}; it is one of {', '.join(START_METHODS)}")
    return multiprocessing.set_start_method(method)


def launch(
    func: Callable[[Any], object],
    args: Any,
    nprocs: int,
    master_addr: str = "localhost",
    master_port: int | None = None,
    *,
    nnodes: int = 1,
    node_rank: int = 0,
    shutdown_timeout: float = 5.0,
    start_method: str | None = None,
) -> None:
    """Run `func(args)` in `nprocs` processes with WORLD_SIZE, RANK, LOCAL_RANK, MASTER_ADDR, … set; wait for all.

    Args:
        func: called with one argument.
        args: that argument, which is not unpacked.
        nprocs: processes on this node.
        master_addr: the address of rank 0 for every worker.
        master_port: the port on which rank 0 listens; None for a free port of this machine.
        nnodes: number of nodes that call this; with more than one, `master_port` is required.
        node_rank: the rank of this node, from 0.
        shutdown_timeout: seconds between SIGTERM and SIGKILL when workers are stopped.
        start_method: `fork`, `spawn` or `forkserver`; None for the default of `multiprocessing`.

    Raises:
        WorkerError: a worker failed; the error is that of the first one.
        MainProcessError: this process got SIGINT or SIGTERM.
        ValueError: nprocs, nnodes, node_rank and master_port do not fit together.
    """
    topology = LaunchTopology(nprocs=nprocs, nnodes=nnodes, node_rank=node_rank)
    topology.validate(master_port)
    method = start_method or multiprocessing.get_start_method()
    signals = SignalWaiter(stacklevel=3)
    failure: Exception | None = None
    try:
        with signals, ReservedPort() as port:
            number = port.acquire() if master_port is None else master_port
            workers = _workers(func, args, topology, master_addr=master_addr, master_port=number)
            port.release()
            failure = _run(workers, method, signals, shutdown_timeout=shutdown_timeout)
    except Exception as error:  # noqa: BLE001 - it is raised below, unless a signal came first
        failure = error
    if signals.first is not None:
        raise MainProcessError(signal_no=signals.first) from failure
    if failure is not None:
        raise failure


def _workers(
    func: Callable[[Any], object], args: Any, topology: LaunchTopology, *, master_addr: str, master_port: int
) -> list[Function]:
    inherited = dict(os.environ)
    return [
        Function(
            name=f"worker {rank} of {name_of(func)}",
            fn=func,
            args=(args,),
            env=inherited | worker_variables(topology, rank, master_addr=master_addr, master_port=master_port),
            stdout=Inherit(),
            stderr=Inherit(),
            discard=True,
        )
        for rank in range(topology.nprocs)
    ]


def _run(
    workers: Sequence[Function], method: str, signals: SignalWaiter, *, shutdown_timeout: float
) -> WorkerError | None:
    """Start these, wait for all, and end the rest; return the error of the first that failed."""
    if signals.first is not None:
        return None
    group = Group.start(workers, method, preload=configured_preload())
    try:
        failed = _first_failed(group.processes, signals)
        if failed is None and signals.first is None:
            group.sweep()
            return None
        _stop(group, signals, grace_s=shutdown_timeout)
    except BaseException:
        group.end(grace_s=0).result()
        raise
    return None if failed is None else _error(failed, group.processes[failed])


def _first_failed(processes: Sequence[FunctionProcess], signals: SignalWaiter) -> int | None:
    """Wait until one has failed, and return its local rank; None if all ended with 0, or a signal came."""
    running = {process.sentinel for process in processes}
    while running and signals.first is None:
        ready = connection.wait([*running, signals.descriptor])
        running.difference_update(each for each in ready if isinstance(each, int))
        failed = [rank for rank, process in enumerate(processes) if process.exitcode]
        if failed:
            return min(failed, key=lambda rank: processes[rank].ended_at_s)
    return None


def _stop(group: Group, signals: SignalWaiter, *, grace_s: float) -> None:
    """End the group; a second signal ends it at once."""
    allowed_signals = 1 if signals.first is None else 0
    signals.drain()
    ended = fd_registry.register(os.eventfd(0, os.EFD_CLOEXEC))
    ending = group.end(grace_s=grace_s)
    ending.add_done_callback(lambda _: os.eventfd_write(ended, 1))
    while ended not in connection.wait([ended, signals.descriptor]):
        allowed_signals -= signals.drain()
        if allowed_signals < 0:
            group.end(grace_s=0).result()
    fd_registry.close(ended)  # only after it was written to: an earlier close could let another file get its number
    ending.result()


def _error(rank: int, process: FunctionProcess) -> WorkerError:
    code = process.exitcode or 0
    return WorkerError(msg=f"{process.name} failed with exitcode {code}", exitcode=code, worker_id=rank)


def name_of(func: Callable[..., object]) -> str:
    """Return the name of this function for messages; also for partials and callable objects."""
    while isinstance(func, functools.partial):
        func = func.func
    return str(getattr(func, "__qualname__", type(func).__qualname__))
