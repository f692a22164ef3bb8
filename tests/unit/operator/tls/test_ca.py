"""The certificate authority: its signatures, and the keys and certificates that it accepts."""

import contextlib
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from elasticjob_agent.keep.transfer.session import load_tls
from elasticjob_operator.errors import CredentialsError
from elasticjob_operator.tls.ca import BACKDATE_S, CertificateAuthority, Issued, describe

NOW_S = 1_750_000_000.0


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.create(now_s=NOW_S)


def pem(key: "rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey") -> bytes:
    kind, how = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, kind, how)


def test_a_jobs_certificate_is_backdated_short_lived_and_named_after_it(authority: CertificateAuthority) -> None:
    issued = authority.issue_job("uid-1", now_s=NOW_S, life_s=86400)
    described = describe(issued.certificate)
    assert described is not None
    assert (described.name, described.hosts) == ("uid-1", frozenset())
    assert (described.not_before_s, described.not_after_s) == (NOW_S - BACKDATE_S, NOW_S + 86400)
    assert issued.renew_at_s == NOW_S + 43200


@pytest.mark.parametrize(
    ("kind", "usages"),
    [
        (CertificateAuthority.issue_client, [ExtendedKeyUsageOID.CLIENT_AUTH]),
        (CertificateAuthority.issue_job, [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
    ],
)
def test_a_users_certificate_cannot_sign_and_only_that_of_a_job_can_serve(
    authority: CertificateAuthority, kind: Callable[..., Issued], usages: list[x509.ObjectIdentifier]
) -> None:
    found = x509.load_pem_x509_certificate(kind(authority, "uid-1", now_s=NOW_S, life_s=60).certificate)
    assert list(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == usages
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not found.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, *, host: str | None = None) -> None:
    """Let both ends of a connection greet each other; raise ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in ends * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()


def files_of(folder: Path, issued: Issued, authority: CertificateAuthority) -> dict[str, str]:
    """Write the certificate of a pod; return the names of its files."""
    contents = {"certificate": issued.certificate, "key": issued.key, "authority": authority.trusted}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: str(folder / name) for name in contents}


def test_the_keepers_of_a_job_serve_each_other_with_its_certificate(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(now_s=time.time())
    files = files_of(tmp_path, authority.issue_job("uid-1", now_s=time.time(), life_s=600), authority)
    tls = load_tls(**files)
    shake_hands(tls.dialing, tls.listening)


def test_a_keeper_with_the_certificate_of_a_client_alone_is_refused(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(now_s=time.time())
    files = files_of(tmp_path, authority.issue_client("uid-1", now_s=time.time(), life_s=600), authority)
    tls = load_tls(**files)
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        shake_hands(tls.dialing, tls.listening)


def test_no_client_of_etcd_takes_the_holder_of_a_jobs_certificate_for_etcd(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(now_s=time.time())
    files = files_of(tmp_path, authority.issue_job("uid-1", now_s=time.time(), life_s=600), authority)
    listening = load_tls(**files).listening
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(ssl.create_default_context(cafile=files["authority"]), listening, host="etcd.ns.svc")


def test_etcds_certificate_has_its_names_and_addresses_and_no_user(authority: CertificateAuthority) -> None:
    described = describe(authority.issue_server(["etcd.ns.svc", "127.0.0.1"], now_s=NOW_S, life_s=60).certificate)
    assert described is not None
    assert (described.name, described.hosts) == ("", frozenset({"etcd.ns.svc", "127.0.0.1"}))


def test_a_stored_and_loaded_authority_is_the_same(authority: CertificateAuthority) -> None:
    again = CertificateAuthority(authority.certificate, authority.key)
    assert authority.has_signed(again.issue_client("x", now_s=NOW_S, life_s=60).certificate)
    assert not CertificateAuthority.create(now_s=NOW_S).has_signed(
        again.issue_client("x", now_s=NOW_S, life_s=60).certificate
    )


def provided(*, authority: bool = True, key_id: bytes = b"") -> tuple[bytes, bytes]:
    """Return an RSA authority as other tools create it; `key_id` is its key identifier."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "theirs")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2025, 1, 1, tzinfo=UTC))
    builder = builder.not_valid_after(datetime(2035, 1, 1, tzinfo=UTC))
    builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    if key_id:
        builder = builder.add_extension(x509.SubjectKeyIdentifier(key_id), critical=False)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return certificate, pem(key)


def test_signed_certificates_have_the_key_identifier_of_the_authority() -> None:
    """Tools differ: Go hashes a key by SHA-256 (cert-manager's authorities), others by SHA-1."""
    certificate, key = provided(key_id=b"by any hash")
    issued = x509.load_pem_x509_certificate(
        CertificateAuthority(certificate, key).issue_client("x", now_s=NOW_S, life_s=60).certificate
    )
    found = issued.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert found.key_identifier == b"by any hash"


def test_a_provided_authority_signs() -> None:
    certificate, key = provided()
    theirs = CertificateAuthority(certificate, key, also_trusted=b"more\n")
    assert theirs.has_signed(theirs.issue_client("x", now_s=NOW_S, life_s=60).certificate)
    assert theirs.trusted == certificate.rstrip() + b"\nmore\n"


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("no PEM", "cannot be used"),
        ("another key", "tls.key is not the key of tls.crt"),
        ("no authority", "tls.crt is not of an authority"),
        ("another kind of key", "neither an RSA key nor an elliptic-curve key"),
    ],
)
def test_an_unusable_authority_is_refused_with_the_reason(
    what: str, message: str, authority: CertificateAuthority
) -> None:
    given = {
        "no PEM": (b"certificate", b"key"),
        "another key": (authority.certificate, CertificateAuthority.create(now_s=NOW_S).key),
        "no authority": provided(authority=False),
        "another kind of key": (authority.certificate, pem(ed25519.Ed25519PrivateKey.generate())),
    }[what]
    with pytest.raises(CredentialsError, match=message):
        CertificateAuthority(*given)


def test_a_text_without_a_certificate_has_no_description() -> None:
    assert describe(b"") is None
    assert describe(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n") is None
