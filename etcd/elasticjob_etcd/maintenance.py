"""The upkeep of an etcd cluster by an administrator: sizes, alarms, compaction and defragmentation.

Calls that concern one member are sent to that member, at the client URL it advertises. Every call may be repeated.
Nothing here decides when to do any of it.
"""

import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Protocol

import grpc
from google.protobuf.unknown_fields import UnknownFieldSet

from elasticjob_etcd.connection import Connection
from elasticjob_etcd.errors import Compacted, Unavailable
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.members import Member, MemberStatus
from elasticjob_etcd.messages import rpc

DEFRAGMENT_TIMEOUT_S = 120.0
"""A member copies all that is in use while it answers nothing; two gibibytes take some 20 s on a slow disk."""

# StatusResponse has these since etcd 3.4 and 3.6, Member since 3.4; etcd3's messages are older.
_DB_SIZE_IN_USE, _DB_SIZE_QUOTA = 9, 12
_IS_LEARNER = 5
_NO_SPACE = rpc.NOSPACE
_AS_LEARNER = b"\x10\x01"
"""MemberAddRequest.isLearner."""
_PROMOTE = "/etcdserverpb.Cluster/MemberPromote"


class Maintenance(Protocol):
    """An administrator's view of the cluster; every method may raise `errors.EtcdError`."""

    async def members(self) -> tuple[Member, ...]:
        """All members, voting or not."""

    async def status(self, member: Member) -> MemberStatus:
        """Sizes of this member."""

    async def full_members(self) -> frozenset[int]:
        """Ids of members with a NOSPACE alarm; any one of them stops all writes."""

    async def compact(self, revision: int) -> None:
        """Forget what was overwritten or deleted before `revision`."""

    async def defragment(self, member: Member) -> None:
        """Give free pages of this member's file back; it answers nothing meanwhile."""

    async def disarm(self, member_id: int) -> None:
        """End the NOSPACE alarm of a member."""


class MemberAdmin(Protocol):
    """Who is a member; every method may raise `errors.EtcdError`."""

    async def members(self) -> tuple[Member, ...]:
        """All members, voting or not."""

    async def status(self, member: Member) -> MemberStatus:
        """Return this very member's status; a learner reports one, too."""

    async def remove(self, member_id: int) -> None:
        """Remove a member; it never comes back under this id."""

    async def add_learner(self, peer_url: str) -> None:
        """Add a member that has no vote yet."""

    async def update(self, member_id: int, peer_url: str) -> None:
        """Write at which URL the others reach a member."""

    async def promote(self, member_id: int) -> None:
        """Give a learner its vote; `Refused` while it is behind the leader."""


