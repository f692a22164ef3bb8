"""The operator's own certificate, in files for its client of etcd: written at start, renewed while it runs.

A symbolic link replaces all files at once, as a kubelet does. So a reader gets a certificate with the matching key.
Only this user can read the files.
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
"""Time between two renewals; many can fail before a certificate expires."""

log = logging.getLogger(__name__)


class CertificateFiles:
    """A folder with a certificate for `name`; `clock` is the wall clock, in seconds."""

    def __init__(self, folder: Path, active_ca: ActiveCA, *, name: str, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._active_ca = active_ca
        self._name = name
        self._clock = clock

    def endpoint(self, targets: tuple[str, ...]) -> Endpoint:
        """Return the endpoint of etcd at `targets` with these files."""
        ca_cert, cert, key = (str(self._folder / "current" / name) for name in (CA, CERTIFICATE, KEY))
        return Endpoint(targets, ca_cert=ca_cert, cert=cert, key=key)

    def write(self) -> None:
        """Replace the certificate by a new one; CredentialsError if the folder cannot be written."""
        try:
            self._write()
        except OSError as error:
            raise CredentialsError(f"cannot write the operator's certificate to {self._folder}: {error}") from error

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
    """Renew the operator's certificate until cancelled, and etcd's when that is due and this process leads."""
    while True:
        await asyncio.sleep(every_s)
        for renew in (_check, _renew_own, *([_renew_server] if leads() else [])):
            try:
                await renew(files, ca_secrets, active_ca)
            except (ClusterError, CredentialsError) as error:
                log.warning("cannot renew a certificate, trying again in %g s: %s", every_s, error)


async def _check(_files: CertificateFiles, ca_secrets: CASecrets, active_ca: ActiveCA) -> None:
    if (stored := await ca_secrets.load_server_certificate()) is not None:
        active_ca.update(stored)


async def _renew_own(files: CertificateFiles, _ca_secrets: CASecrets, _active_ca: ActiveCA) -> None:
    files.write()


async def _renew_server(_files: CertificateFiles, ca_secrets: CASecrets, active_ca: ActiveCA) -> None:
    await ca_secrets.ensure_server_certificate(active_ca.current)
