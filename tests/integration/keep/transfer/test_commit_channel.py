"""The commit channel over real sockets: members announce, the leader's keeper answers what is safe."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from elasticjob_agent.keep.rules.commit import Announcement, SafePoint, decide_safe_point
from elasticjob_agent.keep.transfer.commit_leader import CommitLeader
from elasticjob_agent.keep.transfer.commit_member import MAX_CHANNELS
from elasticjob_agent.keep.transfer.connection import TlsContexts
from elasticjob_agent.keep.transfer.errors import ConnectionEndedError, StalledError
from elasticjob_agent.keep.transfer.handshake import Purpose
from elasticjob_agent.keep.transfer.message_channel import MessageChannel
from elasticjob_agent.keep.transfer.session import Session
from elasticjob_agent.rendezvous.protocol.link_handshake import Address
from elasticjob_api.kept_steps import KeptStep
from testing.waiting import eventually
from tests.integration.keep.transfer.faulty_network import HOST, FaultyNetwork
from tests.integration.keep.transfer.nodes import LINEAGE, Node

Start = Callable[..., Node]
Lead = Callable[..., CommitLeader]
OLD, NEW = KeptStep(LINEAGE, 50, 1), KeptStep(LINEAGE, 100, 1)
WHOLE = frozenset({0})


@pytest.fixture
def lead() -> Iterator[Lead]:
    """A function that makes a node the leader's, for these members."""
    with contextlib.ExitStack() as stack:

        def begin(leader: Node, *members: Node, addresses: dict[Node, Address] | None = None) -> CommitLeader:
            hosts = {each.member: str(each.member.slot) for each in members}

            def decide(announcements: object) -> SafePoint:
                return decide_safe_point(LINEAGE, announcements, hosts, copies=1)  # type: ignore[arg-type]

            at = {each.member: (addresses or {}).get(each, each.address) for each in members}
            made = CommitLeader(leader.dialer, at, decide)
            stack.callback(made.close)
            return made

        yield begin


def announcement(*held: KeptStep, committed: KeptStep | None = None) -> Announcement:
    """Return what a restored member announces whose own steps all have their copies."""
    own = [step for step in held if committed is None or step > committed]
    return Announcement(
        lineage=LINEAGE,
        held=dict.fromkeys(held, WHOLE),
        committed=committed,
        oldest_uncommitted=min(own, default=None),
        is_settled=True,
        is_restored=True,
    )


def await_point(committed: KeptStep | None, *members: Node) -> None:
    """Wait until each of these members has got this point."""
    for each in members:
        eventually(lambda each=each: each.points and each.points[-1].committed == committed)  # type: ignore[misc]


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
def test_a_step_that_all_members_hold_is_committed_at_all_of_them(
    node: Start, lead: Lead, tls: TlsContexts, *, secured: bool
) -> None:
    members = [node(tls=tls if secured else None) for _ in range(3)]
    lead(members[0], *members)
    for each in members:
        each.commit.announce(announcement(NEW))
    await_point(NEW, *members)
    assert members[0].points[-1] == SafePoint(LINEAGE, NEW, NEW)


def test_nothing_is_committed_before_each_member_has_announced(node: Start, lead: Lead) -> None:
    members = [node(), node(), node()]
    leader = lead(members[0], *members)
    for each in members[:2]:
        each.commit.announce(announcement(NEW))
    await_point(None, *members)
    assert leader.point == SafePoint(LINEAGE, None, NEW)
    members[2].commit.announce(announcement(NEW))
    await_point(NEW, *members)


def test_the_newest_announcement_counts(node: Start, lead: Lead) -> None:
    members = [node(), node()]
    lead(members[0], *members)
    for number in range(100):
        for each in members:
            each.commit.announce(announcement(KeptStep(LINEAGE, number, 1)))
    await_point(KeptStep(LINEAGE, 99, 1), *members)
    assert len(members[0].points) < 100


def test_a_member_whose_connection_is_cut_gets_the_point_again(node: Start, lead: Lead) -> None:
    members = [node(), node()]
    network = FaultyNetwork(members[1].address)
    lead(members[0], *members, addresses={members[1]: network.address})
    for each in members:
        each.commit.announce(announcement(OLD))
    await_point(OLD, *members)
    members[1].points.clear()
    members[1].server.end_sessions()
    await_point(OLD, members[1])
    for each in members:
        each.commit.announce(announcement(OLD, NEW, committed=OLD))
    await_point(NEW, *members)
    assert network.connections >= 2
    network.close()


def test_a_new_leader_carries_on_what_the_old_one_had_sent_to_some(node: Start, lead: Lead) -> None:
    """Fault 4 of the first designs: it must not know only what is uncommitted."""
    members = [node(), node()]
    members[0].commit.announce(announcement(OLD, NEW, committed=OLD))
    members[1].commit.announce(announcement(OLD))
    lead(members[1], *members)
    await_point(OLD, *members)


def test_two_leaders_get_the_same_announcements(node: Start, lead: Lead) -> None:
    members = [node(), node()]
    leaders = [lead(each, *members) for each in members]
    for each in members:
        each.commit.announce(announcement(NEW))
    eventually(lambda: [leader.point for leader in leaders] == [SafePoint(LINEAGE, NEW, NEW)] * 2)


