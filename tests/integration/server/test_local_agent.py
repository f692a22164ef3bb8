"""One agent with real processes: the environment of its workers, the translation of their ends, and leftovers."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.host.numa import AffinityMode, NumaOptions, cpu_bindings
from elasticjob_agent.multiprocessing import DefaultLogsSpecs, PContext, ProcessFailure, Std
from elasticjob_agent.multiprocessing.errors import ChildFailedError, record
from elasticjob_agent.rendezvous.errors import RendezvousClosedError
from elasticjob_agent.rendezvous.interface import RendezvousInfo, RendezvousStoreInfo
from elasticjob_agent.rendezvous.job_rendezvous import LocalFailure
from elasticjob_agent.rendezvous.store import InMemoryStore
from elasticjob_agent.server import (
    LocalElasticAgent,
    RunResult,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
    local_elastic_agent,
)
from elasticjob_agent.server._uninterruptible import UninterruptibleMonitor
from elasticjob_agent.server.ranks import _RoleInstanceInfo
from tests.integration.server import entrypoints
from tests.integration.server.fleet import alive
from tests.unit.rendezvous.handlers import Job
from tests.unit.server.agents import Rounds


def agent(
    tmp_path: Path, entrypoint: Any, *args: Any, handler: Any = None, limits: Any = None, **fields: Any
) -> LocalElasticAgent:
    """Return an agent that would check its workers once an hour, if their ends did not wake it."""
    chosen = {"role": "trainer", "local_world_size": 2, "monitor_interval": 3600.0, "max_restarts": 0, **fields}
    spec = WorkerSpec(rdzv_handler=handler or Rounds(), entrypoint=entrypoint, args=args, **chosen)
    return LocalElasticAgent(spec, log_dir=str(tmp_path / "logs"), **(limits or {}))


def all_ended(made: LocalElasticAgent) -> bool:
    """Return whether no worker of the last round is a process any more."""
    return not any(Path(f"/proc/{worker.id}").exists() for worker in made.get_worker_group().workers)


def test_b_004_09_and_b_004_21_functions_get_their_ranks_and_their_values_are_returned(tmp_path: Path) -> None:
    result = agent(tmp_path, entrypoints.environment, limits={"start_method": "fork"}).run()
    assert [value["RANK"] for value in result.return_values.values()] == ["0", "1"]
    assert {
        value["WORLD_SIZE"] + value["MASTER_PORT"] + value["ROLE_NAME"] for value in result.return_values.values()
    } == {"229500trainer"}


def test_b_004_10_arguments_reach_functions_and_commands_verbatim(tmp_path: Path) -> None:
    args = ("${local_rank}", "$HOME", "100%", "$$", "${x}", 7)
    result = agent(tmp_path / "a", entrypoints.echo, *args).run()
    assert result.return_values == {rank: (str(rank), "$HOME", "100%", "$$", "${x}", 7) for rank in range(2)}
    agent(tmp_path / "b", "echo", *args, redirects=Std.ALL).run()
    outputs = sorted(path.read_text() for path in (tmp_path / "b").rglob("stdout.log"))
    assert outputs == [f"{rank} $HOME 100% $$ ${{x}} 7\n" for rank in range(2)]


def test_b_004_21_commands_and_scripts_give_none(tmp_path: Path) -> None:
    assert agent(tmp_path, "true").run().return_values == {0: None, 1: None}
    script = tmp_path / "train.py"
    script.write_text("import os; print(os.environ['RANK'])")
    made = agent(tmp_path, sys.executable, str(script), redirects=Std.OUT)
    assert made.run().state is WorkerState.SUCCEEDED
    assert sorted(path.read_text() for path in tmp_path.rglob("stdout.log")) == ["0\n", "1\n"]


def test_b_004_17_and_b_004_18_a_killed_worker_restarts_all_with_the_same_restart_count(tmp_path: Path) -> None:
    result = agent(tmp_path, entrypoints.killed_once, max_restarts=2, tee={}).run()
    values = result.return_values.values()
    assert [(v["RANK"], v["TORCHELASTIC_RESTART_COUNT"], v["WORLD_SIZE"]) for v in values] == [
        ("0", "1", "2"),
        ("1", "1", "2"),
    ]


def test_numa_options_of_the_spec_bind_the_workers(tmp_path: Path) -> None:
    options = NumaOptions(AffinityMode.EXCLUSIVE)
    result = agent(tmp_path, entrypoints.affinity, numa_options=options).run()
    assert result.return_values == dict(enumerate(cpu_bindings(options, 2)))


class Counting(LocalElasticAgent):
    checks = 0

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        self.checks += 1
        return super()._monitor_workers(worker_group)


def test_b_004_18_an_idle_agent_makes_no_check_until_its_workers_end(tmp_path: Path) -> None:
    job = Job(1, 1)
    spec = WorkerSpec("trainer", 2, job.bare_handler(), entrypoint="sleep", args=("0.3",), monitor_interval=3600)
    made = Counting(spec, log_dir=str(tmp_path))
    try:
        assert made.run().state is WorkerState.SUCCEEDED
        assert made.checks in {1, 2}  # on a busy machine the two workers do not end at once
    finally:
        job.close()


class RecordingAgent(LocalElasticAgent):
    """Records which workers live when the failure is reported to the job, and lets the other one end."""

    def __init__(self, spec: WorkerSpec, folder: Path) -> None:
        super().__init__(spec, log_dir=str(folder / "logs"))
        self.folder = folder
        self.reported: list[tuple[int, int, str]] = []
        self.lived: list[int] = []

    def _failures_for_job(self, result: RunResult) -> Sequence[LocalFailure]:
        failures = super()._failures_for_job(result)
        self.reported += [(each.local_rank, each.exit_code, each.message) for each in failures]
        self.lived += [w.local_rank for w in self.get_worker_group().workers if alive(w.id)]
        (self.folder / "reported").touch()
        return failures


def test_b_004_38_and_k_004_04_a_failure_is_reported_to_the_job_while_its_siblings_still_run(tmp_path: Path) -> None:
    job = Job(1, 1, max_restarts=0)
    entrypoint = entrypoints.first_fails_and_the_other_stops_slowly
    spec = WorkerSpec("trainer", 2, job.bare_handler(), entrypoint=entrypoint, args=(str(tmp_path),), max_restarts=0)
    made = RecordingAgent(spec, tmp_path)
    try:
        result = made.run()
    finally:
        job.close()
    assert made.reported == [(0, 1, "ValueError: no more data")]
    assert 1 in made.lived
    assert list(result.failures) == [0]
    assert all_ended(made)


class SecondOfTwo(Rounds):
    """This node is the second; the first one has four workers and has ended."""

    def next_rendezvous(self) -> RendezvousInfo:
        store = InMemoryStore()
        store.set("torchelastic/role_info0", _RoleInstanceInfo("trainer", 0, 4).serialize())
        store.add("torchelastic/agent/terminal_state/num_members", 1)
        return RendezvousInfo(store, 1, 2, RendezvousStoreInfo("host", 29500))


def test_b_004_20_values_and_failures_are_by_global_rank(tmp_path: Path) -> None:
    made = agent(tmp_path, entrypoints.environment, handler=SecondOfTwo())
    assert list(made.run().return_values) == [4, 5]
    result = agent(tmp_path, entrypoints.first_fails, handler=SecondOfTwo()).run()
    assert (result.return_values, list(result.failures)) == ({}, [4])
    assert result.failures[4].exitcode == 1


def test_b_004_22_and_k_004_16_root_causes_error_file_is_copied_to_the_agents_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(own))

    @record
    def main() -> None:
        result = agent(tmp_path, entrypoints.first_fails).run()
        raise ChildFailedError("trainer", result.failures)

    with pytest.raises(ChildFailedError) as raised:
        main()
    rank, failure = raised.value.get_first_failure()
    assert (rank, failure.exit_code) == (0, 1)
    assert "ValueError: no more data" in own.read_text()


def test_b_004_23_error_at_the_second_rendezvous_leaves_no_worker(tmp_path: Path) -> None:
    handler = Rounds()
    handler.errors[2] = RendezvousClosedError("closed")
    made = agent(tmp_path, entrypoints.first_fails, handler=handler, max_restarts=3)
    with pytest.raises(RendezvousClosedError):
        made.run()
    assert all_ended(made)


def test_b_004_24_command_that_is_missing_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no-such-trainer"):
        agent(tmp_path, "no-such-trainer").run()


def test_b_004_11_redirects_and_prefixes_of_the_older_form(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    template = "<${role_name} ${rank}/${local_rank} ${host}> "
    limits = {"log_line_prefix_template": template}
    agent(tmp_path, "sh", "-c", "echo hello; echo alas >&2", tee=Std.OUT, redirects=Std.ERR, limits=limits).run()
    shown = capfd.readouterr()
    assert sorted(shown.out.splitlines()) == [f"<trainer {rank}/{rank} ${{host}}> hello" for rank in range(2)]
    assert "alas" not in shown.err
    assert sorted(path.read_text() for path in tmp_path.rglob("stdout.log")) == ["hello\n"] * 2
    assert sorted(path.read_text() for path in tmp_path.rglob("stderr.log")) == ["alas\n"] * 2


def test_b_004_45_and_b_004_14_logs_of_every_start_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "outputs"
    folder.mkdir()
    handler = Rounds(waiting=[1, 1])
    made = agent(
        tmp_path,
        entrypoints.waits_for,
        str(folder),
        handler=handler,
        max_restarts=1,
        monitor_interval=0.05,
        redirects=Std.ALL,
    )

    def on_round(number: int) -> None:
        if number == 3:  # after two changes of membership: a failure
            (folder / "fail.0").touch()
        if number == 4:
            (folder / "finish").touch()

    handler.on_round = on_round
    assert made.run().state is WorkerState.SUCCEEDED
    attempts = {path.parent.parent.name for path in tmp_path.rglob("stdout.log")}
    assert attempts == {"attempt_0", "attempt_0.1", "attempt_0.2", "attempt_1"}
    assert made._restart_count == 1


class RecordedCloses:
    """Records the arguments with which contexts were closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        real: Callable[..., PContext] = vars(local_elastic_agent)["start_processes"]

        def spied(**kwargs: Any) -> PContext:
            context = real(**kwargs)
            close = context.close

            def spied_close(*args: Any, **named: Any) -> None:
                self.calls.append(args)
                close(*args, **named)

            context.close = spied_close  # type: ignore[method-assign]
            return context

        monkeypatch.setattr(local_elastic_agent, "start_processes", spied)


