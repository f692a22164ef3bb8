"""Dials of the commit channel: a few at a time, each in a thread, since a member that is gone takes seconds."""

import logging
import queue
import threading
from collections.abc import Callable, Mapping

from elasticjob_agent.keep.transfer.dialer import KeeperDialer
from elasticjob_agent.keep.transfer.errors import HandshakeError, TransferError
from elasticjob_agent.keep.transfer.handshake import Purpose
from elasticjob_agent.keep.transfer.session import Session
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.rendezvous_state import Member

MAX_DIALS = 16

log = logging.getLogger(__name__)


class MemberDialer:
    """Dials the keepers of members; `on_dialed` is called in a thread, with None for a member that was not reached."""

    def __init__(
        self,
        dialer: KeeperDialer,
        members: Mapping[Member, Address],
        on_dialed: Callable[[Member, Session | None], None],
    ) -> None:
        self._dialer = dialer
        self._members = members
        self._on_dialed = on_dialed
        self._queue: queue.SimpleQueue[Member | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name="keep dial", daemon=True)
            for _ in range(min(MAX_DIALS, len(members)))
        ]
        for thread in self._threads:
            thread.start()

    def begin(self, member: Member) -> None:
        """Dial a member soon."""
        self._queue.put(member)

    def close(self) -> None:
        """End the threads after the dials that they are at; do not wait for them."""
        for _ in self._threads:
            self._queue.put(None)

    def _run(self) -> None:
        while (member := self._queue.get()) is not None:
            self._on_dialed(member, self._dial(member))

    def _dial(self, member: Member) -> Session | None:
        try:
            session = self._dialer.dial(self._members[member], Purpose.COMMIT)
        except HandshakeError as error:
            log.warning("no commit channel to slot %d: %s", member.slot, error)
            return None
        except TransferError as error:
            log.debug("no commit channel to slot %d: %s", member.slot, error)
            return None
        if session.peer.identity.member != member:
            session.close()  # another member has its address now
            return None
        return session
