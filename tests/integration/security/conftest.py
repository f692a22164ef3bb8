"""An etcd as the chart installs it with TLS, and two jobs of different users."""

import contextlib
import dataclasses
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from elasticjob_api.keys import Keys, job_prefix
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint
from testing.servers.secured_etcd import SecuredEtcd, administrator, program
from testing.waiting import slowness

_CALL_S = 3.0
"""Seconds that a job's calls may take on a quiet machine, as an agent's."""
_PROGRAM = pytest.StashKey[str | Exception]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get etcd before the timeout of the first test begins, because a cold build takes a minute or two."""
    here = Path(__file__).parent
    if session.config.option.collectonly or not any(here in item.path.parents for item in session.items):
        return
    try:
        session.config.stash[_PROGRAM] = program()
    except Exception as error:  # noqa: BLE001 -- told by the tests that need it
        session.config.stash[_PROGRAM] = error


@pytest.fixture(scope="session")
def etcd_program(pytestconfig: pytest.Config) -> str:
    """Return the etcd that the chart names."""
    found = pytestconfig.stash[_PROGRAM]
    if isinstance(found, Exception):
        pytest.fail(f"hack/rendezvous-etcd has no etcd, and these tests never skip: {found}", pytrace=False)
    return found


@pytest.fixture(scope="session")
def secured(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    """Return one etcd for all tests that neither stop nor wipe it."""
    made = SecuredEtcd(tmp_path_factory.mktemp("secured"), etcd_program)
    yield made
    made.kill()


@dataclass(frozen=True)
class Job:
    """A job in etcd, with the certificate that its pods have."""

    uid: str
    keys: Keys
    endpoint: Endpoint
    etcd: EtcdClient


@pytest.fixture
async def root(secured: SecuredEtcd) -> AsyncIterator[EtcdClient]:
    """Return the operator's client."""
    async with administrator(secured) as client:
        yield client


@contextlib.asynccontextmanager
async def job(etcd: SecuredEtcd, admin: EtcdClient, name: str) -> AsyncIterator[Job]:
    """Return a job with its user and certificate, as the operator creates them."""
    uid = str(uuid.uuid4())
    keys = Keys(job_prefix(cluster="c", namespace="n", name=name, uid=uid))
    await admin.auth.add_user(uid, role=f"elasticjob/op/n/{name}/{uid}", prefix=keys.everything)
    endpoint = dataclasses.replace(etcd.issue_certificate(uid), timeout_s=_CALL_S * slowness())
    client = EtcdClient(endpoint, check_s=0.1)
    try:
        yield Job(uid, keys, endpoint, client)
    finally:
        await client.close()


@pytest.fixture
async def attacker(secured: SecuredEtcd, root: EtcdClient) -> AsyncIterator[Job]:
    """Job A: hostile code runs with its certificate."""
    async with job(secured, root, "a") as made:
        yield made


@pytest.fixture
async def victim(secured: SecuredEtcd, root: EtcdClient) -> AsyncIterator[Job]:
    """Job B, of another user."""
    async with job(secured, root, "b") as made:
        yield made
