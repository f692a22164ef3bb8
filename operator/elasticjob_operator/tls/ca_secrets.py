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
from elasticjob_operator.model.cluster_interface import Object, Resource, Vault
from elasticjob_operator.render.secret import CERTIFICATE, KEY, TRUSTED
from elasticjob_operator.tls.ca import Authority, Issued, describe

SERVER_LIFE_S = 90 * 86400.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Names of the Secrets; `server` empty: etcd's certificate is somebody else's business."""

    namespace: str
    authority: str
    server: str = ""
    hosts: tuple[str, ...] = ()
    """How etcd is dialed: names and addresses."""


class Home:
    """The operator's own Secrets. Clock is wall clock, in seconds."""

    def __init__(self, vault: Vault, place: Place, *, clock: Callable[[], float]) -> None:
        self._vault = vault
        self._place = place
        self._clock = clock

    async def authority(self) -> Authority:
        """The authority that is kept, made now if the Secret is empty; raises ClusterError, CredentialsError."""
        secret = await self._read(self._place.authority)
        if (kept := _authority_in(secret)) is not None:
            return kept
        made = Authority.make(now_s=self._clock())
        try:
            await self._write(secret, {CERTIFICATE: made.certificate, KEY: made.key})
        except Conflict:
            return await self.authority()  # somebody was faster: theirs counts
        log.info("made a certificate authority, kept in the secret %s", self._place.authority)
        return made

    async def kept(self) -> Authority | None:
        """The authority that is kept now, none if the Secret is empty; raises ClusterError, CredentialsError."""
        return _authority_in(await self._read(self._place.authority))

    async def serve(self, authority: Authority) -> None:
        """See to it that etcd has a certificate, of this authority and for its names, with a third of its life left."""
        if not self._place.server:
            return
        secret = await self._read(self._place.server)
        kept = _contents(secret)
        if self._is_good(kept, authority):
            return
        if describe(kept.get(CERTIFICATE, b"")) is not None and not authority.signed(kept[CERTIFICATE]):
            log.warning(
                "the secret %s has an authority that did not sign etcd's certificate: etcd and the pods of jobs do not "
                "trust it yet. Put the authority of before back into the secret, or restart etcd and then the operator",
                self._place.authority,
            )
        issued = authority.server(self._place.hosts, now_s=self._clock(), life_s=SERVER_LIFE_S)
        await self._write(secret, contents_of(issued, authority))
        log.info("made a certificate for etcd, kept in the secret %s", self._place.server)

    def _is_good(self, kept: Mapping[str, bytes], authority: Authority) -> bool:
        certificate = kept.get(CERTIFICATE, b"")
        found = describe(certificate)
        return (
            found is not None
            and authority.signed(certificate)
            and kept.get(TRUSTED) == authority.trusted
            and found.hosts == frozenset(self._place.hosts)
            and found.ends_s - self._clock() > SERVER_LIFE_S / 3
        )

    async def _read(self, name: str) -> Object:
        found = await self._vault.get(Resource.SECRET, self._place.namespace, name)
        if found is None:
            where = f"{self._place.namespace}/{name}"
            raise ClusterError(f"there is no secret {where}; make it, empty or with {CERTIFICATE} and {KEY}")
        return found

    async def _write(self, secret: Object, contents: Mapping[str, bytes]) -> None:
        data = {name: base64.b64encode(text).decode() for name, text in contents.items()}
        body = {**secret, "apiVersion": "v1", "kind": "Secret", "data": data}
        if await self._vault.replace(Resource.SECRET, body) is None:
            raise ClusterError(f"the secret {secret['metadata']['name']} was deleted while it was written")


def contents_of(issued: Issued, authority: Authority) -> dict[str, bytes]:
    """What whoever has a certificate needs of it, by the names of the files."""
    return {CERTIFICATE: issued.certificate, KEY: issued.key, TRUSTED: authority.trusted}


def _authority_in(secret: Object) -> Authority | None:
    kept = _contents(secret)
    if not kept.get(CERTIFICATE) and not kept.get(KEY):
        return None
    return Authority(kept.get(CERTIFICATE, b""), kept.get(KEY, b""), also_trusted=kept.get(TRUSTED, b""))


def _contents(secret: Object) -> dict[str, bytes]:
    return {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}
