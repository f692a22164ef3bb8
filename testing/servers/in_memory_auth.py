"""Users and roles of etcd in memory; they pass the contract tests of the real ones, and reject nothing."""

from collections.abc import Sequence

from elasticjob_etcd.auth import ROOT
from elasticjob_etcd.errors import RequestRejected
from elasticjob_etcd.permissions import Permission, of_folder


class InMemoryAuth:
    """The `auth.EtcdAuth` of one process; `prefixes` are the roles' and `of` the users' roles."""

    def __init__(self) -> None:
        self.enabled = False
        self.prefixes: dict[str, str] = {}
        self.of: dict[str, set[str]] = {}
        self.permitted: dict[str, set[Permission]] = {}
        """Permissions of a role beside its prefix."""
        self.passwords: dict[str, str] = {}

    async def enable(self, admins: Sequence[str]) -> None:
        """See `EtcdAuth`."""
        self.prefixes.setdefault(ROOT, "")
        for name in (ROOT, *admins):
            self.of.setdefault(name, set()).add(ROOT)
        self.enabled = True

    async def users(self) -> frozenset[str]:
        """See `EtcdAuth`."""
        return frozenset(self.of)

    async def roles(self) -> frozenset[str]:
        """See `EtcdAuth`."""
        return frozenset(self.prefixes)

    async def add_user(self, user: str, *, role: str, prefix: str) -> None:
        """See `EtcdAuth`."""
        self.prefixes[role] = prefix
        self.of.setdefault(user, set())
        await self.grant_role(user, role=role)

    async def grant_role(self, user: str, *, role: str) -> None:
        """See `EtcdAuth`."""
        if user not in self.of or role not in self.prefixes:
            raise RequestRejected(f"UserGrantRole: user name or role name not found: {user}, {role}")
        self.of[user].add(role)

    async def remove_user(self, user: str, *, role: str) -> None:
        """See `EtcdAuth`."""
        await self.delete_user(user)
        await self.delete_role(role)

    async def roles_of(self, user: str) -> frozenset[str]:
        """See `EtcdAuth`."""
        return frozenset(self.of.get(user, ()))

    async def permissions_of(self, role: str) -> frozenset[Permission]:
        """See `EtcdAuth`."""
        own = {of_folder(self.prefixes[role])} if self.prefixes.get(role) else set()
        return frozenset(own | self.permitted.get(role, set()))

    async def probe_password(self, user: str) -> bool:
        """See `EtcdAuth`."""
        return user in self.passwords

    async def revoke_role(self, user: str, role: str) -> None:
        """See `EtcdAuth`."""
        self.of.get(user, set()).discard(role)

    async def revoke_permission(self, role: str, permission: Permission) -> None:
        """See `EtcdAuth`."""
        self.permitted.get(role, set()).discard(permission)
        if self.prefixes.get(role) and permission == of_folder(self.prefixes[role]):
            self.prefixes[role] = ""

    async def delete_user(self, user: str) -> None:
        """See `EtcdAuth`."""
        self.of.pop(user, None)
        self.passwords.pop(user, None)

    async def delete_role(self, role: str) -> None:
        """See `EtcdAuth`."""
        self.prefixes.pop(role, None)
        self.permitted.pop(role, None)
        for roles in self.of.values():
            roles.discard(role)

    async def change_password(self, user: str, password: str) -> None:
        """See `EtcdAuth`."""
        if user in self.passwords:
            self.passwords[user] = password
