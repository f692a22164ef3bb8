"""Running a function on every local rank, and answering for it: workers, signals, and the one error that comes out.

The order is what makes it safe: handlers first, then the port, then the workers; and nothing is raised before every
tree is gone. A signal is only noted by its handler, and acted upon where this module waits.
"""

import functools
import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any

from elasticjob_agent.launch._env import Place, worker_variables
from elasticjob_agent.launch._port import rank_0_port
from elasticjob_agent.launch._signals import Interrupts
from elasticjob_agent.launch.errors import MainProcessError, WorkerError
from elasticjob_agent.spawn.group import Group
from elasticjob_agent.spawn.process import FunctionProcess
from elasticjob_agent.spawn.start import configured_preload
from elasticjob_agent.supervisor import fd_registry
from elasticjob_agent.supervisor.function_workers import START_METHODS, Function
from elasticjob_agent.supervisor.process_types import Inherit


def set_start_method(method: str) -> None:
    """Set the start method of `multiprocessing`, and so of every launch that is not given one.

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
        args: that argument, whatever it is; it is not unpacked.
        nprocs: processes on this node.
        master_addr: where rank 0 is; every worker is given it.
        master_port: what rank 0 listens on; None: a free port of this machine.
        nnodes: how many nodes call this; with more than one `master_port` must be given.
        node_rank: which of them this one is, from 0.
        shutdown_timeout: seconds between SIGTERM and SIGKILL when workers are stopped.
        start_method: `fork`, `spawn` or `forkserver`; None: the default of `multiprocessing`.

    Raises:
        WorkerError: the worker that ended first with anything but 0.
        MainProcessError: this process got SIGINT or SIGTERM.
        ValueError: nprocs, nnodes, node_rank and master_port do not go together.
    """
    place = Place(nprocs=nprocs, nnodes=nnodes, node_rank=node_rank)
    place.check(master_port)
    method = start_method or multiprocessing.get_start_method()
    interrupts = Interrupts(stacklevel=3)
    failure: Exception | None = None
    try:
        with interrupts, rank_0_port(master_port) as port:
            workers = _workers(func, args, place, master_addr=master_addr, master_port=port.number)
            port.release()
            failure = _run(workers, method, interrupts, shutdown_timeout=shutdown_timeout)
    except Exception as error:  # noqa: BLE001 - it is raised below, unless a signal was first
        failure = error
    if interrupts.first is not None:
        raise MainProcessError(signal_no=interrupts.first) from failure
    if failure is not None:
        raise failure


def _workers(
    func: Callable[[Any], object], args: Any, place: Place, *, master_addr: str, master_port: int
) -> list[Function]:
    inherited = dict(os.environ)
    return [
        Function(
            name=f"worker {rank} of {name_of(func)}",
            fn=func,
            args=(args,),
            env=inherited | worker_variables(place, rank, master_addr=master_addr, master_port=master_port),
            stdout=Inherit(),
            stderr=Inherit(),
            discard=True,
        )
        for rank in range(place.nprocs)
    ]


def _run(
    workers: Sequence[Function], method: str, interrupts: Interrupts, *, shutdown_timeout: float
) -> WorkerError | None:
    """Start these, wait for all, and end whatever is left; what the first of them failed with."""
    if interrupts.first is not None:
        return None
    group = Group.start(workers, method, preload=configured_preload())
    try:
        failed = _first_failed(group.processes, interrupts)
        if failed is None and interrupts.first is None:
            group.sweep()
            return None
        _stop(group, interrupts, grace_s=shutdown_timeout)
    except BaseException:
        group.end(grace_s=0).result()
        raise
    return None if failed is None else _error(failed, group.processes[failed])


def _first_failed(processes: Sequence[FunctionProcess], interrupts: Interrupts) -> int | None:
    """Wait until one has failed, and return its local rank; None if all ended well, or a signal came."""
    running = {process.sentinel for process in processes}
    while running and interrupts.first is None:
        ready = connection.wait([*running, interrupts.descriptor])
        running.difference_update(each for each in ready if isinstance(each, int))
        failed = [rank for rank, process in enumerate(processes) if process.exitcode]
        if failed:
            return min(failed, key=lambda rank: processes[rank].ended_at_s)
    return None


def _stop(group: Group, interrupts: Interrupts, *, grace_s: float) -> None:
    """End the group; a second signal ends it at once."""
    pardoned = 1 if interrupts.first is None else 0
    interrupts.take()
    ended = fd_registry.own(os.eventfd(0, os.EFD_CLOEXEC))
    ending = group.end(grace_s=grace_s)
    ending.add_done_callback(lambda _: os.eventfd_write(ended, 1))
    while ended not in connection.wait([ended, interrupts.descriptor]):
        pardoned -= interrupts.take()
        if pardoned < 0:
            group.end(grace_s=0).result()
    fd_registry.close(ended)  # only once it was written to: before, the number could be somebody else's by then
    ending.result()


def _error(rank: int, process: FunctionProcess) -> WorkerError:
    code = process.exitcode or 0
    return WorkerError(msg=f"{process.name} failed with exitcode {code}", exitcode=code, worker_id=rank)


def name_of(func: Callable[..., object]) -> str:
    """What messages call this function; also for partials and callable objects."""
    while isinstance(func, functools.partial):
        func = func.func
    return str(getattr(func, "__qualname__", type(func).__qualname__))
