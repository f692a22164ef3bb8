"""The wait of a node that leaves, until no other node needs what its keeper holds."""

from elasticjob_agent.keep.keeper.messages import LingerRequest, LingerResult
from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.rules.departure import is_drained
from elasticjob_agent.keep.rules.retention import select_alive
from elasticjob_api.kept_steps import Holdings


class DepartureWait:
    """One LingerRequest; the times are of any clock that never goes back."""

    def __init__(self, request: LingerRequest, *, now_s: float) -> None:
        self._request = request
        self._deadline_s = now_s + request.within_s

    def left_s(self, now_s: float) -> float:
        """Return the seconds until its deadline, 0 at the least."""
        return max(0.0, self._deadline_s - now_s)

    def result(self, held: Holdings, point: SafePoint | None, *, now_s: float) -> LingerResult | None:
        """Return the end of the wait; None if it goes on."""
        alive = select_alive(held, self._request.history, self._request.active)
        if is_drained(alive, self._request.active, point):
            return LingerResult(is_drained=True)
        return LingerResult(is_drained=False) if now_s >= self._deadline_s else None
