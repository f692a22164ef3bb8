"""The rounds of one job that this process observed, newest last; their number is bounded, and no copy is stored.

Times are seconds since 1970 by the operator's clock. They are only shown to users; no decision depends on them.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import RendezvousState, RoundPhase

MAX_ROUNDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEntry:
    """One round; a time that was not observed is None."""

    number: int
    cause: str
    detail: str
    opened_s: float | None = None
    active_s: float | None = None
    ended_s: float | None = None
    end: str = ""
    """The state after the round: `forming`, `suspended`, `succeeded` or `failed`; empty while the round is the last."""
    nodes: int = 0
    workers: int = 0
    steps: Mapping[str, float] = field(default_factory=dict)
    """Seconds of detect, stop, agree and start, once the agents have reported them."""


@dataclass(slots=True)
class RoundHistory:
    """The rounds of one job."""

    rounds: deque[RoundEntry] = field(default_factory=lambda: deque(maxlen=MAX_ROUNDS))

    def record(self, state: RendezvousState, now_s: float, *, active_since_s: float | None = None) -> None:
        """Record a rendezvous state; `active_since_s` is the start of a round that was active when first observed."""
        last = self.rounds[-1] if self.rounds else None
        if state.state is RoundPhase.FORMING:
            if last is None or last.number != state.round:
                self._end(now_s, RoundPhase.FORMING)
                self.rounds.append(replace(_new_round(state), opened_s=now_s))
        elif state.state is RoundPhase.ACTIVE:
            self._activate(last, state, now_s, active_since_s)
        elif last is not None and not last.end:
            self._end(now_s, state.state)

    def measured(self, number: int, steps: Mapping[str, float]) -> None:
        """Record the durations of a round's steps."""
        for i, known in enumerate(self.rounds):
            if known.number == number:
                self.rounds[i] = replace(known, steps=dict(steps))

    def _activate(
        self, last: RoundEntry | None, state: RendezvousState, now_s: float, active_since_s: float | None
    ) -> None:
        if last is not None and last.number == state.round:
            if last.active_s is None:
                self.rounds[-1] = _activated(last, state, now_s)
            return
        self._end(now_s, RoundPhase.FORMING)
        began_s = active_since_s if last is None and active_since_s is not None else now_s
        self.rounds.append(_activated(_new_round(state), state, began_s))

    def _end(self, now_s: float, phase: RoundPhase) -> None:
        if self.rounds and not self.rounds[-1].end:
            self.rounds[-1] = replace(self.rounds[-1], ended_s=now_s, end=phase.value)


def _new_round(state: RendezvousState) -> RoundEntry:
    return RoundEntry(number=state.round, cause=state.cause.value, detail=state.message)


def _activated(round_: RoundEntry, state: RendezvousState, since_s: float) -> RoundEntry:
    return replace(round_, active_s=since_s, nodes=len(state.members), workers=_workers(state))


def _workers(state: RendezvousState) -> int:
    try:
        return sum(state.workers_per_node())
    except RecordError:
        return 0
