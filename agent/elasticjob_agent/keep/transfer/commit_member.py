"""The commit channel at each member: it sends this keeper's announcement, and takes what the leader's keeper answers.

The leader's keeper opens it. After a change of the leader two may be open for a while; both get the announcements, and
the answers of both are facts. A channel is open as long as its round; the kernel finds a host that is gone.
"""

import os
import selectors
import threading
import time
from collections.abc import Callable

from elasticjob_agent.keep.rules.commit import Announcement, SafePoint
from elasticjob_agent.keep.transfer.commit_frames import decode_safe_point, encode_announcement
from elasticjob_agent.keep.transfer.message_channel import MessageChannel
from elasticjob_agent.keep.transfer.session import Session

SPACING_S = 0.05
"""Seconds between two announcements of one keeper, at least."""
MAX_CHANNELS = 4
"""The most channels. There is one leader; a few may have led within a short time."""


class CommitMember:
    """Sends the newest announcement to each leader's keeper that asks."""

    def __init__(
        self, on_safe_point: Callable[[SafePoint], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`on_safe_point` is called in the thread of a channel, also with points of other rounds."""
        self._on_safe_point = on_safe_point
        self._clock = clock
        self._lock = threading.Lock()
        self._announcement: Announcement | None = None
        self._channels: dict[Session, int] = {}
        """The session of each channel, with the descriptor that wakes its thread."""

    def announce(self, announcement: Announcement) -> None:
        """Send this soon; one that is not sent yet is replaced."""
        with self._lock:
            self._announcement = announcement
            for wake in self._channels.values():
                os.eventfd_write(wake, 1)

    def serve(self, session: Session) -> None:
        """Serve one channel until it ends; raise TransferError then."""
        wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            self._add(session, wake)
            self._run(MessageChannel(session), wake)
        finally:
            with self._lock:
                self._channels.pop(session, None)
                os.close(wake)

    def _add(self, session: Session, wake: int) -> None:
        with self._lock:
            oldest = next(iter(self._channels)) if len(self._channels) >= MAX_CHANNELS else None
            if oldest is not None:
                del self._channels[oldest]
            self._channels[session] = wake
        if oldest is not None:
            oldest.connection.end()

    def _run(self, channel: MessageChannel, wake: int) -> None:
        sent: Announcement | None = None
        sent_s = -SPACING_S
        with selectors.DefaultSelector() as selector:
            selector.register(channel, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            self._receive(channel)  # what came with the last line of the handshake
            while True:
                timeout_s = None
                if (newest := self._newest()) is not None and newest != sent:
                    timeout_s = sent_s + SPACING_S - self._clock()
                    if timeout_s <= 0:
                        channel.send(encode_announcement(newest))
                        sent, sent_s, timeout_s = newest, self._clock(), None
                self._handle(channel, wake, [key.fd for key, _ in selector.select(timeout_s)])

    def _newest(self) -> Announcement | None:
        with self._lock:
            return self._announcement

    def _handle(self, channel: MessageChannel, wake: int, ready: list[int]) -> None:
        if wake in ready:
            os.eventfd_read(wake)
        if channel.fileno() in ready:
            self._receive(channel)

    def _receive(self, channel: MessageChannel) -> None:
        for message in channel.receive():
            self._on_safe_point(decode_safe_point(message))
