"""The port of rank 0: its range, and its reservation."""

import errno
import os
import signal
import socket
from pathlib import Path

import pytest

from elasticjob_agent.launch import _port, free_port
from elasticjob_agent.launch._port import ReservedPort
from elasticjob_agent.net import master_port, ports
from elasticjob_agent.net.master_port import MasterPort
from elasticjob_agent.net.ports import candidates, ephemeral_range


def _bind(port: int, *, reuse: bool = False) -> None:
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        bound.bind(("127.0.0.1", port))


def test_b_002_22_a_hundred_free_ports_can_each_be_bound_at_once() -> None:
    for _ in range(100):
        port = free_port()
        assert 0 < port < 65536
        _bind(port)


def test_k_002_08_a_reserved_port_cannot_be_bound_until_it_is_released() -> None:
    with ReservedPort() as reserved:
        for reuse in (False, True):
            with pytest.raises(OSError, match="in use"):
                _bind(reserved.number, reuse=reuse)
        reserved.release()
        _bind(reserved.number)


def test_k_002_08_a_reserved_port_is_outside_the_ephemeral_range() -> None:
    first, last = ephemeral_range()
    with ReservedPort() as reserved:
        assert not first <= reserved.number <= last


def test_b_002_05_other_launches_still_avoid_a_released_port() -> None:
    with ReservedPort() as reserved:
        reserved.release()
        turns = iter([reserved.number, 21000, 21001, 21002])
        with ReservedPort(lambda _low, _high: next(turns)) as other:
            assert other.number != reserved.number


def test_a_user_with_all_reservations_does_not_prevent_a_launch_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(_number: int) -> socket.socket:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    for module in (ports, master_port, _port):
        monkeypatch.setattr(module, "reserve", taken)
    with ReservedPort() as reserved:
        assert reserved.number > 0
    master = MasterPort("127.0.0.1")
    assert master.acquire() > 0
    master.close()


def test_b_002_05_a_closed_port_can_be_reserved_again() -> None:
    with ReservedPort() as reserved:
        pass
    with ReservedPort(lambda _low, _high: reserved.number) as again:
        assert again.number == reserved.number


def test_rank_0_can_bind_a_released_port_of_which_a_copy_is_still_open() -> None:
    with ReservedPort() as reserved:
        copy = os.dup(reserved._sockets[0].fileno())
        try:
            reserved.release()
            _bind(reserved.number, reuse=True)
        finally:
            os.close(copy)


def test_rank_0_can_bind_a_released_port_of_which_a_fork_has_a_copy() -> None:
    with ReservedPort() as reserved:
        there, here = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(here, b".")
            signal.pause()
        os.read(there, 1)
        try:
            reserved.release()
            _bind(reserved.number)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(there)
            os.close(here)


@pytest.mark.parametrize(
    ("ephemeral", "bounds"), [((32768, 60999), (20000, 32767)), ((1024, 60999), (61000, 65535)), ((20000, 65535), None)]
)
def test_candidates_lie_below_the_ephemeral_range_or_above_it_or_nowhere(
    ephemeral: tuple[int, int], bounds: tuple[int, int] | None
) -> None:
    asked: list[tuple[int, int]] = []

    def choose(low: int, high: int) -> int:
        asked.append((low, high))
        return low

    assert all(low <= port <= high for port, (low, high) in zip(candidates(ephemeral, choose), asked, strict=False))
    assert set(asked) == ({bounds} if bounds else set())


def test_a_port_is_found_even_if_all_candidates_are_taken() -> None:
    with ReservedPort() as reserved, ReservedPort(lambda _low, _high: reserved.number) as other:
        assert other.number != reserved.number


@pytest.mark.parametrize("text", ["", "none at all", "1024"])
def test_an_unreadable_ephemeral_range_is_linux_s_usual_one(tmp_path: Path, text: str) -> None:
    file = tmp_path / "ip_local_port_range"
    file.write_text(text)
    assert ephemeral_range(file) == (32768, 60999)
