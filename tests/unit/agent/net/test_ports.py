"""The port of rank 0: outside of the ephemeral range, held until its worker binds it, reserved for the round."""

import contextlib
import gc
import itertools
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from elasticjob_agent.net import ports
from elasticjob_agent.net.ports import (
    FixedPort,
    ReservedPort,
    candidates,
    ephemeral_range,
    free_port,
    is_taken,
)

HOST = "127.0.0.1"


@pytest.fixture
def port() -> Iterator[ReservedPort]:
    made = ReservedPort(HOST)
    yield made
    made.close()


def can_bind(number: int, *, reuse: bool) -> bool:
    with closing(socket.socket()) as other:
        if reuse:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind((HOST, number))
        except OSError:
            return False
        return True


def test_a_held_port_cannot_be_bound_without_reuseaddr(port: ReservedPort) -> None:
    assert not can_bind(port.acquire(), reuse=False)


def test_a_released_port_can_be_bound_and_listened_on(port: ReservedPort) -> None:
    number = port.acquire()
    port.release()
    with closing(socket.socket()) as worker:
        worker.bind((HOST, number))
        worker.listen()


def test_each_round_has_a_new_port_and_releases_the_last(port: ReservedPort) -> None:
    first, second = port.acquire(), port.acquire()
    assert first != second
    assert can_bind(first, reuse=False)


def test_a_port_in_use_is_skipped() -> None:
    with closing(socket.socket()) as taken:
        taken.bind((HOST, 0))
        taken.listen()
        busy = taken.getsockname()[1]
        free = ReservedPort(HOST)
        wanted = free.acquire()
        free.close()
        choices = iter([busy, busy, wanted])
        made = ReservedPort(HOST, lambda _low, _high: next(choices))
        assert made.acquire() == wanted
        made.close()


def test_if_every_choice_is_in_use_the_kernel_chooses() -> None:
    with closing(socket.socket()) as taken:
        taken.bind((HOST, 0))
        taken.listen()
        made = ReservedPort(HOST, lambda _low, _high: int(taken.getsockname()[1]))
        assert made.acquire() != taken.getsockname()[1]
        made.release()


def test_an_address_that_is_not_of_this_host_still_gets_a_port() -> None:
    made = ReservedPort("192.0.2.1")
    assert made.acquire() > 0
    made.release()


def test_an_ipv6_address_gets_a_port_too() -> None:
    made = ReservedPort("::1")
    assert made.acquire() > 0
    made.release()


@pytest.mark.parametrize("is_released", [False, True])
def test_another_agent_cannot_choose_a_held_or_a_released_port(port: ReservedPort, *, is_released: bool) -> None:
    held = port.acquire()
    if is_released:
        port.release()
    choices = iter(range(held, held + 100))
    other = ReservedPort(HOST, lambda _low, _high: next(choices))
    assert other.acquire() > held
    other.close()


def test_a_launch_does_not_choose_the_port_of_an_agent(port: ReservedPort) -> None:
    held = port.acquire()
    port.release()
    choices = iter(range(held, held + 100))
    with ReservedPort(pick=lambda _low, _high: next(choices)) as other:
        assert other.acquire() > held


def test_a_garbage_collected_port_is_free_again(port: ReservedPort) -> None:
    held = port.acquire()
    port.close()
    forgotten = ReservedPort(HOST, lambda _low, _high: held)
    assert forgotten.acquire() == held
    del forgotten
    gc.collect()
    assert ReservedPort(HOST, lambda _low, _high: held).acquire() == held


def test_a_second_release_has_no_effect(port: ReservedPort) -> None:
    port.acquire()
    port.release()
    port.release()


def test_a_port_on_which_a_process_listens_is_taken() -> None:
    with socket.create_server((HOST, 0)) as server:
        number = server.getsockname()[1]
        assert is_taken(number)
    assert not is_taken(number)


def test_a_port_that_is_held_is_taken_until_its_release(port: ReservedPort) -> None:
    number = port.acquire()
    assert is_taken(number)
    port.release()
    assert not is_taken(number)


def test_a_fixed_port_is_the_same_in_every_round_and_held_until_its_release() -> None:
    with socket.create_server((HOST, 0)) as server:
        number = server.getsockname()[1]
    with FixedPort(HOST, number) as fixed:
        assert [fixed.acquire(), fixed.acquire()] == [number, number]
        assert not can_bind(number, reuse=False)
        fixed.release()
        assert can_bind(number, reuse=False)


def test_a_fixed_port_in_use_is_left_to_the_worker() -> None:
    with socket.create_server((HOST, 0)) as server, FixedPort(HOST, server.getsockname()[1]) as fixed:
        assert fixed.acquire() == server.getsockname()[1]


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
        number = reserved.acquire()
        for reuse in (False, True):
            with pytest.raises(OSError, match="in use"):
                _bind(number, reuse=reuse)
        reserved.release()
        _bind(number)


def test_k_002_08_a_reserved_port_is_outside_the_ephemeral_range() -> None:
    first, last = ephemeral_range()
    with ReservedPort() as reserved:
        assert not first <= reserved.acquire() <= last


def test_b_002_05_other_launches_still_avoid_a_released_port() -> None:
    with ReservedPort() as reserved:
        number = reserved.acquire()
        reserved.release()
        turns = iter([number, 21000, 21001, 21002])
        with ReservedPort(pick=lambda _low, _high: next(turns)) as other:
            assert other.acquire() != number


def test_a_user_with_all_reservations_does_not_prevent_a_launch_of_another() -> None:
    with contextlib.ExitStack() as other_user:

        def pick_reserved(_low: int, _high: int) -> int:
            taken = other_user.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            number = next(numbers)
            with contextlib.suppress(OSError):  # another process of this host has reserved it
                taken.bind(f"\0elasticjob-port-{number}")
            return number

        numbers = itertools.count(20000)
        with ReservedPort(pick=pick_reserved) as reserved:
            assert reserved.acquire() > 0


def test_the_last_resort_needs_no_reservation(port: ReservedPort) -> None:
    number = port.acquire()
    assert ports._reservation(number, is_required=False) == []
    with pytest.raises(OSError, match="in use"):
        ports._reservation(number, is_required=True)


def test_b_002_05_a_closed_port_can_be_reserved_again() -> None:
    with ReservedPort() as reserved:
        number = reserved.acquire()
    with ReservedPort(pick=lambda _low, _high: number) as again:
        assert again.acquire() == number


def test_rank_0_can_bind_a_released_port_of_which_a_copy_is_still_open() -> None:
    with ReservedPort() as reserved:
        number = reserved.acquire()
        copy = os.dup(reserved._sockets[0].fileno())
        try:
            reserved.release()
            _bind(number, reuse=True)
        finally:
            os.close(copy)


def test_rank_0_can_bind_a_released_port_of_which_a_fork_has_a_copy() -> None:
    with ReservedPort() as reserved:
        number = reserved.acquire()
        there, here = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(here, b".")
            signal.pause()
        os.read(there, 1)
        try:
            reserved.release()
            _bind(number)
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
    with ReservedPort() as reserved:
        number = reserved.acquire()
        with ReservedPort(pick=lambda _low, _high: number) as other:
            assert other.acquire() != number


@pytest.mark.parametrize("text", ["", "none at all", "1024"])
def test_an_unreadable_ephemeral_range_is_linux_s_usual_one(tmp_path: Path, text: str) -> None:
    file = tmp_path / "ip_local_port_range"
    file.write_text(text)
    assert ephemeral_range(file) == (32768, 60999)
