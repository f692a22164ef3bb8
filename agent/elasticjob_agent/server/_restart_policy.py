"""The decision after a failure, a success or a change of the world: by this agent alone, or by the whole job.

`LocalRestartPolicy` is torch elastic's rule: each agent counts its own failures, and asks whether nodes wait.
`JobRestartPolicy` hands every such decision to a rendezvous that knows the job: there the closer of a round charges,
all nodes learn the same count, and a failure of one is acted on by all at once.
"""

# ruff: noqa: SLF001 - this is the other half of the agent's loop; what it calls are the hooks that subclasses override

import logging
import time
from typing import TYPE_CHECKING, Protocol

from elasticjob_agent.multiprocessing.errors import ProcessFailure
from elasticjob_agent.rendezvous.errors import JobFailed
from elasticjob_agent.rendezvous.job_rendezvous import JobRendezvous, LocalFailure, NodeInfo
from elasticjob_agent.server.types import RunResult, WorkerGroup, WorkerState
from elasticjob_api.exit_codes import ExitCode

if TYPE_CHECKING:
    from elasticjob_agent.server.api import SimpleElasticAgent

FAILURE_GRACE_S = 5.0
"""Workers of a failed group wait for a peer that is gone: they rarely stop by themselves."""
STARTUP_FAILURE_S = 10.0
"""A failure sooner than this after the start is likely to repeat at once."""
_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.25, 30.0
_NO_FILE = "<N/A>"
_LEAVE_TIMEOUT_S = 10.0
"""Seconds that reporting a leave may hold up the stop of the workers."""

VERDICTS = "elasticjob_agent.server.verdicts"
"""Logger of the line about the job's end. A program with such a line of its own drops these records."""

log = logging.getLogger(__name__)
verdicts = logging.getLogger(VERDICTS)


class RestartPolicy(Protocol):
    """The decisions of one run; a result ends it, None goes on."""

    def begin(self, group: WorkerGroup) -> RunResult | None:
        """The first round."""

    def healthy(self, group: WorkerGroup) -> RunResult | None:
        """All is well here; has the world changed?"""

    def failed(self, group: WorkerGroup, result: RunResult) -> RunResult | None:
        """The group failed."""

    def succeeded(self, group: WorkerGroup, result: RunResult) -> RunResult | None:
        """All workers of this node ended well."""

    def on_signal(self) -> None:
        """A signal ends the agent; its workers still run."""

    def leave(self) -> None:
        """The agent has ended, and its workers with it."""


class LocalRestartPolicy:
    """This agent's own count of failures."""

    def __init__(self, agent: "SimpleElasticAgent") -> None:
        self._agent = agent
        self._early = 0

    def begin(self, group: WorkerGroup) -> RunResult | None:
        """Start; an error propagates."""
        self._agent._initialize_workers(group)
        return None

    def healthy(self, group: WorkerGroup) -> RunResult | None:
        """Restart for nodes that wait; the budget is untouched."""
        waiting = self._agent._rdzv_handler.num_nodes_waiting()
        if waiting > 0:
            log.info("[%s] %d new nodes wait: a new round", group.spec.role, waiting)
            self._agent._restart_workers(group)
        return None

    def failed(self, group: WorkerGroup, result: RunResult) -> RunResult | None:
        """Restart if the budget allows it, after a pause if this happens again and again."""
        agent = self._agent
        agent._stop_grace_s = FAILURE_GRACE_S
        if agent._remaining_restarts <= 0:
            agent._stop_workers(group)
            group.state = WorkerState.FAILED
            return RunResult(state=WorkerState.FAILED, failures=result.failures)
        agent._remaining_restarts -= 1
        self._log(group, result, "will restart it")
        self._pause(group)
        agent._restart_workers(group)
        return None

    def _log(self, group: WorkerGroup, result: RunResult, what: str) -> None:
        left, most = self._agent._remaining_restarts, group.spec.max_restarts
        log.info(
            "[%s] worker group %s; %s, %d of %d restarts left", group.spec.role, result.state.name, what, left, most
        )

    def _pause(self, group: WorkerGroup) -> None:
        """Not before the first restart: what fails once at its start is worth an immediate second try."""
        self._early = self._early + 1 if self._agent._is_early else 0
        if self._early <= 1:
            return
        pause_s = min(_FIRST_BACKOFF_S * 2 ** (self._early - 2), _MAX_BACKOFF_S)
        log.warning(
            "[%s] failed %d times in a row within %g s of its start, which uses up the restarts; next try in %g s",
            group.spec.role,
            self._early,
            STARTUP_FAILURE_S,
            pause_s,
        )
        until_s = time.monotonic() + pause_s
        while (left_s := until_s - time.monotonic()) > 0:
            self._agent._act_on_signal()
            self._agent._mailbox.wait(left_s)

    def succeeded(self, group: WorkerGroup, result: RunResult) -> RunResult | None:  # noqa: ARG002 - one shape for both
        """Wait for the others; the result stands whatever comes of it."""
        with self._agent._report_success_on_signal(result):
            self._agent._exit_barrier()
        return result

    def on_signal(self) -> None:
        """Nobody is told: a plain rendezvous would be closed for good by it."""

    def leave(self) -> None:
        """As above."""


