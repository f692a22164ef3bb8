"""A job's certificate gives access to that job's keys, and to nothing else in etcd. Attacks are sent by plain gRPC.

Etcd refuses all of them. Older versions did not: a transaction inside a transaction read and wrote any key.
"""

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.messages import prefix_range, rpc
from testing.servers.secured_etcd import bare_channel
from tests.integration.security.conftest import Job

pytestmark = pytest.mark.etcd

SERVICES = {
    "KV": rpc.KVStub,
    "Lease": rpc.LeaseStub,
    "Auth": rpc.AuthStub,
    "Maintenance": rpc.MaintenanceStub,
    "Cluster": rpc.ClusterStub,
}
REFUSALS = {grpc.StatusCode.PERMISSION_DENIED}


async def call(by: Job, service: str, method: str, request: Any) -> Any:
    """Send one call with A's certificate; return gRPC's error, or the response."""
    async with bare_channel(by.endpoint) as channel:
        try:
            found = getattr(SERVICES[service](channel), method)(request, timeout=10)
            return [item async for item in found] if hasattr(found, "__aiter__") else await found
        except grpc.RpcError as error:
            return error


def nested(operation: Any) -> Any:
    """Return a transaction inside a transaction, which etcd3's messages lack: RequestOp.request_txn = 4."""
    inner = rpc.TxnRequest(success=[operation]).SerializeToString()
    outer = rpc.RequestOp()
    outer.MergeFromString(b"\x22" + _varint(len(inner)) + inner)
    return rpc.TxnRequest(success=[outer])


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def put(key: str) -> Any:
    return rpc.PutRequest(key=key.encode(), value=b"of A")


ATTACKS: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "read a key": ("KV", "Range", lambda key: rpc.RangeRequest(key=key.encode())),
    "list a job": ("KV", "Range", lambda key: rpc.RangeRequest(**prefix_range(key))),
    "list all jobs": ("KV", "Range", lambda _: rpc.RangeRequest(**prefix_range("/elasticjob/"))),
    "list everything": ("KV", "Range", lambda _: rpc.RangeRequest(**prefix_range(""))),
    "count everything": ("KV", "Range", lambda _: rpc.RangeRequest(count_only=True, **prefix_range(""))),
    "write a key": ("KV", "Put", put),
    "write at the root": ("KV", "Put", lambda _: put("/elasticjob/health")),
    "delete a job": ("KV", "DeleteRange", lambda key: rpc.DeleteRangeRequest(**prefix_range(key))),
    "compare a key": (
        "KV",
        "Txn",
        lambda key: rpc.TxnRequest(compare=[rpc.Compare(key=key.encode(), target=rpc.Compare.VERSION, version=0)]),
    ),
    "write in a transaction": (
        "KV",
        "Txn",
        lambda key: rpc.TxnRequest(success=[rpc.RequestOp(request_put=put(key))]),
    ),
    "read in a transaction inside a transaction": (
        "KV",
        "Txn",
        lambda key: nested(rpc.RequestOp(request_range=rpc.RangeRequest(key=key.encode()))),
    ),
    "write in a transaction inside a transaction": (
        "KV",
        "Txn",
        lambda key: nested(rpc.RequestOp(request_put=put(key))),
    ),
    "list users": ("Auth", "UserList", lambda _: rpc.AuthUserListRequest()),
    "become an administrator": (
        "Auth",
        "UserGrantRole",
        lambda key: rpc.AuthUserGrantRoleRequest(user=key.split("/")[5], role="root"),
    ),
    "switch authentication off": ("Auth", "AuthDisable", lambda _: rpc.AuthDisableRequest()),
    "compact the store": ("KV", "Compact", lambda _: rpc.CompactionRequest(revision=1, physical=True)),
    "defragment": ("Maintenance", "Defragment", lambda _: rpc.DefragmentRequest()),
    "take a snapshot": ("Maintenance", "Snapshot", lambda _: rpc.SnapshotRequest()),
    "raise an alarm": (
        "Maintenance",
        "Alarm",
        lambda _: rpc.AlarmRequest(action=rpc.AlarmRequest.ACTIVATE, memberID=1, alarm=rpc.NOSPACE),
    ),
    "remove the member": ("Cluster", "MemberRemove", lambda _: rpc.MemberRemoveRequest(ID=1)),
    "add a member": ("Cluster", "MemberAdd", lambda _: rpc.MemberAddRequest(peerURLs=["http://1.2.3.4:5"])),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_job_cannot(attack: str, attacker: Job, victim: Job, root: EtcdClient) -> None:
    await victim.etcd.txn(Txn((), (Put(victim.keys.spec, b"of B"),)))
    service, method, request = ATTACKS[attack]
    answer = await call(attacker, service, method, request(victim.keys.spec))
    assert isinstance(answer, grpc.RpcError), f"etcd did it: {answer}"
    assert answer.code() in REFUSALS, f"{answer.code()}: {answer.details()}"
    found = await root.get(victim.keys.spec)
    assert found is not None
    assert found.value == b"of B"


