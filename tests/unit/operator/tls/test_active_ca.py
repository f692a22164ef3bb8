"""The authority in use when its Secret changes while the operator runs."""

import asyncio
import base64
import itertools
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from elasticjob_operator.cluster.in_memory import InMemoryCluster
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.tls.active_ca import ActiveCA
from elasticjob_operator.tls.ca import CertificateAuthority
from elasticjob_operator.tls.ca_secrets import CASecrets, SecretNames
from elasticjob_operator.tls.operator_certificate import CertificateFiles, renew_forever
from testing.waiting import aeventually

NOW_S = 1_750_000_000.0
PLACE = SecretNames(namespace="system", ca="ca", server="server", hosts=("127.0.0.1",))


def renewed(before: CertificateAuthority) -> CertificateAuthority:
    """Return an authority with the same key and name and another certificate."""
    old = x509.load_pem_x509_certificate(before.certificate)
    key = serialization.load_pem_private_key(before.key, None)
    builder = x509.CertificateBuilder(old.issuer, old.subject, old.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(datetime.fromtimestamp(NOW_S, UTC))
    builder = builder.not_valid_after(datetime.fromtimestamp(NOW_S, UTC) + timedelta(days=9999))
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    made = builder.sign(key, hashes.SHA256())  # type: ignore[arg-type]
    return CertificateAuthority(made.public_bytes(serialization.Encoding.PEM), before.key)


def test_a_renewed_certificate_of_the_same_key_is_used() -> None:
    first = CertificateAuthority.create(now_s=NOW_S)
    active_ca, second = ActiveCA(first), renewed(first)
    active_ca.update(second)
    assert active_ca.current is second
    assert second.has_signed(first.issue_client("x", now_s=NOW_S, life_s=60).certificate)


def test_additional_trusted_authorities_are_used() -> None:
    first = CertificateAuthority.create(now_s=NOW_S)
    active_ca = ActiveCA(first)
    active_ca.update(CertificateAuthority(first.certificate, first.key, also_trusted=b"another\n"))
    assert b"another" in active_ca.current.trusted


def test_another_authority_is_not_used_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    first, other = CertificateAuthority.create(now_s=NOW_S), CertificateAuthority.create(now_s=NOW_S)
    active_ca = ActiveCA(first)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            active_ca.update(other)
    assert active_ca.current is first
    assert len(caplog.messages) == 1
    assert "has the steps to change over" in caplog.messages[0]


class Rig:
    """An operator that renews its certificates, and its Secrets."""

    leads = True

    def __init__(self, cluster: InMemoryCluster, folder: Path) -> None:
        self.cluster = cluster
        self.first = CertificateAuthority.create(now_s=NOW_S)
        self.held = ActiveCA(self.first)
        self.own = folder / "own" / "current" / "ca.crt"
        ticks = itertools.count(NOW_S)
        self._files = CertificateFiles(folder / "own", self.held, name="root", clock=lambda: next(ticks))
        self._home = CASecrets(cluster, PLACE, clock=lambda: NOW_S)

    async def put(self, **data: bytes) -> None:
        """Write into the Secret of the authority, as a user does."""
        encoded = {name.replace("_", "."): base64.b64encode(text).decode() for name, text in data.items()}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "ca", "namespace": "system"},
            "data": encoded,
        }
        await self.cluster.replace(Resource.SECRET, body)

    async def run(self) -> None:
        """Renew until cancelled, without a pause."""
        await renew_forever(self._files, self._home, self.held, every_s=0.01, leads=lambda: self.leads)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    cluster = InMemoryCluster(clock=lambda: NOW_S)
    for name in ("ca", "server"):
        metadata = {"name": name, "namespace": "system"}
        await cluster.create(Resource.SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    made = Rig(cluster, tmp_path)
    await made.put(tls_crt=made.first.certificate, tls_key=made.first.key)
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.wait({task})


async def test_a_renewed_authority_reaches_etcds_certificate_and_the_operators_own(rig: Rig) -> None:
    second = renewed(rig.first)
    await rig.put(tls_crt=second.certificate, tls_key=second.key)
    await aeventually(lambda: rig.own.exists() and second.certificate in rig.own.read_bytes(), what="its own")

    async def is_served() -> bool:
        found = await rig.cluster.get(Resource.SECRET, "system", "server")
        return found is not None and base64.b64decode(found["data"]["ca.crt"]) == second.trusted

    served: bool = await aeventually(is_served, what="etcd's")
    assert served


async def test_a_standby_renews_its_own_certificate_and_not_etcds(rig: Rig) -> None:
    rig.leads = False
    await aeventually(rig.own.exists, what="a certificate of its own")
    first = rig.own.resolve()
    await aeventually(lambda: rig.own.resolve() != first, what="another one")
    found = await rig.cluster.get(Resource.SECRET, "system", "server")
    assert found is not None
    assert "data" not in found


@pytest.mark.parametrize("data", [{}, {"tls_crt": b"no certificate", "tls_key": b"no key"}], ids=["empty", "broken"])
async def test_a_missing_or_invalid_authority_leaves_the_earlier_one_in_use(rig: Rig, data: dict[str, bytes]) -> None:
    await rig.put(**data)
    await aeventually(rig.own.exists, what="a certificate of its own")
    first = rig.own.resolve()
    await aeventually(lambda: rig.own.resolve() != first, what="another one")
    assert rig.held.current is rig.first
    found = await rig.cluster.get(Resource.SECRET, "system", "ca")
    assert found is not None
    assert set(found["data"]) == {name.replace("_", ".") for name in data}, "nothing is written into it"
