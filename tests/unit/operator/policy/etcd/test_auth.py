"""The corrections of users, roles and permissions, in the installation's own etcd and in a shared one."""

from dataclasses import replace

import pytest

from elasticjob_etcd.permissions import Access, Permission, of_folder
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

OWN = Owner(cluster_id="c", operator_id="op", admins=frozenset({"root", "boss"}), is_own=True)
SHARED = replace(OWN, is_own=False)

ROLE, PREFIX = "elasticjob/op/n/a/uid-a", of_folder("/elasticjob/c/n/a/uid-a/")
OTHER, OTHERS = "elasticjob/other/n/b/uid-b", of_folder("/elasticjob/elsewhere/n/b/uid-b/")
ALL = Permission("\0", "\0")
GOOD = Found(
    {"root": frozenset({"root"}), "boss": frozenset({"root"}), "uid-a": frozenset({ROLE}), "uid-b": frozenset({OTHER})},
    {"root": frozenset(), ROLE: frozenset({PREFIX}), OTHER: frozenset({OTHERS})},
)


def found(*, users: dict[str, set[str]] | None = None, roles: dict[str, set[Permission]] | None = None) -> Found:
    """Return the correct state of etcd with these users and roles instead or in addition."""
    return Found(
        {**GOOD.roles_of, **{user: frozenset(has) for user, has in (users or {}).items()}},
        {**GOOD.permissions_of, **{role: frozenset(permits) for role, permits in (roles or {}).items()}},
    )


@pytest.mark.parametrize("owner", [OWN, SHARED])
def test_our_own_users_and_those_of_another_installation_are_not_changed(owner: Owner) -> None:
    assert corrections(GOOD, owner) == ()


@pytest.mark.parametrize("owner", [OWN, SHARED])
@pytest.mark.parametrize(
    ("what", "correction"),
    [
        pytest.param(found(users={"uid-a": {ROLE, "root"}}), RevokeRole("uid-a", "root"), id="an administrator"),
        pytest.param(found(users={"uid-a": {OTHER}}), RevokeRole("uid-a", OTHER), id="another job's role"),
        pytest.param(found(roles={ROLE: {PREFIX, ALL}}), RevokePermission(ROLE, ALL), id="everything"),
        pytest.param(found(roles={ROLE: {OTHERS}}), RevokePermission(ROLE, OTHERS), id="another job's prefix"),
        pytest.param(
            found(roles={ROLE: {replace(PREFIX, range_end="\0")}}),
            RevokePermission(ROLE, replace(PREFIX, range_end="\0")),
            id="its prefix and all keys after it",
        ),
    ],
)
def test_a_job_of_ours_has_only_its_own_role_and_prefix(owner: Owner, what: Found, correction: Correction) -> None:
    assert corrections(what, owner) == (correction,)


@pytest.mark.parametrize(
    ("what", "correction"),
    [
        pytest.param(found(users={"me": {"root"}}), DeleteUser("me"), id="a user of no job"),
        pytest.param(found(users={"me": set()}), DeleteUser("me"), id="one without a role"),
        pytest.param(found(roles={"mine": {ALL}}), DeleteRole("mine"), id="a role of no job"),
        pytest.param(found(roles={"elasticjob/op//a/uid": set()}), DeleteRole("elasticjob/op//a/uid"), id="no name"),
        pytest.param(
            found(users={"uid-b": {OTHER, "root"}}), RevokeRole("uid-b", "root"), id="a user of another installation"
        ),
        pytest.param(
            found(roles={OTHER: {OTHERS, PREFIX}}), RevokePermission(OTHER, PREFIX), id="a role of another installation"
        ),
        pytest.param(
            found(roles={OTHER: {of_folder("/elasticjob/")}}),
            RevokePermission(OTHER, of_folder("/elasticjob/")),
            id="every job",
        ),
    ],
)
def test_our_own_etcd_has_no_other_users_and_roles(what: Found, correction: Correction) -> None:
    assert corrections(what, OWN) == (correction,)
    assert corrections(what, SHARED) == ()


def test_a_permission_without_write_access_is_revoked() -> None:
    less = replace(PREFIX, access=Access.READ)
    assert corrections(found(roles={ROLE: {less}}), OWN) == (RevokePermission(ROLE, less),)


def test_a_job_that_is_being_created_is_not_changed() -> None:
    """Its role exists before its permission, its user, and the user's role."""
    assert corrections(found(users={"uid-a": set()}, roles={ROLE: set()}), OWN) == ()


def test_a_password_is_replaced() -> None:
    assert corrections(replace(GOOD, with_password=frozenset({"root"})), OWN) == (ChangePassword("root"),)
