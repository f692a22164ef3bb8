"""Files of a job's certificate, as a Secret's volume has them: all of them are replaced at once by a symbolic link."""

import itertools
import time
from pathlib import Path

from elasticjob_agent.node.keep_settings import TlsFiles
from elasticjob_operator.tls.ca import CertificateAuthority


class CertificateFiles:
    """The folder of one job's certificate."""

    def __init__(self, folder: Path, authority: CertificateAuthority) -> None:
        """Issue the first certificate."""
        self._folder = folder
        self._numbers = itertools.count()
        folder.mkdir()
        self.issue(authority)

    @property
    def paths(self) -> TlsFiles:
        """Return the paths that an agent gets."""
        data = self._folder / "..data"
        return TlsFiles(certificate=str(data / "tls.crt"), key=str(data / "tls.key"), authority=str(data / "ca.crt"))

    def issue(self, authority: CertificateAuthority, *, life_s: float = 3600.0) -> None:
        """Replace the files by those of another certificate, of this authority."""
        issued = authority.issue_job("job", now_s=time.time(), life_s=life_s)
        self._replace({"tls.crt": issued.certificate, "tls.key": issued.key, "ca.crt": authority.certificate})

    def damage(self) -> None:
        """Replace the files by some that no one can use."""
        self._replace(dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b"no certificate"))

    def _replace(self, files: dict[str, bytes]) -> None:
        version = self._folder / str(next(self._numbers))
        version.mkdir()
        for name, data in files.items():
            (version / name).write_bytes(data)
        link = self._folder / "..new"
        link.symlink_to(version.name)
        link.replace(self._folder / "..data")