def test_b_004_43_shutdown_time_out_reaches_the_context_unchanged_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = RecordedCloses(monkeypatch)
    made = agent(tmp_path, entrypoints.environment, limits={"shutdown_timeout": 17})
    before = signal.getsignal(signal.SIGTERM)
    made.run()
    assert [call for call in closed.calls if call] == [(signal.SIGTERM, 17)]  # the context closes itself, too
    assert signal.getsignal(signal.SIGTERM) is before


def test_b_004_44_worker_that_hangs_in_the_kernel_ends_the_agent_without_a_restart(tmp_path: Path) -> None:
    handler = Rounds()
    made = agent(tmp_path, entrypoints.sleeps, str(tmp_path), handler=handler, max_restarts=3)
    made._uninterruptible = UninterruptibleMonitor(0.05, clock=_clock(), is_uninterruptible=lambda _: True)
    result = made.run()
    assert (result.is_failed(), made._remaining_restarts, handler.rounds) == (True, 0, 1)
    assert all_ended(made)


def _clock() -> Callable[[], float]:
    import time  # noqa: PLC0415 - only here

    return time.monotonic


def test_ids_that_are_not_the_pids_are_an_unknown_group(tmp_path: Path) -> None:
    made = agent(tmp_path, "sleep", "600")
    group = made.get_worker_group()
    made._rendezvous(group)
    made._start_workers(group)
    assert made._monitor_workers(group).state is WorkerState.UNKNOWN
    made._shutdown()


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        pytest.param((), {}, id="nothing"),
        pytest.param(("fork", 5, None, "t"), {}, id="older, by place"),
        pytest.param((DefaultLogsSpecs(), "fork", 5, "t", 7), {}, id="newer, by place"),
        pytest.param((), {"logs_specs": DefaultLogsSpecs(), "shutdown_timeout": 7}, id="newer, by name"),
    ],
)
def test_both_forms_of_the_constructor_are_accepted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    made = LocalElasticAgent(WorkerSpec("r", 1, Rounds(), entrypoint="x"), *args, **kwargs)
    assert made._start_method == (args[-3] if len(args) == 5 else "fork" if args else "spawn") or args
    assert made._log_line_prefix_template == ("t" if args else None)
    assert made._exit_barrier_timeout == (5 if args else 300)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        pytest.param((), {"logs_specs": DefaultLogsSpecs(), "log_dir": "x"}, id="both forms"),
        pytest.param(("fork",), {"start_method": "fork"}, id="doubled"),
        pytest.param((), {"colour": "red"}, id="unknown"),
        pytest.param(("fork", 5, None, "t", 1), {}, id="too many"),
    ],
)
def test_the_constructor_refuses_arguments_of_no_form(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="LocalElasticAgent"):
        LocalElasticAgent(WorkerSpec("r", 1, Rounds(), entrypoint="x"), *args, **kwargs)


def test_k_004_16_failure_has_an_exit_code() -> None:
    assert ProcessFailure(0, 1, 7, "<N/A>").exit_code == 7


def test_agents_handlers_and_environment_are_as_before_the_run(tmp_path: Path) -> None:
    before, environment = signal.getsignal(signal.SIGTERM), dict(os.environ)
    agent(tmp_path, "true").run()
    assert (signal.getsignal(signal.SIGTERM), dict(os.environ)) == (before, environment)


def test_b_004_41_local_methods_are_profiled_by_their_own_class() -> None:
    for name in ("_start_workers", "_stop_workers", "_monitor_workers"):
        assert getattr(LocalElasticAgent, name).__qualname__ == f"LocalElasticAgent.{name}"
        assert hasattr(getattr(LocalElasticAgent, name), "__wrapped__")
