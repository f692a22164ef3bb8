"""A member of a group that proves its identity as any keeper does, and then announces and answers what a test wants."""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elasticjob_agent.keep.client import KeeperClient
from elasticjob_agent.keep.keeper.messages import BeginRequest, JoinRequest, OpenRequest, PeersRequest
from elasticjob_agent.keep.keeper.round_peers import parse_member
from elasticjob_agent.keep.rules.commit import SafePoint
from elasticjob_agent.keep.transfer.commit_frames import decode_safe_point
from elasticjob_agent.keep.transfer.errors import TransferError
from elasticjob_agent.keep.transfer.frames import Dead, Full, Have, Message, NoPart
from elasticjob_agent.keep.transfer.handshake import KeeperIdentity, Purpose
from elasticjob_agent.keep.transfer.listener import open_listener
from elasticjob_agent.keep.transfer.server import TransferServer
from elasticjob_agent.keep.transfer.session import KeeperCredentials, Session
from elasticjob_agent.keep.transfer.signed_lines import MAX_LINE_BYTES
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import Holdings, KeptStep

_FOREVER_S = 600.0


class LyingKeeper(KeeperClient):
    """A client without a keeper process: it holds nothing, and listens itself."""

    def __init__(self, volume: OpenRequest, **options: Any) -> None:
        super().__init__(volume, **options)
        self.points: list[SafePoint] = []
        """The points that leaders' keepers have sent."""
        self.channels = 0
        """How often a leader's keeper has opened a channel to it."""
        self.answer: Have | Full | Dead = Full()
        """Its answer to each offer, of which it takes nothing."""
        self.served: Sequence[Message | bytes] = (NoPart(),)
        """The messages, and bytes of files, that it sends to each fetcher."""
        self._said: tuple[bytes, ...] = ()
        self._lock = threading.Lock()
        self._channels: list[Session] = []
        self._credentials: KeeperCredentials | None = None
        handlers = {Purpose.COMMIT: self._lie, Purpose.PUT: self._take, Purpose.GET: self._serve}
        self._server = TransferServer(volume.host, open_listener(volume.host), self._prove, handlers)

    def announce(self, *lies: bytes) -> None:
        """Send these lines to the leader's keeper, and again on each new channel."""
        with self._lock:
            self._said = lies
            for session in self._channels:
                with contextlib.suppress(TransferError):  # its next channel gets them
                    self._say(session)

    @property
    def credentials(self) -> KeeperCredentials:
        """The proof of its identity."""
        assert self._credentials is not None
        return self._credentials

    # --- handlers of sessions ----------------------------------------------------------------------------------------

    def _prove(self) -> KeeperCredentials | None:
        return self._credentials

    def _say(self, session: Session) -> None:
        for lie in self._said:
            session.connection.write(session.outgoing.encode(lie))

    def _lie(self, session: Session) -> None:
        try:
            with self._lock:
                self._channels.append(session)
                self.channels += 1
                self._say(session)
            while True:
                line = session.connection.read_line(MAX_LINE_BYTES, _FOREVER_S)
                if (message := session.incoming.take(line)) is not None:
                    self.points.append(decode_safe_point(message))
        finally:
            with self._lock:
                self._channels.remove(session)

    def _take(self, session: Session) -> None:
        session.receive()
        session.send(self.answer)

    def _serve(self, session: Session) -> None:
        session.receive()
        for each in self.served:
            if isinstance(each, bytes):
                session.connection.write(each)
            else:
                session.send(each)
                if not isinstance(each, NoPart):
                    session.receive()  # WANT after an offer, HAVE or BAD after sums

    # --- for the group, in place of a keeper -------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen."""
        self._server.open()
        self.port = self._server.address.port

    async def join(self, joined: JoinRequest) -> Holdings:
        """Have this identity."""
        identity = KeeperIdentity(self._replayed.opened.job, joined.run, parse_member(joined.member))
        self._credentials = KeeperCredentials(identity, bytes.fromhex(joined.secret))
        return self.holdings

    async def begin_round(self, begun: BeginRequest) -> Path:
        """Return a directory in which nothing is taken."""
        return Path(self._replayed.opened.root) / str(begun.lineage)

    async def fetch(
        self, step: KeptStep, sources: Mapping[int, Sequence[Address]], within_s: float, *, run: str = ""
    ) -> Path:
        """Fetch nothing."""
        del sources, within_s, run
        return Path(self._replayed.opened.root) / str(step)

    async def seal(self) -> Holdings:
        """Hold nothing."""
        return self.holdings

    def set_peers(self, peers: PeersRequest) -> None:
        """Need no peers."""

    def report_start(self) -> None:
        """Have no workers."""

    async def close(self, *, erase: bool = False) -> None:
        """Stop listening."""
        del erase
        self._server.close()
