"""The rounds of one job as this process saw them, newest last: bounded, and gone with the process.

Moments are seconds since 1970 of the operator's clock; they are for people, and decide nothing.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import RendezvousState, RoundPhase, from_run_lengths

MAX_ROUNDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEntry:
    """One round; a moment that was not seen is None."""

    number: int
    cause: str
    detail: str
    opened_s: float | None = None
    active_s: float | None = None
    ended_s: float | None = None
    end: str = ""
    """The state that came after it: `forming`, `suspended`, `succeeded` or `failed`; empty while it is the last."""
    nodes: int = 0
    workers: int = 0
    steps: Mapping[str, float] = field(default_factory=dict)
    """Seconds of detect, stop, agree and start, once its agents have told."""


@dataclass(slots=True)
class RoundHistory:
    """Of one job."""

    rounds: deque[RoundEntry] = field(default_factory=lambda: deque(maxlen=MAX_ROUNDS))

    def record(self, world: RendezvousState, now_s: float, *, active_since_s: float | None = None) -> None:
        """Take in the world. `active_since_s`: since when a round is active that was so at the first look."""
        last = self.rounds[-1] if self.rounds else None
        if world.state is RoundPhase.FORMING:
            if last is None or last.number != world.round:
                self._end(now_s, RoundPhase.FORMING)
                self.rounds.append(replace(_new_round(world), opened_s=now_s))
        elif world.state is RoundPhase.ACTIVE:
            self._activate(last, world, now_s, active_since_s)
        elif last is not None and not last.end:
            self._end(now_s, world.state)

    def measured(self, number: int, steps: Mapping[str, float]) -> None:
        """The steps of a round are known."""
        for i, known in enumerate(self.rounds):
            if known.number == number:
                self.rounds[i] = replace(known, steps=dict(steps))

    def _activate(
        self, last: RoundEntry | None, world: RendezvousState, now_s: float, active_since_s: float | None
    ) -> None:
        if last is not None and last.number == world.round:
            if last.active_s is None:
                self.rounds[-1] = _activated(last, world, now_s)
            return
        self._end(now_s, RoundPhase.FORMING)
        began_s = active_since_s if last is None and active_since_s is not None else now_s
        self.rounds.append(_activated(_new_round(world), world, began_s))

    def _end(self, now_s: float, state: RoundPhase) -> None:
        if self.rounds and not self.rounds[-1].end:
            self.rounds[-1] = replace(self.rounds[-1], ended_s=now_s, end=state.value)


def _new_round(world: RendezvousState) -> RoundEntry:
    return RoundEntry(number=world.round, cause=world.cause.value, detail=world.message)


def _activated(round_: RoundEntry, world: RendezvousState, since_s: float) -> RoundEntry:
    return replace(round_, active_s=since_s, nodes=len(world.members), workers=_workers(world))


def _workers(world: RendezvousState) -> int:
    try:
        return sum(int(count) for count in from_run_lengths(world.nprocs, "x"))
    except (RecordError, ValueError):
        return 0
