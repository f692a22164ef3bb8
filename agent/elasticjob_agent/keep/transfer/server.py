"""The listener of one keeper: it takes parts that peers offer, and serves parts that peers fetch.

Any host on the network may connect. It is a stranger until it has proved that it belongs to this job and this run. Few
strangers are connected at once, and each has two seconds. Each connection has a thread. A peer that is served can stop
at any time, so no wait is without a limit, except that of a commit channel.
"""

import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from elasticjob_agent.keep.transfer import session as sessions
from elasticjob_agent.keep.transfer.connection import STALL_S, Connection
from elasticjob_agent.keep.transfer.dialer import random_hex
from elasticjob_agent.keep.transfer.errors import TransferError
from elasticjob_agent.keep.transfer.handshake import Purpose
from elasticjob_agent.keep.transfer.session import KeeperCredentials, Session
from elasticjob_agent.keep.volume.errors import VolumeError
from elasticjob_agent.rendezvous.protocol.link_handshake import Address

MAX_STRANGERS = 32
"""The most connections without a proof. One more ends the oldest of the host that has the most of them.

A keeper's hello is quick, and a host that connects again and again keeps no other one away.
"""
MAX_SESSIONS = 256
_PAUSE_S = 0.1
"""Seconds before the next connection is accepted when this process has no descriptor left."""

log = logging.getLogger(__name__)


class SessionHandler(Protocol):
    """Serves one session until its end."""

    def __call__(self, session: Session, /) -> None:
        """Serve it; raise TransferError or VolumeError at its end."""


class TransferServer:
    """Serves what connects to `listener`; `handlers` has the function for each purpose."""

    def __init__(
        self,
        host: str,
        listener: socket.socket,
        credentials: Callable[[], KeeperCredentials | None],
        handlers: Mapping[Purpose, SessionHandler],
        *,
        random_hex: Callable[[], str] = random_hex,
        stall_s: float = STALL_S,
    ) -> None:
        """`credentials` returns those of now; while it returns None every connection is closed.

        `host` is the address of this node as peers know it.
        """
        self.address = Address(host, listener.getsockname()[1])
        self._listener = listener
        self._credentials = credentials
        self._handlers = handlers
        self._random_hex = random_hex
        self._stall_s = stall_s
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._strangers: dict[Connection, str] = {}
        """The host of each, the oldest first."""
        self._sessions: set[Connection] = set()
        self._threads: set[threading.Thread] = set()

    def open(self) -> None:
        """Begin to serve."""
        self._start_thread(self._accept_all)

    def end_sessions(self) -> None:
        """End every connection: the identity of this keeper is another one from now on."""
        with self._lock:
            connections = [*self._strangers, *self._sessions]
        for connection in connections:
            connection.end()

    def close(self) -> None:
        """Stop listening and end every connection; idempotent."""
        self._closing.set()
        sessions.shut_down(self._listener)  # wakes the thread that accepts
        self.end_sessions()
        while threads := self._open_threads():
            for thread in threads:
                thread.join()
        self._listener.close()

    def _open_threads(self) -> list[threading.Thread]:
        with self._lock:
            return list(self._threads)

    def _start_thread(self, target: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            try:
                target(*arguments)
            finally:
                with self._lock:
                    self._threads.discard(thread)

        thread = threading.Thread(target=run, name="keep transfer", daemon=True)
        with self._lock:
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                self._threads.discard(thread)
            raise

    def _accept_all(self) -> None:
        while not self._closing.is_set():
            try:
                socket_, _ = self._listener.accept()
            except OSError as error:
                log.debug("no connection is accepted: %s", error)
                self._closing.wait(_PAUSE_S)
                continue
            self._begin_to_serve(Connection(socket_, stall_s=self._stall_s))

    def _begin_to_serve(self, connection: Connection) -> None:
        try:
            self._start_thread(self._serve, connection)
        except RuntimeError as error:  # the system has no thread left; the peer tries again
            log.warning("a connection to this keeper is not served: %s", error)
            connection.close()
            self._closing.wait(_PAUSE_S)

    def _serve(self, connection: Connection) -> None:
        try:
            self._add_stranger(connection, connection.peer_host)
            credentials = self._credentials()
            if credentials is None or self._closing.is_set():
                return
            session = sessions.answer_dial(connection, credentials, random_hex=self._random_hex)
            handler = self._handlers.get(session.peer.purpose)
            if handler is not None and self._admit(connection):
                handler(session)
        except (TransferError, VolumeError) as error:
            log.debug("a connection to this keeper ended: %s", error)
        finally:
            with self._lock:
                self._strangers.pop(connection, None)
                self._sessions.discard(connection)
            connection.close()

    def _add_stranger(self, connection: Connection, host: str) -> None:
        ended = None
        with self._lock:
            if len(self._strangers) >= MAX_STRANGERS:
                [(most, _)] = Counter(self._strangers.values()).most_common(1)
                ended = next(each for each, its_host in self._strangers.items() if its_host == most)
                del self._strangers[ended]
            self._strangers[connection] = host
        if ended is not None:
            ended.end()

    def _admit(self, connection: Connection) -> bool:
        """Count a peer that has proved its identity; return whether it is served."""
        with self._lock:
            was_kept = connection in self._strangers
            is_served = was_kept and len(self._sessions) < MAX_SESSIONS and not self._closing.is_set()
            if is_served:
                del self._strangers[connection]
                self._sessions.add(connection)
        return is_served
