"""The port of rank 0: held until its worker binds it, new in each round, outside of the ephemeral range."""

import gc
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from elasticjob_agent.launch._port import ReservedPort
from elasticjob_agent.net.master_port import MasterPort

HOST = "127.0.0.1"


@pytest.fixture
def port() -> Iterator[MasterPort]:
    made = MasterPort(HOST)
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


def ephemeral_range() -> range:
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    return range(low, high + 1)


def test_a_held_port_cannot_be_bound_without_reuseaddr(port: MasterPort) -> None:
    assert not can_bind(port.acquire(), reuse=False)


def test_a_released_port_can_be_bound_and_listened_on(port: MasterPort) -> None:
    number = port.acquire()
    port.release()
    with closing(socket.socket()) as worker:
        worker.bind((HOST, number))
        worker.listen()


def test_each_round_has_a_new_port_and_releases_the_last(port: MasterPort) -> None:
    first, second = port.acquire(), port.acquire()
    assert first != second
    assert can_bind(first, reuse=False)


def test_the_port_is_outside_of_the_ephemeral_range(port: MasterPort) -> None:
    assert port.acquire() not in ephemeral_range()


def test_a_port_in_use_is_skipped() -> None:
    with closing(socket.socket()) as taken:
        taken.bind((HOST, 0))
        taken.listen()
        busy = taken.getsockname()[1]
        free = MasterPort(HOST)
        wanted = free.acquire()
        free.close()
        choices = iter([busy, busy, wanted])
        made = MasterPort(HOST, lambda _low, _high: next(choices))
        assert made.acquire() == wanted
        made.close()


def test_if_every_choice_is_in_use_the_kernel_chooses() -> None:
    with closing(socket.socket()) as taken:
        taken.bind((HOST, 0))
        taken.listen()
        made = MasterPort(HOST, lambda _low, _high: int(taken.getsockname()[1]))
        assert made.acquire() != taken.getsockname()[1]
        made.release()


def test_an_address_that_is_not_of_this_host_still_gets_a_port() -> None:
    made = MasterPort("192.0.2.1")
    assert made.acquire() > 0
    made.release()


def test_an_ipv6_address_gets_a_port_too() -> None:
    made = MasterPort("::1")
    assert made.acquire() > 0
    made.release()


def test_another_agent_cannot_choose_a_held_port(port: MasterPort) -> None:
    held = port.acquire()
    choices = iter(range(held, held + 100))
    other = MasterPort(HOST, lambda _low, _high: next(choices))
    assert other.acquire() > held
    other.close()


def test_another_agent_cannot_choose_a_released_port(port: MasterPort) -> None:
    held = port.acquire()
    port.release()
    choices = iter(range(held, held + 100))
    other = MasterPort(HOST, lambda _low, _high: next(choices))
    assert other.acquire() > held
    other.close()


def test_a_launch_does_not_choose_the_port_of_an_agent(port: MasterPort) -> None:
    held = port.acquire()
    port.release()
    choices = iter(range(held, held + 100))
    with ReservedPort(lambda _low, _high: next(choices)) as other:
        assert other.number > held


def test_a_garbage_collected_port_is_free_again(port: MasterPort) -> None:
    held = port.acquire()
    port.close()
    forgotten = MasterPort(HOST, lambda _low, _high: held)
    assert forgotten.acquire() == held
    del forgotten
    gc.collect()
    assert MasterPort(HOST, lambda _low, _high: held).acquire() == held


def test_a_second_release_has_no_effect(port: MasterPort) -> None:
    port.acquire()
    port.release()
    port.release()


def test_a_port_is_taken_only_while_a_process_listens(port: MasterPort) -> None:
    with socket.create_server((HOST, 0)) as server:
        number = server.getsockname()[1]
        assert port.is_taken(number)
    assert not port.is_taken(number)


def test_a_port_that_is_only_held_is_not_taken(port: MasterPort) -> None:
    assert not port.is_taken(port.acquire())
