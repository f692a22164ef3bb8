"""The certificate authority that etcd trusts: it signs certificates of etcd and of its clients.

It knows names and times, and nothing about jobs, Secrets or files. Its key is written only to its Secret (`key`).
Certificates are backdated, because clocks differ. All but its own have a short lifetime.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from elasticjob_operator.errors import CredentialsError

BACKDATE_S = 7200.0
"""Backdating of certificates. The operator's clock may be ahead of etcd's by an hour, as with a wrong time zone."""
CA_LIFETIME_S = 10 * 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its key, both PEM; `renew_at_s` is half of its lifetime, by the wall clock."""

    certificate: bytes
    key: bytes
    renew_at_s: float


class CertificateAuthority:
    """One authority, loaded from PEM or newly created."""

    def __init__(self, certificate: bytes, key: bytes, *, also_trusted: bytes = b"") -> None:
        """Load an authority from PEM; the chain of its issuers may follow in `certificate`.

        Raises:
            CredentialsError: certificate and key do not match, or cannot be used.
        """
        try:
            chain = x509.load_pem_x509_certificates(certificate)
            self._key = _signing_key(key)
            fits = chain[0].public_key() == self._key.public_key()
            is_authority = chain[0].extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except (ValueError, TypeError, x509.ExtensionNotFound) as error:
            raise CredentialsError(f"the certificate authority cannot be used: {error}") from error
        if not fits or not is_authority:
            cause = "tls.key is not the key of tls.crt" if not fits else "tls.crt is not of an authority (CA: false)"
            raise CredentialsError(f"the certificate authority cannot be used: {cause}")
        self._own = chain[0]
        self._issuer_chain = b"" if _is_self_signed(chain[0]) else certificate
        self.certificate = certificate
        self.key = key
        self.trusted = certificate.rstrip() + b"\n" + also_trusted
        """The certificates that clients of etcd and etcd itself must trust."""
        self.identity = _identity(chain[0])
        """Unchanged by a renewal of the certificate: a peer that trusts one of both accepts signatures of the other."""

    @classmethod
    def create(cls, *, now_s: float) -> "CertificateAuthority":
        """Return a new, self-signed authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("elasticjob")
        usage = x509.KeyUsage(**{**_NO_USAGE, "key_cert_sign": True, "crl_sign": True})
        builder = _builder(name, name, key.public_key(), now_s=now_s, life_s=CA_LIFETIME_S)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))

    def issue_client(self, name: str, *, now_s: float, life_s: float) -> Issued:
        """Return a certificate for etcd's user `name`."""
        return self._issue(name, (), now_s=now_s, life_s=life_s)

    def issue_job(self, name: str, *, now_s: float, life_s: float) -> Issued:
        """Return a certificate for etcd's user `name`, with which the job's keepers serve each other, too.

        It has no host, so no client of etcd takes its holder for etcd.
        """
        return self._issue(name, (), now_s=now_s, life_s=life_s, serves=True)

    def issue_server(self, hosts: Sequence[str], *, now_s: float, life_s: float) -> Issued:
        """Return a certificate for an etcd with these hosts (names or addresses), which also dials its peers.

        It is not the certificate of a user.
        """
        return self._issue("", hosts, now_s=now_s, life_s=life_s, serves=True)

    def has_signed(self, certificate: bytes) -> bool:
        """Return whether this authority has signed the certificate."""
        try:
            x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(self._own)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def _issue(self, name: str, hosts: Sequence[str], *, now_s: float, life_s: float, serves: bool = False) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if serves else [])]
        builder = _builder(_name(name), self._own.subject, key.public_key(), now_s=now_s, life_s=life_s)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.KeyUsage(**{**_NO_USAGE, "digital_signature": True}), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(_issuer(self._own), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=not name)
        certificate = _pem(builder.sign(self._key, hashes.SHA256())) + self._issuer_chain
        return Issued(certificate, _key_pem(key), now_s + life_s / 2)


@dataclass(frozen=True, slots=True)
class CertificateInfo:
    """The fields of a certificate; times are seconds of the wall clock."""

    name: str
    hosts: frozenset[str]
    not_before_s: float
    not_after_s: float


def describe(certificate: bytes) -> CertificateInfo | None:
    """Return the fields of the first certificate in a PEM text, or None for any other text."""
    try:
        found = x509.load_pem_x509_certificate(certificate)
        extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = [*extension.get_values_for_type(x509.DNSName)]
        hosts += [str(address) for address in extension.get_values_for_type(x509.IPAddress)]
    except ValueError:
        return None
    except x509.ExtensionNotFound:
        hosts = []
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return CertificateInfo(
        name=str(names[0].value) if names else "",
        hosts=frozenset(hosts),
        not_before_s=found.not_valid_before_utc.timestamp(),
        not_after_s=found.not_valid_after_utc.timestamp(),
    )


_NO_USAGE = dict.fromkeys(
    (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, *, now_s: float, life_s: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_moment(now_s - BACKDATE_S))
        .not_valid_after(_moment(now_s + life_s))
    )


def _moment(at_s: float) -> datetime:
    return datetime.fromtimestamp(int(at_s), UTC)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)] if common else [])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signing_key(key: bytes) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
    loaded = serialization.load_pem_private_key(key, password=None)
    if not isinstance(loaded, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise TypeError("its key is neither an RSA key nor an elliptic-curve key")
    return loaded


def _issuer(certificate: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """Return the extension that distinguishes authorities of the same name, such as an old and a new one.

    It must be the key identifier in the authority's own certificate. There are several ways to hash a key, and clients
    take a different identifier for another authority.
    """
    try:
        own = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(certificate.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _identity(certificate: x509.Certificate) -> bytes:
    encoding = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return certificate.subject.public_bytes() + certificate.public_key().public_bytes(*encoding)


def _is_self_signed(certificate: x509.Certificate) -> bool:
    return certificate.subject == certificate.issuer


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
