"""The command line: torchrun's spellings and defaults, and one sentence for each mistake."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from elasticjob_agent import arguments
from elasticjob_agent.arguments import NodeRange, UsageError

NOBODY: Mapping[str, str] = {}


def parsed(*words: str, environment: Mapping[str, str] = NOBODY) -> dict[str, object]:
    return vars(arguments.build_parser(environment).parse_args(words))


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (("--nproc-per-node", "4"), "nproc_per_node", "4"),
        (("--nproc_per_node", "4"), "nproc_per_node", "4"),
        (("--nproc-per-node=auto",), "nproc_per_node", "auto"),
        (("--nnodes=2:4",), "nnodes", "2:4"),
        (("--rdzv_endpoint", "h:1"), "rdzv_endpoint", "h:1"),
        (("--rdzv-id=x",), "rdzv_id", "x"),
        (("--no_python",), "no_python", True),
        (("-m",), "module", True),
    ],
)
def test_both_spellings_of_torchrun_are_understood(words: tuple[str, ...], name: str, value: object) -> None:
    assert parsed(*words)[name] == value


def test_defaults_are_those_of_torchrun() -> None:
    said = parsed("train.py")
    expected = {"nnodes": "1:1", "nproc_per_node": "1", "max_restarts": "0", "rdzv_id": "none", "role": "default"}
    assert {name: said[name] for name in expected} == expected


def test_each_option_may_come_from_the_environment_and_the_command_line_wins() -> None:
    environment = {"PET_NNODES": "3", "PET_NPROC_PER_NODE": "2", "PET_RDZV_ID": "from-env"}
    said = parsed("--nnodes", "5", environment=environment)
    assert (said["nnodes"], said["nproc_per_node"], said["rdzv_id"]) == ("5", "2", "from-env")


def test_everything_after_the_script_is_its_own() -> None:
    said = parsed("--nnodes", "2", "train.py", "--nnodes", "9", "-m", "--", "--lr=1e-3")
    assert (said["nnodes"], said["module"], said["script"]) == ("2", False, "train.py")
    assert said["script_args"] == ["--nnodes", "9", "-m", "--", "--lr=1e-3"]


def test_an_unknown_option_is_refused_and_none_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--nproc", "2"], ["--colour", "blue"]):
        with pytest.raises(SystemExit) as exited:
            parsed(*words, "train.py")
        assert exited.value.code == 2
    assert "usage: elasticjob-agent" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "nodes"), [("1", NodeRange(1, 1)), ("2:4", NodeRange(2, 4)), ("3:", NodeRange(3, 3))])
def test_numbers_of_nodes(text: str, nodes: NodeRange) -> None:
    assert arguments.parse_nnodes(text) == nodes


SHAPE = "it must be MIN or MIN:MAX, as 2 or 2:4"
RANGE = "MIN must be at least 1 and at most MAX"


@pytest.mark.parametrize(
    ("text", "why"), [("", SHAPE), ("two", SHAPE), ("1:2:3", SHAPE), ("1.5", SHAPE), ("0", RANGE), ("4:2", RANGE)]
)
def test_numbers_of_nodes_that_are_none(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        arguments.parse_nnodes(text)
    assert str(refused.value) == f"--nnodes {text}: {why}"


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """Two GPUs, and devices that are none."""
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    return tmp_path


CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("text", "environment", "count"),
    [
        pytest.param("3", {}, 3, id="a number"),
        pytest.param("cpu", {}, CORES, id="cores"),
        pytest.param("gpu", {}, 2, id="GPUs"),
        pytest.param("auto", {}, 2, id="GPUs before cores"),
        pytest.param("auto", {"CUDA_VISIBLE_DEVICES": "3"}, 1, id="visible GPUs only"),
        pytest.param("gpu", {"CUDA_VISIBLE_DEVICES": "0, 1,GPU-abc"}, 3, id="by index or by name"),
        pytest.param("auto", {"CUDA_VISIBLE_DEVICES": ""}, CORES, id="hidden GPUs do not count"),
        pytest.param("auto", {"CUDA_VISIBLE_DEVICES": "-1"}, CORES, id="hidden by -1"),
    ],
)
def test_workers_of_this_node(text: str, environment: dict[str, str], count: int, devices: Path) -> None:
    assert arguments.parse_nproc(text, environment, devices) == count


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", ""])
def test_workers_that_are_no_number(text: str, devices: Path) -> None:
    with pytest.raises(UsageError, match="it must be a number from 1, auto, cpu or gpu"):
        arguments.parse_nproc(text, {}, devices)


def test_gpus_where_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no GPU here"):
        arguments.parse_nproc("gpu", {}, tmp_path)
    assert arguments.parse_nproc("auto", {}, tmp_path) == CORES


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("7", 7)])
def test_whole_numbers(text: str, number: int) -> None:
    assert arguments.parse_whole("max-restarts", text) == number


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x"])
def test_what_is_no_whole_number(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        arguments.parse_whole("max-restarts", text)
    assert str(refused.value) == f"--max-restarts {text}: it must be a whole number from 0"


@pytest.mark.parametrize(
    ("text", "conf"),
    [
        ("", {}),
        ("join_timeout=60", {"join_timeout": 60.0}),
        ("join_timeout=60, keep_alive=2.5,", {"join_timeout": 60.0, "keep_alive": 2.5}),
    ],
)
def test_rendezvous_settings(text: str, conf: dict[str, float]) -> None:
    assert arguments.parse_conf(text) == conf


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("join_timeout", "it must be KEY=SECONDS"),
        ("join_timeout=soon", "it must be KEY=SECONDS"),
        ("colour=1", "known keys are join_timeout, keep_alive, last_call_timeout"),
        ("=1", "known keys are join_timeout, keep_alive, last_call_timeout"),
    ],
)
def test_rendezvous_settings_that_are_none(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        arguments.parse_conf(text)
    assert str(refused.value) == f"--rdzv-conf {text}: {why}"


@pytest.mark.parametrize("text", ["keep_alive=nan", "join_timeout=inf", "last_call_timeout=-1"])
def test_seconds_that_are_no_time_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        arguments.parse_conf(text)


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("etcd:1234", ("etcd:1234",)),
        ("etcd", ("etcd:2379",)),
        ("10.0.0.1", ("10.0.0.1:2379",)),
        ("[fd00::1]:1234", ("[fd00::1]:1234",)),
        ("[fd00::1]", ("[fd00::1]:2379",)),
        ("a:1, b:2,", ("a:1", "b:2")),
    ],
)
def test_where_etcd_is(text: str, targets: tuple[str, ...]) -> None:
    assert arguments.parse_endpoint(text) == targets


@pytest.mark.parametrize("text", ["", " , "])
def test_nowhere(text: str) -> None:
    with pytest.raises(UsageError, match="--rdzv-endpoint is missing"):
        arguments.parse_endpoint(text)


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (("train.py", "-x"), ("python", "-u", "train.py", "-x")),
        (("-m", "pkg.train", "-x"), ("python", "-u", "-m", "pkg.train", "-x")),
        (("--no-python", "./train.sh", "-x"), ("./train.sh", "-x")),
    ],
)
def test_the_command_of_a_worker(words: tuple[str, ...], argv: tuple[str, ...]) -> None:
    assert arguments.worker_argv(arguments.build_parser({}).parse_args(words), "python") == argv


@pytest.mark.parametrize(
    ("words", "why"),
    [((), "the script is missing"), (("-m", "--no-python", "x"), "-m cannot be used together with --no-python")],
)
def test_a_command_that_is_none(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        arguments.worker_argv(arguments.build_parser({}).parse_args(words), "python")