class EtcdMaintenance:
    """That of a real etcd, over one connection of the administrator's."""

    def __init__(self, endpoint: Endpoint, connection: Connection) -> None:
        self._endpoint = endpoint
        self._connection = connection

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, endpoint: Endpoint) -> AsyncIterator["EtcdMaintenance"]:
        """Connect for a short while, with the certificate files as they are now."""
        # One of the members may be a learner, which answers none of this: the next try is to begin with another one.
        targets = tuple(random.sample(endpoint.targets, len(endpoint.targets)))
        connection = Connection(replace(endpoint, targets=targets))
        try:
            yield cls(endpoint, connection)
        finally:
            await connection.close()

    async def members(self) -> tuple[Member, ...]:
        """See `Maintenance`. The only member may advertise what nobody can dial: it is dialed as we have dialed it."""
        stub = rpc.ClusterStub(self._connection.channel)
        answer = await _call(self._connection, stub.MemberList, rpc.MemberListRequest(), tried="list of members")
        found = tuple(map(member_of, answer.members))
        return found if len(found) > 1 else (replace(found[0], targets=self._endpoint.targets),)

    async def status(self, member: Member) -> MemberStatus:
        """See `Maintenance`."""
        async with self._to(member) as connection:
            stub = rpc.MaintenanceStub(connection.channel)
            answer = await _call(connection, stub.Status, rpc.StatusRequest(), tried="status of a member")
        return _status(answer)

    async def full_members(self) -> frozenset[int]:
        """See `Maintenance`."""
        answer = await self._alarm(rpc.AlarmRequest(action=rpc.AlarmRequest.GET), tried="list of alarms")
        return frozenset(alarm.memberID for alarm in answer.alarms if alarm.alarm == _NO_SPACE)

    async def compact(self, revision: int) -> None:
        """See `Maintenance`."""
        request = rpc.CompactionRequest(revision=revision, physical=True)
        with contextlib.suppress(Compacted):  # by etcd itself, or by somebody else
            await _call(self._connection, self._connection.kv.Compact, request, tried="compaction")

    async def defragment(self, member: Member) -> None:
        """See `Maintenance`."""
        async with self._to(member, timeout_s=DEFRAGMENT_TIMEOUT_S) as connection:
            stub = rpc.MaintenanceStub(connection.channel)
            await _call(connection, stub.Defragment, rpc.DefragmentRequest(), tried="defragmentation")

    async def disarm(self, member_id: int) -> None:
        """See `Maintenance`."""
        action = rpc.AlarmRequest.DEACTIVATE
        request = rpc.AlarmRequest(action=action, memberID=member_id, alarm=_NO_SPACE)
        await self._alarm(request, tried="end of an alarm")

    async def _alarm(self, request: Any, *, tried: str) -> Any:
        stub = rpc.MaintenanceStub(self._connection.channel)
        return await _call(self._connection, stub.Alarm, request, tried=tried)

    async def remove(self, member_id: int) -> None:
        """See `MemberAdmin`."""
        stub = rpc.ClusterStub(self._connection.channel)
        request = rpc.MemberRemoveRequest(ID=member_id)
        await _call(self._connection, stub.MemberRemove, request, tried="removal of a member")

    async def add_learner(self, peer_url: str) -> None:
        """See `MemberAdmin`."""
        stub = rpc.ClusterStub(self._connection.channel)
        request = rpc.MemberAddRequest(peerURLs=[peer_url])
        request.MergeFromString(_AS_LEARNER)
        await _call(self._connection, stub.MemberAdd, request, tried="addition of a learner")

    async def update(self, member_id: int, peer_url: str) -> None:
        """See `MemberAdmin`."""
        stub = rpc.ClusterStub(self._connection.channel)
        request = rpc.MemberUpdateRequest(ID=member_id, peerURLs=[peer_url])
        await _call(self._connection, stub.MemberUpdate, request, tried="update of a member")

    async def promote(self, member_id: int) -> None:
        """See `MemberAdmin`."""
        promote = self._connection.channel.unary_unary(
            _PROMOTE, rpc.MemberRemoveRequest.SerializeToString, rpc.MemberRemoveResponse.FromString
        )
        request = rpc.MemberRemoveRequest(ID=member_id)  # the promotion's has the same field
        await _call(self._connection, promote, request, tried="promotion of a learner")

    @contextlib.asynccontextmanager
    async def _to(self, member: Member, *, timeout_s: float | None = None) -> AsyncIterator[Connection]:
        """A connection to this very member."""
        if not member.targets:
            message = f"etcd member {member.id:x} has not started: it advertises no client URL"
            raise Unavailable(message)
        timeout_s = timeout_s or self._endpoint.timeout_s
        connection = Connection(replace(self._endpoint, targets=member.targets[:1], timeout_s=timeout_s))
        try:
            yield connection
        finally:
            await connection.close()


async def _call(connection: Connection, method: Any, request: Any, *, tried: str) -> Any:
    """Make one call; some of these answers have no header, so the store's identity is not judged by them."""
    try:
        return await method(request, timeout=connection.timeout_s)
    except grpc.RpcError as error:
        raise connection.explain(error, tried, connection.channel) from error


def _target(url: str) -> str:
    return url.partition("://")[2]


def _newer(message: Any) -> dict[int, Any]:
    """The fields of a message that etcd3 does not know, by their numbers."""
    unknown: Any = UnknownFieldSet(message)
    return {field.field_number: field.data for field in unknown}


def member_of(message: Any) -> Member:
    """One etcdserverpb.Member."""
    return Member(
        id=message.ID,
        name=message.name,
        targets=tuple(map(_target, message.clientURLs)),
        peer_urls=tuple(message.peerURLs),
        is_learner=bool(_newer(message).get(_IS_LEARNER, 0)),
    )


def _status(answer: Any) -> MemberStatus:
    newer = _newer(answer)
    return MemberStatus(
        id=answer.header.member_id,
        is_leader=answer.leader == answer.header.member_id,
        revision=answer.header.revision,
        db_size=answer.dbSize,
        db_size_in_use=newer.get(_DB_SIZE_IN_USE, answer.dbSize),
        quota=newer.get(_DB_SIZE_QUOTA, 0),
    )
