"""The memory of a zygote and of workers that wait: first to go, measured, and ended when memory is short."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from elasticjob_agent.host.memory import MemoryUsage, is_first_to_go
from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.warm_start.memory_monitor import MemoryMonitor
from testing.waiting import aeventually
from tests.integration.warm_start.conftest import MakeNode
from tests.integration.warm_start.warm_node import WarmNode

MIB, GIB = 1 << 20, 1 << 30
_OWN_SCORE = Path("/proc/self/oom_score_adj").read_text().strip()
_SHOW_SCORE = "import decimal; print('value', os.environ['ROUND'], open('/proc/self/oom_score_adj').read(), flush=True)"
_LOSE_THE_FILE = " sys.modules['elasticjob_warm_start.oom_score']._FILE = '/proc/self/absent'"
_LARGE = (
    "import sys, time\nif 'elasticjob_warm_start.prefork' in sys.modules:\n"
    "    DATA = bytearray(b'x') * (100 << 20)\n    time.sleep(1)"
)
_SHORT = MemoryUsage(total=8 * GIB, left=GIB // 4)
_REASON = "memory is short: 256 MiB of 8.0 GiB are left"


class Machine:
    """A container whose memory and kill counter the test sets."""

    def __init__(self, folder: Path) -> None:
        self.memory = MemoryUsage(total=8 * GIB, left=4 * GIB)
        self._folder = folder
        self.kills = OomCounter(folder)
        self.monitor = MemoryMonitor(self.kills, lambda: self.memory)
        self.set_kills(0)
        self.kills.take_baseline()

    def set_kills(self, count: int) -> None:
        (self._folder / "memory.events").write_text(f"oom_kill {count}\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def node(make_node: MakeNode, machine: Machine) -> WarmNode:
    return make_node(memory=machine.monitor)


async def start_and_wait(node: WarmNode) -> None:
    """Start cold workers, and wait until a worker waits for each."""
    node.script(_SHOW_SCORE)
    await node.start()
    await node.forked_ahead()


# --- the first to go ---------------------------------------------------------------------------------------------


async def test_who_waits_is_the_first_to_go_and_a_running_worker_is_not(node: WarmNode) -> None:
    await start_and_wait(node)
    zygote = node.zygote()
    assert all(map(is_first_to_go, [zygote, *node.waiting()]))
    assert all(await node.restart())
    await aeventually(lambda: node.values() == [_OWN_SCORE] * 2)
    assert is_first_to_go(zygote)


async def test_a_worker_that_cannot_restore_its_score_is_started_cold(
    node: WarmNode, sentences: Callable[[], list[str]]
) -> None:
    node.package("lose_the_file", "import sys\nif 'elasticjob_warm_start.prefork' in sys.modules:" + _LOSE_THE_FILE)
    node.script("import lose_the_file, decimal")
    await node.start()
    await node.forked_ahead()
    assert await node.restart() == [False, False]
    await node.ran()
    assert "No such file" in sentences()[-1]


async def test_a_kill_of_a_zygote_is_no_evidence_about_a_worker(node: WarmNode, machine: Machine) -> None:
    await start_and_wait(node)
    machine.set_kills(1)
    os.kill(node.zygote(), signal.SIGKILL)
    await aeventually(lambda: not machine.kills.has_grown())
    machine.set_kills(2)
    assert machine.kills.has_grown()


async def test_a_kill_of_a_waiting_worker_is_no_evidence_about_another(node: WarmNode, machine: Machine) -> None:
    await start_and_wait(node)
    machine.set_kills(1)
    os.kill(node.waiting()[0], signal.SIGKILL)
    await aeventually(lambda: not machine.kills.has_grown())
    machine.set_kills(2)
    assert machine.kills.has_grown()


async def test_what_the_agent_itself_ends_takes_no_evidence_away(node: WarmNode, machine: Machine) -> None:
    await start_and_wait(node)
    machine.set_kills(1)
    await node.starter.close()
    assert machine.kills.has_grown()


# --- short of memory ---------------------------------------------------------------------------------------------


async def test_a_zygote_ends_when_memory_is_short(
    node: WarmNode, machine: Machine, sentences: Callable[[], list[str]]
) -> None:
    await start_and_wait(node)
    await aeventually(lambda: machine.monitor.used > 0)
    waiting = node.waiting()
    machine.memory = _SHORT
    await aeventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in waiting))
    assert not any(child.ended for child in node.children)
    assert await node.restart() == [False, False]
    await node.ran()
    assert node.starter.reason == _REASON
    assert sentences() == [f"not warm: {_REASON}"]


async def test_no_zygote_is_built_while_memory_is_short(node: WarmNode, machine: Machine) -> None:
    machine.memory = _SHORT
    node.script()
    await node.start()
    await node.settled()
    assert not await _any_warm(node)
    assert node.starter.reason == f"the zygote could not be built: {_REASON}"
    machine.memory = MemoryUsage(total=8 * GIB, left=4 * GIB)
    await node.restart()
    await node.forked_ahead()
    assert all(await node.restart())


async def test_imports_over_their_limit_are_repeated_once_more_memory_is_left(node: WarmNode, machine: Machine) -> None:
    _import_too_much(node, machine)
    await node.start()
    await node.settled()
    assert node.starter.reason == "the first workers record their imports"
    assert not await _any_warm(node)
    await node.ran()
    limit = "the imports take more than 20 MiB, which is half of the memory that was left"
    assert node.starter.reason == f"the zygote could not be built: {limit}"
    await node.settled()
    machine.memory = MemoryUsage(total=8 * GIB, left=4 * GIB)
    await node.restart()
    await node.forked_ahead()
    assert all(await node.restart())


async def test_imports_over_their_limit_are_not_repeated_in_as_little_memory(node: WarmNode, machine: Machine) -> None:
    _import_too_much(node, machine)
    for _ in range(3):
        await node.restart()
        await node.settled()
    await node.restart()
    assert node.starter.reason == "the zygote could not be built: 449 MiB of 8.0 GiB are left; the imports take 25 MiB"


def _import_too_much(node: WarmNode, machine: Machine) -> None:
    """Let the imports take more than half of what is left above the reserve."""
    machine.memory = MemoryUsage(total=8 * GIB, left=8 * GIB // 20 + 40 * MIB)
    node.package("large", _LARGE)
    node.script("import large, decimal")


async def _any_warm(node: WarmNode) -> bool:
    return any(await node.restart())
