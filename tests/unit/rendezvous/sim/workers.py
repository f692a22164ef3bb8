"""One node's workers, as far as the rendezvous sees them; the test chooses their ends."""

from collections.abc import Callable

from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.rendezvous.protocol.ranks import Assignment
from elasticjob_api.keys import FailureKey
from elasticjob_api.records import WorkerFailure
from elasticjob_api.runtime_config import RuntimeConfig

ALIVE = {Workers.RUNNING, Workers.FAILED, Workers.STOPPING}


class SimWorkers:
    """A `WorkersPort`; `on_start` is called at every start."""

    def __init__(self, on_start: Callable[[Assignment], None]) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.phase = Workers.NONE
        self.failures: dict[FailureKey, WorkerFailure] = {}
        self.place: Assignment | None = None
        self.wedged = False
        self.port = 20000
        self.grace_s: float | None = None
        self._on_start = on_start

    @property
    def alive(self) -> bool:
        """Whether a process of the group may still run."""
        return self.phase in ALIVE

    async def start(self, assignment: Assignment, config: RuntimeConfig) -> None:
        assert not self.alive, "started beside workers that still run"
        assert config.graceful_shutdown_s >= 0
        self._on_start(assignment)
        self.place, self.failures, self.phase = assignment, {}, Workers.RUNNING

    def stop(self, *, grace_s: float, signal_name: str) -> None:
        assert grace_s >= 0
        assert signal_name
        self.grace_s = grace_s
        if self.phase in {Workers.RUNNING, Workers.FAILED}:
            self.phase = Workers.STOPPING

    def renew_master_port(self) -> int:
        self.port += 1
        return self.port

    # Events of the workers.

    def fail(self, exit_code: int) -> bool:
        """Let one more worker fail by itself; at most two can."""
        if self.phase not in {Workers.RUNNING, Workers.FAILED} or self.place is None or len(self.failures) > 1:
            return False
        member, rank = self.place.member, self.place.base_rank
        failure = WorkerFailure(incarnation=member.incarnation, rank=rank, exit_code=exit_code, message="boom")
        self.failures[self.place.failure_key(len(self.failures))] = failure
        self.phase = Workers.FAILED
        return True

    def finish(self) -> bool:
        """Let all workers exit with code 0."""
        if self.phase is not Workers.RUNNING:
            return False
        self.phase = Workers.SUCCEEDED
        return True

    def settle(self) -> bool:
        """Let workers with an order to stop be stopped, unless they are stuck in the kernel."""
        if self.phase is not Workers.STOPPING or self.wedged:
            return False
        self.phase = Workers.NONE
        return True
