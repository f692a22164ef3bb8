"""Certificates that etcd accepts, and the messages of both sides about those that it refuses."""

import time
from pathlib import Path

import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import EtcdError, RequestRejected, Unavailable
from elasticjob_etcd.interface import Endpoint
from elasticjob_operator.tls.ca import CertificateAuthority
from testing.servers.secured_etcd import SecuredEtcd, write
from testing.waiting import aeventually
from tests.integration.security.conftest import Job

pytestmark = pytest.mark.etcd


async def verdict(endpoint: Endpoint) -> EtcdError | None:
    client = EtcdClient(endpoint)
    try:
        await client.get("health")
    except EtcdError as error:
        return error
    finally:
        await client.close()
    return None


async def test_an_expired_certificate_is_refused_with_a_message_on_both_sides(
    secured: SecuredEtcd, attacker: Job
) -> None:
    error = await verdict(secured.issue_certificate(attacker.uid, life_s=-60))
    assert isinstance(error, RequestRejected)
    assert "etcd refused our certificate, or misses one (see cert and key): it may have expired" in str(error)
    await aeventually(lambda: "certificate has expired or is not yet valid" in secured.log, what="etcd's sentence")


async def test_a_certificate_of_another_authority_is_refused_with_a_message_on_both_sides(
    secured: SecuredEtcd, attacker: Job
) -> None:
    error = await verdict(
        secured.issue_certificate(attacker.uid, authority=CertificateAuthority.create(now_s=time.time()))
    )
    assert isinstance(error, RequestRejected)
    assert "etcd refused our certificate, or misses one (see cert and key): it may have expired" in str(error)
    await aeventually(lambda: "certificate signed by unknown authority" in secured.log, what="etcd's sentence")


async def test_clients_refuse_an_etcd_with_a_certificate_of_another_authority(
    secured: SecuredEtcd, attacker: Job, tmp_path: Path
) -> None:
    stranger = CertificateAuthority.create(now_s=time.time())
    write(tmp_path, secured.ca.issue_client(attacker.uid, now_s=time.time(), life_s=60), stranger.trusted)
    error = await verdict(secured.endpoint(tmp_path))
    assert isinstance(error, RequestRejected)
    assert "we do not trust the certificate of etcd (see ca_cert)" in str(error)


async def test_a_valid_certificate_without_a_user_has_no_permissions(secured: SecuredEtcd, attacker: Job) -> None:
    assert attacker.uid
    error = await verdict(secured.issue_certificate("nobody-that-etcd-knows"))
    assert isinstance(error, Unavailable), "the operator may be about to make this user"
    assert "permission denied" in str(error)


async def test_etcds_own_certificate_is_not_a_user(secured: SecuredEtcd, attacker: Job) -> None:
    assert attacker.uid
    error = await verdict(secured.endpoint(secured.folder / "server"))
    assert "permission denied" in str(error)


@pytest.mark.parametrize("hours", [1, -1])
async def test_etcd_accepts_the_certificate_of_an_operator_whose_clock_is_an_hour_off(
    secured: SecuredEtcd, attacker: Job, tmp_path: Path, hours: int
) -> None:
    issued = secured.ca.issue_client(attacker.uid, now_s=time.time() + hours * 3600, life_s=86400)
    write(tmp_path, issued, secured.ca.trusted)
    assert "refused our certificate" not in str(await verdict(secured.endpoint(tmp_path)))
