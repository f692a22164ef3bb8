"""A job's user in etcd is removed with the job, even if the job is deleted before anything else is created."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import Put, Txn
from elasticjob_etcd.memory.client import InMemoryEtcd, InMemoryStore
from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import Certified
from elasticjob_operator.model.objects import uid_of
from elasticjob_operator.tls.active_ca import ActiveCA
from elasticjob_operator.tls.ca import CertificateAuthority
from elasticjob_operator.tls.job_certificates import IssuePolicy, JobCertificates
from testing.operator_history import NAMESPACE, SETTINGS, manifest
from testing.servers.in_memory_auth import InMemoryAuth
from testing.waiting import aeventually
from tests.integration.operator.conftest import NOW_S


class SlowCredentials(JobCertificates):
    """An issuer that creates a job's certificate and then waits until `go_on`."""

    def __init__(self, cluster: InMemoryCluster, accounts: InMemoryAuth, *, answer_lost: bool) -> None:
        policy = IssuePolicy(cluster_id=SETTINGS.cluster_id, operator_id=SETTINGS.operator_id)
        active_ca = ActiveCA(CertificateAuthority.create(now_s=NOW_S))
        super().__init__(cluster, accounts, active_ca, policy=policy, clock=lambda: NOW_S)
        self.go_on = asyncio.Event()
        self._answer_lost = answer_lost

    async def issue(self, key: JobKey, secret: Mapping[str, Any], *, store: int) -> Certified:
        made = await super().issue(key, secret, store=store)
        await self.go_on.wait()
        if self._answer_lost:
            raise Unavailable("the answer was lost")
        return made


@contextlib.asynccontextmanager
async def operating(
    cluster: InMemoryCluster, credentials: JobCertificates, store: InMemoryStore | None = None
) -> AsyncIterator[None]:
    settings = replace(SETTINGS, etcd_tls=True)
    etcd = InMemoryEtcd(store or InMemoryStore())
    operator = Controller(cluster, etcd, settings, watch=cluster.watch, credentials=credentials)
    running = asyncio.create_task(operator.run())
    yield
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.parametrize("answer_lost", [False, True])
async def test_the_user_of_a_job_that_was_deleted_meanwhile_is_removed(
    cluster: InMemoryCluster, *, answer_lost: bool
) -> None:
    accounts = InMemoryAuth()
    credentials = SlowCredentials(cluster, accounts, answer_lost=answer_lost)
    async with operating(cluster, credentials):
        job = await cluster.create(Resource.JOB, manifest())
        await aeventually(lambda: uid_of(job) in accounts.of, what="its user")
        await cluster.delete(Resource.JOB, NAMESPACE, "digits", uid=uid_of(job))
        credentials.go_on.set()
        await aeventually(lambda: set(accounts.of) == {"root"}, what="no user of a job")
        assert set(accounts.prefixes) == {"root"}


async def test_a_job_that_was_deleted_without_an_operator_leaves_no_user_and_no_key(cluster: InMemoryCluster) -> None:
    """Its keys have no spec record, so only the user shows that they are those of this installation."""
    accounts, store, gone = InMemoryAuth(), InMemoryStore(), JobKey(NAMESPACE, "gone", "uid-gone")
    keys = gone.keys(SETTINGS.cluster_id)
    store.txn(Txn((), (Put(keys.link_secret, b"{}"),)))
    await accounts.enable(["root"])
    role = f"elasticjob/{SETTINGS.operator_id}/{NAMESPACE}/gone/{gone.uid}"
    await accounts.add_user(gone.uid, role=role, prefix=keys.everything)
    credentials = SlowCredentials(cluster, accounts, answer_lost=False)
    credentials.go_on.set()
    async with operating(cluster, credentials, store):
        job = await cluster.create(Resource.JOB, manifest())
        await aeventually(lambda: set(accounts.of) == {"root", uid_of(job)}, what="the user of the other job alone")
        await aeventually(lambda: not store.range(keys.everything).kvs, what="no key of the deleted job")
