"""A job's certificate never becomes an administrator of etcd, and one that did loses the rights soon."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.messages import rpc
from elasticjob_etcd.permissions import of_folder
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.tls.active_ca import ActiveCA
from elasticjob_operator.tls.job_certificates import IssuePolicy, JobCertificates
from testing.servers.secured_etcd import SecuredEtcd, administrator, bare_channel
from testing.waiting import aeventually
from tests.integration.security.conftest import Job, job

pytestmark = pytest.mark.etcd


@pytest.fixture
async def own(etcd_program: str, tmp_path: Path) -> AsyncIterator[SecuredEtcd]:
    """Return an etcd that a test may wipe."""
    made = SecuredEtcd(tmp_path, etcd_program)
    yield made
    made.kill()


async def lurk(endpoint: Endpoint, answers: list[str]) -> None:
    """Try to add a role with a job's certificate, as fast as etcd responds."""
    while True:
        with contextlib.suppress(Unavailable):
            async with bare_channel(endpoint) as channel:
                await insist(rpc.AuthStub(channel), answers)


async def insist(auth: Any, answers: list[str]) -> None:
    while True:
        try:
            await auth.RoleAdd(rpc.AuthRoleAddRequest(name="mine"), timeout=1)
            answers.append("taken")
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                raise Unavailable from error
            answers.append(error.details() or "")


@contextlib.asynccontextmanager
async def lurking(endpoint: Endpoint) -> AsyncIterator[list[str]]:
    """Yield etcd's responses while the context is entered."""
    answers: list[str] = []
    task = asyncio.create_task(lurk(endpoint, answers))
    try:
        yield answers
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_job_that_waits_for_an_empty_etcd_is_refused_from_the_first_response(own: SecuredEtcd) -> None:
    async with administrator(own) as root, job(own, root, "a") as attacker:
        async with lurking(attacker.endpoint) as answers:
            await aeventually(lambda: bool(answers), within_s=30, what="an answer of the old etcd")
            own.kill()
            answers.clear()
            await asyncio.to_thread(own.wipe)
            await aeventually(lambda: len(answers) > 100, within_s=30, what="answers of the new etcd")
        assert set(answers) <= {"etcdserver: permission denied", "etcdserver: user name not found"}
    async with administrator(own) as root:
        assert await root.auth.roles() == {"root"}


async def tamper(root: EtcdClient, attacker: Job) -> None:
    """Make changes of a job that became an administrator: rights for itself, and ways to return."""
    auth = rpc.AuthStub(root._connection.channel)
    await root.auth.grant_role(attacker.uid, role="root")
    await root.auth.add_user("me", role="mine", prefix="/elasticjob/")
    await root.auth.add_user(attacker.uid, role=f"elasticjob/op/n/a/{attacker.uid}", prefix="/elasticjob/c/")
    await auth.UserAdd(rpc.AuthUserAddRequest(name="door", password="open"))
    await root.auth.grant_role("door", role="root")


async def test_another_administrator_than_the_operator_loses_the_rights_at_the_next_audit(
    secured: SecuredEtcd, attacker: Job, victim: Job
) -> None:
    async with administrator(secured) as root:
        await tamper(root, attacker)
        assert await attacker.etcd.range(victim.keys.everything)
        corrected: list[None] = []
        policy = IssuePolicy(cluster_id="c", operator_id="op", own_etcd=True)
        active_ca = ActiveCA(secured.ca)
        vault = InMemoryCluster(clock=time.time)
        guard = JobCertificates(
            vault, root.auth, active_ca, policy=policy, clock=time.time, on_correction=lambda: corrected.append(None)
        )
        task = asyncio.create_task(guard.run(lambda: 0, lambda _: None))
        mended: bool = await aeventually(lambda: is_as_made(root, attacker), within_s=30, what="every correction")
        assert mended
        task.cancel()
        await asyncio.wait({task})
        assert len(corrected) >= 5
    with pytest.raises(Unavailable, match="permission denied"):
        await attacker.etcd.range(victim.keys.everything)
    assert not (await attacker.etcd.range(attacker.keys.everything)).kvs


async def is_as_made(root: EtcdClient, attacker: Job) -> bool:
    own = f"elasticjob/op/n/a/{attacker.uid}"
    return (
        await root.auth.roles_of(attacker.uid) == {own}
        and await root.auth.permissions_of(own) == {of_folder(attacker.keys.everything)}
        and not {"me", "door"} & await root.auth.users()
        and "mine" not in await root.auth.roles()
    )