class JobRestartPolicy:
    """The job's own count, kept by its rendezvous."""

    def __init__(self, agent: "SimpleElasticAgent", job: JobRendezvous) -> None:
        self._agent = agent
        self._job = job
        spec = agent._worker_group.spec
        node = NodeInfo(
            role=spec.role,
            local_world_size=spec.local_world_size,
            max_restarts=spec.max_restarts,
            local_addr=spec.local_addr,
        )
        job.offer(node, agent._mailbox.wake)

    def begin(self, group: WorkerGroup) -> RunResult | None:
        """Take part."""
        return self._next_round(group, RunResult(WorkerState.STOPPED), self._agent._initialize_workers)

    def healthy(self, group: WorkerGroup) -> RunResult | None:
        """Follow the world, once it has changed."""
        if self._job.num_nodes_waiting() == 0 and not self._job.is_closed():
            return None
        order = self._job.stop_order()
        self._agent._stop_grace_s = None if order is None else order.grace_s
        log.info("[%s] the world has changed: a new round", group.spec.role)
        return self._next_round(group, RunResult(WorkerState.STOPPED), self._agent._restart_workers)

    def failed(self, group: WorkerGroup, result: RunResult) -> RunResult | None:
        """Tell the job at once; what follows is for all nodes to learn from it."""
        self._job.workers_failed(self._agent._failures_for_job(result))
        self._agent._stop_grace_s = FAILURE_GRACE_S
        if self._agent._is_wedged:
            self._agent._stop_workers(group)
            group.state = WorkerState.FAILED
            return RunResult(state=WorkerState.FAILED, failures=result.failures)
        return self._next_round(group, result, self._agent._restart_workers)

    def _next_round(self, group: WorkerGroup, result: RunResult, step: "Transition") -> RunResult | None:
        """The next round, and again the next while workers cannot be started; or the end of the job."""
        start_error: Exception | None = None
        while True:
            try:
                step(group)
            except JobFailed as failed:
                verdicts.error("[%s] the job failed: %s", group.spec.role, failed)
                if start_error is not None:
                    raise start_error from failed
                group.state = WorkerState.FAILED
                return RunResult(state=WorkerState.FAILED, failures=result.failures)
            except Exception as error:
                if error is not self._agent._start_error:
                    raise
                log.warning("[%s] the workers of this node could not be started: %s", group.spec.role, error)
                start_error = error
                self._job.workers_failed([_could_not_start(error)])
                step = self._agent._restart_workers
            else:
                return None

    def succeeded(self, group: WorkerGroup, result: RunResult) -> RunResult | None:
        """Wait until the job ends, or takes this node into another round because somebody else failed."""
        self._job.workers_succeeded()
        until_s = time.monotonic() + self._agent._exit_barrier_timeout
        while not self._job.is_closed():
            with self._agent._report_success_on_signal(result):
                self._agent._act_on_signal()
            if self._job.num_nodes_waiting() > 0:
                return self._next_round(group, result, self._agent._restart_workers)
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                log.warning("[%s] the other nodes are not done; leaving with the success of this one", group.spec.role)
                return result
            self._agent._mailbox.wait(left_s)
        outcome = self._job.outcome()
        if outcome is None or outcome.code in {ExitCode.OK, ExitCode.LEFT}:
            return result
        verdicts.error("[%s] the job failed after this node was done: %s", group.spec.role, outcome.detail)
        group.state = WorkerState.FAILED
        return RunResult(state=WorkerState.FAILED)

    def on_signal(self) -> None:
        """The others learn of the leave before the workers here are stopped: they move at once."""
        self._job.leave()
        until_s = time.monotonic() + _LEAVE_TIMEOUT_S
        mailbox = self._agent._mailbox
        while not (self._job.is_closed() or self._job.stop_order() or mailbox.is_urgent):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                log.warning("could not report within %g s that this node leaves", _LEAVE_TIMEOUT_S)
                return
            mailbox.wait(left_s)

    def leave(self) -> None:
        """Out of the job, which goes on or has ended without this node."""
        self._job.shutdown()


class Transition(Protocol):
    """A way into the next round."""

    def __call__(self, worker_group: WorkerGroup) -> None:
        """Take it."""


def failures_for_job(result: RunResult, *, is_early: bool) -> list[LocalFailure]:
    """Those of a failed group as its rendezvous must know them."""
    if not result.failures:
        return [LocalFailure(local_rank=0, exit_code=1, message=f"the workers are {result.state.name}")]
    return [_failure(failure, is_early) for failure in result.failures.values()]


def _failure(failure: ProcessFailure, is_early: bool) -> LocalFailure:  # noqa: FBT001 - a fact, not a switch
    name = failure.signal_name()
    message = failure.message.get("message", "") if isinstance(failure.message, dict) else failure.message
    if failure.error_file == _NO_FILE and str(failure.pid) in message:
        message = ""  # it only says in words what exit code and signal say
    return LocalFailure(
        local_rank=failure.local_rank,
        exit_code=failure.exitcode,
        signal=name if failure.exitcode < 0 else "",
        message=str(message),
        pid=failure.pid,
        startup=is_early,
    )


def _could_not_start(error: Exception) -> LocalFailure:
    """As a shell would end: 127 for a command that is not there, 126 for one that cannot be executed."""
    code = ExitCode.FAILED
    if isinstance(error, OSError):
        code = ExitCode.NOT_FOUND if isinstance(error, FileNotFoundError) else ExitCode.NOT_EXECUTABLE
    return LocalFailure(local_rank=0, exit_code=int(code), message=f"not started: {error}", startup=True)
