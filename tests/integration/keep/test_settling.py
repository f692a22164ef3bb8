"""A peer that takes no copy: after a minute without progress two holders are enough, and no training waits for it."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.messages import BeginRequest, OpenRequest
from elasticjob_agent.keep.keeper.replica_sender import STALL_S, ReplicaSender
from elasticjob_agent.keep.keeper.round_peers import CopyRound, RoundPeers
from elasticjob_agent.keep.keeper.step_keeper import StepKeeper
from elasticjob_agent.keep.rules.commit import Announcement, decide_safe_point
from elasticjob_agent.keep.rules.replication import RoundPlace
from elasticjob_agent.keep.transfer.dialer import KeeperDialer
from elasticjob_agent.keep.transfer.frames import Full, Offer, Want
from elasticjob_agent.keep.transfer.handshake import KeeperIdentity, Purpose
from elasticjob_agent.keep.transfer.listener import open_listener
from elasticjob_agent.keep.transfer.server import TransferServer
from elasticjob_agent.keep.transfer.session import KeeperCredentials, Session
from elasticjob_agent.keep.transfer.throttle import Throttle
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.rendezvous_state import Member
from testing.waiting import aeventually, eventually, scaled
from tests.integration.keep.keeper_group import keeper_group
from tests.integration.keep.parts import publish
from tests.integration.keep.transfer.nodes import HOST, JOB, LINEAGE, PART, RUN, SECRET, STEP, UNLIMITED, Node

COPIES = 2
HOSTS = ("a", "b", "c")


class ManualClock:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Origin:
    """A node that copies a step to each of its peers."""

    def __init__(
        self,
        folder: Path,
        peers: Mapping[Member, Address],
        clock: Callable[[], float],
        *,
        throttle: Throttle = UNLIMITED,
        stall_s: float = STALL_S,
    ) -> None:
        me, count = Member(50, "0000000a"), 1 + len(peers)
        self.members = (me, *peers)
        self.changes = 0
        """How many changes the sender has reported: one for each transfer that has ended."""
        self.steps = StepKeeper(OpenRequest(str(folder), JOB, RUN), report=print, on_change=lambda: None)
        begun = BeginRequest(RUN, LINEAGE, place=RoundPlace(0, count, 0, 1, count), shift=1, copies=len(peers))
        self.incoming = self.steps.begin(begun)
        self.steps.start()
        credentials = KeeperCredentials(KeeperIdentity(JOB, RUN, me), SECRET)
        self.sender = ReplicaSender(
            KeeperDialer(lambda: credentials),
            self.steps,
            throttle,
            on_change=self._on_change,
            stall_s=stall_s,
            clock=clock,
        )
        self.sender.begin(CopyRound.of(begun))
        self.sender.set_peers(RoundPeers(LINEAGE, self.members, HOSTS[:count], peers))
        self.sender.start()

    def _on_change(self) -> None:
        self.changes += 1

    def publish(self) -> None:
        """Publish the step."""
        publish(self.incoming, f"step-{STEP.number}")
        self.steps.take_published()
        self.sender.wake()

    def await_changes(self, count: int) -> None:
        """Return when the sender has reported so many changes."""
        eventually(lambda: self.changes == count, what=f"change {count}")

    def announced(self) -> Announcement:
        """Return what it announces now."""
        found = self.steps.announcement(self.sender.settled())
        assert found is not None
        return found

    def close(self) -> None:
        """End its copies."""
        self.sender.end_round()
        self.steps.erase()
        self.steps.close()


class OriginOfTwoCopies(Origin):
    """A node that copies a step to two peers: one takes it, and the keeper of the other one is stopped."""

    def __init__(self, folder: Path, taker: Node, stopped: socket.socket, clock: Callable[[], float]) -> None:
        self._stopped = stopped
        absent = Member(60, "0000000a")
        super().__init__(folder, {taker.member: taker.address, absent: Address(*stopped.getsockname())}, clock)

    def publish(self) -> None:
        """Publish the step; return when one peer has it, and the keeper that is stopped is dialed."""
        super().publish()
        eventually(lambda: self.sender.copied == 1, what="one peer has the step")
        self._stopped.settimeout(scaled(30.0))
        self._dialed, _ = self._stopped.accept()

    def close(self) -> None:
        """End its copies and the connection to the keeper that is stopped."""
        super().close()
        self._dialed.close()


class Gate(Throttle):
    """Lets one piece of two bytes pass at a time, as a test wants."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting, self._passing = threading.Semaphore(0), threading.Semaphore(0)

    @property
    def piece_bytes(self) -> int:
        return 2

    def wait(self, count: int) -> None:
        self._waiting.release()
        self._passing.acquire()
        super().wait(count)

    def await_piece(self) -> None:
        """Return when a piece waits; all before it were sent."""
        assert self._waiting.acquire(timeout=scaled(30.0))

    def open(self, pieces: int = 100) -> None:
        """Let so many pieces pass."""
        self._passing.release(pieces)


class CuttingPeer:
    """A peer that reads all bytes of a part, and cuts the connection before it answers."""

    def __init__(self, *, keeps: bool) -> None:
        """With `keeps` it wants one byte less at each try."""
        self.member = Member(60, "0000000a")
        self._keeps = keeps
        self._tries = 0
        credentials = KeeperCredentials(KeeperIdentity(JOB, RUN, self.member), SECRET)
        self._server = TransferServer(HOST, open_listener(HOST), lambda: credentials, {Purpose.PUT: self._take})
        self._server.open()
        self.addresses = {self.member: self._server.address}
        self.close = self._server.close

    def _take(self, session: Session) -> None:
        offer = session.receive()
        assert isinstance(offer, Offer)
        kept, (first, *others) = self._tries if self._keeps else 0, (size for _, size in offer.files)
        session.send(Want((kept, *(0 for _ in others))))
        left = first - kept + sum(others)
        while left:
            left -= session.connection.read_into(memoryview(bytearray(left)))
        self._tries += 1


