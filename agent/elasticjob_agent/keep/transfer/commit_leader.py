"""The commit channel at the leader's keeper: it collects what all members announce, and sends them what is safe.

It serves one round. All channels share one thread. The announcement of a member remains when its connection ends, and
the member is dialed again. Changes are collected for a moment, because a decision reads the holdings of all members.
"""

import logging
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from elasticjob_agent.keep.rules.commit import Announcement, SafePoint
from elasticjob_agent.keep.transfer.commit_frames import decode_announcement, encode_safe_point
from elasticjob_agent.keep.transfer.dialer import KeeperDialer
from elasticjob_agent.keep.transfer.errors import TransferError
from elasticjob_agent.keep.transfer.member_dialer import MemberDialer
from elasticjob_agent.keep.transfer.message_channel import MessageChannel
from elasticjob_agent.keep.transfer.session import Session
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.rendezvous_state import Member

COLLECT_S = 0.05
"""Seconds from the first of several announcements to the decision, at least."""
_DECIDING_SHARE = 0.05
"""The share of its time that the thread may spend on decisions: one takes 18 ms for 1,000 members."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0

SafePointRule = Callable[[Mapping[Member, Announcement]], SafePoint]
"""Return what is safe, from the latest announcement of each member that has sent one."""

log = logging.getLogger(__name__)


class CommitLeader:
    """Leads the members of one round until `close`."""

    def __init__(
        self,
        dialer: KeeperDialer,
        members: Mapping[Member, Address],
        rule: SafePointRule,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin at once. `members` has the address of each keeper, that of this one included."""
        self._rule = rule
        self._clock = clock
        self._announcements: dict[Member, Announcement] = {}
        self._channels: dict[Member, MessageChannel] = {}
        self._sent: dict[Member, SafePoint] = {}
        self._failures: dict[Member, int] = {}
        self._dial_at_s: dict[Member, float] = dict.fromkeys(members, 0.0)
        """When to dial the members that have no channel and no dial in progress."""
        self._decide_at_s: float | None = None
        self._collect_s = COLLECT_S
        self._point: SafePoint | None = None
        self._must_decide = False
        self._dialed: deque[tuple[Member, Session | None]] = deque()
        self._lock = threading.Lock()
        self._closing = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._member_dialer = MemberDialer(dialer, dict(members), self._on_dialed)
        self._thread = threading.Thread(target=self._run, name="keep commit", daemon=True)
        self._thread.start()

    @property
    def point(self) -> SafePoint | None:
        """The point that members got last."""
        return self._point

    def decide_soon(self) -> None:
        """Decide again, though no member has announced anything new."""
        with self._lock:
            if not self._closing:
                self._must_decide = True
                os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """End all channels; idempotent."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._member_dialer.close()
        with self._lock:
            late = [session for _, session in self._dialed if session is not None]
            os.close(self._wake)
        for session in late:
            session.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            while not self._closing:
                self._begin_dials()
                for key, _ in selector.select(self._timeout_s()):
                    if key.data is None:
                        os.eventfd_read(self._wake)
                        self._take_sessions(selector)
                        self._take_request()
                    else:
                        self._receive(selector, key.data)
                self._decide(selector)
            for channel in self._channels.values():
                channel.close()

    def _take_request(self) -> None:
        if self._must_decide:
            self._must_decide = False  # only if it was seen: another thread may set it at any time
            if self._decide_at_s is None:
                self._decide_at_s = self._clock()

    def _timeout_s(self) -> float | None:
        times = [*self._dial_at_s.values(), *([] if self._decide_at_s is None else [self._decide_at_s])]
        return max(0.0, min(times) - self._clock()) if times else None

    # --- connections -------------------------------------------------------------------------------------------------

    def _begin_dials(self) -> None:
        now_s = self._clock()
        for member in [member for member, at_s in self._dial_at_s.items() if at_s <= now_s]:
            del self._dial_at_s[member]
            self._member_dialer.begin(member)

    def _on_dialed(self, member: Member, session: Session | None) -> None:
        """Hand the session to the thread of the channels; called by a thread that dials."""
        with self._lock:
            if not self._closing:
                self._dialed.append((member, session))
                os.eventfd_write(self._wake, 1)
            elif session is not None:
                session.close()

    def _take_sessions(self, selector: selectors.BaseSelector) -> None:
        while self._dialed:
            member, session = self._dialed.popleft()
            if session is None:
                self._dial_later(member)
                continue
            self._channels[member] = MessageChannel(session)
            selector.register(self._channels[member], selectors.EVENT_READ, member)
            self._receive(selector, member)  # what came with the last line of the handshake
            if self._point is not None and member in self._channels:
                self._send(selector, member, self._point)

    def _dial_later(self, member: Member) -> None:
        failures = self._failures[member] = self._failures.get(member, 0) + 1
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(failures, 10))
        self._dial_at_s[member] = self._clock() + pause_s

    def _drop(self, selector: selectors.BaseSelector, member: Member) -> None:
        if channel := self._channels.pop(member, None):
            selector.unregister(channel)
            channel.close()
            self._sent.pop(member, None)
            self._dial_later(member)

    # --- messages ----------------------------------------------------------------------------------------------------

    def _receive(self, selector: selectors.BaseSelector, member: Member) -> None:
        if not (channel := self._channels.get(member)):
            return
        try:
            messages = channel.receive()
            for message in messages:
                self._announcements[member] = decode_announcement(message)
        except TransferError as error:
            log.debug("the commit channel to slot %d ended: %s", member.slot, error)
            self._drop(selector, member)
            return
        if messages:
            self._failures.pop(member, None)
            if self._decide_at_s is None:
                self._decide_at_s = self._clock() + self._collect_s

    def _decide(self, selector: selectors.BaseSelector) -> None:
        if self._decide_at_s is None or self._clock() < self._decide_at_s:
            return
        self._decide_at_s = None
        began_s = self._clock()
        self._point = point = self._rule(self._announcements)
        self._collect_s = max(COLLECT_S, (self._clock() - began_s) / _DECIDING_SHARE)
        for member in list(self._channels):
            self._send(selector, member, point)

    def _send(self, selector: selectors.BaseSelector, member: Member, point: SafePoint) -> None:
        if self._sent.get(member) == point:
            return
        try:
            self._channels[member].send(encode_safe_point(point))
            self._sent[member] = point
        except TransferError as error:
            log.debug("the commit channel to slot %d ended: %s", member.slot, error)
            self._drop(selector, member)
