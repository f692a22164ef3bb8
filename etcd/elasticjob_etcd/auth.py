"""etcd's users and roles, as far as the operator needs them: each job may read and write below its own prefix only.

A user has no password: any client whose certificate has its name as CN is that user. Every call may be repeated:
existing accounts are left as they are, deleted ones stay deleted. Only an administrator may call any of it. Nothing
here decides on permissions.
"""

import secrets
from collections.abc import Sequence
from typing import Any, Protocol

from elasticjob_etcd.connection import Connection
from elasticjob_etcd.errors import Refused, Unavailable
from elasticjob_etcd.messages import encode_key, prefix_range, rpc
from elasticjob_etcd.permissions import Access, Permission

ROOT = "root"
"""etcd's own administrator and its role; authentication cannot be enabled without them."""
_NO_PASSWORD = b"\x1a\x02\x08\x01"
"""AuthUserAddRequest.options.no_password, which etcd3's messages are too old to know."""
_THERE = ("user name already exists", "role name already exists")
_GONE = ("user name not found", "role name not found")
_HAS_NONE = "password was given for no password user"
_WRONG = "invalid user ID or password"


class Accounts(Protocol):
    """Users and roles; every method may raise `errors.EtcdError`."""

    async def enable(self, admins: Sequence[str]) -> None:
        """From now on everybody needs a user; those of `admins` and `root` may do anything."""

    async def users(self) -> frozenset[str]:
        """Names of all users."""

    async def roles(self) -> frozenset[str]:
        """Names of all roles."""

    async def add(self, user: str, *, role: str, prefix: str) -> None:
        """A user who may read and write what begins with `prefix`, by a role of its own."""

    async def give(self, user: str, *, role: str) -> None:
        """Give a role to a user; both are there."""

    async def remove(self, user: str, *, role: str) -> None:
        """Delete both; a client with a certificate of this name may do nothing any more."""

    async def roles_of(self, user: str) -> frozenset[str]:
        """Roles that a user has; none if there is no such user."""

    async def permissions_of(self, role: str) -> frozenset[Permission]:
        """Return the permissions of a role; none if there is no such role."""

    async def has_password(self, user: str) -> bool:
        """A password opens this user to callers with any certificate; False if there is no such user."""

    async def revoke_role(self, user: str, role: str) -> None:
        """Take a role from a user."""

    async def revoke_permission(self, role: str, permission: Permission) -> None:
        """Take a permission from a role."""

    async def delete_user(self, user: str) -> None:
        """Delete a user, whatever its roles are."""

    async def delete_role(self, role: str) -> None:
        """Delete a role, also from its users."""

    async def change_password(self, user: str, password: str) -> None:
        """Replace the password of a user that has one."""


