"""The operator's own Secrets: the authority is filled once, and etcd's certificate is kept valid."""

import base64

import pytest

from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.errors import ClusterError, CredentialsError
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.tls.ca import CertificateAuthority, describe
from elasticjob_operator.tls.ca_secrets import SERVER_LIFETIME_S, CASecrets, SecretNames
from testing.clocks.fake_clock import FakeClock

PLACE = SecretNames(namespace="system", ca="ca", server="server", hosts=("etcd.system.svc", "127.0.0.1"))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_750_000_000.0)


@pytest.fixture
async def cluster(clock: FakeClock) -> InMemoryCluster:
    made = InMemoryCluster(clock=clock)
    for name in ("ca", "server"):
        await made.create(Resource.SECRET, secret(name))
    return made


def secret(name: str, **data: bytes) -> Object:
    stored = {file.replace("_", "."): base64.b64encode(text).decode() for file, text in data.items()}
    metadata = {"name": name, "namespace": "system"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **({"data": stored} if stored else {})}


async def contents(cluster: InMemoryCluster, name: str) -> dict[str, bytes]:
    found = await cluster.get(Resource.SECRET, "system", name)
    assert found is not None
    return {file: base64.b64decode(text) for file, text in found.get("data", {}).items()}


async def test_an_empty_secret_gets_an_authority_once(cluster: InMemoryCluster, clock: FakeClock) -> None:
    ca_secrets = CASecrets(cluster, PLACE, clock=clock)
    first, second = await ca_secrets.load_ca(), await ca_secrets.load_ca()
    assert first.certificate == second.certificate
    assert set(await contents(cluster, "ca")) == {"tls.crt", "tls.key"}


async def test_a_provided_authority_is_used_and_not_changed(cluster: InMemoryCluster, clock: FakeClock) -> None:
    theirs = CertificateAuthority.create(now_s=clock())
    brought = secret("ca", tls_crt=theirs.certificate, tls_key=theirs.key, ca_crt=b"root of theirs\n")
    await cluster.replace(Resource.SECRET, brought)
    found = await CASecrets(cluster, PLACE, clock=clock).load_ca()
    assert (found.certificate, found.trusted) == (theirs.certificate, theirs.certificate + b"root of theirs\n")
    assert set(await contents(cluster, "ca")) == {"tls.crt", "tls.key", "ca.crt"}


async def test_half_an_authority_is_refused_and_not_overwritten(cluster: InMemoryCluster, clock: FakeClock) -> None:
    await cluster.replace(Resource.SECRET, secret("ca", tls_crt=CertificateAuthority.create(now_s=clock()).certificate))
    with pytest.raises(CredentialsError, match="the certificate authority cannot be used"):
        await CASecrets(cluster, PLACE, clock=clock).load_ca()
    assert set(await contents(cluster, "ca")) == {"tls.crt"}


async def test_a_missing_secret_is_an_error_that_asks_for_it(clock: FakeClock) -> None:
    with pytest.raises(ClusterError, match="there is no secret system/ca; create it, empty or with"):
        await CASecrets(InMemoryCluster(clock=clock), PLACE, clock=clock).load_ca()


async def test_etcds_certificate_is_renewed_after_two_thirds_of_its_lifetime(
    cluster: InMemoryCluster, clock: FakeClock
) -> None:
    ca_secrets = CASecrets(cluster, PLACE, clock=clock)
    authority = await ca_secrets.load_ca()
    await ca_secrets.ensure_server_certificate(authority)
    first = (await contents(cluster, "server"))["tls.crt"]
    clock.now_s += SERVER_LIFETIME_S * 0.6
    await ca_secrets.ensure_server_certificate(authority)
    assert (await contents(cluster, "server"))["tls.crt"] == first
    clock.now_s += SERVER_LIFETIME_S * 0.1
    await ca_secrets.ensure_server_certificate(authority)
    assert (await contents(cluster, "server"))["tls.crt"] != first


async def test_etcds_certificate_follows_its_names_and_its_authority(
    cluster: InMemoryCluster, clock: FakeClock
) -> None:
    ca_secrets = CASecrets(cluster, PLACE, clock=clock)
    await ca_secrets.ensure_server_certificate(await ca_secrets.load_ca())
    other = SecretNames(namespace="system", ca="ca", server="server", hosts=("renamed",))
    fresh = CertificateAuthority.create(now_s=clock())
    await CASecrets(cluster, other, clock=clock).ensure_server_certificate(fresh)
    stored = await contents(cluster, "server")
    described = describe(stored["tls.crt"])
    assert described is not None
    assert described.hosts == {"renamed"}
    assert fresh.has_signed(stored["tls.crt"])
    assert stored["ca.crt"] == fresh.trusted


async def test_another_component_may_maintain_etcds_certificate(cluster: InMemoryCluster, clock: FakeClock) -> None:
    ca_secrets = CASecrets(cluster, SecretNames(namespace="system", ca="ca"), clock=clock)
    await ca_secrets.ensure_server_certificate(await ca_secrets.load_ca())
    assert await contents(cluster, "server") == {}


async def test_another_authority_than_that_of_etcds_certificate_is_a_warning_with_the_cure(
    cluster: InMemoryCluster, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    ca_secrets = CASecrets(cluster, PLACE, clock=clock)
    await ca_secrets.ensure_server_certificate(await ca_secrets.load_ca())
    assert not [line for line in caplog.records if line.levelname == "WARNING"]
    await ca_secrets.ensure_server_certificate(CertificateAuthority.create(now_s=clock()))
    assert "Put the earlier authority back into the secret, or restart etcd" in caplog.text
