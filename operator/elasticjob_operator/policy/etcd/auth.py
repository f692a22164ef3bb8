"""PURE: which users, roles and permissions of etcd are not as this installation made them, and what corrects them.

A role of a job is `elasticjob/<operator>/<namespace>/<name>/<uid>` and permits the job's own prefix; the job's user is
its uid and has that role alone. In an etcd of the installation's own nothing else may be there but the administrators.
Another etcd has users of others: there only what concerns our jobs is corrected.
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
    """What etcd has: roles of each user, permissions of each role, and users that a password opens."""

    roles_of: Mapping[str, frozenset[str]]
    permissions_of: Mapping[str, frozenset[Permission]]
    with_password: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose etcd it is, as far as users go."""

    cluster_id: str
    operator_id: str
    admins: frozenset[str]
    is_own: bool
    """Etcd is this installation's own."""


@dataclass(frozen=True, slots=True)
class RevokeRole:
    """A user has a role that is not its own."""

    user: str
    role: str


@dataclass(frozen=True, slots=True)
class RevokePermission:
    """A role permits more than its job's prefix."""

    role: str
    permission: Permission


@dataclass(frozen=True, slots=True)
class DeleteUser:
    """A user of no job."""

    user: str


@dataclass(frozen=True, slots=True)
class DeleteRole:
    """A role of no job."""

    role: str


@dataclass(frozen=True, slots=True)
class ChangePassword:
    """A user of ours has a password, which we never give."""

    user: str


Correction = RevokeRole | RevokePermission | DeleteUser | DeleteRole | ChangePassword


def corrections(found: Found, owner: Owner) -> tuple[Correction, ...]:
    """What must be changed, those first that give the most away."""
    return (
        *_user_corrections(found, owner),
        *_role_corrections(found, owner),
        *(ChangePassword(user) for user in sorted(found.with_password) if user in found.roles_of),
    )


def _user_corrections(found: Found, owner: Owner) -> Iterator[Correction]:
    judged = [role for role in found.permissions_of if _is_checked(role, owner)]
    own_role = {_uid_of(role): role for role in judged}
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
    """The role is of a job: of ours, or, in an etcd of our own, of another installation's that uses it."""
    parts = role.split("/")
    is_job = len(parts) == _PARTS and parts[0] == _PREFIX and all(parts)
    return is_job and (owner.is_own or parts[1] == owner.operator_id)


def _uid_of(role: str) -> str:
    return role.rpartition("/")[2] if role.count("/") == _PARTS - 1 else ""


def _is_permitted(role: str, permission: Permission, owner: Owner) -> bool:
    """It is the job's own prefix; of another installation's job the cluster may be any."""
    _, operator, *job = role.split("/")
    begin, _, rest = permission.key.removeprefix(f"{KEYS_ROOT}/").partition("/")
    cluster = owner.cluster_id if operator == owner.operator_id else begin
    expected = "/".join((KEYS_ROOT, cluster, *job, ""))
    return bool(rest) and permission == of_folder(expected)