class EtcdAccounts:
    """Those of a real etcd."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def enable(self, admins: Sequence[str]) -> None:
        """See `Accounts`; authentication that is on already stays so."""
        await self._unless_there("RoleAdd", rpc.AuthRoleAddRequest(name=ROOT))
        for name in dict.fromkeys((ROOT, *admins)):
            await self._unless_there("UserAdd", _user(name))
            await self.give(name, role=ROOT)
        await self._call("AuthEnable", rpc.AuthEnableRequest())

    async def users(self) -> frozenset[str]:
        """See `Accounts`."""
        return frozenset((await self._call("UserList", rpc.AuthUserListRequest())).users)

    async def roles(self) -> frozenset[str]:
        """See `Accounts`."""
        return frozenset((await self._call("RoleList", rpc.AuthRoleListRequest())).roles)

    async def add(self, user: str, *, role: str, prefix: str) -> None:
        """See `Accounts`. The user is there only when the role is whole."""
        await self._unless_there("RoleAdd", rpc.AuthRoleAddRequest(name=role))
        await self._call("RoleGrantPermission", _permission(role, prefix))
        await self._unless_there("UserAdd", _user(user))
        await self.give(user, role=role)

    async def give(self, user: str, *, role: str) -> None:
        """See `Accounts`."""
        await self._call("UserGrantRole", rpc.AuthUserGrantRoleRequest(user=user, role=role))

    async def remove(self, user: str, *, role: str) -> None:
        """See `Accounts`. The role goes last: by its name leftovers are found."""
        await self.delete_user(user)
        await self.delete_role(role)

    async def roles_of(self, user: str) -> frozenset[str]:
        """See `Accounts`."""
        found = await self._call("UserGet", rpc.AuthUserGetRequest(name=user), but=_GONE)
        return frozenset(found.roles) if found else frozenset()

    async def permissions_of(self, role: str) -> frozenset[Permission]:
        """See `Accounts`."""
        found = await self._call("RoleGet", rpc.AuthRoleGetRequest(role=role), but=_GONE)
        return frozenset(_permission_of(one) for one in found.perm) if found else frozenset()

    async def has_password(self, user: str) -> bool:
        """See `Accounts`. Etcd reveals it by how it refuses a wrong one."""
        request = rpc.AuthenticateRequest(name=user, password=secrets.token_hex())
        try:
            await self._connection.call(self._connection.auth.Authenticate, request, tried="Authenticate")
        except (Refused, Unavailable) as error:
            if _HAS_NONE in str(error):
                return False
            if _WRONG not in str(error):
                raise
        return user in await self.users()  # of who is not there it says the same

    async def revoke_role(self, user: str, role: str) -> None:
        """See `Accounts`."""
        request = rpc.AuthUserRevokeRoleRequest(name=user, role=role)
        await self._call("UserRevokeRole", request, but=(*_GONE, "role is not granted to the user"))

    async def revoke_permission(self, role: str, permission: Permission) -> None:
        """See `Accounts`."""
        key, range_end = encode_key(permission.key), encode_key(permission.range_end)
        request = rpc.AuthRoleRevokePermissionRequest(role=role, key=key, range_end=range_end)
        await self._call("RoleRevokePermission", request, but=(*_GONE, "permission is not granted to the role"))

    async def delete_user(self, user: str) -> None:
        """See `Accounts`."""
        await self._unless_gone("UserDelete", rpc.AuthUserDeleteRequest(name=user))

    async def delete_role(self, role: str) -> None:
        """See `Accounts`."""
        await self._unless_gone("RoleDelete", rpc.AuthRoleDeleteRequest(role=role))

    async def change_password(self, user: str, password: str) -> None:
        """See `Accounts`."""
        request = rpc.AuthUserChangePasswordRequest(name=user, password=password)
        await self._unless_gone("UserChangePassword", request)

    async def _unless_there(self, name: str, request: Any) -> None:
        await self._call(name, request, but=_THERE)

    async def _unless_gone(self, name: str, request: Any) -> None:
        await self._call(name, request, but=_GONE)

    async def _call(self, name: str, request: Any, *, but: Sequence[str] = ()) -> Any:
        """Make a call; None for a refusal with one of the words in `but`."""
        try:
            return await self._connection.call(getattr(self._connection.auth, name), request, tried=name)
        except Refused as error:
            if not any(words in str(error) for words in but):
                raise
        return None


def _user(name: str) -> Any:
    request = rpc.AuthUserAddRequest(name=name)
    request.MergeFromString(_NO_PASSWORD)
    return request


def _permission(role: str, prefix: str) -> Any:
    request = rpc.AuthRoleGrantPermissionRequest(name=role)
    request.perm.permType = request.perm.DESCRIPTOR.enum_types_by_name["Type"].values_by_name["READWRITE"].number
    wanted = prefix_range(prefix)
    request.perm.key, request.perm.range_end = wanted["key"], wanted["range_end"]
    return request


def _permission_of(message: Any) -> Permission:
    key, range_end = (text.decode("utf-8", "surrogateescape") for text in (message.key, message.range_end))
    return Permission(key, range_end, Access(message.permType))
