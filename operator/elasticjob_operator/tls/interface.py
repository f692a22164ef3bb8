"""The interface between the operator's core and the issuer of certificates; on one machine there is none."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import Certified


class CertificateIssuer(Protocol):
    """Certificates and users of all jobs; each method may raise EtcdError and ClusterError."""

    async def issue(self, key: JobKey, secret: Mapping[str, Any], *, store: int) -> Certified:
        """Write a new certificate into `secret`; its user is in this etcd then (`store` counts the wipes)."""

    async def forget(self, key: JobKey) -> None:
        """Remove the job's user: a client that still has its certificate may do nothing."""

    def forget_etcd(self) -> None:
        """Another process may have changed etcd's users since: read them again before anything is done."""

    def recheck(self) -> None:
        """Etcd was listed anew: it may be another one."""

    async def run(
        self,
        store: Callable[[], int],
        is_there: Callable[[JobKey], Awaitable[bool]],
        purge: Callable[[JobKey], Awaitable[None]],
    ) -> None:
        """Guard every etcd that comes, and collect leftovers, until cancelled; raises what cannot heal (`Refused`).

        What is left of a job is its user, and then by `purge` its keys, whatever they say.
        """
