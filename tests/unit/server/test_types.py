"""Records of workers and their groups; the spec and its validation; entrypoint names; macros."""

import functools
import pickle
import subprocess
import sys
from typing import Any

import pytest

from elasticjob_agent.multiprocessing import Std
from elasticjob_agent.server import RunResult, Worker, WorkerGroup, WorkerSpec, WorkerState
from tests.unit.server.agents import spec


class CallMe:
    def __call__(self) -> None: ...

    def method(self) -> None: ...


def function() -> None: ...


def test_b_004_01_specification_has_the_documents_order_and_defaults() -> None:
    made = WorkerSpec("r", 2, None, None, "cmd", ("a",), 5, 2.0, 29500, "host", Std.OUT, Std.ERR)
    assert (made.args, made.max_restarts, made.monitor_interval, made.master_port) == (("a",), 5, 2.0, 29500)
    assert (made.master_addr, made.redirects, made.tee) == ("host", Std.OUT, Std.ERR)
    least = WorkerSpec("r", 1, None, entrypoint="cmd")
    assert (least.args, least.max_restarts, least.monitor_interval) == ((), 3, 30.0)
    assert (least.master_port, least.master_addr, least.redirects, least.tee) == (None, None, Std.NONE, Std.NONE)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("local_addr", None),
        ("event_log_handler", "null"),
        ("numa_options", None),
        ("duplicate_stdout_filters", None),
        ("duplicate_stderr_filters", None),
        ("virtual_local_rank", False),
    ],
)
def test_b_004_01_newer_fields_go_by_keyword_only(name: str, default: object) -> None:
    assert getattr(WorkerSpec("r", 1, None, entrypoint="cmd"), name) == default
    made = WorkerSpec("r", 1, None, entrypoint="cmd", **{name: "x"})  # type: ignore[arg-type]
    assert getattr(made, name) == "x"
    too_many: Any = ("r", 1, None, None, "cmd", (), 3, 1.0, None, None, Std.NONE, Std.NONE, "x")
    with pytest.raises(TypeError, match="positional"):
        WorkerSpec(*too_many)


WRONG = [
    {"local_world_size": 0},
    {"local_world_size": -1},
    {"monitor_interval": 0},
    {"monitor_interval": -1},
    {"entrypoint": None},
    {"entrypoint": ""},
    {"max_restarts": -1},
]


REFUSED = """
from elasticjob_agent.server import WorkerSpec
for fields in WRONG:
    try:
        WorkerSpec("r", rdzv_handler=None, **{"local_world_size": 1, "entrypoint": "x", **fields})
    except Exception as error:
        print(type(error).__name__)
print(__debug__)
"""


@pytest.mark.parametrize("fields", WRONG, ids=str)
def test_b_004_02_invalid_specs_are_assertion_errors(fields: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=r"must be|needs"):
        spec(**fields)


def test_b_004_02_validation_also_works_without_assertions() -> None:
    command = [sys.executable, "-O", "-c", f"WRONG = {WRONG}{REFUSED}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["AssertionError"] * len(WRONG) + ["False"], done.stderr


def test_b_004_02_fn_warns_and_overrides_the_entrypoint() -> None:
    with pytest.warns(DeprecationWarning, match="use entrypoint"):
        made = WorkerSpec("r", 1, None, fn=function, entrypoint="cmd")
    assert made.entrypoint is function


@pytest.mark.parametrize(
    ("entrypoint", "name"),
    [
        pytest.param("/opt/bin/train.py", "train.py", id="path"),
        pytest.param("echo", "echo", id="bare command"),
        pytest.param(function, "function", id="function"),
        pytest.param(CallMe().method, "CallMe.method", id="method"),
        pytest.param(lambda: None, "<lambda>", id="lambda"),
        pytest.param(functools.partial(functools.partial(function)), "function", id="partial"),
        pytest.param(CallMe(), "CallMe", id="callable object"),
    ],
)
def test_b_004_03_entrypoints_have_sensible_names(entrypoint: Any, name: str) -> None:
    assert spec(entrypoint=entrypoint).get_entrypoint_name() == name


def test_b_004_04_new_group_has_local_ranks_and_nothing_else_yet() -> None:
    group = WorkerGroup(spec(local_world_size=3))
    assert [(w.local_rank, w.global_rank, w.role_rank, w.id) for w in group.workers] == [
        (rank, -1, -1, None) for rank in range(3)
    ]
    assert group.state is WorkerState.INIT
    assert {group.store, group.group_rank, group.group_world_size, group.master_addr, group.master_port} == {None}
    with pytest.raises(AttributeError):
        group.other = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("state", WorkerState)
def test_b_004_04_only_healthy_and_unhealthy_workers_run(state: WorkerState) -> None:
    assert WorkerState.is_running(state) == (state.value in {"HEALTHY", "UNHEALTHY"})
    assert (state.value, len(WorkerState)) == (state.name, 7)


def test_b_004_04_worker_as_text() -> None:
    worker = Worker(1, 5, 3, 8, 4)
    assert str(worker) == repr(worker) == "local_rank=1,global_rank=5,role_rank=3,world_size=8,role_world_size=4"


def test_records_survive_pickle() -> None:
    worker = Worker(1, 5, 3, 8, 4)
    worker.id = 77
    assert str(pickle.loads(pickle.dumps(worker))) == str(worker)
    assert pickle.loads(pickle.dumps(worker)).id == 77
    assert pickle.loads(pickle.dumps(WorkerState.FAILED)) is WorkerState.FAILED
    result = RunResult(WorkerState.SUCCEEDED, {0: "x"})
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize("state", WorkerState)
def test_result_is_failed_in_state_failed_only(state: WorkerState) -> None:
    assert RunResult(state).is_failed() == (state is WorkerState.FAILED)
    assert RunResult(state).return_values is not RunResult(state).return_values
