"""Rank 0 opens MASTER_PORT before the other ranks of its node start."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from elasticjob_agent.warm_start.head_start import HeadStart, has_listener
from elasticjob_agent.warm_start.limits import Limits
from testing.waiting import aeventually
from tests.integration.warm_start.conftest import MakeNode

_LONG_S = 60.0
_AT_ONCE_S = 0.0


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def bound(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """Return a socket with a port on which nothing listens yet."""
    with socket.socket(request.param) as sock:
        sock.bind(("", 0))
        yield sock


def _environment(sock: socket.socket, rank: int = 0) -> dict[str, str]:
    return {"RANK": str(rank), "MASTER_PORT": str(sock.getsockname()[1])}


def test_a_bound_port_has_a_listener_once_the_socket_listens(bound: socket.socket) -> None:
    port = bound.getsockname()[1]
    assert not has_listener(port)
    bound.listen()
    assert has_listener(port)


async def test_the_other_ranks_wait_until_the_port_is_open(bound: socket.socket) -> None:
    waits = asyncio.create_task(HeadStart(_LONG_S).after_first(_environment(bound)))
    done, _ = await asyncio.wait([waits], timeout=0.05)
    assert not done
    bound.listen()
    async with asyncio.timeout(_LONG_S):
        await waits


async def test_warm_workers_start_after_rank_0_has_opened_its_port(make_node: MakeNode, bound: socket.socket) -> None:
    node = make_node(limits=Limits(quiet_s=0.2, head_start_s=_LONG_S))
    node.script()
    node.nproc = 3
    node.env["MASTER_PORT"] = str(bound.getsockname()[1])
    assert await node.start() == [False, False, False]
    await node.forked_ahead()
    starts = asyncio.create_task(node.restart())
    await aeventually(lambda: len(node.run_files()) == 1 and node.round == 2, what="one worker of the second round")
    assert node.run_files()[0].startswith("2-0-")
    bound.listen()
    assert await starts == [True, True, True]
    await node.ran()


@pytest.mark.parametrize("environment", [{}, {"RANK": "0"}, {"RANK": "0", "MASTER_PORT": "none"}])
async def test_without_a_port_there_is_no_head_start(environment: dict[str, str]) -> None:
    head_start = HeadStart(_LONG_S)
    async with asyncio.timeout(_LONG_S / 2):
        await head_start.before_first(environment)
        await head_start.after_first(environment)


async def test_a_node_without_rank_0_waits_before_its_first_worker_alone(bound: socket.socket) -> None:
    head_start = HeadStart(_LONG_S)
    async with asyncio.timeout(_LONG_S / 2):
        await head_start.before_first(_environment(bound, rank=2))
        await head_start.after_first(_environment(bound, rank=2))


async def test_a_script_that_opens_no_port_is_waited_for_in_three_rounds(bound: socket.socket) -> None:
    head_start = HeadStart(_AT_ONCE_S)
    for _ in range(3):
        await head_start.after_first(_environment(bound))
    head_start._longest_s = _LONG_S
    async with asyncio.timeout(_LONG_S / 2):
        await head_start.after_first(_environment(bound))


async def test_a_port_that_opens_late_once_is_waited_for_again(bound: socket.socket) -> None:
    head_start = HeadStart(_AT_ONCE_S)
    for _ in range(2):
        await head_start.after_first(_environment(bound))
    head_start._longest_s = _LONG_S
    bound.listen()
    await head_start.after_first(_environment(bound))
    assert head_start._misses == 0
