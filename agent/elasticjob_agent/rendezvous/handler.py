"""`EtcdRendezvousHandler`: the rendezvous of this package with the interface that agents use.

It runs one `RendezvousMember` in an event loop of another thread. The member sees the agent's workers through
`ThreadedWorkers`. Decisions are made in the member's plan; the agent only carries out orders. The handler closes
nothing by itself: a job ends by success, by the use of all restarts, or by the operator.
"""

import concurrent.futures
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from elasticjob_agent.rendezvous.errors import (
    JobFailed,
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousStateError,
    RendezvousTimeoutError,
)
from elasticjob_agent.rendezvous.interface import RendezvousInfo, RendezvousStoreInfo
from elasticjob_agent.rendezvous.job_rendezvous import JobRendezvous, LocalFailure, NodeInfo, StopOrder
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.rendezvous.member.no_keep import NoKeep
from elasticjob_agent.rendezvous.member.rendezvous_member import RendezvousMember
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_agent.rendezvous.worker_mailbox import ThreadedWorkers
from elasticjob_agent.tracing import Tracer
from elasticjob_api.constants import JOIN_TIMEOUT_S
from elasticjob_api.errors import RecordError
from elasticjob_api.exit_codes import ExitCode
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Etcd

LEAVE_TIMEOUT_S = 10.0
"""Seconds until `shutdown` gives up leaving; after that the lease expires."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class EventLoop(Protocol):
    """A running event loop in another thread."""

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Run a coroutine in the loop."""


class Port(Protocol):
    """The reserved port of rank 0."""

    def acquire(self) -> int:
        """Reserve a new port, and return it."""

    def release(self) -> None:
        """Release the reserved port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerDeps:
    """The handler's dependencies."""

    loop: EventLoop
    connect: Callable[[], AbstractAsyncContextManager[Etcd]]
    """Called inside the loop."""
    make_identity: Callable[[NodeInfo], NodeIdentity]
    port: Port
    run_id: str
    clock: Callable[[], float]
    wall_ns: Callable[[], int]
    random_hex: Callable[[], str]
    """Returns eight random hex digits."""
    trace: Tracer
    join_timeout_s: float = JOIN_TIMEOUT_S


