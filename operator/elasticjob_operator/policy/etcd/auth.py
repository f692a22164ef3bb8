"""Differences between etcd's users, roles and permissions and those of this installation, and their corrections.

The role of a job is `elasticjob/<operator>/<namespace>/<name>/<uid>` and permits the job's own prefix. The name of the
job's user is its uid, and the user has only that role. The installation's own etcd may have no other users and roles
but the administrators'. A shared etcd has users of others, so only those of our jobs are corrected there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from elasticjob_api.keys import ROOT as KEYS_ROOT
from elasticjob_etcd.permissions import Permission, of_folder

_ADMINISTRATOR = "root"
"""etcd's role that permits everything."""
_PREFIX = "elasticjob"
_PARTS = 5


@dataclass(frozen=True, slots=True)
class Found:
    """The roles of each user in etcd, the permissions of each role, and the users that have a password."""

    roles_of: Mapping[str, frozenset[str]]
    permissions_of: Mapping[str, frozenset[Permission]]
    with_password: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The installation that checks etcd, with the users that it allows."""

    cluster_id: str
    operator_id: str
    admins: frozenset[str]
    is_own: bool
    """Whether etcd belongs to this installation alone."""


@dataclass(frozen=True, slots=True)
class RevokeRole:
    """Revoke a role that is not the user's own."""

    user: str
    role: str


@dataclass(frozen=True, slots=True)
class RevokePermission:
    """Revoke a permission outside the prefix of the role's job."""

    role: str
    permission: Permission


@dataclass(frozen=True, slots=True)
class DeleteUser:
    """Delete a user that belongs to no job."""

    user: str


@dataclass(frozen=True, slots=True)
class DeleteRole:
    """Delete a role that belongs to no job."""

    role: str


@dataclass(frozen=True, slots=True)
class ChangePassword:
    """Change the password of one of our users, because the operator never sets one."""

    user: str


Correction = RevokeRole | RevokePermission | DeleteUser | DeleteRole | ChangePassword


def corrections(found: Found, owner: Owner) -> tuple[Correction, ...]:
    """Return the corrections that are needed, in the order of severity."""
    return (
        *_user_corrections(found, owner),
        *_role_corrections(found, owner),
        *(ChangePassword(user) for user in sorted(found.with_password) if user in found.roles_of),
    )


def _user_corrections(found: Found, owner: Owner) -> Iterator[Correction]:
    checked = [role for role in found.permissions_of if _is_checked(role, owner)]
    own_role = {_uid_of(role): role for role in checked}
    for user in sorted(found.roles_of.keys() - owner.admins):
        if user in own_role:
            allowed = {role for role in found.permissions_of if _uid_of(role) == user}
            for role in sorted(found.roles_of[user] - allowed):
                yield RevokeRole(user, role)
        elif owner.is_own:
            yield DeleteUser(user)


def _role_corrections(found: Found, owner: Owner) -> Iterator[Correction]:
    for role in sorted(found.permissions_of.keys() - {_ADMINISTRATOR}):
        if _is_checked(role, owner):
            for permission in sorted(found.permissions_of[role], key=repr):
                if not _is_permitted(role, permission, owner):
                    yield RevokePermission(role, permission)
        elif owner.is_own:
            yield DeleteRole(role)


def _is_checked(role: str, owner: Owner) -> bool:
    """Return whether the role belongs to a job: one of ours, or in our own etcd also one of another installation."""
    parts = role.split("/")
    is_job = len(parts) == _PARTS and parts[0] == _PREFIX and all(parts)
    return is_job and (owner.is_own or parts[1] == owner.operator_id)


def _uid_of(role: str) -> str:
    return role.rpartition("/")[2] if role.count("/") == _PARTS - 1 else ""


def _is_permitted(role: str, permission: Permission, owner: Owner) -> bool:
    """Return whether the permission is for the job's own prefix; the cluster id counts for our own jobs only."""
    _, operator, *job = role.split("/")
    begin, _, rest = permission.key.removeprefix(f"{KEYS_ROOT}/").partition("/")
    cluster = owner.cluster_id if operator == owner.operator_id else begin
    expected = "/".join((KEYS_ROOT, cluster, *job, ""))
    return bool(rest) and permission == of_folder(expected)
