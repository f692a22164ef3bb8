"""Set-up of TLS from the command line: the authority, etcd's certificate and the operator's own.

Without `--etcd-ca-secret` this module creates nothing, and connections to etcd are not encrypted.
"""

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from elasticjob_etcd.auth import ROOT
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint
from elasticjob_operator.cluster.retry import retry_until_success
from elasticjob_operator.errors import CredentialsError
from elasticjob_operator.metrics.recorder import MetricsRecorder
from elasticjob_operator.model.cluster_interface import SecretStore
from elasticjob_operator.settings import Settings
from elasticjob_operator.tls.active_ca import ActiveCA
from elasticjob_operator.tls.ca_secrets import CASecrets, SecretNames
from elasticjob_operator.tls.job_certificates import LIFETIME_S, IssuePolicy, JobCertificates
from elasticjob_operator.tls.operator_certificate import RENEWAL_S, CertificateFiles, renew_forever

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for certificates."""
    parser.add_argument(
        "--etcd-ca-secret", metavar="NAME", help="secret with the authority for etcd's TLS, filled if empty [no TLS]"
    )
    parser.add_argument(
        "--etcd-server-secret", default="", metavar="NAME", help="secret to fill with etcd's certificate [none]"
    )
    parser.add_argument(
        "--etcd-server-name", action="append", default=[], metavar="HOST", help="host in etcd's certificate; repeatable"
    )
    parser.add_argument("--secrets-namespace", metavar="NAME", help="namespace of both secrets [the operator's own]")
    parser.add_argument(
        "--etcd-user", default=ROOT, metavar="NAME", help="the operator's own user in etcd, an administrator [root]"
    )
    parser.add_argument(
        "--certificates-folder",
        type=Path,
        default=Path("/run/elasticjob"),
        help="folder for the operator's own certificate",
    )
    parser.add_argument(
        "--certificate-life", type=float, default=LIFETIME_S, metavar="SECONDS", help="lifetime of a job's certificate"
    )


@dataclass(frozen=True, slots=True)
class TLSContext:
    """The endpoint of etcd, and the authority for certificates of jobs; None without TLS."""

    endpoint: Endpoint
    active_ca: ActiveCA | None = None

    def credentials(
        self,
        secrets: SecretStore,
        etcd: EtcdClient,
        options: argparse.Namespace,
        settings: Settings,
        metrics: MetricsRecorder,
    ) -> JobCertificates | None:
        """Return the issuer of certificates, or None without TLS."""
        if self.active_ca is None:
            return None
        policy = IssuePolicy(
            cluster_id=settings.cluster_id,
            operator_id=settings.operator_id,
            lifetime_s=options.certificate_life,
            admin=options.etcd_user,
            own_etcd=options.etcd_quota_bytes is not None,
        )
        on_correction = metrics.etcd_auth_corrected
        return JobCertificates(
            secrets, etcd.auth, self.active_ca, policy=policy, clock=time.time, on_correction=on_correction
        )


@contextlib.asynccontextmanager
async def open_tls(
    options: argparse.Namespace, secrets: SecretStore, leads: Callable[[], bool] = lambda: True
) -> AsyncIterator[TLSContext]:
    """Provide certificates while entered, and renew them; raises CredentialsError.

    At its start each replica fills Secrets that are empty or not valid, because a standby needs a connection to etcd,
    too. A write names the version that was read, so the first one counts. Later the leader alone renews etcd's
    certificate.
    """
    targets = tuple(options.etcd_endpoints.split(","))
    if not options.etcd_ca_secret:
        yield TLSContext(Endpoint(targets))
        return
    ca_secrets = CASecrets(secrets, _secret_names(options), clock=time.time)
    description = f"cannot get the certificate authority of the secret {options.etcd_ca_secret}"
    ca = await retry_until_success(ca_secrets.load_ca, description=description)
    await retry_until_success(
        lambda: ca_secrets.ensure_server_certificate(ca), description="cannot write etcd's certificate"
    )
    active_ca = ActiveCA(ca)
    own = CertificateFiles(options.certificates_folder, active_ca, name=options.etcd_user, clock=time.time)
    own.write()
    every_s = min(RENEWAL_S, options.certificate_life / 4)
    renewal = asyncio.create_task(
        renew_forever(own, ca_secrets, active_ca, every_s=every_s, leads=leads), name="renewal of certificates"
    )
    try:
        yield TLSContext(own.endpoint(targets), active_ca)
    finally:
        renewal.cancel()
        await asyncio.wait({renewal})


def _secret_names(options: argparse.Namespace) -> SecretNames:
    hosts = tuple(options.etcd_server_name)
    if options.etcd_server_secret and not hosts:
        raise CredentialsError("--etcd-server-secret: set etcd's hosts with --etcd-server-name")
    namespace = options.secrets_namespace or _own_namespace()
    return SecretNames(namespace=namespace, ca=options.etcd_ca_secret, server=options.etcd_server_secret, hosts=hosts)


def _own_namespace() -> str:
    try:
        return _OWN_NAMESPACE.read_text().strip()
    except OSError as error:
        raise CredentialsError(
            f"the namespace of the secrets is unknown outside a pod ({error}); set --secrets-namespace"
        ) from error
