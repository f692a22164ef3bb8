"""PURE: the wait between failures that repeat before any progress, so that a job that cannot start does not spin.

The first such failure is restarted at once: most are no such thing. From the second in a row on the next round
stays open for the initial wait, doubled with each, up to the greatest. It is measured from the beginning of that
round on the closer's own clock; a new closer waits anew. A requested restart does not wait.
"""

from elasticjob_agent.rendezvous.protocol.membership import CloseDecision
from elasticjob_api.records import SpecRecord
from elasticjob_api.rendezvous_state import Cause, RendezvousState

_FREE_RESTARTS = 1
_MAX_DOUBLINGS = 60


def restart_delay_s(spec: SpecRecord, startup_failures: int) -> float:
    """Seconds to wait after so many failures in a row before any progress."""
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
    """For the end of the failure's sentence: how often in a row, and how long that delays the next attempt."""
    if startup_failures <= _FREE_RESTARTS:
        return ""
    said = f"; failure {startup_failures} in a row before any progress"
    wait_s = restart_delay_s(spec, startup_failures)
    return said + (f", the next attempt is {wait_s:g} s after it" if wait_s else "")
