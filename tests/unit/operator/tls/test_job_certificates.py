"""Certificates and users of jobs, authentication in etcd, and the removal of leftovers."""

import asyncio
import base64
from collections.abc import Sequence

import pytest

from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.tls.active_ca import ActiveCA
from elasticjob_operator.tls.ca import CertificateAuthority, describe
from elasticjob_operator.tls.job_certificates import IssuePolicy, JobCertificates
from testing.servers.in_memory_auth import InMemoryAuth
from testing.waiting import aeventually

NOW_S = 1_750_000_000.0
KEY = JobKey("n", "j", "uid-1")
ROLE = "elasticjob/op/n/j/uid-1"
SECRET: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "j-etcd-uid-1", "namespace": "n"}}


class Accounts(InMemoryAuth):
    """Accounts that count the users that are added."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[str] = []
        self.guarded = 0

    async def enable(self, admins: Sequence[str]) -> None:
        self.guarded += 1
        await super().enable(admins)

    async def add_user(self, user: str, *, role: str, prefix: str) -> None:
        assert self.enabled, "a user is worth nothing before authentication is on"
        self.added.append(user)
        await super().add_user(user, role=role, prefix=prefix)


@pytest.fixture
def cluster() -> InMemoryCluster:
    return InMemoryCluster(clock=lambda: NOW_S)


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()


@pytest.fixture
def credentials(cluster: InMemoryCluster, accounts: Accounts) -> JobCertificates:
    return again(cluster, accounts)


def again(cluster: InMemoryCluster, accounts: Accounts) -> JobCertificates:
    """Return the certificates of another process of the same operator."""
    policy = IssuePolicy(cluster_id="c", operator_id="op", lifetime_s=1000)
    return JobCertificates(
        cluster, accounts, ActiveCA(CertificateAuthority.create(now_s=NOW_S)), policy=policy, clock=lambda: NOW_S
    )


async def certificate(cluster: InMemoryCluster) -> bytes:
    found = await cluster.get(Resource.SECRET, "n", "j-etcd-uid-1")
    assert found is not None
    return base64.b64decode(found["data"]["tls.crt"])


async def test_a_job_gets_a_certificate_and_a_user_for_its_own_prefix(
    credentials: JobCertificates, cluster: InMemoryCluster, accounts: Accounts
) -> None:
    certified = await credentials.issue(KEY, SECRET, store=0)
    assert (certified.store, certified.renew_at_s) == (0, NOW_S + 500)
    described = describe(await certificate(cluster))
    assert described is not None
    assert described.name == "uid-1"
    assert accounts.of["uid-1"] == {ROLE}
    assert accounts.prefixes[ROLE] == "/elasticjob/c/n/j/uid-1/"


async def test_a_renewal_changes_the_secret_and_nothing_in_etcd(
    credentials: JobCertificates, cluster: InMemoryCluster, accounts: Accounts
) -> None:
    await credentials.issue(KEY, SECRET, store=0)
    first = await certificate(cluster)
    await credentials.issue(KEY, SECRET, store=0)
    assert await certificate(cluster) != first
    assert accounts.added == ["uid-1"]
    assert accounts.guarded == 1


async def test_a_user_without_a_role_gets_it_from_the_next_process(
    cluster: InMemoryCluster, accounts: Accounts
) -> None:
    await accounts.enable([])
    accounts.prefixes[ROLE] = "/elasticjob/c/n/j/uid-1/"
    accounts.of["uid-1"] = set()
    await again(cluster, accounts).issue(KEY, SECRET, store=0)
    assert accounts.of["uid-1"] == {ROLE}


async def test_authentication_is_enabled_in_another_etcd_before_the_user_is_created_again(
    credentials: JobCertificates, accounts: Accounts
) -> None:
    await credentials.issue(KEY, SECRET, store=0)
    accounts.enabled = False
    accounts.of.clear()
    accounts.prefixes.clear()
    await credentials.issue(KEY, SECRET, store=1)
    assert accounts.enabled
    assert accounts.of["uid-1"] == {ROLE}


async def test_a_job_that_is_forgotten_leaves_nothing_in_etcd(credentials: JobCertificates, accounts: Accounts) -> None:
    await credentials.issue(KEY, SECRET, store=0)
    await credentials.forget(KEY)
    assert set(accounts.of) == {"root"}
    assert set(accounts.prefixes) == {"root"}


async def test_each_job_with_a_user_is_reported_and_jobs_of_others_are_not(
    credentials: JobCertificates, accounts: Accounts
) -> None:
    for role in ("elasticjob/op/n/gone/uid-2", "elasticjob/other/n/gone/uid-3", "elasticjob/op/odd", "mine"):
        await accounts.add_user(
            f"user of {role}", role=role, prefix="/"
        ) if accounts.enabled else await accounts.enable([])
    await accounts.add_user("uid-2", role="elasticjob/op/n/gone/uid-2", prefix="/")
    await accounts.add_user("uid-1", role=ROLE, prefix="/")

    found: list[JobKey] = []
    task = asyncio.create_task(credentials.run(lambda: 0, found.append))
    await aeventually(lambda: len(found) == 2, what="both jobs")
    task.cancel()
    await asyncio.wait({task})
    assert found == [JobKey("n", "gone", "uid-2"), KEY]


async def test_a_new_leadership_reads_the_users_again(
    credentials: JobCertificates, cluster: InMemoryCluster, accounts: Accounts
) -> None:
    await credentials.issue(KEY, SECRET, store=0)
    await again(cluster, accounts).forget(KEY)
    credentials.forget_etcd()
    await credentials.issue(KEY, SECRET, store=0)
    assert accounts.of["uid-1"] == {ROLE}
