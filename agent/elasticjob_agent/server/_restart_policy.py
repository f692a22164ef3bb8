"""Decisions after a failure, a success or a change of members: by this agent alone, or by the whole job.

`LocalRestartPolicy` is torch elastic's rule: each agent counts its own failures, and asks whether nodes wait.
`JobRestartPolicy` leaves every such decision to a rendezvous that knows the job. There the leader of a round counts the
failures, all nodes get the same count, and all act at once on the failure of one.
"""

# ruff: noqa: SLF001 - this is the other half of the agent's loop; it calls the hooks that subclasses override

import logging
import time
from typing import TYPE_CHECKING, Protocol

from elasticjob_agent.multiprocessing.errors import ProcessFailure
from elasticjob_agent.rendezvous.errors import JobFailed
from elasticjob_agent.rendezvous.job_rendezvous import JobRendezvous, LocalFailure, NodeInfo
from elasticjob_agent.rendezvous.protocol.startup_failure import WORKING_LIFE_S
from elasticjob_agent.server.types import RunResult, WorkerGroup, WorkerState
from elasticjob_api.exit_codes import ExitCode

if TYPE_CHECKING:
    from elasticjob_agent.server.api import SimpleElasticAgent

FAILURE_GRACE_S = 5.0
"""Seconds. Workers of a failed group often wait for a lost peer, and rarely stop by themselves."""
_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.25, 30.0
_NO_FILE = "<N/A>"
_LEAVE_TIMEOUT_S = 10.0
"""Maximum seconds for which the report of a leave may delay the stop of the workers."""

log = logging.getLogger(__name__)


class RestartPolicy(Protocol):
    """The decisions of one run; a result ends it, None continues it."""

    def begin(self, group: WorkerGroup) -> RunResult | None:
        """Join the first round."""

    def healthy(self, group: WorkerGroup) -> RunResult | None:
        """Check for new nodes or an end of the job; all workers here are healthy."""

    def failed(self, group: WorkerGroup, result: RunResult) -> RunResult | None:
        """Handle a failure of the group."""

    def succeeded(self, group: WorkerGroup, result: RunResult) -> RunResult | None:
        """Handle the success of all workers of this node."""

    def on_signal(self) -> None:
        """Report that a signal ends the agent; its workers still run."""

    def leave(self) -> None:
        """Leave the job after the end of the agent and its workers."""


class LocalRestartPolicy:
    """The rule by this agent's own count of failures."""

    def __init__(self, agent: "SimpleElasticAgent") -> None:
        self._agent = agent
        self._early = 0

    def begin(self, group: WorkerGroup) -> RunResult | None:
        """Start the workers; an error propagates."""
        self._agent._initialize_workers(group)
        return None

    def healthy(self, group: WorkerGroup) -> RunResult | None:
        """Restart for waiting nodes, without a charge to the budget."""
        waiting = self._agent._rdzv_handler.num_nodes_waiting()
        if waiting > 0:
            log.info("[%s] starting a new round: %d new nodes wait", group.spec.role, waiting)
            self._agent._restart_workers(group)
        return None

    def failed(self, group: WorkerGroup, result: RunResult) -> RunResult | None:
        """Restart if the budget allows it, after a pause if failures repeat."""
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
        """Wait before a restart, but not before the first: a single early failure gets an immediate second try."""
        self._early = self._early + 1 if self._agent._is_early else 0
        if self._early <= 1:
            return
        pause_s = min(_FIRST_BACKOFF_S * 2 ** (self._early - 2), _MAX_BACKOFF_S)
        log.warning(
            "[%s] failed %d times in a row within %g s of its start, which uses up the restarts; next try in %g s",
            group.spec.role,
            self._early,
            WORKING_LIFE_S,
            pause_s,
        )
        until_s = time.monotonic() + pause_s
        while (left_s := until_s - time.monotonic()) > 0:
            self._agent._act_on_signal()
            self._agent._mailbox.wait(left_s)

    def succeeded(self, group: WorkerGroup, result: RunResult) -> RunResult | None:  # noqa: ARG002 - the protocol's signature
        """Wait for the others; the result remains, whatever happens to them."""
        with self._agent._report_success_on_signal(result):
            self._agent._exit_barrier()
        return result

    def on_signal(self) -> None:
        """Do nothing: a report would close a plain rendezvous for good."""

    def leave(self) -> None:
        """Do nothing, as above."""


