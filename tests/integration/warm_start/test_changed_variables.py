"""A variable that only some ranks or rounds set: an import of a warm worker sees it, or the log has a line."""

import logging
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


_MANY = "for n in range(40): os.environ[f'A_LONG_NAME_OF_A_VARIABLE_OF_THE_SCRIPT_{n}'] = os.environ['ROUND']"


async def test_known_variables_leave_room_for_one_of_later_rounds(node: WarmNode, sentences: Sentences) -> None:
    node.package("loops", _LOOP)
    node.package("trap", _TRAP)
    imports = f"import decimal, loops\n{_MANY}\n{_LATER_ROUNDS}\nimport trap, fractions"
    await shown_cold_and_warm(node, imports, "bool(trap.value)")
    await node.forked_ahead()
    assert await node.restart() == [False, False]
    assert sentences() == [_UNKNOWN]
    await node.forked_ahead()
    assert await node.restart() == [True, True], node.starter.reason
    assert await shown(node) == ["True", "True"]


async def test_more_variables_of_later_rounds_than_can_be_noted_are_a_reason_once(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("loops", _LOOP)
    node.package("trap", _TRAP)
    name = "X" * 2000  # as large as the memory of a worker
    later = _LATER_ROUNDS.replace(" os.environ['FOO']", f" os.environ[{name!r}] = os.environ['FOO']")
    imports = f"import decimal, loops\n{later}\nimport trap, fractions"
    await shown_cold_and_warm(node, imports, "bool(trap.value)")
    await node.forked_ahead()
    assert await node.restart() == [False, False]
    assert sentences() == [_UNKNOWN.replace("FOO", "more variables than can be noted")]
    await node.forked_ahead()
    assert await node.restart() == [True, True], node.starter.reason
    assert await shown(node) == ["True", "True"]


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


_LATE = """
import decimal
if os.environ['RANK'] == '1':
    while not os.path.exists({mark!r}): time.sleep(0.01)
    {change}
import trap, fractions
"""


async def _start_with_a_late_rank(node: WarmNode, change: str) -> None:
    """Start a script in which rank 1 makes this change and imports `trap` after the zygote was built."""
    mark = node.folder / "mark"
    node.script(_LATE.format(mark=str(mark), change=change) + SHOW.format("trap.value"))
    await node.start()
    await node.forked_ahead()
    mark.touch()
    await shown(node)


async def _shown_warm_after_a_late_rank(node: WarmNode, change: str, *, at_once: bool = False) -> list[str]:
    """Return what two warm workers show after that."""
    await _start_with_a_late_rank(node, change)
    if at_once:
        assert await node.restart() == [False, False]
        assert node.starter.reason == "a worker has set or imported FOO since the imports were repeated"
        await shown(node)
    await aeventually(lambda: _knows_all(node) or node.starter._reasons.refusal, what="a zygote that knows all")
    await node.forked_ahead()
    assert await node.restart() == [True, True], node.starter.reason
    return await shown(node)


def _knows_all(node: WarmNode) -> bool:
    ready, recording = node.starter._zygote.ready, node.starter._recording
    is_ready = ready is not None and not node.starter._zygote.is_building
    return is_ready and ready is not None and recording is not None and not ready.find_change(recording)


@pytest.mark.parametrize("at_once", [False, True], ids=["the zygote is replaced", "the next round is cold"])
async def test_a_variable_that_another_rank_sets_after_the_zygote_was_built_counts(
    node: WarmNode, sentences: Sentences, *, at_once: bool
) -> None:
    node.package("trap", _TRAP)
    assert await _shown_warm_after_a_late_rank(node, "os.environ['FOO'] = '1'", at_once=at_once) == ["None", "1"]
    assert _DENIED in sentences()


async def test_a_context_of_another_rank_after_the_zygote_was_built_counts(node: WarmNode) -> None:
    node.package("trap", "import threading\nvalue = threading.current_thread() is threading.main_thread()")
    change = "import threading; each = threading.Thread(target=__import__, args=('trap',)); each.start(); each.join()"
    assert await _shown_warm_after_a_late_rank(node, change) == ["True", "False"]


async def test_code_of_the_user_that_another_rank_finds_after_the_zygote_was_built_counts(node: WarmNode) -> None:
    node.package("trap", "value = 'none'\ntry:\n    import own\n    value = 'own'\nexcept ImportError: pass")
    (node.folder / "own").mkdir()
    (node.folder / "own" / "own.py").touch()
    assert await _shown_warm_after_a_late_rank(node, f"sys.path.append({str(node.folder / 'own')!r})") == [
        "none",
        "own",
    ]


async def test_a_variable_that_libraries_read_in_c_of_another_rank_after_the_zygote_was_built_is_a_reason(
    node: WarmNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="elasticjob_agent")
    node.package("trap", "value = 1")
    await _start_with_a_late_rank(node, "os.environ['OMP_NUM_THREADS'] = '1'")
    await aeventually(
        lambda: "the later imports itself: the script or a package sets OMP_" in caplog.text, what="a build"
    )
    assert await node.restart() == [False, False]
    assert "imported OMP_NUM_THREADS since" in node.starter.reason
    await shown(node)
    await aeventually(lambda: node.starter._reasons.refusal, what="a reason for all rounds")
    assert node.starter._reasons.refusal.startswith("the script or a package sets OMP_NUM_THREADS")


async def test_a_module_that_only_one_rank_imports_is_no_reason(node: WarmNode, sentences: Sentences) -> None:
    """Rank 0 imports it before a package sets a variable, as with TensorBoard and gRPC."""
    node.package("board", "import wave")
    node.package("sets", "import os\nos.environ['OMP_NUM_THREADS'] = '1'")
    imports = "import decimal\nif os.environ['RANK'] == '0': import board\nimport sets, fractions"
    cold, warm = await shown_cold_and_warm(node, imports, "os.environ['OMP_NUM_THREADS']")
    assert cold == warm == ["1", "1"]
    assert sentences() == []


async def test_an_import_while_os_environ_is_another_object_is_left_to_each_worker(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("trap", _TRAP)
    imports = "import decimal\nos.environ = dict(os.environ, FOO='1')\nimport trap, fractions"
    cold, warm = await shown_cold_and_warm(node, imports, "trap.value")
    assert cold == warm == ["1", "1"]
    assert "not preloaded: trap (is imported while `os.environ` is another object)" in sentences()


async def test_variables_that_the_script_removes_for_a_time_are_no_reason(node: WarmNode, sentences: Sentences) -> None:
    """Accelerate does that: no import sees it."""
    node.package("trap", "import os\nvalue = os.environ.get('PATH') is not None")
    removal = "before = dict(os.environ)\nos.environ.clear()\nos.environ.update(before)"
    cold, warm = await shown_cold_and_warm(node, f"import decimal\n{removal}\nimport trap, fractions", "trap.value")
    assert cold == warm == ["True", "True"]
    await node.forked_ahead()
    assert await node.restart() == [True, True], node.starter.reason
    assert sentences() == []


async def test_a_package_that_looks_for_a_module_beside_the_script_is_imported_by_each_worker(
    node: WarmNode, sentences: Sentences
) -> None:
    value = "[find_spec(each) is not None for each in ('own', 'data', 'none')]"
    node.package("trap", f"from importlib.util import find_spec\nvalue = {value}")
    (node.work / "own.py").touch()
    (node.work / "data").mkdir()
    cold, warm = await shown_cold_and_warm(node, "import decimal, trap, fractions", "trap.value")
    assert cold == warm == ["[True, True, False]"] * 2
    [sentence] = sentences()
    assert sentence.startswith("not preloaded: trap (looks for ")


async def test_many_changes_take_little_time_of_a_recorded_worker(node: WarmNode) -> None:
    node.nproc = 1
    change = (
        "for number in range(3000): os.environ['V%d' % number] = '1'\n"
        "begin = time.process_time()\n"
        "for number in range(100_000): os.environ['FOO'] = str(number)\n"
        "plain = os.environ._data.__class__.__mro__[1](os.environ._data)\n"
        "middle = time.process_time()\n"
        "for number in range(100_000): plain[os.environ.encodekey('FOO')] = os.environ.encodevalue(str(number))\n"
        "took, expected = middle - begin, time.process_time() - middle"
    )
    node.script("import decimal\n" + change + SHOW.format("took < 50 * expected, took, expected"))
    await node.start()
    [line] = await shown(node)
    assert line.startswith("True"), line
