"""Everything between this keeper and others: the listener, the copies, the commit channel, and fetches.

The main thread calls it; nothing here waits for a peer. Without an address, a secret or peers, the node keeps its own
steps and copies none.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping

from elasticjob_agent.keep.keeper.credentials import CurrentCredentials
from elasticjob_agent.keep.keeper.fetch_sources import decode_sources
from elasticjob_agent.keep.keeper.messages import (
    BeginRequest,
    FetchRequest,
    FetchResult,
    JoinRequest,
    OpenRequest,
    PeersRequest,
    ProgressUpdate,
)
from elasticjob_agent.keep.keeper.persist_messages import PersistUpdate
from elasticjob_agent.keep.keeper.persistence import Persistence
from elasticjob_agent.keep.keeper.replica_sender import ReplicaSender
from elasticjob_agent.keep.keeper.round_peers import CopyRound, RoundPeers, parse_member
from elasticjob_agent.keep.keeper.step_fetch import StepFetch
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.rules.commit import Announcement, SafePoint, decide_safe_point
from elasticjob_agent.keep.rules.missing_parts import describe_missing_parts
from elasticjob_agent.keep.rules.replication import OfferAnswer
from elasticjob_agent.keep.transfer.commit_leader import CommitLeader
from elasticjob_agent.keep.transfer.commit_member import CommitMember
from elasticjob_agent.keep.transfer.dialer import KeeperDialer
from elasticjob_agent.keep.transfer.frames import Dead, Full, Later, Offer
from elasticjob_agent.keep.transfer.handshake import Purpose
from elasticjob_agent.keep.transfer.server import TransferServer
from elasticjob_agent.keep.transfer.serving import PartHolder, PartReceiver
from elasticjob_agent.keep.transfer.session import Session
from elasticjob_agent.keep.transfer.throttle import Throttle
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.script_errors import ScriptErrorKind
from elasticjob_api.kept_steps import KeptStep
from elasticjob_api.rendezvous_state import Member

_BACKGROUND_NICE = 10
_LATER_S = 1.0
_NO_DIRECTORY = (
    "no step is persisted, because the leader of the round was started without keep.persistTo; "
    "delete its pod, or start its agent with --keep-persist-to"
)


class PeerConnections:
    """The connections of one keeper."""

    def __init__(
        self,
        opened: OpenRequest,
        steps: StepKeeper,
        listener: socket.socket | None,
        *,
        report: Callable[[str], None],
        wake: Callable[[], None],
        send: Callable[[FetchResult | PersistUpdate], None],
        persistence: Persistence | None = None,
    ) -> None:
        """Serve what connects to `listener`, if there is one. `persistence` is None if nothing is persisted here.

        `wake` is called from any thread when `update` has something to do, `send` when the agent has to know something.
        """
        self._steps = steps
        self._report = report
        self._send = send
        self._leads_others = False
        """Whether this node has no shared directory, and leads members that have one."""
        self._wake = wake
        self._persistence = persistence
        self._peers: RoundPeers | None = None
        self._credentials = CurrentCredentials(opened, report)
        self._dialer = KeeperDialer(self._credentials.require)
        self._throttle = Throttle()
        self._sender = ReplicaSender(self._dialer, steps, self._throttle, on_change=wake)
        self._holder = PartHolder(steps.volume)
        self._receiver = PartReceiver(steps.volume, self._decide, on_received=self._on_received)
        self._member = CommitMember(self._learn)
        self._leader: CommitLeader | None = None
        self._fetch: StepFetch | None = None
        self._round: CopyRound | None = None
        self._announced: Announcement | None = None
        self._copies: tuple[KeptStep, int | None] | None = None
        self.received = 0
        """How many parts peers have put here."""
        self._server: TransferServer | None = None
        self._trouble = opened.trouble or "the keeper has no address on which peers reach it"
        if listener is not None:
            self._serve(opened.host, listener)
        elif opened.trouble:
            report(f"no part is copied: {opened.trouble}")
        self._sender.start()

    @property
    def port(self) -> int:
        """Return the port of the listener; 0 if there is none."""
        return 0 if self._server is None else self._server.address.port

    @property
    def copied(self) -> int:
        """Return how many parts peers have got from here, or had already."""
        return self._sender.copied

    def _serve(self, host: str, listener: socket.socket) -> None:
        handlers = {
            Purpose.GET: self._holder.serve,
            Purpose.PUT: self._receive,
            Purpose.COMMIT: self._member.serve,
        }
        self._server, self._trouble = TransferServer(host, listener, self._credentials.get, handlers), ""
        self._server.open()

    # --- requests ----------------------------------------------------------------------------------------------------

    def join(self, joined: JoinRequest) -> None:
        """Use this identity, and end the sessions of another one; raise ControlError."""
        self.cancel_fetch()
        if self._credentials.join(joined) and self._server is not None:
            self._server.end_sessions()
        if self._persistence is not None:
            self._persistence.join(parse_member(joined.member))

    def begin(self, begun: BeginRequest) -> None:
        """Copy in this round, as soon as its peers are known."""
        self.end_round()
        self._round = CopyRound.of(begun)
        if self._persistence is not None:
            self._persistence.begin(begun)
        self._throttle.set_rate(begun.bandwidth or None)
        self._sender.begin(self._round)

    def set_peers(self, request: PeersRequest) -> None:
        """Know the peers of the round, and lead their commit channel if the agent leads; raise ControlError."""
        if self._round is None or request.lineage != self._round.lineage:
            return
        self._peers = peers = RoundPeers.of(request)
        self._sender.set_peers(peers)
        if (point := self._steps.point) is not None:
            self._learn_order(point)  # it may have come before
        self._end_leading()
        if request.leads:
            self._leader = CommitLeader(self._dialer, peers.addresses, self._rule(self._round, peers))

    def end_round(self) -> None:
        """End the copies, fetches and the commit channel of the round."""
        self.cancel_fetch()
        self._sender.end_round()
        self._round = self._peers = None
        self._end_leading()

    def fetch(self, request: FetchRequest) -> None:
        """Begin to fetch; raise ControlError."""
        self.cancel_fetch()
        self._fetch = StepFetch(
            self._dialer,
            self._steps,
            request,
            decode_sources(request.sources, request.step.parts),
            port=self.port,
            on_end=self._send,
            clock=time.monotonic,
        )

    def cancel_fetch(self) -> None:
        """End the fetch of now without a result."""
        if self._fetch is not None:
            self._fetch.cancel()
            self._fetch = None

    def _end_leading(self) -> None:
        if self._leader is not None:
            # It waits for a decision that is in progress, and no request may wait for that.
            threading.Thread(target=self._leader.close, daemon=True).start()
            self._leader = None
            if self._persistence is not None:
                self._persistence.stop_leading()
            else:
                self._note_others(persist=False)

    def _rule(self, round_: CopyRound, peers: RoundPeers) -> Callable[[Mapping[Member, Announcement]], SafePoint]:
        hosts, persistence = dict(zip(peers.members, peers.hosts, strict=True)), self._persistence

        def decide(announcements: Mapping[Member, Announcement]) -> SafePoint:
            if missing := describe_missing_parts(round_.lineage, announcements, hosts):
                self._steps.volume.script_errors.note(round_.lineage, ScriptErrorKind.MISSING, missing)
            point = decide_safe_point(round_.lineage, announcements, hosts, copies=round_.copies)
            current = {member: each for member, each in announcements.items() if each.lineage == round_.lineage}
            news = {member: each.persist for member, each in current.items() if each.persist is not None}
            if persistence is None:
                if self._peers is peers:  # else another node leads by now
                    self._note_others(persist=bool(news))
                return point
            held = {member: each.held for member, each in current.items()}
            return persistence.lead(point, news, peers.members, held)

        return decide

    def _note_others(self, *, persist: bool) -> None:
        """Let the agent know whether members persist steps under this leader, which orders none."""
        if persist != self._leads_others:
            self._leads_others = persist
            self._send(PersistUpdate(error=_NO_DIRECTORY if persist else ""))
            if persist:
                self._report(_NO_DIRECTORY)

    # --- changes -----------------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Announce what has changed, and look for something to copy."""
        self._sender.wake()
        news = None if self._persistence is None else self._persistence.news()
        announcement = self._steps.announcement(self._sender.settled(), news)
        if announcement is not None and announcement != self._announced:
            self._announced = announcement
            self._member.announce(announcement)
        if self._persistence is not None and self._leader is not None and self._persistence.take_due():
            self._leader.decide_soon()

    @property
    def pause_s(self) -> float | None:
        """Return the seconds until `update` has something to do by the time alone; None if only events matter."""
        return None if self._persistence is None or self._leader is None else self._persistence.pause_s()

    def progress(self) -> ProgressUpdate:
        """Return how far copying and committing are."""
        committed = self._steps.committed
        if committed is not None:
            counted = self._sender.copies_of(committed)
            if counted is not None or self._copies is None or self._copies[0] != committed:
                self._copies = committed, counted
        return ProgressUpdate(
            committed=committed,
            copies=None if committed is None or self._copies is None else self._copies[1],
            held_bytes=self._steps.volume.sums.size,
            skipped=self._steps.skipped,
            degraded=self._degraded(),
        )

    def _degraded(self) -> str:
        of_peers = "" if self._round is None else self._trouble or self._credentials.trouble or self._sender.degraded
        volume, committed = self._steps.volume, self._steps.committed
        of_parts = volume.limits.trouble or volume.conflicts.trouble(committed)
        return of_parts or volume.script_errors.trouble(committed) or of_peers or self._steps.trouble

    # --- threads of transfers ----------------------------------------------------------------------------------------

    def _receive(self, session: Session) -> None:
        os.nice(_BACKGROUND_NICE)  # of this thread alone
        self._receiver.serve(session)

    def _decide(self, offer: Offer, _origin: Member) -> Later | Full | Dead | None:
        volume = self._steps.volume
        volume.conflicts.note_offer(offer.part, offer.files, volume.parts())
        if offer.sender is None:
            return Later(_LATER_S)
        match self._steps.answer_offer(offer.sender, offer.part):
            case OfferAnswer.LATER:
                return Later(_LATER_S)
            case OfferAnswer.FULL:
                return Full()
            case OfferAnswer.DEAD:
                self._wake()  # a step that was found to collide is dropped
                return Dead()
            case OfferAnswer.WANT:
                self._steps.drop_outdated(offer.part.step)
                self._steps.memory.enforce(coming=sum(size for _, size in offer.files))
        return None

    def _on_received(self, _part: KeptPart) -> None:
        self.received += 1
        self._steps.on_received()
        self._wake()

    def _learn(self, point: SafePoint) -> None:
        self._steps.learn(point)
        self._learn_order(point)
        self._wake()

    def _learn_order(self, point: SafePoint) -> None:
        if self._persistence is not None and (peers := self._peers) is not None and peers.lineage == point.lineage:
            self._persistence.learn(point, peers.members)
