"""Where the authority is kept: Secrets of the operator's own namespace, and nowhere else.

The Secret of the authority is there, empty, when the operator comes (the chart makes it, so that it goes with the
release, and so that the operator need not be allowed to create any), or holds an authority that was brought. It is
filled once and never changed. The Secret of etcd's own certificate is kept up to date: etcd waits for it to start, and
reads it again with every connection. An empty Secret of etcd's may be left to others altogether.
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
    """Names of the Secrets; `server` empty: etcd's certificate is somebody else's business."""

    namespace: str
    ca: str
    server: str = ""
    hosts: tuple[str, ...] = ()
    """How etcd is dialed: names and addresses."""


class CASecrets:
    """The operator's own Secrets. Clock is wall clock, in seconds."""

    def __init__(self, secrets: SecretStore, names: SecretNames, *, clock: Callable[[], float]) -> None:
        self._secrets = secrets
        self._names = names
        self._clock = clock

    async def load_ca(self) -> CertificateAuthority:
        """The authority that is kept, made now if the Secret is empty; raises ClusterError, CredentialsError."""
        secret = await self._read(self._names.ca)
        if (kept := _ca_from_secret(secret)) is not None:
            return kept
        made = CertificateAuthority.create(now_s=self._clock())
        try:
            await self._write(secret, {CERTIFICATE: made.certificate, KEY: made.key})
        except Conflict:
            return await self.load_ca()  # somebody was faster: theirs counts
        log.info("made a certificate authority, kept in the secret %s", self._names.ca)
        return made

    async def load_server_certificate(self) -> CertificateAuthority | None:
        """The authority that is kept now, none if the Secret is empty; raises ClusterError, CredentialsError."""
        return _ca_from_secret(await self._read(self._names.ca))

    async def ensure_server_certificate(self, ca: CertificateAuthority) -> None:
        """See to it that etcd has a certificate, of this authority and for its names, with a third of its life left."""
        if not self._names.server:
            return
        secret = await self._read(self._names.server)
        kept = _secret_data(secret)
        if self._is_current(kept, ca):
            return
        if describe(kept.get(CERTIFICATE, b"")) is not None and not ca.has_signed(kept[CERTIFICATE]):
            log.warning(
                "the secret %s has an authority that did not sign etcd's certificate: etcd and the pods of jobs do not "
                "trust it yet. Put the authority of before back into the secret, or restart etcd and then the operator",
                self._names.ca,
            )
        issued = ca.issue_server(self._names.hosts, now_s=self._clock(), life_s=SERVER_LIFETIME_S)
        await self._write(secret, secret_data_of(issued, ca))
        log.info("made a certificate for etcd, kept in the secret %s", self._names.server)

    def _is_current(self, kept: Mapping[str, bytes], ca: CertificateAuthority) -> bool:
        certificate = kept.get(CERTIFICATE, b"")
        found = describe(certificate)
        return (
            found is not None
            and ca.has_signed(certificate)
            and kept.get(CA) == ca.trusted
            and found.hosts == frozenset(self._names.hosts)
            and found.not_after_s - self._clock() > SERVER_LIFETIME_S / 3
        )

    async def _read(self, name: str) -> Object:
        found = await self._secrets.get(Resource.SECRET, self._names.namespace, name)
        if found is None:
            where = f"{self._names.namespace}/{name}"
            raise ClusterError(f"there is no secret {where}; make it, empty or with {CERTIFICATE} and {KEY}")
        return found

    async def _write(self, secret: Object, contents: Mapping[str, bytes]) -> None:
        data = {name: base64.b64encode(text).decode() for name, text in contents.items()}
        body = {**secret, "apiVersion": "v1", "kind": "Secret", "data": data}
        if await self._secrets.replace(Resource.SECRET, body) is None:
            raise ClusterError(f"the secret {secret['metadata']['name']} was deleted while it was written")


def secret_data_of(issued: Issued, ca: CertificateAuthority) -> dict[str, bytes]:
    """What whoever has a certificate needs of it, by the names of the files."""
    return {CERTIFICATE: issued.certificate, KEY: issued.key, CA: ca.trusted}


def _ca_from_secret(secret: Object) -> CertificateAuthority | None:
    kept = _secret_data(secret)
    if not kept.get(CERTIFICATE) and not kept.get(KEY):
        return None
    return CertificateAuthority(kept.get(CERTIFICATE, b""), kept.get(KEY, b""), also_trusted=kept.get(CA, b""))


def _secret_data(secret: Object) -> dict[str, bytes]:
    return {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}
