"""The identity of a node, which its keeper proves to other nodes."""

import contextlib

from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.keep.keeper.errors import KeeperError
from elasticjob_agent.keep.keeper.messages import JoinRequest
from elasticjob_agent.node import keep_requests
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_state import Member, RendezvousState, RoundPhase


class KeeperIdentity:
    """The identity of one node, and the one that its keeper has got."""

    def __init__(self, keeper: KeeperClient) -> None:
        self._keeper = keeper
        self.me: Member | None = None
        self._secret: bytes | None = None
        self._joined: JoinRequest | None = None
        self._early: tuple[str, Member | None, bytes | None] | None = None
        """The state, by its nonce, for which the keeper got the identity before the round closed."""

    def observe(self, me: Member, secret: bytes | None) -> bool:
        """Take in the identity of the present session; return whether it is news."""
        is_news = (me, secret) != (self.me, self._secret)
        self.me, self._secret = me, secret
        return is_news

    def note_forming(self, state: RendezvousState) -> bool:
        """Take in a state; return whether `join_early` is to be called for it, once if it forms a round."""
        key = state.nonce, self.me, self._secret
        if not state.run or state.phase is not RoundPhase.FORMING or key == self._early:
            return False
        self._early = key
        return True

    async def join_early(self, state: RendezvousState) -> None:
        """Let the keeper serve its parts before the round closes: other nodes may fetch them at once."""
        with contextlib.suppress(RecordError, KeeperError):  # the round that follows tries it again
            await self.join(state)

    async def join(self, state: RendezvousState, *, is_needed: bool = False) -> None:
        """Let the keeper know its identity, if that is news or `is_needed`; raise RecordError or KeeperError."""
        if self.me is None:
            return
        request = keep_requests.join_request(state, self.me, self._secret)
        is_same = self._joined is not None and keep_requests.is_same_identity(self._joined, request)
        if not is_same or is_needed:
            await self._keeper.join(request)
            self._joined = request
