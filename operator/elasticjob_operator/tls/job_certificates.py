"""Each job's certificate in a Secret and its user in etcd: created, renewed, and removed with the job.

A certificate is issued only once etcd requires one from every client. So authentication is enabled first, and again if
etcd was replaced by an empty one. The operator cannot read the Secrets that it writes, so after a restart it issues new
certificates. The names of roles show which jobs have users; the controller removes those of deleted
jobs.
"""

import asyncio
import base64
import contextlib
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from elasticjob_etcd.auth import ROOT, EtcdAuth
from elasticjob_etcd.backoff import Backoff
from elasticjob_etcd.errors import EtcdError, RequestRejected
from elasticjob_operator.errors import ClusterError
from elasticjob_operator.model.cluster_interface import Resource, SecretStore
from elasticjob_operator.model.job_key import JobKey
from elasticjob_operator.model.job_state import Certified
from elasticjob_operator.policy.etcd.auth import Owner
from elasticjob_operator.render.secret import CA, CERTIFICATE, KEY
from elasticjob_operator.tls.active_ca import ActiveCA
from elasticjob_operator.tls.auth_audit import AuthAudit
from elasticjob_operator.tls.ca import Issued

SWEEP_S = 3600.0
"""Time between two lists of users, which show those of deleted jobs."""
AUDIT_S = 300.0
"""Time between two audits of users and roles."""
LIFETIME_S = 86400.0
"""Lifetime of a job's certificate."""

_CHECKS_PER_SWEEP = round(SWEEP_S / AUDIT_S)

log = logging.getLogger(__name__)


def _do_nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuePolicy:
    """The installation whose jobs get certificates, their lifetime, and the administrator of etcd."""

    cluster_id: str
    operator_id: str
    lifetime_s: float = LIFETIME_S
    admin: str = ROOT
    own_etcd: bool = False
    """Whether etcd belongs to this installation, so that it may have no users of others."""

    @property
    def owner(self) -> Owner:
        """The owner of users and roles, for the audit."""
        admins = frozenset((ROOT, self.admin))
        return Owner(cluster_id=self.cluster_id, operator_id=self.operator_id, admins=admins, is_own=self.own_etcd)


class JobCertificates:
    """Certificates and users of all jobs; only this class creates and removes them. `clock` is the wall clock."""

    def __init__(
        self,
        secrets: SecretStore,
        accounts: EtcdAuth,
        active_ca: ActiveCA,
        *,
        policy: IssuePolicy,
        clock: Callable[[], float],
        on_correction: Callable[[], None] = _do_nothing,
    ) -> None:
        self._secrets = secrets
        self._accounts = accounts
        self._active_ca = active_ca
        self._policy = policy
        self._clock = clock
        self._enabling_auth = asyncio.Lock()
        self._auth_enabled: int | None = None
        self._users: set[str] = set()
        self._complete_users: set[str] = set()
        self._recheck_requested = asyncio.Event()
        self._audit = AuthAudit(accounts, policy.owner, on_correction)

    async def issue(self, key: JobKey, secret: Mapping[str, Any], *, store: int) -> Certified:
        """Create the job's user in etcd, and write a new certificate into `secret`; `store` counts the wipes."""
        await self.enable_auth(store)
        await self._ensure_user(key)
        issued = self._active_ca.current.issue_job(key.uid, now_s=self._clock(), life_s=self._policy.lifetime_s)
        await self._write(secret, issued)
        return Certified(store, issued.renew_at_s)

    async def forget(self, key: JobKey) -> None:
        """Remove the job's user, so that a client that still has its certificate has no permissions."""
        self._users.discard(key.uid)
        self._complete_users.discard(key.uid)
        await self._accounts.remove_user(key.uid, role=self._role(key))

    async def enable_auth(self, store: int) -> None:
        """Enable authentication in this etcd unless that was done."""
        async with self._enabling_auth:
            if self._auth_enabled == store:
                return
            await self._accounts.enable([self._policy.admin])
            self._users, self._complete_users = set(await self._accounts.users()), set()
            self._audit.forget()
            self._auth_enabled = store
            log.info("etcd refuses clients without a certificate; it has %d users", len(self._users))

    def forget_etcd(self) -> None:
        """Read etcd's users again before the next action, because another process may have changed them."""
        self._auth_enabled = None

    def recheck(self) -> None:
        """Check etcd's users soon, because etcd was listed again and may be another one."""
        self._recheck_requested.set()

    async def run(self, store: Callable[[], int], on_user: Callable[[JobKey], None]) -> None:
        """Enable authentication, audit users, and report each job that has one, until cancelled.

        Raises `RequestRejected`.
        """
        backoff, logged = Backoff(random.random), ""
        checks = 0
        while True:
            is_suspicious = self._recheck_requested.is_set()
            self._recheck_requested.clear()
            try:
                await self.enable_auth(store())
                await self._accounts.enable([self._policy.admin])
                await self._audit.run()
                if is_suspicious or not checks % _CHECKS_PER_SWEEP:
                    await self._report_users(on_user)
            except RequestRejected:
                raise
            except (EtcdError, ClusterError) as error:
                if str(error) != logged:
                    log.warning("cannot check etcd's users, trying again: %s", error)
                logged = str(error)
                await backoff.pause()
                continue
            backoff.reset()
            logged = ""
            checks += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AUDIT_S):
                    await self._recheck_requested.wait()

    async def _report_users(self, on_user: Callable[[JobKey], None]) -> None:
        for role in sorted(await self._accounts.roles()):
            if (key := self._key_of(role)) is not None:
                on_user(key)

    async def _ensure_user(self, key: JobKey) -> None:
        role = self._role(key)
        if key.uid in self._complete_users:
            return
        if key.uid in self._users:  # a process may have ended after creating the user and before granting its role
            await self._accounts.grant_role(key.uid, role=role)
        else:
            await self._accounts.add_user(key.uid, role=role, prefix=key.keys(self._policy.cluster_id).everything)
        self._users.add(key.uid)
        self._complete_users.add(key.uid)

    async def _write(self, secret: Mapping[str, Any], issued: Issued) -> None:
        contents = {CERTIFICATE: issued.certificate, KEY: issued.key, CA: self._active_ca.current.trusted}
        body = {**secret, "data": {name: base64.b64encode(text).decode() for name, text in contents.items()}}
        if await self._secrets.replace(Resource.SECRET, body) is None:
            await self._secrets.create(Resource.SECRET, body)

    @property
    def _roles(self) -> str:
        """The prefix of this installation's roles; roles of other installations are not changed."""
        return f"elasticjob/{self._policy.operator_id}/"

    def _role(self, key: JobKey) -> str:
        return f"{self._roles}{key.namespace}/{key.name}/{key.uid}"

    def _key_of(self, role: str) -> JobKey | None:
        parts = role.removeprefix(self._roles).split("/")
        return JobKey(*parts) if role.startswith(self._roles) and len(parts) == _PARTS else None


_PARTS = 3
