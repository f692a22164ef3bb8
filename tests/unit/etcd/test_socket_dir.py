"""The folder where nodes of one machine find an etcd: its owner, and the claim to start an etcd in it."""

import errno
import fcntl
import multiprocessing
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from elasticjob_etcd.errors import ServerError
from elasticjob_etcd.listening import Listening
from elasticjob_etcd.socket_dir import VARIABLE, answers, claim, port_folder, socket_dir
from testing.processes import other_user


@pytest.fixture
def folder(temporary_folder: Path, tmp_path: Path) -> Path:
    """Of a port; with a short path, since sockets lie below it."""
    found = port_folder(7, {VARIABLE: str(temporary_folder / f"s{abs(hash(tmp_path)):x}")})
    assert found is not None
    return found


def test_its_path_follows_from_user_and_network_whatever_else_the_environment_has() -> None:
    environment = {"TMPDIR": "/var/tmp", "XDG_RUNTIME_DIR": "/run/user/0", "HOME": "/nowhere"}
    network = Path("/proc/self/ns/net").stat().st_ino
    assert socket_dir(environment) == Path(f"/tmp/elasticjob-{os.geteuid()}-{network}")


def test_without_a_known_network_its_path_follows_from_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("elasticjob_etcd.socket_dir._NETWORK", tmp_path / "absent")
    assert socket_dir({}) == Path(f"/tmp/elasticjob-{os.geteuid()}")


@other_user.needs_root
def test_containers_of_one_user_that_share_tmp_and_no_network_do_not_meet() -> None:
    program = "from elasticjob_etcd.socket_dir import socket_dir; print(socket_dir({}))"
    unshare = shutil.which("unshare")
    assert unshare is not None
    output = subprocess.run(
        [unshare, "--net", sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    inside = Path(output.stdout.strip())
    assert inside.parent == Path("/tmp")
    assert inside != socket_dir({})


def test_it_is_made_for_its_user_alone_and_found_again(tmp_path: Path) -> None:
    named = {VARIABLE: str(tmp_path / "own")}
    first = port_folder(7, named)
    assert first == port_folder(7, named) == tmp_path / "own" / "7"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (first, first.parent)] == [0o700, 0o700]


def test_there_is_none_where_nodes_are_to_meet_at_the_port() -> None:
    assert port_folder(7, {VARIABLE: "none"}) is None


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_can_enter_is_refused(mode: int, tmp_path: Path) -> None:
    place = tmp_path / "own"
    place.mkdir()
    place.chmod(mode)
    with pytest.raises(ServerError, match=rf"others can enter it; chmod 700 {place}"):
        port_folder(7, {VARIABLE: str(place)})


@other_user.needs_root
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "own"
    place.mkdir(mode=0o700)
    os.chown(place, other_user.UID, other_user.UID)
    with pytest.raises(ServerError, match=r"it is the user's with uid 65534; remove it, or name another one in"):
        port_folder(7, {VARIABLE: str(place)})


def test_a_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "own").symlink_to(tmp_path / "mine")
    with pytest.raises(ServerError, match="remove it, or name another one in ELASTICJOB_SOCKET_DIR"):
        port_folder(7, {VARIABLE: str(tmp_path / "own")})


@pytest.mark.parametrize("name", ["a" * 100, "a,b", "a b"])
def test_a_path_that_no_socket_can_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="too long, or has strange characters"):
        port_folder(7, {VARIABLE: str(tmp_path / name)})


def test_one_at_a_time_has_the_claim(folder: Path) -> None:
    first = claim(folder)
    assert first is not None
    assert claim(folder) is None
    first.close()
    second = claim(folder)
    assert second is not None
    second.close()


def test_of_many_that_begin_together_one_has_the_claim(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    gate, over, found = context.Barrier(6), context.Event(), context.Queue()
    crew = [context.Process(target=_compete, args=(folder, gate, over, found)) for _ in range(6)]
    for each in crew:
        each.start()
    won = [found.get(timeout=60) for _ in crew]
    over.set()
    for each in crew:
        each.join(60)
    assert sorted(won) == [False] * 5 + [True]


def _compete(folder: Path, gate, over, found) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    gate.wait(60)
    mine = claim(folder)
    found.put(mine is not None)
    over.wait(60)


def test_the_claim_stays_with_the_process_that_was_given_it_and_ends_with_that(folder: Path) -> None:
    mine = claim(folder)
    assert mine is not None
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    with subprocess.Popen(command, pass_fds=(mine.descriptor,)) as heir:
        mine.close()
        assert claim(folder) is None
        heir.kill()
    again = claim(folder)
    assert again is not None
    again.close()


def test_a_child_that_is_forked_while_the_claim_is_held_does_not_keep_it(folder: Path) -> None:
    program = f"""
import os, pathlib
from elasticjob_etcd.socket_dir import claim
folder = pathlib.Path({str(folder)!r})
mine, (end, held), (begun, begins) = claim(folder), os.pipe(), os.pipe()
if not os.fork():
    os.close(held)
    os.write(begins, b"x")
    os.read(end, 1)
    os._exit(0)
os.read(begun, 1)
mine.close()
print(claim(folder) is not None)
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EBADF])
def test_a_folder_that_cannot_be_locked_is_refused_with_the_cure(
    number: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    cure = "name a folder of another file system in ELASTICJOB_SOCKET_DIR for all nodes of this machine"
    with pytest.raises(ServerError, match=rf"it cannot be locked \({os.strerror(number)}\); {cure}"):
        claim(folder)


async def test_sockets_of_one_that_was_killed_are_taken_away(folder: Path) -> None:
    path = Listening(folder).path
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    assert path.exists()
    assert not await answers(folder)
    mine = claim(folder)
    assert mine is not None
    mine.close()
    assert not path.exists()


def test_a_folder_that_was_cleaned_away_meanwhile_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else two could have a claim, one of them to a folder that no node finds."""
    real, cleaned = fcntl.flock, list[Path]()

    def clean_once(descriptor: int, operation: int) -> None:
        if not cleaned:
            cleaned.append(folder)
            folder.rmdir()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", clean_once)
    mine = claim(folder)
    assert mine is not None
    assert os.path.samestat(os.fstat(mine.descriptor), folder.stat())
    assert claim(folder) is None
    mine.close()
