"""Each job's certificate in a Secret and its user in etcd: made, renewed, and removed with the job.

A certificate is handed out only when etcd asks everybody for one: authentication is enabled first, and again when
etcd was found to be another, empty one. The operator cannot read the Secrets that it writes: what it does not know,
after its own restart, it makes anew. Users that no job has any more are collected, by the names of their roles.
"""

import asyncio
import base64
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
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
"""Between two looks for users that no job has any more."""
AUDIT_S = 300.0
"""Between two looks for users and roles that are not as we made them."""
LIFETIME_S = 86400.0
"""Of a job's certificate."""

_CHECKS_PER_SWEEP = round(SWEEP_S / AUDIT_S)

log = logging.getLogger(__name__)


def _do_nothing() -> None:
    """No figures are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuePolicy:
    """Whose jobs, for how long, and who may do anything in etcd."""

    cluster_id: str
    operator_id: str
    lifetime_s: float = LIFETIME_S
    admin: str = ROOT
    own_etcd: bool = False
    """Etcd is this installation's own: it has no users but ours."""

    @property
    def owner(self) -> Owner:
        """What the audit of users judges by."""
        admins = frozenset((ROOT, self.admin))
        return Owner(cluster_id=self.cluster_id, operator_id=self.operator_id, admins=admins, is_own=self.own_etcd)


class JobCertificates:
    """Certificates and users of all jobs; nothing else makes or removes them. Clock is wall clock, in seconds."""

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
        """Write a new certificate into `secret`; its user is in this etcd then (`store` counts the wipes)."""
        await self.enable_auth(store)
        await self._ensure_user(key)
        issued = self._active_ca.current.issue_client(key.uid, now_s=self._clock(), life_s=self._policy.lifetime_s)
        await self._write(secret, issued)
        return Certified(store, issued.renew_at_s)

    async def forget(self, key: JobKey) -> None:
        """Remove the job's user: a client that still has its certificate may do nothing."""
        self._users.discard(key.uid)
        self._complete_users.discard(key.uid)
        await self._accounts.remove_user(key.uid, role=self._role(key))

    async def enable_auth(self, store: int) -> None:
        """From now on this etcd asks everybody for a user; nothing if it does already."""
        async with self._enabling_auth:
            if self._auth_enabled == store:
                return
            await self._accounts.enable([self._policy.admin])
            self._users, self._complete_users = set(await self._accounts.users()), set()
            self._audit.forget()
            self._auth_enabled = store
            log.info("etcd refuses clients without a certificate; it has %d users", len(self._users))

    def forget_etcd(self) -> None:
        """Another process may have changed etcd's users since: read them again before anything is done."""
        self._auth_enabled = None

    def recheck(self) -> None:
        """Etcd was listed anew: it may be another one."""
        self._recheck_requested.set()

    async def run(
        self,
        store: Callable[[], int],
        is_there: Callable[[JobKey], Awaitable[bool]],
        purge: Callable[[JobKey], Awaitable[None]],
    ) -> None:
        """Guard and audit every etcd that comes, and collect leftovers, until cancelled; raises `RequestRejected`.

        What is left of a job is its user, and then by `purge` its keys, whatever they say.
        """
        backoff, said = Backoff(random.random), ""
        looks = 0
        while True:
            is_suspicious = self._recheck_requested.is_set()
            self._recheck_requested.clear()
            try:
                await self.enable_auth(store())
                await self._accounts.enable([self._policy.admin])
                await self._audit.run()
                if is_suspicious or not looks % _CHECKS_PER_SWEEP:
                    await self._sweep(is_there, purge)
            except RequestRejected:
                raise
            except (EtcdError, ClusterError) as error:
                if str(error) != said:
                    log.warning("etcd's users cannot be looked after, trying again: %s", error)
                said = str(error)
                await backoff.pause()
                continue
            backoff.reset()
            said = ""
            looks += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AUDIT_S):
                    await self._recheck_requested.wait()

    async def _sweep(
        self, is_there: Callable[[JobKey], Awaitable[bool]], purge: Callable[[JobKey], Awaitable[None]]
    ) -> None:
        for role in sorted(await self._accounts.roles()):
            key = self._key_of(role)
            if key is not None and not await is_there(key):
                log.info("%s: the job is gone, its user and keys in etcd go too", key)
                await purge(key)  # while there is the role, an attempt that failed is made again
                await self.forget(key)
                await purge(key)  # what was written until then

    async def _ensure_user(self, key: JobKey) -> None:
        role = self._role(key)
        if key.uid in self._complete_users:
            return
        if key.uid in self._users:  # this process, or one before it, may have ended between the user and its role
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
        """What the names of our roles begin with: those of other installations are not touched."""
        return f"elasticjob/{self._policy.operator_id}/"

    def _role(self, key: JobKey) -> str:
        return f"{self._roles}{key.namespace}/{key.name}/{key.uid}"

    def _key_of(self, role: str) -> JobKey | None:
        parts = role.removeprefix(self._roles).split("/")
        return JobKey(*parts) if role.startswith(self._roles) and len(parts) == _PARTS else None


_PARTS = 3
