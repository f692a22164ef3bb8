"""The operator's own certificate, in files that its client of etcd reads: written at start, renewed while it runs.

The files are replaced all at once, by a symbolic link, as a kubelet does. So a reader gets a certificate and the key
that belongs to it. They are readable by this user alone.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from elasticjob_etcd.interface import Endpoint
from elasticjob_operator.errors import ClusterError, CredentialsError
from elasticjob_operator.render.secret import CA, CERTIFICATE, KEY
from elasticjob_operator.tls.active_ca import ActiveCA
from elasticjob_operator.tls.ca_secrets import CASecrets, secret_data_of

LIFETIME_S = 86400.0
RENEWAL_S = 3600.0
"""Between two renewals: many may fail before anything is late."""

log = logging.getLogger(__name__)


class CertificateFiles:
    """A folder with a certificate for `name`. Clock is wall clock, in seconds."""

    def __init__(self, folder: Path, active_ca: ActiveCA, *, name: str, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._active_ca = active_ca
        self._name = name
        self._clock = clock

    def endpoint(self, targets: tuple[str, ...]) -> Endpoint:
        """Etcd at `targets`, with these files."""
        ca_cert, cert, key = (str(self._folder / "current" / name) for name in (CA, CERTIFICATE, KEY))
        return Endpoint(targets, ca_cert=ca_cert, cert=cert, key=key)

    def write(self) -> None:
        """A new certificate in the place of the one before; CredentialsError when the folder cannot be written."""
        try:
            self._write()
        except OSError as error:
            raise CredentialsError(
                f"the operator's certificate cannot be written to {self._folder}: {error}"
            ) from error

    def _write(self) -> None:
        ca = self._active_ca.current
        issued = ca.issue_client(self._name, now_s=self._clock(), life_s=LIFETIME_S)
        current = self._folder / "current"
        before = current.resolve() if current.is_symlink() else None
        fresh = self._folder / f"from-{int(self._clock() * 1e6)}"
        fresh.mkdir(parents=True, mode=0o700)
        for name, text in secret_data_of(issued, ca).items():
            (fresh / name).touch(mode=0o600)
            (fresh / name).write_bytes(text)
        aside = self._folder / "next"
        aside.unlink(missing_ok=True)
        aside.symlink_to(fresh.name)
        aside.replace(current)
        if before is not None:
            _remove(before)


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


async def renew_forever(
    files: CertificateFiles,
    ca_secrets: CASecrets,
    active_ca: ActiveCA,
    *,
    every_s: float = RENEWAL_S,
    leads: Callable[[], bool] = lambda: True,
) -> None:
    """Renew the operator's certificate, and while it leads etcd's when that is due, until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        for renew in (_check, _renew_own, *([_renew_server] if leads() else [])):
            try:
                await renew(files, ca_secrets, active_ca)
            except (ClusterError, CredentialsError) as error:
                log.warning("a certificate could not be renewed, trying again in %g s: %s", every_s, error)


async def _check(_files: CertificateFiles, ca_secrets: CASecrets, active_ca: ActiveCA) -> None:
    if (kept := await ca_secrets.load_server_certificate()) is not None:
        active_ca.update(kept)


async def _renew_own(files: CertificateFiles, _home: CASecrets, _held: ActiveCA) -> None:
    files.write()


async def _renew_server(_files: CertificateFiles, ca_secrets: CASecrets, active_ca: ActiveCA) -> None:
    await ca_secrets.ensure_server_certificate(active_ca.current)