@pytest.mark.parametrize("where", ["the other job", "the root", "everything"])
async def test_a_job_cannot_watch(where: str, attacker: Job, victim: Job) -> None:
    begin = {"the other job": victim.keys.control, "the root": "/elasticjob/", "everything": ""}[where]
    async with bare_channel(attacker.endpoint) as channel:
        stream = rpc.WatchStub(channel).Watch()
        await stream.write(rpc.WatchRequest(create_request=rpc.WatchCreateRequest(**prefix_range(begin))))
        answer: Any = await stream.read()
        assert answer.canceled
        assert "permission denied" in answer.cancel_reason
        stream.cancel()


IN_PROCESS = {
    "take a lock": "/v3lockpb.Lock/Lock",
    "campaign in an election": "/v3electionpb.Election/Campaign",
    "ask for an election's leader": "/v3electionpb.Election/Leader",
}
"""Services of etcd that read and write keys through a client within its process."""


@pytest.mark.parametrize("attack", IN_PROCESS)
async def test_a_job_cannot_reach_keys_by_etcds_own_clients(
    attack: str, attacker: Job, victim: Job, root: EtcdClient
) -> None:
    await victim.etcd.txn(Txn((), (Put(victim.keys.spec, b"of B"),)))
    name = victim.keys.spec.encode()
    request = b"\x0a" + _varint(len(name)) + name
    async with bare_channel(attacker.endpoint) as channel:
        with pytest.raises(grpc.RpcError, match=r"PERMISSION_DENIED|permission denied"):
            await channel.unary_unary(IN_PROCESS[attack], bytes, bytes)(request, timeout=10)
    assert [kv.key for kv in (await root.range(victim.keys.everything)).kvs] == [victim.keys.spec]


async def test_a_job_cannot_touch_the_lease_of_another(attacker: Job, victim: Job, root: EtcdClient) -> None:
    lease = await victim.etcd.lease_grant(60)
    await victim.etcd.txn(Txn((), (Put(victim.keys.leader, b"of B", lease=lease.id),)))
    tied = rpc.PutRequest(key=attacker.keys.spec.encode(), value=b"", lease=lease.id)
    touches = {
        "revoke": ("LeaseRevoke", rpc.LeaseRevokeRequest(ID=lease.id), "Lease"),
        "look": ("LeaseTimeToLive", rpc.LeaseTimeToLiveRequest(ID=lease.id, keys=True), "Lease"),
        "list": ("LeaseLeases", rpc.LeaseLeasesRequest(), "Lease"),
        "tie a key": ("Put", tied, "KV"),
        "tie a key in a transaction": ("Txn", rpc.TxnRequest(success=[rpc.RequestOp(request_put=tied)]), "KV"),
    }
    for name, (method, request, service) in touches.items():
        answer = await call(attacker, service, method, request)
        assert isinstance(answer, grpc.RpcError), f"{name}: {answer}"
        assert answer.code() in REFUSALS, f"{name}: {answer}"
    assert await root.get(victim.keys.leader) is not None
    assert await victim.etcd.lease_revoke(lease.id)


async def test_a_job_cannot_keep_the_lease_of_another_alive(attacker: Job, victim: Job) -> None:
    lease = await victim.etcd.lease_grant(60)
    await victim.etcd.txn(Txn((), (Put(victim.keys.leader, b"of B", lease=lease.id),)))
    with pytest.raises(EtcdError, match="permission denied"):
        await attacker.etcd.lease_keep_alive(lease.id)


async def test_a_job_whose_user_was_removed_can_do_nothing(attacker: Job, root: EtcdClient) -> None:
    await attacker.etcd.txn(Txn((), (Put(attacker.keys.spec, b""),)))
    [role] = [role for role in await root.auth.roles() if role.endswith(attacker.uid)]
    await root.auth.remove_user(attacker.uid, role=role)
    answer = await call(attacker, "KV", "Range", rpc.RangeRequest(key=attacker.keys.spec.encode()))
    assert isinstance(answer, grpc.RpcError)
    assert answer.code() in REFUSALS
