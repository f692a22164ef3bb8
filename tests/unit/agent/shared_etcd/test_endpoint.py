"""The endpoint that a node dials, the folder in which nodes of a machine meet, and the node that may start the etcd."""

import fcntl
import logging
import os
import socket
from pathlib import Path

import pytest

from elasticjob_agent.errors import UsageError
from elasticjob_agent.shared_etcd import endpoint, listeners
from elasticjob_agent.shared_etcd.address import SharedEtcd
from elasticjob_agent.shared_etcd.endpoint import (
    find_endpoint,
    is_there,
    rendezvous_dir,
    try_claim,
    untrusted_reason,
)
from elasticjob_agent.shared_etcd.lifetime import shared_etcd
from elasticjob_etcd.errors import ServerError
from elasticjob_etcd.socket_dir import claim
from testing.processes import other_user


def place(host: str, port: int = 7, *, or_there: bool = False) -> SharedEtcd:
    return SharedEtcd(host=host, port=port, is_owner=None, or_there=or_there)


def test_an_existing_server_counts_only_if_the_caller_accepts_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mine:
        port = mine.getsockname()[1]
        assert is_there(place("127.0.0.1", port, or_there=True))
        assert not is_there(place("127.0.0.1", port))


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("192.0.2.1", False)],
)
def test_nodes_of_this_machine_have_a_folder_and_others_have_none(host: str, is_here: bool) -> None:  # noqa: FBT001
    assert (rendezvous_dir(place(host)) is not None) is is_here


def test_the_name_of_this_machine_has_a_folder_too() -> None:
    assert rendezvous_dir(place(socket.gethostname())) is not None


def test_without_a_folder_of_its_own_only_a_loopback_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise another user could stop jobs on several machines, too, by creating the folder first."""
    (tmp_path / "own").touch()
    monkeypatch.setitem(os.environ, "ELASTICJOB_SOCKET_DIR", str(tmp_path / "own"))
    assert rendezvous_dir(place("0.0.0.0")) is None  # an address of this machine
    with pytest.raises(UsageError, match="name another one in ELASTICJOB_SOCKET_DIR"):
        rendezvous_dir(place("localhost"))


async def test_a_joiner_on_this_machine_waits_until_a_server_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        here = place("127.0.0.1", probe.getsockname()[1], or_there=True)
        assert (await find_endpoint(here, within_s=60)).targets == (here.target,)
    assert (await find_endpoint(here, within_s=0.1)).targets == (f"unix:{rendezvous_dir(here)}/client:0",)


@other_user.needs_root
async def test_a_joiner_logs_that_another_users_etcd_is_not_trusted(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        here = place("127.0.0.1", probe.getsockname()[1], or_there=True)
    with other_user.listening(here.port), caplog.at_level(logging.WARNING):
        await find_endpoint(here, within_s=0.1)
    assert f"the server at {here.target} belongs to the user with uid 65534" in caplog.text
    assert "name the machine's address, or set ELASTICJOB_SOCKET_DIR=none" in caplog.text
    assert caplog.text.count(here.target) == 1


async def test_a_server_whose_owner_is_unknown_is_not_trusted_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listeners, "_rows", lambda: iter(()))
    with socket.create_server(("127.0.0.1", 0)) as there:
        here = place("127.0.0.1", there.getsockname()[1], or_there=True)
        reason = await untrusted_reason(here)
    assert reason.startswith(
        f"a server answers at {here.target}, but no listener there is known to belong to this user"
    )
    assert "name the machine's address, or set ELASTICJOB_SOCKET_DIR=none" in reason


async def test_there_is_no_reason_without_an_untrusted_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mine:
        port = mine.getsockname()[1]
        assert await untrusted_reason(place("127.0.0.1", port, or_there=True)) == ""
        assert await untrusted_reason(place("127.0.0.1", port)) == ""
    assert await untrusted_reason(place("127.0.0.1", port, or_there=True)) == ""


async def test_a_joiner_checks_four_times_a_second_after_the_first_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = list[SharedEtcd]()

    def look(place: SharedEtcd) -> bool:
        looks.append(place)
        return False

    monkeypatch.setattr(endpoint, "is_there", look)
    await find_endpoint(place("localhost", 11, or_there=True), within_s=2.0)
    assert len(looks) <= 27


async def test_a_folder_that_stays_locked_without_an_etcd_is_reported_with_the_cure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(endpoint, "_START_TIMEOUT_S", 0.1)
    here = place("localhost", 12)
    folder = rendezvous_dir(here)
    assert folder is not None
    held = claim(folder)
    assert held is not None
    message = rf"{folder}: another process locks it \(fuser {folder} shows which\)"
    with pytest.raises(ServerError, match=message):
        await try_claim(folder)
    with pytest.raises(UsageError, match=message):
        async with shared_etcd(here, tmp_path):
            pass
    held.close()


async def test_without_a_lock_only_an_owner_on_a_loopback_address_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with socket.create_server(("127.0.0.1", 0)) as mine:
        here = place("0.0.0.0", mine.getsockname()[1])
        async with shared_etcd(here, tmp_path) as reached:
            assert (reached.endpoint.targets, reached.server) == ((here.target,), None)
    assert "it cannot be locked (No locks available)" in caplog.text
    with pytest.raises(UsageError, match="it cannot be locked"):
        async with shared_etcd(place("localhost"), tmp_path):
            pass


async def test_a_joiner_of_an_address_for_all_machines_dials_the_port_without_a_socket_here() -> None:
    """An existing etcd may listen on another address than that of the loopback interface."""
    here = place("0.0.0.0", 9)
    assert (await find_endpoint(here, within_s=60)).targets == (here.target,)
    folder = rendezvous_dir(here)
    assert folder is not None
    with socket.socket(socket.AF_UNIX) as etcd:
        etcd.bind(str(folder / "client:0"))
        etcd.listen()
        assert (await find_endpoint(here, within_s=60)).targets == (f"unix:{folder}/client:0",)
    (folder / "client:0").unlink()
