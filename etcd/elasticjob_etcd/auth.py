"""etcd's users and roles, as far as the operator needs them: each job may read and write below its own prefix only.

A user has no password: any client whose certificate has its name as CN is that user. Every call may be repeated:
existing accounts remain as they are, and deleting a missing one does nothing. Only an administrator may call any of it.
Decisions on permissions are made elsewhere.
"""

import secrets
from collections.abc import Sequence
from typing import Any, Protocol

from elasticjob_etcd.connection import Connection
from elasticjob_etcd.errors import RequestRejected, Unavailable
from elasticjob_etcd.messages import encode_key, prefix_range, rpc
from elasticjob_etcd.permissions import Access, Permission

ROOT = "root"
"""etcd's own administrator and its role; authentication cannot be enabled without them."""
_NO_PASSWORD = b"\x1a\x02\x08\x01"
"""AuthUserAddRequest.options.no_password; etcd3's messages are older than this field."""
_ALREADY_EXISTS = ("user name already exists", "role name already exists")
_NOT_FOUND = ("user name not found", "role name not found")
_WITHOUT_AUTH = "password was given for no password user"
_WRONG = "invalid user ID or password"


class EtcdAuth(Protocol):
    """Users and roles; every method may raise `errors.EtcdError`."""

    async def enable(self, admins: Sequence[str]) -> None:
        """Enable authentication: each client needs a user from now on; `admins` and `root` may do anything."""

    async def users(self) -> frozenset[str]:
        """Return the names of all users."""

    async def roles(self) -> frozenset[str]:
        """Return the names of all roles."""

    async def add_user(self, user: str, *, role: str, prefix: str) -> None:
        """Add a user that may read and write keys that begin with `prefix`, by a role of its own."""

    async def grant_role(self, user: str, *, role: str) -> None:
        """Give a role to a user; both exist."""

    async def remove_user(self, user: str, *, role: str) -> None:
        """Delete both; a client with a certificate of this name has no permissions any more."""

    async def roles_of(self, user: str) -> frozenset[str]:
        """Return the roles of a user; none if there is no such user."""

    async def permissions_of(self, role: str) -> frozenset[Permission]:
        """Return the permissions of a role; none if there is no such role."""

    async def probe_password(self, user: str) -> bool:
        """Whether a password opens this user to callers with any certificate; False if there is no such user."""

    async def revoke_role(self, user: str, role: str) -> None:
        """Take a role from a user."""

    async def revoke_permission(self, role: str, permission: Permission) -> None:
        """Take a permission from a role."""

    async def delete_user(self, user: str) -> None:
        """Delete a user, with any roles."""

    async def delete_role(self, role: str) -> None:
        """Delete a role, also from its users."""

    async def change_password(self, user: str, password: str) -> None:
        """Replace the password of a user that has one."""


class GrpcEtcdAuth:
    """The users and roles of a real etcd."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def enable(self, admins: Sequence[str]) -> None:
        """See `EtcdAuth`; does nothing if authentication is enabled already."""
        await self._create("RoleAdd", rpc.AuthRoleAddRequest(name=ROOT))
        for name in dict.fromkeys((ROOT, *admins)):
            await self._create("UserAdd", _user(name))
            await self.grant_role(name, role=ROOT)
        await self._call("AuthEnable", rpc.AuthEnableRequest())

    async def users(self) -> frozenset[str]:
        """See `EtcdAuth`."""
        return frozenset((await self._call("UserList", rpc.AuthUserListRequest())).users)

    async def roles(self) -> frozenset[str]:
        """See `EtcdAuth`."""
        return frozenset((await self._call("RoleList", rpc.AuthRoleListRequest())).roles)

    async def add_user(self, user: str, *, role: str, prefix: str) -> None:
        """See `EtcdAuth`. The user is added after its role is complete."""
        await self._create("RoleAdd", rpc.AuthRoleAddRequest(name=role))
        await self._call("RoleGrantPermission", _permission(role, prefix))
        await self._create("UserAdd", _user(user))
        await self.grant_role(user, role=role)

    async def grant_role(self, user: str, *, role: str) -> None:
        """See `EtcdAuth`."""
        await self._call("UserGrantRole", rpc.AuthUserGrantRoleRequest(user=user, role=role))

    async def remove_user(self, user: str, *, role: str) -> None:
        """See `EtcdAuth`. The role is deleted last: leftovers are found by its name."""
        await self.delete_user(user)
        await self.delete_role(role)

    async def roles_of(self, user: str) -> frozenset[str]:
        """See `EtcdAuth`."""
        found = await self._call("UserGet", rpc.AuthUserGetRequest(name=user), but=_NOT_FOUND)
        return frozenset(found.roles) if found else frozenset()

    async def permissions_of(self, role: str) -> frozenset[Permission]:
        """See `EtcdAuth`."""
        found = await self._call("RoleGet", rpc.AuthRoleGetRequest(role=role), but=_NOT_FOUND)
        return frozenset(_permission_of(one) for one in found.perm) if found else frozenset()

    async def probe_password(self, user: str) -> bool:
        """See `EtcdAuth`. etcd reveals it by its answer to a wrong password."""
        request = rpc.AuthenticateRequest(name=user, password=secrets.token_hex())
        try:
            await self._connection.call(self._connection.auth.Authenticate, request, tried="Authenticate")
        except (RequestRejected, Unavailable) as error:
            if _WITHOUT_AUTH in str(error):
                return False
            if _WRONG not in str(error):
                raise
        return user in await self.users()  # etcd gives the same answer for a user that does not exist

    async def revoke_role(self, user: str, role: str) -> None:
        """See `EtcdAuth`."""
        request = rpc.AuthUserRevokeRoleRequest(name=user, role=role)
        await self._call("UserRevokeRole", request, but=(*_NOT_FOUND, "role is not granted to the user"))

    async def revoke_permission(self, role: str, permission: Permission) -> None:
        """See `EtcdAuth`."""
        key, range_end = encode_key(permission.key), encode_key(permission.range_end)
        request = rpc.AuthRoleRevokePermissionRequest(role=role, key=key, range_end=range_end)
        await self._call("RoleRevokePermission", request, but=(*_NOT_FOUND, "permission is not granted to the role"))

    async def delete_user(self, user: str) -> None:
        """See `EtcdAuth`."""
        await self._delete("UserDelete", rpc.AuthUserDeleteRequest(name=user))

    async def delete_role(self, role: str) -> None:
        """See `EtcdAuth`."""
        await self._delete("RoleDelete", rpc.AuthRoleDeleteRequest(role=role))

    async def change_password(self, user: str, password: str) -> None:
        """See `EtcdAuth`."""
        request = rpc.AuthUserChangePasswordRequest(name=user, password=password)
        await self._delete("UserChangePassword", request)

    async def _create(self, name: str, request: Any) -> None:
        await self._call(name, request, but=_ALREADY_EXISTS)

    async def _delete(self, name: str, request: Any) -> None:
        await self._call(name, request, but=_NOT_FOUND)

    async def _call(self, name: str, request: Any, *, but: Sequence[str] = ()) -> Any:
        """Make a call; return None for a rejection with one of the texts in `but`."""
        try:
            return await self._connection.call(getattr(self._connection.auth, name), request, tried=name)
        except RequestRejected as error:
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
