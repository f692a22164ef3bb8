"""The requests that a keeper gets again when it replaces one that has ended. No I/O."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from elasticjob_agent.keep.keeper.messages import (
    BeginRequest,
    FetchRequest,
    JoinRequest,
    LingerRequest,
    OpenRequest,
    PeersRequest,
    Request,
    StartedRequest,
)
from elasticjob_agent.keep.keeper.persist_messages import DrainRequest, ListRequest


@dataclass(slots=True)
class TimedRequest:
    """A request whose end comes later, and the time at which it is over."""

    request: FetchRequest | LingerRequest
    deadline_s: float

    def rest(self, now_s: float) -> FetchRequest | LingerRequest:
        """Return the request with the time that is left."""
        return replace(self.request, within_s=max(0.0, self.deadline_s - now_s))


@dataclass(slots=True)
class ReplayedRequests:
    """The requests to the keeper of now, as far as the next one needs them."""

    opened: OpenRequest
    joined: JoinRequest | None = None
    begun: BeginRequest | None = None
    peers: PeersRequest | None = None
    has_started: bool = False
    listed: ListRequest | None = None
    fetch: TimedRequest | None = None
    linger: TimedRequest | None = None
    drain: DrainRequest | None = None

    def begin(self, begun: BeginRequest) -> None:
        """Forget what belonged to an earlier round."""
        self.begun, self.peers, self.has_started, self.fetch, self.linger = begun, None, False, None, None

    def seal(self) -> None:
        """Forget the round."""
        self.begun, self.peers, self.has_started, self.fetch = None, None, False, None

    def note_listed(self, numbers: Iterable[int]) -> None:
        """Let the next keeper look for no higher step than these, which are in the shared directory."""
        wanted, highest = self.opened.persisted_step, max(numbers, default=None)
        if wanted is not None and highest is not None:
            self.opened = replace(self.opened, persisted_step=min(wanted, highest))

    def in_order(self, now_s: float) -> Iterator[Request]:
        """Yield all of them but the first."""
        if self.joined is not None:
            # Steps of a round that became active since are not in its history.
            yield replace(self.joined, history=None, active=None)
        yield from (each for each in (self.listed, self.begun, self.peers) if each is not None)
        if self.has_started:
            yield StartedRequest()
        yield from (each.rest(now_s) for each in (self.fetch, self.linger) if each is not None)
        if self.drain is not None:
            yield self.drain
