"""A variable that only some ranks or rounds set: an import of a warm worker sees it, or the log has a line."""

from collections.abc import Callable

import pytest

from testing.waiting import aeventually
from tests.integration.warm_start.shown import SHOW, shown, shown_cold_and_warm
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]
_TRAP = "import os\nvalue = os.environ.get('FOO')"
_LOOP = "import os\nvalue = {name: each for name, each in os.environ.items() if name.startswith('FOO')}"
_DENIED = "not preloaded: trap (reads FOO, which the script has set or removed before)"
_UNKNOWN = "not warm: a worker sets FOO, which no recorded worker has set, and an import may have read it"
_IN_RANK_1 = "if os.environ['RANK'] == '1': os.environ['FOO'] = '1'"
_LATER_ROUNDS = "if os.environ['ROUND'] != '1': os.environ['FOO'] = '1'"


@pytest.mark.parametrize("trap", [_TRAP, _LOOP], ids=["by its name", "in a loop"])
async def test_an_import_sees_a_variable_that_only_another_rank_sets(
    node: WarmNode, sentences: Sentences, trap: str
) -> None:
    node.package("trap", trap)
    cold, warm = await shown_cold_and_warm(
        node, f"import decimal\n{_IN_RANK_1}\nimport trap, fractions", "bool(trap.value)"
    )
    assert cold == warm == ["False", "True"]
    assert sentences() == [_DENIED]


async def test_a_variable_that_another_rank_sets_after_the_imports_is_no_reason(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("trap", _TRAP)
    cold, warm = await shown_cold_and_warm(
        node, f"import decimal, trap, fractions\n{_IN_RANK_1}\nimport wave", "trap.value"
    )
    assert cold == warm == ["None", "None"]
    assert sentences() == []


async def test_an_import_in_a_thread_of_another_rank_is_left_to_each_worker(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("trap", "import threading\nvalue = threading.current_thread() is threading.main_thread()")
    in_thread = (
        "import threading\n"
        "def load(): import trap\n"
        "if os.environ['RANK'] == '1':\n    each = threading.Thread(target=load)\n    each.start()\n    each.join()\n"
        "else: import trap\n"
    )
    cold, warm = await shown_cold_and_warm(node, f"{in_thread}import trap, fractions", "trap.value")
    assert cold == warm == ["True", "False"]
    assert sentences() == ["not preloaded: trap (is imported in a thread or a greenlet)"]


@pytest.mark.parametrize("trap", [_TRAP, _LOOP], ids=["by its name", "in a loop"])
async def test_after_a_variable_of_later_rounds_the_next_round_is_cold_and_then_right(
    node: WarmNode, sentences: Sentences, trap: str
) -> None:
    node.package("trap", trap)
    imports = f"import decimal\n{_LATER_ROUNDS}\nimport trap, fractions"
    await shown_cold_and_warm(node, imports, "bool(trap.value)")
    await node.forked_ahead()
    assert await node.restart() == [False, False]
    assert await shown(node) == ["True", "True"]
    await node.forked_ahead()
    assert await node.restart() == [True, True], node.starter.reason
    assert await shown(node) == ["True", "True"]
    assert sentences() == [_UNKNOWN, _DENIED]


async def test_a_variable_that_warm_workers_set_after_the_recorded_ones_is_no_reason(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("trap", _LOOP)
    node.script(
        "import decimal, trap, fractions" + SHOW.format("trap.value"),
        end="os.environ['FOO'] = '1'\nprint('set', os.environ['ROUND'], flush=True)\nwhile True: time.sleep(1)",
    )
    for number in (1, 2, 3):
        is_warm = [number > 1] * 2
        assert await node.start() == is_warm, node.starter.reason
        await aeventually(lambda: node.console.lines.count(f"set {node.round}") == 2, what="a variable in each worker")
        await node.forked_ahead()
        await node.stop()
    assert sentences() == []


@pytest.mark.parametrize(
    "change",
    [
        "os.environ['FOO'] = 'given'",
        "os.environ['RANK'] = os.environ['ROUND'] = '7'",
        "pid = os.fork()\nif pid == 0:\n    os.environ['FOO'] = '1'\n    os._exit(0)\nos.waitpid(pid, 0)",
        "os.environ['TF_CPP_MIN_LOG_LEVEL'] = '1'",
    ],
    ids=["the same value", "a variable of the rank", "by a child process", "for lines of a log"],
)
async def test_no_reason(node: WarmNode, sentences: Sentences, change: str) -> None:
    node.env["FOO"] = "given"
    node.package("trap", _LOOP)
    script = "import decimal, trap, fractions" + SHOW.format("trap.value") + "if os.environ['ROUND'] != '1':\n"
    node.script(script + "".join(f"    {line}\n" for line in change.splitlines()))
    for number in (1, 2, 3):
        assert await node.start() == [number > 1] * 2, node.starter.reason
        await shown(node)
        await node.forked_ahead()
        await node.stop()
    assert sentences() == []


async def test_a_variable_that_libraries_read_in_c_of_later_rounds_is_a_reason(node: WarmNode) -> None:
    script = "import decimal\nif os.environ['ROUND'] != '1': os.environ['OMP_NUM_THREADS'] = '1'\nimport fractions"
    await shown_cold_and_warm(node, script, "1")
    await node.forked_ahead()
    assert await node.restart() == [False, False]
    assert "OMP_NUM_THREADS" in node.starter.reason
    await shown(node)
    await aeventually(lambda: node.starter._reasons.refusal, what="a reason")
    assert "sets OMP_NUM_THREADS" in node.starter._reasons.refusal
