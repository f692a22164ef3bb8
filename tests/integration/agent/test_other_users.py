"""Nodes that meet on one machine, and another user who tries to end their job or to offer a false etcd."""

import os
import stat
from pathlib import Path

import pytest

from elasticjob_api.exit_codes import ExitCode
from testing.processes import other_user
from testing.waiting import eventually
from tests.integration.agent.agents import Agents

pytestmark = [pytest.mark.etcd, other_user.needs_root]

LINES = {
    "c10d": "--nnodes 2 --rdzv-id j --rdzv-backend c10d --rdzv-endpoint localhost:{port}",
    "static": "--nnodes 2 --rdzv-id j --master-addr 127.0.0.1 --master-port {port} --node-rank {rank}",
}


@pytest.mark.parametrize("backend", ["c10d", "static"])
def test_another_user_cannot_reach_the_etcd_of_a_job_on_this_machine(
    backend: str, agents: Agents, port: int, tmp_path: Path, open_folder: Path
) -> None:
    wait = f"while ! [ -e {tmp_path}/go ]; do sleep 0.05; done"
    for rank in (0, 1):
        agents.start(*LINES[backend].format(port=port, rank=rank).split(), "--no-python", "sh", "-c", wait)
    eventually(lambda: all("are running" in agents.output(n) for n in (0, 1)), within_s=60, what="both run")
    ports = [f"{host}:{number}" for host in ("127.0.0.1", "[::1]") for number in (port, port + 1)]
    sockets = [f"unix:{path}" for path in open_folder.rglob("client:0")]
    reached = other_user.deletes_all(*ports, *sockets)
    (tmp_path / "go").touch()
    assert (agents.ends(), reached) == ([0, 0], [])
    assert sockets


@pytest.mark.parametrize("backend", ["c10d", "static"])
def test_the_server_of_another_user_at_the_port_is_not_used(backend: str, agents: Agents, port: int) -> None:
    with other_user.listening(port if backend == "c10d" else port + 1):
        for rank in (0, 1):
            line = LINES[backend].format(port=port, rank=rank).split()
            agents.start(*line, "--rdzv-conf", "join_timeout=20", "--no-python", "true")
        assert agents.ends() == [0, 0], agents.output(0)


@pytest.mark.parametrize("trap", ["folder", "link", "file"])
def test_a_folder_that_another_user_prepared_is_refused_with_the_cure(
    trap: str, agents: Agents, port: int, open_folder: Path, tmp_path: Path
) -> None:
    place = open_folder / "own"
    if trap == "folder":
        place.mkdir(mode=0o700)
        os.chown(place, other_user.UID, other_user.UID)
    elif trap == "link":
        place.symlink_to(tmp_path)
    else:
        place.touch()
    agents.start(*LINES["c10d"].format(port=port).split(), "--no-python", "true")
    assert agents.ends() == [ExitCode.USAGE]
    output = agents.output(0)
    assert str(place) in output
    assert "remove it, or name another one in ELASTICJOB_SOCKET_DIR for all nodes of this machine" in output


def test_the_folder_is_only_accessible_to_its_user(agents: Agents, port: int, open_folder: Path) -> None:
    agents.start(*LINES["c10d"].replace("2", "1:2", 1).format(port=port).split(), "--no-python", "true")
    assert agents.ends() == [0]
    found = [each for each in open_folder.rglob("*") if each.is_dir()]
    assert [stat.S_IMODE(each.stat().st_mode) for each in found] == [0o700, 0o700]
