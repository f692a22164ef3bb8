"""Users and roles in memory, held to the contract of the real ones; it refuses nobody anything."""

from collections.abc import Sequence

from elasticjob_etcd.accounts import ROOT
from elasticjob_etcd.errors import Refused


class MemoryAccounts:
    """`accounts.Accounts` of one process; `prefixes` are the roles' and `of` the users' roles."""

    def __init__(self) -> None:
        self.enabled = False
        self.prefixes: dict[str, str] = {}
        self.of: dict[str, set[str]] = {}

    async def enable(self, admins: Sequence[str]) -> None:
        """See `Accounts`."""
        self.prefixes.setdefault(ROOT, "")
        for name in (ROOT, *admins):
            self.of.setdefault(name, set()).add(ROOT)
        self.enabled = True

    async def users(self) -> frozenset[str]:
        """See `Accounts`."""
        return frozenset(self.of)

    async def roles(self) -> frozenset[str]:
        """See `Accounts`."""
        return frozenset(self.prefixes)

    async def add(self, user: str, *, role: str, prefix: str) -> None:
        """See `Accounts`."""
        self.prefixes[role] = prefix
        self.of.setdefault(user, set())
        await self.give(user, role=role)

    async def give(self, user: str, *, role: str) -> None:
        """See `Accounts`."""
        if user not in self.of or role not in self.prefixes:
            raise Refused(f"UserGrantRole: user name or role name not found: {user}, {role}")
        self.of[user].add(role)

    async def remove(self, user: str, *, role: str) -> None:
        """See `Accounts`."""
        self.of.pop(user, None)
        self.prefixes.pop(role, None)
