"""The observations of one leader, timed by its own monotonic clock: the only timers of the rendezvous.

A new leader starts without observations, so each wait starts again. No other host's clock and no wall clock is used. It
takes in all views, in order, and returns `Observations` for the plan. Only the age of the charged failures may be known
from before the election: the node has received every state.
"""

from elasticjob_agent.rendezvous.protocol import membership, round_triggers
from elasticjob_agent.rendezvous.protocol.mass_loss_grace import LossGraceTimer
from elasticjob_agent.rendezvous.protocol.membership import Observations
from elasticjob_agent.rendezvous.protocol.restart_budget import FailureAgeClock
from elasticjob_api.rendezvous_state import Cause, Member, RendezvousState, RoundPhase
from elasticjob_api.rendezvous_view import RendezvousView


class ObservationClock:
    """Records since when each condition of a job is true."""

    def __init__(
        self,
        failure_ages: FailureAgeClock | None = None,
        *,
        settle_until_s: float = 0.0,
        has_predecessor: bool = False,
    ) -> None:
        """`failure_ages` is the node's, with states from before its election; see `Observations`."""
        self._settle_until_s = settle_until_s
        self._has_predecessor = has_predecessor
        self._state_was_observed = self._spec_was_observed = False
        self._state: RendezvousState | None = None
        self._failure_ages = failure_ages or FailureAgeClock()
        self._round: tuple[int, bool] | None = None
        self._round_since_s = 0.0
        self._nodes: frozenset[Member] = frozenset()
        self._newest_key_s = 0.0
        self._enough_since_s: float | None = None
        self._joiner_since_s: float | None = None
        self._loss_grace = LossGraceTimer()

    def update(
        self,
        view: RendezvousView,
        now_s: float,
        *,
        proved: frozenset[Member] = frozenset(),
        lease_doubt_until_s: float = 0.0,
    ) -> Observations:
        """Take in a view received at `now_s` and the members that links prove to be gone; return the observations."""
        self._loss_grace.lease_doubt_until_s = max(self._loss_grace.lease_doubt_until_s, lease_doubt_until_s)
        self._update_round(view, now_s)
        self._update_settle(view, now_s)
        nodes = frozenset(view.nodes)
        if nodes - self._nodes:
            self._newest_key_s = now_s
        self._nodes = nodes
        self._enough_since_s = _since(self._enough_since_s, now_s, is_true=_has_enough(view))
        self._joiner_since_s = _since(self._joiner_since_s, now_s, is_true=_has_joiner(view))
        return Observations(
            now_s=now_s,
            forming_since_s=self._round_since_s,
            newest_key_s=self._newest_key_s,
            enough_since_s=self._enough_since_s,
            joiner_since_s=self._joiner_since_s,
            charged_ages_s=self._failure_ages.record(view.state.charged_failures if view.state else "", now_s),
            crashed=proved,
            loss_grace=self._loss_grace.update(view, now_s),
            settle_until_s=self._settle_until_s,
            state_was_observed=self._state_was_observed,
        )

    def _update_settle(self, view: RendezvousView, now_s: float) -> None:
        first = view.spec is not None and not self._spec_was_observed
        self._spec_was_observed = self._spec_was_observed or view.spec is not None
        self._state_was_observed = self._state_was_observed or bool(view.state_revision)
        if first and view.spec is not None and view.spec.first_round > 1 and not view.state_revision:
            # The operator reports that there were rounds before: agents that remember them may be about to rejoin.
            self._settle_until_s = max(self._settle_until_s, now_s + view.spec.keep_alive_s)
        if view.spec is not None:
            if self._was_written_back(view):
                self._settle_until_s = max(self._settle_until_s, now_s + view.spec.keep_alive_s)
            self._state = view.state

    def _was_written_back(self, view: RendezvousView) -> bool:
        """Return whether etcd was wiped, and another agent has just written the state back.

        This node may have started after the wipe. Then it has met none itself.
        """
        state, before = view.state, self._state
        if state is None:
            return False
        if before is not None:  # only a leader writes `active`, and rounds open one by one
            return state.round > before.round + (state.phase is not RoundPhase.ACTIVE)
        # The key of a job begins with the first round, which forms. A leader from before the wipe has waited.
        is_first = state.phase is RoundPhase.FORMING and state.cause is Cause.FIRST
        return not self._has_predecessor and view.state_create_revision == view.state_revision and not is_first

    def _update_round(self, view: RendezvousView, now_s: float) -> None:
        # A verdict in forming(r) does not begin another round: its clock goes on.
        current = (view.state.round, view.state.phase is RoundPhase.ACTIVE) if view.state else None
        if current != self._round:
            self._round, self._round_since_s = current, now_s
            self._enough_since_s = self._joiner_since_s = None


def _since(before_s: float | None, now_s: float, *, is_true: bool) -> float | None:
    if not is_true:
        return None
    return now_s if before_s is None else before_s


def _has_enough(view: RendezvousView) -> bool:
    return view.spec is not None and view.spec.sizes.largest(len(membership.candidates(view))) > 0


def _has_joiner(view: RendezvousView) -> bool:
    if view.spec is None or view.state is None or view.state.phase is not RoundPhase.ACTIVE:
        return False
    return bool(round_triggers.joiners(view, view.spec, view.state))
