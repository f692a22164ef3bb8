"""Users and roles: the operator's requests to a real etcd and to the one in memory."""

import uuid
from collections.abc import AsyncIterator

import pytest

from elasticjob_etcd.auth import ROOT, EtcdAuth
from elasticjob_etcd.errors import RequestRejected
from elasticjob_etcd.permissions import of_folder
from testing.servers.in_memory_auth import InMemoryAuth
from testing.servers.secured_etcd import SecuredEtcd, administrator


@pytest.fixture(params=["memory", pytest.param("etcd", marks=pytest.mark.etcd)])
def server(request: pytest.FixtureRequest) -> SecuredEtcd | None:
    """Return the real etcd; None for the one in memory."""
    found: SecuredEtcd | None = request.getfixturevalue("secured") if request.param == "etcd" else None
    return found


@pytest.fixture
async def accounts(server: SecuredEtcd | None) -> AsyncIterator[EtcdAuth]:
    if server is None:
        made = InMemoryAuth()
        await made.enable([])
        yield made
        return
    async with administrator(server) as client:
        yield client.auth


@pytest.fixture
def user() -> str:
    return str(uuid.uuid4())


async def test_a_user_and_its_role_are_added_and_removed_together(accounts: EtcdAuth, user: str) -> None:
    await accounts.add_user(user, role=f"r/{user}", prefix="/p/")
    assert user in await accounts.users()
    assert f"r/{user}" in await accounts.roles()
    await accounts.remove_user(user, role=f"r/{user}")
    assert user not in await accounts.users()
    assert f"r/{user}" not in await accounts.roles()


async def test_everything_may_be_repeated(accounts: EtcdAuth, user: str) -> None:
    for _ in range(2):
        await accounts.enable([ROOT])
        await accounts.add_user(user, role=f"r/{user}", prefix="/p/")
        await accounts.grant_role(user, role=f"r/{user}")
    for _ in range(2):
        await accounts.remove_user(user, role=f"r/{user}")


async def test_a_role_is_granted_to_an_existing_user(accounts: EtcdAuth, user: str) -> None:
    with pytest.raises(RequestRejected, match="not found"):
        await accounts.grant_role(user, role="nothing")


async def test_the_administrator_is_one_of_the_users(accounts: EtcdAuth) -> None:
    assert ROOT in await accounts.users()
    assert ROOT in await accounts.roles()


async def test_roles_and_permissions_can_be_read_and_revoked(accounts: EtcdAuth, user: str) -> None:
    role = f"r/{user}"
    await accounts.add_user(user, role=role, prefix="/p/")
    assert await accounts.roles_of(user) == {role}
    assert await accounts.permissions_of(role) == {of_folder("/p/")}
    for _ in range(2):
        await accounts.revoke_permission(role, of_folder("/p/"))
        await accounts.revoke_role(user, role)
    assert await accounts.permissions_of(role) == frozenset()
    assert await accounts.roles_of(user) == frozenset()


async def test_a_deleted_role_is_revoked_from_its_users(accounts: EtcdAuth, user: str) -> None:
    await accounts.add_user(user, role=f"r/{user}", prefix="/p/")
    for _ in range(2):
        await accounts.delete_role(f"r/{user}")
    assert await accounts.roles_of(user) == frozenset()
    for _ in range(2):
        await accounts.delete_user(user)


async def test_an_unknown_user_has_no_roles(accounts: EtcdAuth, user: str) -> None:
    assert await accounts.roles_of(user) == frozenset()
    assert await accounts.permissions_of(user) == frozenset()
    assert not await accounts.probe_password(user)
    await accounts.change_password(user, "secret")


async def test_our_users_have_no_password(accounts: EtcdAuth, user: str) -> None:
    await accounts.add_user(user, role=f"r/{user}", prefix="/p/")
    assert not await accounts.probe_password(user)
    await accounts.change_password(user, "secret")
    assert not await accounts.probe_password(user)
