"""The report about the start of a node's workers: warm or cold, why, and the time to the first output."""

from dataclasses import replace

import pytest

from elasticjob_agent.supervisor import Child, Command, FileSink, Inherit, LineSink, Null, Sink
from elasticjob_agent.workers.start_observer import StartObserver
from elasticjob_api.records import StartReport

LINES = LineSink(path=None, prefix=b"", write=lambda _: None)
COMMAND = Command(name="rank 0", argv=("true",), env={}, cwd=None, stdout=LINES, stderr=LINES)
STARTED_NS = 10**18


def child(*, warm: bool, started_ns: int = STARTED_NS) -> Child:
    made = Child(COMMAND, number=1, pumps=[])
    made.is_warm = warm
    made.started(pid=1, wall_ns=started_ns)
    return made


def written(sink: Sink) -> None:
    """Read the first byte of a stream."""
    assert isinstance(sink, LineSink)
    assert sink.on_first_byte is not None
    sink.on_first_byte()


def observer(now_ns: int = STARTED_NS) -> StartObserver:
    return StartObserver(lambda: now_ns, lambda: None)


async def test_all_workers_are_warm() -> None:
    assert observer().report([child(warm=True)] * 2, "") == StartReport(warm=2)


async def test_all_workers_are_cold_for_one_reason() -> None:
    assert observer().report([child(warm=False)] * 2, "FOO differs") == StartReport(warm=0, cold_reason="FOO differs")


async def test_a_warm_start_that_fell_back_to_a_cold_one_has_a_reason() -> None:
    report = observer().report([child(warm=True), child(warm=False)], "")
    assert report == StartReport(warm=1, cold_reason="a worker that was forked ahead has ended")


async def test_a_long_reason_is_cut() -> None:
    assert len(observer().report([child(warm=False)], "x" * 10_000).cold_reason) == 256


@pytest.mark.parametrize("name", ["stdout", "stderr"])
async def test_the_first_byte_of_any_stream_of_any_worker_counts_from_the_first_start(name: str) -> None:
    calls: list[None] = []
    now_ns = STARTED_NS + 190_400_000
    observed = StartObserver(lambda: now_ns, lambda: calls.append(None))
    first, second = observed.observe(COMMAND), observed.observe(replace(COMMAND, name="rank 1"))
    children = [child(warm=True), child(warm=True, started_ns=STARTED_NS + 10**8)]
    assert observed.report(children, "").first_output_s is None
    written(getattr(second, name))
    now_ns += 10**9
    written(first.stdout)
    assert (observed.report(children, "").first_output_s, len(calls)) == (0.19, 1)


@pytest.mark.parametrize("stdout", [Inherit(), Null(), FileSink(path=__file__)])  # type: ignore[arg-type]
def test_a_worker_whose_stdout_the_agent_does_not_see_is_not_timed(stdout: Sink) -> None:
    command = replace(COMMAND, stdout=stdout)
    assert observer().observe(command) is command


async def test_a_wall_clock_that_was_set_back_gives_no_negative_time() -> None:
    observed = observer(STARTED_NS - 10**9)
    written(observed.observe(COMMAND).stdout)
    assert observed.report([child(warm=True)], "").first_output_s == 0.0
