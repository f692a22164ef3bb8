"""The workers of a node as its rendezvous sees them, while an agent in another thread runs them.

For the member, in its event loop, this is a `WorkersPort`. For the agent it is a mailbox with one lock: an offered
round, an order to stop, the outcome. A round that is withdrawn before the agent took it was never started, so there is
nothing to stop. Only the loop's thread changes `phase` and `failures`. Each report of the agent names the round that it
took: a report about an older round may arrive after the next is offered.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence

from elasticjob_agent.rendezvous.job_rendezvous import LocalFailure, StopOrder
from elasticjob_agent.rendezvous.protocol.interfaces import Outcome
from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_api.keys import FailureKey
from elasticjob_api.records import WorkerFailure
from elasticjob_api.runtime_config import RuntimeConfig

Renew = Callable[[], int]


class ThreadedWorkers:
    """A `rendezvous.protocol.interfaces.WorkersPort` for workers that an agent runs in its thread."""

    def __init__(self, *, renew_master_port: Renew, pod: str, host: str, wall_ns: Callable[[], int]) -> None:
        """Create this inside the loop; `wall_ns` gives failures a time for users, and nothing else."""
        self.phase = Workers.NONE
        self.failures: dict[FailureKey, WorkerFailure] = {}
        self.on_change: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._renew = renew_master_port
        self._pod, self._host, self._wall_ns = pod, host, wall_ns
        self._assignment: Assignment | None = None
        self._rounds = threading.Condition()
        self._push: Callable[[], None] = lambda: None
        self._offered: Assignment | None = None
        self._stop_order: StopOrder | None = None
        self._ended: Outcome | BaseException | None = None
        self._closed = False  # the agent has stopped its workers without an order

    # -- the member's side, in the loop ----------------------------------------------------------

    async def start(self, assignment: Assignment, _config: RuntimeConfig) -> None:
        """Offer the round to the agent."""
        self.phase, self.failures, self._assignment, self._closed = Workers.RUNNING, {}, assignment, False
        with self._rounds:
            self._offered, self._stop_order = assignment, None
        self._notify()

    def stop(self, *, grace_s: float, signal_name: str) -> None:
        """Withdraw a round that the agent has not taken, or order the agent to stop its workers."""
        if self.phase in {Workers.NONE, Workers.SUCCEEDED}:
            return
        with self._rounds:
            untouched, self._offered = self._closed or self._offered is not None, None
            if not untouched:
                shorter = grace_s if self._stop_order is None else min(grace_s, self._stop_order.grace_s)
                self._stop_order = StopOrder(shorter, signal_name)
        if untouched:
            self._set_phase(Workers.NONE)
            return
        self.phase = Workers.STOPPING
        self._notify()

    def renew_master_port(self) -> int:
        """Reserve a new port for rank 0 of the next round."""
        return self._renew()

    def end(self, result: Outcome | BaseException) -> None:
        """Record the member's end; the agent receives it now or with its next call."""
        with self._rounds:
            self._ended, self._offered = result, None
        self._notify()

    def _notify(self) -> None:
        with self._rounds:
            self._rounds.notify_all()
            push = self._push
        push()

    def _set_phase(self, phase: Workers) -> None:
        self.phase = phase
        self.on_change()

    def _report_failures(self, assignment: Assignment, failures: Sequence[LocalFailure]) -> None:
        if assignment is not self._assignment or self.phase in {Workers.NONE, Workers.SUCCEEDED}:
            return  # about a round that has ended
        self.failures |= {assignment.failure_key(f.local_rank): self._record(assignment, f) for f in failures}
        # Also while the workers are being stopped: their own failures are reported before this node is ready.
        self._set_phase(Workers.FAILED if self.phase is Workers.RUNNING else self.phase)

    def _record(self, assignment: Assignment, failed: LocalFailure) -> WorkerFailure:
        return WorkerFailure(
            incarnation=assignment.member.incarnation,
            rank=assignment.base_rank + failed.local_rank,
            exit_code=failed.exit_code,
            signal=failed.signal,
            message=failed.message,
            pod=self._pod,
            host=self._host,
            pid=failed.pid,
            startup=failed.startup,
            time_ns=self._wall_ns(),
        )

    def _report_success(self, assignment: Assignment) -> None:
        if assignment is self._assignment and self.phase is Workers.RUNNING:
            self._set_phase(Workers.SUCCEEDED)

    def _stopped(self, assignment: Assignment) -> None:
        if assignment is not self._assignment:
            return
        with self._rounds:
            self._stop_order = None
        if self.phase is Workers.RUNNING:  # without an order: the other nodes must know the reason
            message = "the agent has stopped its workers by itself"
            self._report_failures(assignment, [LocalFailure(local_rank=0, exit_code=1, message=message)])
        if self.phase is Workers.FAILED:  # remains until the failure has opened the next round
            self._closed = True
        elif self.phase is Workers.STOPPING:
            self._set_phase(Workers.NONE)

    # -- the agent's side, in any thread ---------------------------------------------------------

    def listen(self, push: Callable[[], None]) -> None:
        """Call `push` after every change of this mailbox."""
        with self._rounds:
            self._push = push

    def next_assignment(self, cancelled: Callable[[], bool]) -> Assignment | Outcome | BaseException | None:
        """Wait for a round or the end; return None if `cancelled` returns True, which is called at each change."""
        with self._rounds:
            while self._offered is None and self._ended is None and not cancelled():
                self._rounds.wait()
            taken, self._offered = self._offered, None
            return taken or self._ended

    def wake(self) -> None:
        """Wake a waiting `next_assignment`, so that it calls its `cancelled` again."""
        with self._rounds:
            self._rounds.notify_all()

    @property
    def stop_order(self) -> StopOrder | None:
        """Return the order to stop."""
        with self._rounds:
            return self._stop_order

    @property
    def is_offered(self) -> bool:
        """Whether a round is offered and not taken."""
        with self._rounds:
            return self._offered is not None

    @property
    def ended(self) -> Outcome | BaseException | None:
        """Return how the member ended."""
        with self._rounds:
            return self._ended

    def failed(self, assignment: Assignment, failures: Sequence[LocalFailure]) -> None:
        """Report failures of workers of this round."""
        self._loop.call_soon_threadsafe(self._report_failures, assignment, tuple(failures))

    def succeeded(self, assignment: Assignment) -> None:
        """Report that all workers of this round succeeded."""
        self._loop.call_soon_threadsafe(self._report_success, assignment)

    def stopped(self, assignment: Assignment) -> None:
        """Report that no worker of this round runs any more."""
        self._loop.call_soon_threadsafe(self._stopped, assignment)
