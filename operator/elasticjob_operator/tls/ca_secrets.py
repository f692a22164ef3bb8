"""The Secrets of the certificate authority and of etcd's certificate, in the operator's own namespace.

The Secret of the authority exists when the operator starts. It is empty, or contains an authority that the user has
provided. The chart creates it, so it is deleted with the release, and the operator needs no right to create Secrets.
The operator fills it once and never changes it. It keeps the Secret of etcd's certificate up to date: etcd waits for it
at its start, and reads it again for every connection. Another component may maintain that Secret instead.
"""

import base64
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from elasticjob_operator.errors import ClusterError, Conflict
from elasticjob_operator.model.cluster_interface import Object, Resource, SecretStore
from elasticjob_operator.render.secret import CA, CERTIFICATE, KEY
from elasticjob_operator.tls.ca import CertificateAuthority, Issued, describe

SERVER_LIFETIME_S = 90 * 86400.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretNames:
    """Names of the Secrets; with an empty `server`, the operator does not maintain etcd's certificate."""

    namespace: str
    ca: str
    server: str = ""
    hosts: tuple[str, ...] = ()
    """Names and addresses by which clients dial etcd."""


class CASecrets:
    """The operator's own Secrets; `clock` is the wall clock, in seconds."""

    def __init__(self, secrets: SecretStore, names: SecretNames, *, clock: Callable[[], float]) -> None:
        self._secrets = secrets
        self._names = names
        self._clock = clock

    async def load_ca(self) -> CertificateAuthority:
        """Return the authority in the Secret, created now if it is empty; raises ClusterError, CredentialsError."""
        secret = await self._read(self._names.ca)
        if (stored := _ca_from_secret(secret)) is not None:
            return stored
        created = CertificateAuthority.create(now_s=self._clock())
        try:
            await self._write(secret, {CERTIFICATE: created.certificate, KEY: created.key})
        except Conflict:
            return await self.load_ca()  # another process wrote first: its authority counts
        log.info("created a certificate authority in the secret %s", self._names.ca)
        return created

    async def load_server_certificate(self) -> CertificateAuthority | None:
        """Return the authority in the Secret, or None if it is empty; raises ClusterError, CredentialsError."""
        return _ca_from_secret(await self._read(self._names.ca))

    async def ensure_server_certificate(self, ca: CertificateAuthority) -> None:
        """Issue a certificate for etcd unless it has one of this authority, for its names, and with enough time left.

        A third of its lifetime is enough.
        """
        if not self._names.server:
            return
        secret = await self._read(self._names.server)
        stored = _secret_data(secret)
        if self._is_current(stored, ca):
            return
        if describe(stored.get(CERTIFICATE, b"")) is not None and not ca.has_signed(stored[CERTIFICATE]):
            log.warning(
                "the secret %s has an authority that did not sign etcd's certificate: etcd and the pods of jobs do not "
                "trust it yet. Put the earlier authority back into the secret, or restart etcd and then the operator",
                self._names.ca,
            )
        issued = ca.issue_server(self._names.hosts, now_s=self._clock(), life_s=SERVER_LIFETIME_S)
        await self._write(secret, secret_data_of(issued, ca))
        log.info("issued a certificate for etcd, in the secret %s", self._names.server)

    def _is_current(self, stored: Mapping[str, bytes], ca: CertificateAuthority) -> bool:
        certificate = stored.get(CERTIFICATE, b"")
        found = describe(certificate)
        return (
            found is not None
            and ca.has_signed(certificate)
            and stored.get(CA) == ca.trusted
            and found.hosts == frozenset(self._names.hosts)
            and found.not_after_s - self._clock() > SERVER_LIFETIME_S / 3
        )

    async def _read(self, name: str) -> Object:
        found = await self._secrets.get(Resource.SECRET, self._names.namespace, name)
        if found is None:
            path = f"{self._names.namespace}/{name}"
            raise ClusterError(f"there is no secret {path}; create it, empty or with {CERTIFICATE} and {KEY}")
        return found

    async def _write(self, secret: Object, contents: Mapping[str, bytes]) -> None:
        data = {name: base64.b64encode(text).decode() for name, text in contents.items()}
        body = {**secret, "apiVersion": "v1", "kind": "Secret", "data": data}
        if await self._secrets.replace(Resource.SECRET, body) is None:
            raise ClusterError(f"the secret {secret['metadata']['name']} was deleted while it was written")


def secret_data_of(issued: Issued, ca: CertificateAuthority) -> dict[str, bytes]:
    """Return the certificate, its key and the trusted authorities, by file name."""
    return {CERTIFICATE: issued.certificate, KEY: issued.key, CA: ca.trusted}


def _ca_from_secret(secret: Object) -> CertificateAuthority | None:
    stored = _secret_data(secret)
    if not stored.get(CERTIFICATE) and not stored.get(KEY):
        return None
    return CertificateAuthority(stored.get(CERTIFICATE, b""), stored.get(KEY, b""), also_trusted=stored.get(CA, b""))


def _secret_data(secret: Object) -> dict[str, bytes]:
    return {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}
