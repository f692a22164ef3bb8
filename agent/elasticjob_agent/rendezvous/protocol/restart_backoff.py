"""PURE: the wait between failures that repeat before any progress, so that a job that cannot start does not spin.

The first such failure is restarted at once: most are no such thing. From the second in a row on the next round
stays open for the initial wait, doubled with each, up to the greatest. It is measured from the beginning of that
round on the closer's own clock; a new closer waits anew. A requested restart does not wait.
"""

from elasticjob_agent.rendezvous.protocol.membership import Closing
from elasticjob_api.records import Slots
from elasticjob_api.rendezvous_state import Cause, World

_FREE = 1
_MOST_DOUBLINGS = 60


def delay_s(spec: Slots, strikes: int) -> float:
    """Seconds to wait after so many failures in a row before any progress."""
    if strikes <= _FREE:
        return 0.0
    doublings = min(strikes - _FREE - 1, _MOST_DOUBLINGS)
    return min(spec.backoff_initial_s * 2.0**doublings, spec.backoff_max_s)


def hold(spec: Slots, judged: World, *, forming_since_s: float, now_s: float) -> Closing | None:
    """Return the back-off that keeps this judged round open although all are ready; None if there is none."""
    if judged.cause is not Cause.WORKER_FAILED or spec.restart_id != judged.restart_id:
        return None
    until_s = forming_since_s + delay_s(spec, judged.strikes)
    if now_s >= until_s:
        return None
    return Closing(None, until_s, f"back-off after {judged.strikes} failures in a row before any progress")


def words(spec: Slots, strikes: int) -> str:
    """For the end of the failure's sentence: how often in a row, and how long that delays the next attempt."""
    if strikes <= _FREE:
        return ""
    said = f"; failure {strikes} in a row before any progress"
    wait_s = delay_s(spec, strikes)
    return said + (f", the next attempt is {wait_s:g} s after it" if wait_s else "")
