"""Maintenance of an etcd cluster by an administrator: sizes, alarms, compaction and defragmentation.

Calls about one member are sent to that member, at the client URL that it advertises. Every call may be repeated.
Decisions on the time for each of them are made elsewhere.
"""

import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Protocol

from google.protobuf.unknown_fields import UnknownFieldSet

from elasticjob_etcd.connection import Connection
from elasticjob_etcd.errors import Compacted, Unavailable
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.members import EtcdMember, MemberStatus
from elasticjob_etcd.messages import rpc
from elasticjob_etcd.silent_grpc import grpc

DEFRAGMENT_TIMEOUT_S = 120.0
"""A member copies all data in use and answers nothing meanwhile; two gibibytes take some 20 s on a slow disk."""

# StatusResponse has these since etcd 3.4 and 3.6, EtcdMember since 3.4; etcd3's messages are older.
_DB_SIZE_IN_USE, _DB_SIZE_QUOTA = 9, 12
_IS_LEARNER = 5
_NO_SPACE = rpc.NOSPACE
_AS_LEARNER = b"\x10\x01"
"""MemberAddRequest.isLearner."""
_PROMOTE = "/etcdserverpb.Cluster/MemberPromote"


class Maintenance(Protocol):
    """An administrator's view of the cluster; every method may raise `errors.EtcdError`."""

    async def members(self) -> tuple[EtcdMember, ...]:
        """Return all members, voting or not."""

    async def status(self, member: EtcdMember) -> MemberStatus:
        """Return the sizes of this member."""

    async def full_members(self) -> frozenset[int]:
        """Return the ids of members with a NOSPACE alarm; a single one stops all writes."""

    async def compact(self, revision: int) -> None:
        """Remove values that were overwritten or deleted before `revision`."""

    async def defragment(self, member: EtcdMember) -> None:
        """Return free pages of this member's file to the disk; it answers nothing meanwhile."""

    async def disarm(self, member_id: int) -> None:
        """End the NOSPACE alarm of a member."""


class MemberAdmin(Protocol):
    """The membership of the cluster; every method may raise `errors.EtcdError`."""

    async def members(self) -> tuple[EtcdMember, ...]:
        """Return all members, voting or not."""

    async def status(self, member: EtcdMember) -> MemberStatus:
        """Return the status of this member alone; a learner reports one, too."""

    async def remove(self, member_id: int) -> None:
        """Remove a member; it can never return under this id."""

    async def add_learner(self, peer_url: str) -> None:
        """Add a member without a vote."""

    async def update(self, member_id: int, peer_url: str) -> None:
        """Write the URL at which the others reach a member."""

    async def promote(self, member_id: int) -> None:
        """Give a learner its vote; raise `RequestRejected` while it is behind the leader."""


class EtcdMaintenance:
    """The maintenance of a real etcd, over one connection of the administrator."""

    def __init__(self, endpoint: Endpoint, connection: Connection) -> None:
        self._endpoint = endpoint
        self._connection = connection

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, endpoint: Endpoint) -> AsyncIterator["EtcdMaintenance"]:
        """Connect for a short while, with the current certificate files."""
        # One of the members may be a learner, which answers none of this: the next attempt should begin with another
        # one.
        targets = tuple(random.sample(endpoint.targets, len(endpoint.targets)))
        connection = Connection(replace(endpoint, targets=targets))
        try:
            yield cls(endpoint, connection)
        finally:
            await connection.close()

    async def members(self) -> tuple[EtcdMember, ...]:
        """See `Maintenance`. The only member may advertise an unreachable URL: it gets our targets."""
        stub = rpc.ClusterStub(self._connection.channel)
        answer = await _call(self._connection, stub.MemberList, rpc.MemberListRequest(), tried="list of members")
        found = tuple(map(member_of, answer.members))
        return found if len(found) > 1 else (replace(found[0], targets=self._endpoint.targets),)

    async def status(self, member: EtcdMember) -> MemberStatus:
        """See `Maintenance`."""
        async with self._connect_to(member) as connection:
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
        with contextlib.suppress(Compacted):  # by etcd itself, or by another client
            await _call(self._connection, self._connection.kv.Compact, request, tried="compaction")

    async def defragment(self, member: EtcdMember) -> None:
        """See `Maintenance`."""
        async with self._connect_to(member, timeout_s=DEFRAGMENT_TIMEOUT_S) as connection:
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
        request = rpc.MemberRemoveRequest(ID=member_id)  # MemberPromoteRequest has the same field
        await _call(self._connection, promote, request, tried="promotion of a learner")

    @contextlib.asynccontextmanager
    async def _connect_to(self, member: EtcdMember, *, timeout_s: float | None = None) -> AsyncIterator[Connection]:
        """Return a connection to this member alone."""
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
    """Make one call. Some of these answers have no header, so the store's epoch is not checked with them."""
    try:
        return await method(request, timeout=connection.timeout_s)
    except grpc.RpcError as error:
        raise connection.explain(error, tried, connection.channel) from error


def _target(url: str) -> str:
    return url.partition("://")[2]


def _newer(message: Any) -> dict[int, Any]:
    """Return the fields of a message that etcd3 does not know, by number."""
    unknown: Any = UnknownFieldSet(message)
    return {field.field_number: field.data for field in unknown}


def member_of(message: Any) -> EtcdMember:
    """Return the record of one etcdserverpb.Member."""
    return EtcdMember(
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
