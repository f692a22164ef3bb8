"""Compares etcd's users and roles with those that this installation created, and corrects differences.

A difference means that another client acted as an administrator of etcd. So each correction is logged as a warning and
counted.
"""

import logging
import secrets
from collections.abc import Callable

from elasticjob_etcd.auth import EtcdAuth
from elasticjob_operator.policy.etcd.auth import (
    ChangePassword,
    Correction,
    DeleteRole,
    DeleteUser,
    Found,
    Owner,
    RevokePermission,
    RevokeRole,
    corrections,
)

log = logging.getLogger(__name__)


class AuthAudit:
    """Audits one etcd; `on_correction` is called after each correction."""

    def __init__(self, accounts: EtcdAuth, owner: Owner, on_correction: Callable[[], None]) -> None:
        self._accounts = accounts
        self._owner = owner
        self._on_correction = on_correction
        self._probed_users: set[str] = set()
        """Users that were found to have no password, or got a random one; they are not probed again."""

    def forget(self) -> None:
        """Forget all users, because etcd was replaced by another one."""
        self._probed_users.clear()

    async def run(self) -> None:
        """Audit etcd once; raises `EtcdError`."""
        for correction in corrections(await self._find(), self._owner):
            await self._correct(correction)
            log.warning("etcd's users were tampered with: %s", _describe(correction))
            self._on_correction()

    async def _find(self) -> Found:
        """Return the users and roles in etcd."""
        # Users are listed before roles, so that a user that is created meanwhile has its role.
        users = await self._accounts.users()
        roles = await self._accounts.roles()
        roles_of = {user: await self._accounts.roles_of(user) for user in sorted(users)}
        permissions_of = {role: await self._accounts.permissions_of(role) for role in sorted(roles)}
        return Found(roles_of, permissions_of, await self._with_password(users, roles))

    async def _with_password(self, users: frozenset[str], roles: frozenset[str]) -> frozenset[str]:
        own = self._owner.admins | {role.rpartition("/")[2] for role in roles}
        self._probed_users &= users
        asked = sorted((users & own) - self._probed_users) if self._owner.is_own else []
        found = frozenset([user for user in asked if await self._accounts.probe_password(user)])
        self._probed_users |= set(asked) - found
        return found

    async def _correct(self, correction: Correction) -> None:
        accounts = self._accounts
        match correction:
            case RevokeRole(user, role):
                await accounts.revoke_role(user, role)
            case RevokePermission(role, permission):
                await accounts.revoke_permission(role, permission)
            case DeleteUser(user):
                await accounts.delete_user(user)
            case DeleteRole(role):
                await accounts.delete_role(role)
            case ChangePassword(user):
                await accounts.change_password(user, secrets.token_urlsafe())
                self._probed_users.add(user)


def _describe(correction: Correction) -> str:
    match correction:
        case RevokeRole(user, role):
            return f"user {user!r:.80} had the role {role!r:.200}, which is revoked"
        case RevokePermission(role, permission):
            return f"role {role!r:.200} permitted {permission.key!r:.200}, which is revoked"
        case DeleteUser(user):
            return f"user {user!r:.80} belongs to no job, and is deleted"
        case DeleteRole(role):
            return f"role {role!r:.200} belongs to no job, and is deleted"
        case ChangePassword(user):
            return f"user {user!r:.80} had a password, which is replaced by a random one"
