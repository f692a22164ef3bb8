"""The interface between the controller and the issuer of certificates; a run on one machine has no issuer."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import Certified


class CertificateIssuer(Protocol):
    """Certificates and users of all jobs; each method may raise EtcdError and ClusterError."""

    async def issue(self, key: JobKey, secret: Mapping[str, Any], *, store: int) -> Certified:
        """Create the job's user in etcd, and write a new certificate into `secret`; `store` counts the wipes."""

    async def forget(self, key: JobKey) -> None:
        """Remove the job's user, so that a client that still has its certificate has no permissions."""

    def forget_etcd(self) -> None:
        """Read etcd's users again before the next action, because another process may have changed them."""

    def recheck(self) -> None:
        """Check etcd's users soon, because etcd was listed again and may be another one."""

    async def run(self, store: Callable[[], int], on_user: Callable[[JobKey], None]) -> None:
        """Enable authentication in each new etcd, and report each job that has a user there, until cancelled.

        Raises errors that a retry cannot cure (`RequestRejected`).
        """