def test_few_channels_are_open_at_a_member(node: Start, lead: Lead) -> None:
    member, leaders = node(), [node() for _ in range(MAX_CHANNELS + 2)]
    for each in leaders[:-1]:
        lead(each, member)
    member.commit.announce(announcement(NEW))
    newest = lead(leaders[-1], member)
    eventually(lambda: newest.point is not None)
    assert len(member.commit._channels) <= MAX_CHANNELS


def test_a_keeper_of_another_member_is_not_taken_for_the_member(node: Start, lead: Lead) -> None:
    members = [node(), node()]
    other = node()
    leader = lead(members[0], *members, addresses={members[1]: other.address})
    for each in (*members, other):
        each.commit.announce(announcement(NEW))
    eventually(lambda: leader._failures.get(members[1].member, 0) >= 2)
    assert leader.point is None or leader.point.committed is None
    assert other.points == []


def test_a_member_that_is_not_there_holds_up_no_other(node: Start, lead: Lead) -> None:
    members = [node(), node()]
    with socket.create_server((HOST, 0)) as silent:
        at = {members[1]: Address(HOST, silent.getsockname()[1])}
        lead(members[0], *members, addresses=at)
        members[0].commit.announce(announcement(OLD, NEW, committed=OLD))
        await_point(OLD, members[0])


@pytest.mark.parametrize("data", [b"HAVE {}", b"AT {}", b"AT null", b"x" * 100_000, b"x" * (5 << 20)])
def test_a_member_that_sends_anything_else_is_dialed_again(node: Start, lead: Lead, data: bytes) -> None:
    members = [node(), node()]
    serve, calls = members[1].commit.serve, []

    def misbehave_once(session: object) -> None:
        calls.append(session)
        if len(calls) > 1:
            serve(session)  # type: ignore[arg-type]
        else:
            session.connection.write(session.outgoing.encode(data))  # type: ignore[attr-defined]

    members[1].server._handlers = {Purpose.COMMIT: misbehave_once}
    lead(members[0], *members)
    for each in members:
        each.commit.announce(announcement(NEW))
    await_point(NEW, *members)


def test_a_member_that_does_not_read_is_dropped(node: Start) -> None:
    leader, member, is_over = node(), node(), threading.Event()

    def read_nothing(_session: Session) -> None:
        is_over.wait()

    member.server._handlers = {Purpose.COMMIT: read_nothing}
    channel = MessageChannel(leader.dialer.dial(member.address, Purpose.COMMIT))
    with pytest.raises(StalledError, match="does not read"):
        send_endlessly(channel)
    is_over.set()
    channel.close()


class RequestOfNewKeys:
    """A socket whose other end wants new keys of TLS, and reads nothing, as `ssl` reports it to a read."""

    def recv(self, _count: int) -> bytes:
        raise ssl.SSLWantWriteError


def test_a_member_that_wants_new_keys_and_does_not_read_is_dropped(node: Start) -> None:
    leader, member = node(), node()
    channel = MessageChannel(leader.dialer.dial(member.address, Purpose.COMMIT))
    channel._socket = RequestOfNewKeys()  # type: ignore[assignment]
    with pytest.raises(StalledError, match="does not read"):
        channel.receive()
    channel.close()


def send_endlessly(channel: MessageChannel) -> None:
    """Send until the other end has no room."""
    for _ in range(10_000):
        channel.send(b"x" * 60_000)


def test_a_channel_of_a_leader_that_sends_anything_else_ends(node: Start) -> None:
    leader, member = node(), node()
    session = leader.dialer.dial(member.address, Purpose.COMMIT)
    session.connection.write(session.outgoing.encode(b"STOP {}"))
    with pytest.raises(ConnectionEndedError, match="closed"):
        session.receive()
    session.close()
    assert member.points == []


def test_a_closed_leader_leaves_no_channel(node: Start, lead: Lead) -> None:
    members = [node(), node()]
    leader = lead(members[0], *members)
    for each in members:
        each.commit.announce(announcement(NEW))
    await_point(NEW, *members)
    leader.close()
    eventually(lambda: not any(each.commit._channels for each in members))


class AskedInBetween(CommitLeader):
    """A leader that is asked for a decision at once after its thread has seen that none was asked for."""

    _was_asked = False
    _asked = False

    @property
    def _must_decide(self) -> bool:
        seen = self._asked
        if not self._was_asked:
            self._was_asked = True
            self.decide_soon()
        return seen

    @_must_decide.setter
    def _must_decide(self, value: bool) -> None:
        self._asked = value


def test_a_decision_that_is_asked_for_at_any_time_is_made(node: Start) -> None:
    leader, decided = node(), threading.Event()

    def decide(_announcements: object) -> SafePoint:
        decided.set()
        return SafePoint(LINEAGE)

    with contextlib.closing(AskedInBetween(leader.dialer, {leader.member: leader.address}, decide)):
        eventually(decided.is_set, what="the decision")


def test_a_hundred_members_share_one_thread_of_the_leader(node: Start, lead: Lead) -> None:
    members = [node() for _ in range(100)]
    lead(members[0], *members)
    for each in members:
        each.commit.announce(announcement(NEW))
    await_point(NEW, *members)


def test_an_announcement_of_another_round_commits_nothing(node: Start, lead: Lead) -> None:
    members = [node(), node()]
    leader = lead(members[0], *members)
    for each in members:
        each.commit.announce(replace(announcement(NEW), lineage=replace(LINEAGE, round=6)))
    eventually(lambda: leader.point is not None)
    assert leader.point == SafePoint(LINEAGE)
