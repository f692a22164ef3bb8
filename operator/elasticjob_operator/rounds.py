"""How long rounds take to form, as this process sees them: for the metrics, never for a decision."""

from dataclasses import dataclass

from elasticjob_api.world import Cause, State, World

_NO_FAULT = {Cause.FIRST, Cause.RESUMED}
_RESIZE = {Cause.NODE_JOINED, Cause.SCALED_DOWN}


@dataclass(frozen=True, slots=True)
class Closed:
    """A round that has become active."""

    after_s: float
    resize: bool


@dataclass(slots=True)
class Rounds:
    """Of one job; moments are seconds of the wall clock."""

    forming: int = 0
    since_s: float = 0.0

    def note(self, world: World | None, now_s: float) -> Closed | None:
        """Take in the world; what has closed with it. A round that was never seen forming is not measured."""
        if world is None:
            return None
        if world.state is State.FORMING:
            if world.round != self.forming:
                self.forming, self.since_s = world.round, now_s
            return None
        measured = world.state is State.ACTIVE and world.round == self.forming and world.cause not in _NO_FAULT
        self.forming = 0
        return Closed(max(0.0, now_s - self.since_s), world.cause in _RESIZE) if measured else None