@pytest.fixture
def taker(keep_dir: Path) -> Iterator[Node]:
    """A peer that takes each part."""
    node = Node(keep_dir)
    yield node
    node.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def origin(keep_dir: Path, taker: Node, clock: ManualClock) -> Iterator[Origin]:
    """The node that copies. The kernel accepts connections for a keeper that is stopped."""
    with socket.create_server((HOST, 0)) as stopped:
        node = OriginOfTwoCopies(keep_dir.with_name("origin"), taker, stopped, clock)
        yield node
        node.close()


def committed(origin: Origin, taker: Node) -> object:
    """Return what the leader's keeper commits by the announcements of these two and of the node that is stopped."""
    idle = Announcement(lineage=LINEAGE, held={}, is_restored=True)
    taken = Announcement(lineage=LINEAGE, held=taker.volume.holdings(), is_restored=True)
    announced = dict(zip(origin.members, (origin.announced(), taken, idle), strict=True))
    hosts = dict(zip(origin.members, HOSTS, strict=True))
    return decide_safe_point(LINEAGE, announced, hosts, copies=COPIES).committed


def test_a_step_that_a_stopped_peer_does_not_take_is_committed_after_a_minute_and_not_before(
    origin: Origin, taker: Node, clock: ManualClock
) -> None:
    origin.publish()
    clock.now_s += STALL_S - 0.1
    assert (origin.announced().is_settled, committed(origin, taker)) == (False, None)
    clock.now_s += 0.1
    assert (origin.announced().is_settled, committed(origin, taker)) == (True, STEP)
    origin.sender.wake()
    eventually(lambda: "has got no further copy for 60 s: slot 60: " in origin.sender.degraded, what="it is named")


def test_bytes_that_still_go_out_begin_the_minute_anew(keep_dir: Path, taker: Node, clock: ManualClock) -> None:
    gate, peers = Gate(), {taker.member: taker.address}
    with closing(Origin(keep_dir.with_name("origin"), peers, clock, throttle=gate)) as origin:
        origin.publish()
        gate.await_piece()
        clock.now_s += STALL_S - 0.1
        gate.open(1)
        gate.await_piece()
        assert not origin.announced().is_settled
        clock.now_s += STALL_S - 0.1
        assert not origin.announced().is_settled
        clock.now_s += 0.1
        assert origin.announced().is_settled
        gate.open()


@pytest.mark.parametrize("keeps", [False, True])
def test_bytes_of_transfers_that_fail_begin_the_minute_anew_only_if_the_peer_keeps_them(
    keep_dir: Path, clock: ManualClock, *, keeps: bool
) -> None:
    with (
        closing(CuttingPeer(keeps=keeps)) as peer,
        closing(Origin(keep_dir.with_name("origin"), peer.addresses, clock)) as origin,
    ):
        origin.publish()
        for tries in range(1, 7):
            origin.await_changes(tries)
            clock.now_s += STALL_S / 6
            origin.sender.wake()
        assert origin.announced().is_settled is not keeps


def test_a_step_that_is_not_committed_is_offered_again_to_a_peer_that_has_lost_it(keep_dir: Path, taker: Node) -> None:
    peers = {taker.member: taker.address}
    with closing(Origin(keep_dir.with_name("origin"), peers, time.monotonic, stall_s=0.2)) as origin:
        origin.publish()
        eventually(taker.has, what="the peer has the step")
        taker.volume.drop([PART])
        eventually(taker.has, what="the peer has it again")


def test_a_step_that_is_not_committed_is_offered_again_to_a_peer_that_had_no_room(keep_dir: Path, taker: Node) -> None:
    taker.refusal = Full()
    peers = {taker.member: taker.address}
    with closing(Origin(keep_dir.with_name("origin"), peers, time.monotonic, stall_s=0.2)) as origin:
        origin.publish()
        eventually(lambda: "no room for a copy on slot" in origin.sender.degraded, what="the peer is full")
        taker.refusal = None
        eventually(taker.has, what="the peer has the step")
        eventually(lambda: not origin.sender.degraded, what="nothing is in the way")


@pytest.mark.nightly
@pytest.mark.timeout(600)
async def test_the_steps_of_two_keepers_are_committed_a_minute_after_the_third_one_has_stopped(keep_dir: Path) -> None:
    async with keeper_group(keep_dir, copies=COPIES) as group:
        nodes = [await group.add(slot) for slot in range(3)]
        await group.round(*nodes)
        group.publish(9)
        await group.until_committed(group.step(9))
        nodes[2].kill(signal.SIGSTOP)
        stopped_s, step = time.monotonic(), group.step(10, 2)
        for index, node in enumerate(nodes[:2]):
            node.publish(f"step-10.{index}-of-2", {f"part{index}": b"x"})
        for node in nodes[:2]:
            await aeventually(lambda node=node: node.committed == step, within_s=120, what="it is committed")
            assert node.client.progress.copies == 1
            assert "slot 2: " in node.client.progress.degraded
            assert (node.client.restarts, node.client.missed_seals) == (0, 0)
        assert time.monotonic() - stopped_s >= STALL_S
        nodes[2].kill(signal.SIGCONT)