class EtcdRendezvousHandler(JobRendezvous):
    """One node's access to a job in etcd."""

    def __init__(self, deps: HandlerDeps) -> None:
        self._deps = deps
        self._node_info: NodeInfo | None = None
        self._on_change: Callable[[], None] = lambda: None
        self._mailbox: ThreadedWorkers | None = None
        self._member: RendezvousMember | None = None
        self._run_task: concurrent.futures.Future[None] | None = None
        self._assignment: Assignment | None = None
        self._leaving = False
        self._closed = False

    # -- RendezvousHandler -----------------------------------------------------------------------

    def get_backend(self) -> str:
        """Return `etcd`."""
        return "etcd"

    def get_run_id(self) -> str:
        """Return the id of the job, as workers see it."""
        return self._deps.run_id

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for the next round with this node, and return it with all ranks; none of its workers may run any more.

        Raises RendezvousGracefulExitError when the job has succeeded or this node leaves, JobFailed, and the other
        kinds of RendezvousError.
        """
        mailbox = self._start()
        if self._assignment is not None:
            mailbox.stopped(self._assignment)
        taken = mailbox.next_assignment(lambda: self._closed)
        if not isinstance(taken, Assignment):
            raise _error(taken)
        self._assignment = taken
        self._deps.port.release()
        return RendezvousInfo(
            store=None,
            rank=taken.group_rank,
            world_size=taken.group_world_size,
            bootstrap_store_info=RendezvousStoreInfo(taken.master_addr, taken.master_port),
            assignment=taken,
        )

    def is_closed(self) -> bool:
        """Whether this node's part in the job has ended."""
        return self._closed or (self._mailbox is not None and self._mailbox.ended is not None)

    def set_closed(self) -> None:
        """Take no further part; the job itself ends only by success, by the use of all restarts, or by its operator."""
        self._closed = True
        if self._mailbox is not None:
            self._mailbox.wake()

    def num_nodes_waiting(self) -> int:
        """Return 1 if this node's round has ended, for any reason; else 0."""
        if self._mailbox is None:
            return 0
        return int(self._mailbox.stop_order is not None or self._mailbox.is_offered)

    def shutdown(self) -> bool:
        """Leave, if the job has not ended, and release all resources; the workers must have stopped."""
        self._closed = True
        if self._run_task is None or self._mailbox is None:
            return True
        self._mailbox.wake()
        self.workers_stopped()
        self.leave()
        try:
            self._run_task.result(LEAVE_TIMEOUT_S)
        except concurrent.futures.CancelledError:
            return False
        except concurrent.futures.TimeoutError:
            log.warning("could not leave within %g s; the other nodes see it when the lease expires", LEAVE_TIMEOUT_S)
            self._run_task.cancel()
            return False
        return True

    # -- JobRendezvous ---------------------------------------------------------------------------

    def offer(self, node: NodeInfo, on_change: Callable[[], None]) -> None:
        """Set this node's data and the callback for changes."""
        self._node_info, self._on_change = node, on_change
        if self._mailbox is not None:
            self._mailbox.listen(on_change)

    def stop_order(self) -> StopOrder | None:
        """Return the order to stop the running workers."""
        return None if self._mailbox is None else self._mailbox.stop_order

    def outcome(self) -> Outcome | None:
        """Return how this node's part in the job has ended."""
        ended = None if self._mailbox is None else self._mailbox.ended
        return ended if isinstance(ended, Outcome) else None

    def workers_failed(self, failures: Sequence[LocalFailure]) -> None:
        """Report failures of workers."""
        if self._mailbox is not None and self._assignment is not None:
            self._mailbox.failed(self._assignment, failures)

    def workers_succeeded(self) -> None:
        """Report that all workers succeeded."""
        if self._mailbox is not None and self._assignment is not None:
            self._mailbox.succeeded(self._assignment)

    def workers_stopped(self) -> None:
        """Report that no worker runs any more."""
        if self._mailbox is not None and self._assignment is not None:
            self._mailbox.stopped(self._assignment)

    def leave(self) -> None:
        """Report that this node leaves."""
        self._leaving = True  # for a member that is created later
        if self._mailbox is not None and self._mailbox.ended is None:
            self._deps.loop.submit(self._request_leave())

    async def _request_leave(self) -> None:
        if self._member is not None:
            self._member.request_leave()

    # -- the member ------------------------------------------------------------------------------

    def _start(self) -> ThreadedWorkers:
        if self._mailbox is not None:
            return self._mailbox
        if self._node_info is None:
            raise RendezvousStateError("this node has no identity yet: call offer() before next_rendezvous()")
        identity = self._deps.make_identity(self._node_info)
        self._mailbox = self._deps.loop.submit(self._make_mailbox(identity)).result()
        self._mailbox.listen(self._on_change)
        self._run_task = self._deps.loop.submit(self._run_member(identity, self._mailbox))
        return self._mailbox

    async def _make_mailbox(self, identity: NodeIdentity) -> ThreadedWorkers:
        return ThreadedWorkers(
            renew_master_port=self._deps.port.acquire, pod=identity.pod, host=identity.host, wall_ns=self._deps.wall_ns
        )

    async def _run_member(self, identity: NodeIdentity, mailbox: ThreadedWorkers) -> None:
        """Run the member to its end, and pass each outcome or exception to the agent."""
        try:
            async with self._deps.connect() as etcd:
                self._member = self._make_member(etcd, identity, mailbox)
                if self._leaving:
                    self._member.request_leave()
                mailbox.end(await self._member.run())
        except BaseException as error:
            mailbox.end(error)
            if not isinstance(error, Exception):
                raise

    def _make_member(self, etcd: Etcd, identity: NodeIdentity, mailbox: ThreadedWorkers) -> RendezvousMember:
        return RendezvousMember(
            keep=NoKeep(),
            etcd=etcd,
            identity=identity,
            workers=mailbox,
            clock=self._deps.clock,
            random_hex=self._deps.random_hex,
            trace=self._deps.trace,
            join_timeout_s=self._deps.join_timeout_s,
        )


def _error(ended: Outcome | BaseException | None) -> RendezvousError:
    """Return the end of a member as an error for the agent, chained to the exception that the member raised."""
    if ended is None:
        return RendezvousClosedError("this node takes no further part: its handler was closed")
    if isinstance(ended, Outcome):
        return _outcome_error(ended)
    if isinstance(ended, RendezvousError):
        return ended
    kinds = {EtcdError: RendezvousConnectionError, RecordError: RendezvousStateError}
    kind = next((to for of, to in kinds.items() if isinstance(ended, of)), RendezvousError)
    error = kind(f"the rendezvous ended: {ended}" if str(ended) else f"the rendezvous ended: {ended!r}")
    error.__cause__ = ended
    return error


def _outcome_error(outcome: Outcome) -> RendezvousError:
    if outcome.code in {ExitCode.OK, ExitCode.LEFT}:
        return RendezvousGracefulExitError(outcome.detail)
    if outcome.code == ExitCode.JOIN_TIMEOUT:
        return RendezvousTimeoutError(outcome.detail)
    if outcome.code == ExitCode.JOB_DELETED:
        return RendezvousClosedError(outcome.detail)
    return JobFailed(outcome.detail)