class JobRestartPolicy:
    """The rule by the job's own count, which its rendezvous keeps."""

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
        """Join the first round."""
        return self._next_round(group, RunResult(WorkerState.STOPPED), self._agent._initialize_workers)

    def healthy(self, group: WorkerGroup) -> RunResult | None:
        """Join the next round once the rendezvous has changed."""
        if self._job.num_nodes_waiting() == 0 and not self._job.is_closed():
            return None
        order = self._job.stop_order()
        self._agent._stop_grace_s = None if order is None else order.grace_s
        log.info("[%s] starting a new round: the members or the job have changed", group.spec.role)
        return self._next_round(group, RunResult(WorkerState.STOPPED), self._agent._restart_workers)

    def failed(self, group: WorkerGroup, result: RunResult) -> RunResult | None:
        """Report the failure to the job at once; the job decides for all nodes."""
        self._job.workers_failed(self._agent._failures_for_job(result))
        self._agent._stop_grace_s = FAILURE_GRACE_S
        if self._agent._is_wedged:
            self._agent._stop_workers(group)
            group.state = WorkerState.FAILED
            return RunResult(state=WorkerState.FAILED, failures=result.failures)
        return self._next_round(group, result, self._agent._restart_workers)

    def _next_round(self, group: WorkerGroup, result: RunResult, step: "Transition") -> RunResult | None:
        """Start rounds until all workers here have been started; return a result if the job ends instead."""
        start_error: Exception | None = None
        while True:
            try:
                step(group)
            except JobFailed as failed:
                log.error("[%s] the job failed: %s", group.spec.role, failed)  # noqa: TRY400  # the message has the cause; a trace would be of this loop
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
        """Wait until the job ends, or starts another round with this node because of a failure elsewhere."""
        self._job.workers_succeeded()
        until_s = time.monotonic() + self._agent._exit_barrier_timeout
        while not self._job.is_closed():
            with self._agent._report_success_on_signal(result):
                self._agent._act_on_signal()
            if self._job.num_nodes_waiting() > 0:
                return self._next_round(group, result, self._agent._restart_workers)
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                log.warning(
                    "[%s] the other nodes have not ended in time; leaving with the success of this one", group.spec.role
                )
                return result
            self._agent._mailbox.wait(left_s)
        outcome = self._job.outcome()
        if outcome is None or outcome.code in {ExitCode.OK, ExitCode.LEFT}:
            return result
        log.error("[%s] the job failed after this node had succeeded: %s", group.spec.role, outcome.detail)
        group.state = WorkerState.FAILED
        return RunResult(state=WorkerState.FAILED)

    def on_signal(self) -> None:
        """Report the leave before the workers here are stopped, so that the other nodes act at once."""
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
        """Leave the job, which continues or has ended without this node."""
        self._job.shutdown()


class Transition(Protocol):
    """A way to the next round."""

    def __call__(self, worker_group: WorkerGroup) -> None:
        """Start the next round."""


def failures_for_job(result: RunResult, *, is_early: bool) -> list[LocalFailure]:
    """Return the failures of a failed group in the form for its rendezvous."""
    if not result.failures:
        return [LocalFailure(local_rank=0, exit_code=1, message=f"the workers are {result.state.name}")]
    return [_failure(failure, is_early) for failure in result.failures.values()]


def _failure(failure: ProcessFailure, is_early: bool) -> LocalFailure:  # noqa: FBT001 - a fact, not a switch
    name = failure.signal_name()
    message = failure.message.get("message", "") if isinstance(failure.message, dict) else failure.message
    if failure.error_file == _NO_FILE and str(failure.pid) in message:
        message = ""  # it only describes exit code and signal
    return LocalFailure(
        local_rank=failure.local_rank,
        exit_code=failure.exitcode,
        signal=name if failure.exitcode < 0 else "",
        message=str(message),
        pid=failure.pid,
        startup=is_early,
    )


def _could_not_start(error: Exception) -> LocalFailure:
    """Return the failure with a shell's code: 127 for a command that does not exist, 126 for one that cannot run."""
    code = ExitCode.FAILED
    if isinstance(error, OSError):
        code = ExitCode.NOT_FOUND if isinstance(error, FileNotFoundError) else ExitCode.NOT_EXECUTABLE
    return LocalFailure(local_rank=0, exit_code=int(code), message=f"not started: {error}", startup=True)
