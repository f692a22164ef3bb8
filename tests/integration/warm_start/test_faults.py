"""A zygote or a forked worker that is killed or stopped, in each phase: the script runs once a rank, with a reason."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.supervisor import (
    Child,
    Command,
    ForkServerLost,
    LineSink,
    StartError,
    Supervisor,
    hanging_fork_server,
)
from elasticjob_agent.supervisor.forkserver_client import ForkServerClient
from elasticjob_agent.warm_start.limits import Limits
from elasticjob_agent.workers.progress import ProgressFifo
from testing.processes.census import Census
from testing.waiting import aeventually, scaled
from tests.integration.warm_start.conftest import MakeNode
from tests.integration.warm_start.warm_node import FAST, WarmNode

Sentences = Callable[[], list[str]]


async def _forked(node: WarmNode) -> None:
    """Run the first round until workers wait for the second."""
    node.script()
    await node.start()
    await node.ran()
    await node.forked_ahead()


def _registers_stacks(pid: int) -> bool:
    """Whether this process catches the signal for stacks."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt:")]
    return bool(int(line.split()[1], 16) >> (signal.SIGURG - 1) & 1)


def _is_running(pid: int) -> bool:
    """Whether this process has not ended; the test may have become its parent, and does not reap it."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def _runs_warm(node: WarmNode) -> None:
    assert await node.restart() == [True] * node.nproc
    await node.ran()
    await node.forked_ahead()


async def _runs_cold(node: WarmNode) -> None:
    assert await node.restart() == [False] * node.nproc
    await node.ran()


async def test_an_idle_zygote_that_is_killed_is_built_again(node: WarmNode, sentences: Sentences) -> None:
    await _forked(node)
    os.kill(node.zygote(), signal.SIGKILL)
    assert await node.restart() == [True, True]  # its workers are no children of it
    await node.ran()
    await node.settled()
    await _runs_cold(node)
    await node.forked_ahead()
    await _runs_warm(node)
    assert sentences() == ["not warm: the zygote is gone: it has ended (killed by SIGKILL)"]


async def test_a_stopped_zygote_is_replaced(make_node: MakeNode, sentences: Sentences) -> None:
    node = make_node(limits=Limits(quiet_s=0.2, fork_s=1.0))
    await _forked(node)
    zygote = node.zygote()
    os.kill(zygote, signal.SIGSTOP)
    assert await node.restart() == [True, True]
    await node.ran()
    await _runs_cold(node)
    await node.settled()
    assert not psutil.pid_exists(zygote)
    node.starter._zygote._limits = FAST  # on a busy machine a fork takes longer than a second
    await _runs_cold(node)
    await node.forked_ahead()
    await _runs_warm(node)
    assert sentences() == [
        "not warm: not all workers are forked yet",
        "not warm: the zygote did not fork its workers within 1 s",
    ]


@pytest.mark.parametrize("hook", ["before", "after_in_parent"])
async def test_no_round_waits_for_a_zygote_that_stops_as_it_forks(
    node: WarmNode, sentences: Sentences, hook: str
) -> None:
    """It has taken the request, and stops before its fork, or before its answer."""
    mark = node.folder / "mark"
    node.package(
        "trap",
        "import os, signal\n"
        "def stop():\n"
        f"    try: pid = int(open({str(mark)!r}).read())\n"
        "    except OSError: return\n"
        "    if pid == os.getpid():\n"  # the processes that it forks call this, too, and one may do so first
        f"        os.remove({str(mark)!r})\n"
        "        os.kill(pid, signal.SIGSTOP)\n"
        f"os.register_at_fork({hook}=stop)\n",
    )
    node.script("import decimal, trap")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    zygote = psutil.Process(node.zygote())
    mark.with_name("draft").write_text(str(zygote.pid))
    mark.with_name("draft").rename(mark)
    assert await node.restart() == [True, True]
    await node.ran()
    await aeventually(lambda: zygote.status() == psutil.STATUS_STOPPED, what="the stop of the zygote")
    for _ in range(2):
        await _runs_cold(node)
        assert zygote.status() == psutil.STATUS_STOPPED
    assert sentences() == ["not warm: not all workers are forked yet"]
    zygote.resume()
    await node.forked_ahead()
    await _runs_warm(node)


async def test_a_round_while_a_worker_cannot_be_forked_is_cold(make_node: MakeNode, sentences: Sentences) -> None:
    """The second process of a fork hangs, so it reports nothing to the fork server."""
    node = make_node(limits=Limits(quiet_s=0.2, fork_s=1.0))
    mark = node.folder / "mark"
    node.package(
        "trap",
        "import os, time\ndepth = [0]\n"
        "def hang():\n    depth[0] += 1\n"
        f"    if depth[0] == 2 and os.path.exists({str(mark)!r}): time.sleep(1000)\n"
        "os.register_at_fork(after_in_child=hang)\n",
    )
    node.script("import decimal, trap")
    mark.touch()
    await node.start()
    await node.ran()
    await aeventually(lambda: node.starter._zygote.is_building, what="a build")
    await _runs_cold(node)
    await node.settled()
    await _runs_cold(node)
    assert sentences()[-1] == "not warm: the zygote did not fork its workers within 1 s"


async def test_a_waiting_worker_that_is_killed_is_a_cold_start(node: WarmNode, sentences: Sentences) -> None:
    await _forked(node)
    os.kill(node.waiting()[1], signal.SIGKILL)
    await aeventually(lambda: len(node.waiting()) == 1, what="the end of one")
    await _runs_cold(node)
    await node.forked_ahead()
    await _runs_warm(node)
    assert sentences() == ["not warm: a worker that was forked ahead: it has ended"]


async def test_a_worker_that_is_killed_just_before_its_command_is_started_cold(
    node: WarmNode, sentences: Sentences
) -> None:
    progress = ProgressFifo(node.folder / "progress")
    node.env["ELASTICJOB_PROGRESS"] = str(progress.path)
    await _forked(node)
    await node.stop()
    os.kill(node.waiting()[1], signal.SIGKILL)  # the loop does not run before the command is sent
    assert await node.start() == [True, False]
    await node.ran()
    assert [_registers_stacks(child.pid) for child in node.children] == [True, True]
    await node.forked_ahead()
    await _runs_warm(node)
    assert sentences() == ["not warm: the worker for rank 1: it has ended"]
    progress.close()


@pytest.mark.parametrize("stopped", [1, 2])
async def test_a_worker_that_hangs_as_it_starts_ends_the_warm_starts(
    node: WarmNode, sentences: Sentences, stopped: int
) -> None:
    await _forked(node)
    await node.stop()
    waiting = node.waiting()[:stopped]
    for pid in waiting:
        os.kill(pid, signal.SIGSTOP)
    warm = await node.start()
    assert sorted(warm) == [False] * stopped + [True] * (2 - stopped)
    await node.ran()
    assert not any(map(psutil.pid_exists, waiting))
    await node.settled()
    await _runs_cold(node)
    assert sentences()[-1] == "not warm: a worker that was forked ahead hung"
    assert node.waiting() == []


async def test_rounds_right_after_a_hanging_one_do_not_keep_the_zygote(node: WarmNode) -> None:
    await _forked(node)
    zygote = node.zygote()
    await node.stop()
    os.kill(node.waiting()[0], signal.SIGSTOP)
    await node.start()
    for _ in range(2):
        await node.stop()
        assert await node.start() == [False, False]
    await node.ran()
    await aeventually(lambda: not psutil.pid_exists(zygote), what="the end of the zygote", within_s=10)


async def test_a_start_during_the_close_begins_no_build(node: WarmNode) -> None:
    node.script()
    starting = asyncio.create_task(node.start())
    await asyncio.sleep(0)
    await node.starter.close()
    await starting
    assert node.starter._task is None


async def test_a_killed_fork_server_makes_one_cold_start(
    node: WarmNode, supervisor: Supervisor, sentences: Sentences
) -> None:
    await _forked(node)
    os.kill(supervisor.server_pid, signal.SIGKILL)
    await asyncio.wait([child.exit for child in node.children])
    await _runs_cold(node)
    await node.forked_ahead()
    await _runs_warm(node)
    assert sentences() == ["not warm: its fork server has ended"]


async def test_a_close_during_a_build_leaves_nothing(node: WarmNode, supervisor: Supervisor, census: Census) -> None:
    mark = node.folder / "mark"
    node.package("trap", f"import os, time\nwhile os.path.exists({str(mark)!r}): time.sleep(0.01)")
    node.script("import decimal, trap")
    await node.start()
    await node.ran()
    mark.touch()
    await aeventually(lambda: node.starter._zygote.is_building, what="a build")
    await node.stop()
    await node.starter.close()
    # A zygote that has been requested only just now ends with its socket.
    await aeventually(lambda: not census.found(besides=supervisor.server_pid), what="the end of the zygote")


async def test_a_close_leaves_nothing(node: WarmNode, supervisor: Supervisor, census: Census) -> None:
    await _forked(node)
    await node.stop()
    await node.starter.close()
    await node.starter.close()
    assert census.found(besides=supervisor.server_pid) == []
    assert (supervisor._children, supervisor._preforked) == ({}, {})


async def test_a_cancelled_start_leaves_nothing(node: WarmNode, supervisor: Supervisor, census: Census) -> None:
    await _forked(node)
    await node.stop()
    for pid in node.waiting():
        os.kill(pid, signal.SIGSTOP)
    starting = asyncio.create_task(node.start())
    await aeventually(lambda: len(supervisor._children) > 1, what="a request")
    starting.cancel()
    await asyncio.wait([starting])
    await node.starter.close()
    assert census.found(besides=supervisor.server_pid) == []
    assert supervisor._preforked == {}


async def test_a_start_that_fails_leaves_no_worker_that_was_forked_ahead(
    node: WarmNode, supervisor: Supervisor
) -> None:
    """The first of three cannot be started, so the others get no command."""
    node.nproc = 3
    await _forked(node)
    waiting, command = node.waiting(), node.command

    def with_log(argv: Sequence[str], rank: int) -> Command:
        return replace(command(argv, rank), stdout=LineSink(node.folder / "no" / "log", b"", node.console))

    node.command = with_log  # type: ignore[method-assign]
    with pytest.raises(StartError, match="cannot open"):
        await node.restart()
    await aeventually(lambda: not any(map(psutil.pid_exists, waiting)), what="the end of the workers")
    assert supervisor._preforked == {}


async def test_two_nodes_do_not_disturb_each_other(make_node: MakeNode, sentences: Sentences) -> None:
    nodes = [make_node(), make_node()]
    for node in nodes:
        await _forked(node)
    await nodes[0].stop()
    await nodes[0].starter.close()
    await _runs_warm(nodes[1])
    assert sentences() == []


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def test_many_warm_rounds_leave_nothing_behind(node: WarmNode, supervisor: Supervisor, census: Census) -> None:
    await _forked(node)
    before: list[int] = []
    for _ in range(10):
        await _runs_warm(node)
        await node.stop()
        held = [_descriptors(os.getpid()), _descriptors(supervisor.server_pid)]
        before = before or held
        assert held == before
        assert len(census.found(besides=supervisor.server_pid)) == 3  # the zygote and two that wait
        assert (len(supervisor._children), len(supervisor._preforked)) == (1, 2)
        await node.start()
        await node.ran()
        await node.forked_ahead()


async def test_each_start_that_differs_is_cold_and_names_the_difference(
    node: WarmNode, sentences: Sentences, tmp_path: Path
) -> None:
    await _forked(node)
    env = node.env
    node.env = {**env, "FOO": "1"}
    await _runs_cold(node)
    node.env = env
    await _runs_warm(node)
    script = node.work / "train.py"
    assert await node.restart(*node.argv(), "--epochs=1") == [False, False]
    await node.ran()
    await _runs_warm(node)
    node.cwd = str(tmp_path)
    await _runs_cold(node)
    node.cwd = str(node.work)
    await _runs_warm(node)
    script.write_text(script.read_text().replace("import decimal", "import decimal, fractions"))
    await _runs_warm(node)
    assert sentences() == [
        "not warm: FOO differs from what the modules were imported with",
        "not warm: its arguments differ from those of the first worker",
        "not warm: its working directory differs from that of the first worker",
    ]


async def test_a_file_beside_the_script_that_hides_a_module_is_a_cold_start(
    node: WarmNode, sentences: Sentences
) -> None:
    await _forked(node)
    (node.work / "decimal.py").write_text("print('value', __import__('os').environ['ROUND'], 'own', flush=True)")
    await _runs_cold(node)
    await aeventually(lambda: node.values() == ["own"] * 2, what="the own module")
    assert all("decimal" in sentence and "would hide" in sentence for sentence in sentences())
    assert sentences()


async def test_a_package_that_was_changed_since_is_a_cold_start(node: WarmNode, sentences: Sentences) -> None:
    node.package("trap", "value = 'old'")
    node.script("import decimal, trap\nprint('value', os.environ['ROUND'], trap.value, flush=True)")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    path = node.package("trap", "value = 'new'")
    os.utime(path, ns=(1, 1))  # whatever the resolution of the clock
    await _runs_cold(node)
    await aeventually(lambda: node.values() == ["new"] * 2, what="the new package")
    await node.forked_ahead()
    await _runs_warm(node)  # the zygote has repeated its imports, so no worker records them again
    await aeventually(lambda: node.values() == ["new"] * 2, what="the new package")
    assert len(sentences()) == 1
    assert "trap.py has changed since it was imported" in sentences()[0]


@pytest.mark.parametrize("read", ["open({!r}).read()", "__import__('pathlib').Path({!r}).read_text()"])
async def test_a_file_of_data_that_a_package_has_read_and_that_changed_is_a_cold_start(
    node: WarmNode, sentences: Sentences, read: str
) -> None:
    data = node.work / "settings.txt"
    data.write_text("old")
    node.package("trap", "value = " + read.format("settings.txt"))
    node.script("import decimal, trap\nprint('value', os.environ['ROUND'], trap.value, flush=True)")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    await _runs_warm(node)
    data.write_text("new")
    os.utime(data, ns=(1, 1))  # whatever the resolution of the clock
    await _runs_cold(node)
    await aeventually(lambda: node.values() == ["new"] * 2, what="the new data")
    await node.forked_ahead()
    await _runs_warm(node)
    await aeventually(lambda: node.values() == ["new"] * 2, what="the new data")
    assert sentences() == [f"not warm: {data} has changed since it was imported"]


async def test_code_that_a_package_reads_as_text_is_not_watched(node: WarmNode) -> None:
    """A package with many modules may read them all, and each worker would look at each of them."""
    code = node.package("unused", "value = 1")
    node.package("trap", f"value = open({str(code)!r}).read()")
    node.script("import decimal, trap")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    os.utime(code, ns=(1, 1))
    await _runs_warm(node)


async def test_data_that_a_package_writes_or_removes_keeps_no_start_cold(node: WarmNode) -> None:
    node.package(
        "trap",
        "import os\n"
        "open('count', 'a').close()\nvalue = len(open('count').read())\nopen('count', 'a').write('1')\n"
        "open('once', 'w').close()\nopen('once').close()\nos.remove('once')\n",
    )
    node.script("import decimal, trap")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    await _runs_warm(node)
    await _runs_warm(node)


async def test_a_package_that_changes_while_it_is_imported_ahead_is_imported_anew(node: WarmNode) -> None:
    mark, file = node.folder / "mark", node.packages / "trap.py"
    node.package(
        "trap",
        "import os\nvalue = 'old'\n"
        f"if os.path.exists({str(mark)!r}):\n    os.utime(__file__, ns=(1, 1))\n    os.remove({str(mark)!r})",
    )
    node.script("import decimal, trap\nprint('value', os.environ['ROUND'], trap.value, flush=True)")
    await node.start()
    await node.ran()
    await aeventually(lambda: len(node.values()) == node.nproc, what="the imports of all workers")
    mark.touch()
    await aeventually(lambda: file.stat().st_mtime_ns == 1, what="the change in the first zygote")
    await node.forked_ahead()  # by another one
    assert node.starter._builder._builds == 2
    await _runs_warm(node)


async def test_a_package_that_is_removed_is_imported_ahead_no_more(node: WarmNode) -> None:
    path = node.package("trap", "value = 'old'")
    node.script("import decimal\ntry:\n    import trap\nexcept ImportError:\n    pass")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    path.unlink()
    await _runs_cold(node)
    await node.forked_ahead()
    await _runs_warm(node)


async def test_a_stopped_fork_server_makes_one_cold_start(
    node: WarmNode, supervisor: Supervisor, sentences: Sentences
) -> None:
    await _forked(node)
    await node.stop()
    server = supervisor.server_pid
    os.kill(server, signal.SIGSTOP)
    assert await node.start() == [False, False]
    await node.ran()
    assert not psutil.pid_exists(server)
    await node.settled()
    await _runs_cold(node)
    await node.forked_ahead()
    await _runs_warm(node)
    assert sentences()[0] == "not warm: its fork server hung, and was killed"


async def test_a_fork_server_that_stops_during_a_round_leaves_no_worker_of_it(
    node: WarmNode, supervisor: Supervisor
) -> None:
    """The stop of the round reaches nothing, so its workers end with the fork server."""
    await _forked(node)
    before = [child.pid for child in node.children]
    os.kill(supervisor.server_pid, signal.SIGSTOP)
    await supervisor.stop(node.children, grace_s=0, reap_s=0.1)
    assert all(child.wedged for child in node.children)
    assert await node.start() == [False, False]
    await node.ran()
    await aeventually(lambda: not any(map(_is_running, before)), what="the end of the workers before")


async def test_a_fork_server_that_stops_while_workers_train_makes_one_cold_start(
    node: WarmNode, supervisor: Supervisor, sentences: Sentences
) -> None:
    await _forked(node)
    await _runs_warm(node)
    before = [child.pid for child in node.children]
    os.kill(supervisor.server_pid, signal.SIGSTOP)
    async with asyncio.timeout(scaled(30)):
        await supervisor.stop(node.children, grace_s=10_000.0)
    assert all(child.exit.result().stopped_by_us for child in node.children)
    assert await node.start() == [False, False]
    await node.ran()
    await aeventually(lambda: not any(map(_is_running, before)), what="the end of the workers before")
    await node.forked_ahead()
    await _runs_warm(node)
    assert sentences() == ["not warm: its fork server hung, and was killed"]


def _stop_after_first(supervisor: Supervisor) -> None:
    """Stop the fork server when it has done what the next request asks for, and nothing of the one after that."""
    request = supervisor._request

    async def request_and_stop(kind: str, client: ForkServerClient, command: Command, number: int) -> Child:
        supervisor._request = request  # type: ignore[method-assign]
        child = await request(kind, client, command, number)
        await client.end_if_hanging(within_s=scaled(30))  # its answer comes after what the request has asked for
        os.kill(client.pid, signal.SIGSTOP)
        return child

    supervisor._request = request_and_stop  # type: ignore[method-assign]


@pytest.mark.parametrize("nproc", [2, 4])
@pytest.mark.parametrize("warm", [True, False])
async def test_a_fork_server_that_stops_between_two_workers_makes_one_cold_start(
    make_node: MakeNode, supervisor: Supervisor, sentences: Sentences, *, warm: bool, nproc: int
) -> None:
    """No worker begins its script before all are forked, so all of them are started again, and each runs once."""
    node = make_node()
    node.nproc = nproc
    if warm:
        await _forked(node)
        await node.stop()
    else:
        node.script()
    server = supervisor.server_pid
    _stop_after_first(supervisor)
    assert await node.start() == [False] * nproc
    await node.ran()
    assert not psutil.pid_exists(server)
    await node.settled()
    if warm:
        await _runs_cold(node)
        assert sentences()[0] == "not warm: its fork server hung, and was killed"
    await node.forked_ahead()
    await _runs_warm(node)
    assert node.run_count() == node.round * nproc


@pytest.mark.parametrize("warm", [True, False])
async def test_a_fork_server_that_stops_after_the_start_of_a_worker_is_named(
    node: WarmNode, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, *, warm: bool
) -> None:
    """The first worker has begun its script, so this start fails; the next one runs each script once.

    The start does not wait until the time for the workers' own answers is over.
    """
    monkeypatch.setattr(hanging_fork_server, "START_S", 10_000.0)
    await _forked(node)
    await node.stop()
    ready = node.starter._zygote.ready
    assert ready
    server = supervisor.server_pid

    async def stop() -> None:
        os.kill(server, signal.SIGSTOP)

    node.round += 1
    commands = [node.command(node.argv(), rank) for rank in range(node.nproc)]
    with pytest.raises(ForkServerLost, match=r"rank \d: not started: the fork server hung, and was killed"):
        async with asyncio.timeout(scaled(30)):
            await supervisor.spawn(commands, ready.workers if warm else [], after_first=stop)
    assert not psutil.pid_exists(server)
    assert await node.start() == [False, False]
    await node.ran()
