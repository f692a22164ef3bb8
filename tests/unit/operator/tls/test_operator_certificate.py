"""The operator's own files: always a certificate with its key, readable by the operator alone."""

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from elasticjob_operator.errors import CredentialsError
from elasticjob_operator.tls.active_ca import ActiveCA
from elasticjob_operator.tls.ca import CertificateAuthority
from elasticjob_operator.tls.operator_certificate import CertificateFiles

NOW_S = 1_750_000_000.0


class Clock:
    now_s = NOW_S

    def __call__(self) -> float:
        self.now_s += 1
        return self.now_s


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    return CertificateFiles(
        tmp_path / "own", ActiveCA(CertificateAuthority.create(now_s=NOW_S)), name="root", clock=Clock()
    )


def test_each_renewal_replaces_certificate_and_key_together(files: CertificateFiles, tmp_path: Path) -> None:
    seen = set()
    for _ in range(3):
        files.write()
        endpoint = files.endpoint(("etcd:2379",))
        certificate = Path(str(endpoint.cert)).read_bytes()
        key = serialization.load_pem_private_key(Path(str(endpoint.key)).read_bytes(), None)
        assert x509.load_pem_x509_certificate(certificate).public_key() == key.public_key()
        seen.add(certificate)
    assert len(seen) == 3
    assert len(list((tmp_path / "own").iterdir())) == 2, "one folder and the link to it"


def test_only_the_owner_can_read_the_files(files: CertificateFiles) -> None:
    files.write()
    path = Path(str(files.endpoint(()).key))
    assert path.stat().st_mode & 0o077 == 0
    assert path.resolve().parent.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files = CertificateFiles(
        tmp_path / "file", ActiveCA(CertificateAuthority.create(now_s=NOW_S)), name="root", clock=Clock()
    )
    with pytest.raises(CredentialsError, match=r"cannot write .* to .*file"):
        files.write()
