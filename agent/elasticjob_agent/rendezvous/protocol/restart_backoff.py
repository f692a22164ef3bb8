"""The back-off after repeated failures of the start, so that a job that cannot start does not restart in a loop.

`startup_failure` decides which failures are of the start.

The first restart is immediate, because most failures do not repeat. From the second failure in a row on, the next round
stays open for the initial delay. The delay doubles with each further failure, up to the maximum. The leader measures it
from the beginning of that round on its own clock; a new leader starts it again. A requested restart has no delay.
"""

from elasticjob_agent.rendezvous.protocol.membership import CloseDecision
from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import Cause, RendezvousState

_FREE_RESTARTS = 1
_MAX_DOUBLINGS = 60


def restart_delay_s(spec: SpecRecord, startup_failures: int) -> float:
    """Return the seconds to wait after so many failures in a row before any progress."""
    if startup_failures <= _FREE_RESTARTS:
        return 0.0
    doublings = min(startup_failures - _FREE_RESTARTS - 1, _MAX_DOUBLINGS)
    return min(spec.backoff_initial_s * 2.0**doublings, spec.backoff_max_s)


def delay_round(
    spec: SpecRecord, decided: RendezvousState, *, forming_since_s: float, now_s: float
) -> CloseDecision | None:
    """Return the back-off that keeps this judged round open although all are ready; None if there is none."""
    if decided.cause is not Cause.WORKER_FAILED or spec.restart_id != decided.restart_id:
        return None
    until_s = forming_since_s + restart_delay_s(spec, decided.startup_failures)
    if now_s >= until_s:
        return None
    return CloseDecision(
        None, until_s, f"back-off after {decided.startup_failures} failures in a row before any progress"
    )


def describe_delay(spec: SpecRecord, startup_failures: int) -> str:
    """Return the end of a failure's message: how many in a row, and by how much they delay the next attempt."""
    if startup_failures <= _FREE_RESTARTS:
        return ""
    text = f"; failure {startup_failures} in a row before any progress"
    wait_s = restart_delay_s(spec, startup_failures)
    return text + (f", the next attempt is {wait_s:g} s after it" if wait_s else "")
