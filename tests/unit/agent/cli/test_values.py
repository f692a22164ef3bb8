"""The command line: torchrun's spellings and defaults, and one sentence for each mistake."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from elasticjob_agent.cli import values
from elasticjob_agent.cli.options import build_parser
from elasticjob_agent.errors import UsageError

NO_VARIABLES: Mapping[str, str] = {}


def parsed(*words: str, environment: Mapping[str, str] = NO_VARIABLES) -> dict[str, object]:
    return vars(build_parser(environment).parse_args(words))


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
def test_both_spellings_of_torchrun_are_accepted(words: tuple[str, ...], name: str, value: object) -> None:
    assert parsed(*words)[name] == value


def test_defaults_are_those_of_torchrun() -> None:
    options = parsed("train.py")
    expected = {"nnodes": "1:1", "nproc_per_node": "1", "max_restarts": "0", "rdzv_id": "none", "role": "default"}
    assert {name: options[name] for name in expected} == expected


def test_each_option_may_come_from_the_environment_and_the_command_line_wins() -> None:
    environment = {"PET_NNODES": "3", "PET_NPROC_PER_NODE": "2", "PET_RDZV_ID": "from-env"}
    options = parsed("--nnodes", "5", environment=environment)
    assert (options["nnodes"], options["nproc_per_node"], options["rdzv_id"]) == ("5", "2", "from-env")


def test_all_arguments_after_the_script_belong_to_it() -> None:
    options = parsed("--nnodes", "2", "train.py", "--nnodes", "9", "-m", "--", "--lr=1e-3")
    assert (options["nnodes"], options["module"], options["script"]) == ("2", False, "train.py")
    assert options["script_args"] == ["--nnodes", "9", "-m", "--", "--lr=1e-3"]


def test_an_unknown_or_abbreviated_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--nproc", "2"], ["--colour", "blue"]):
        with pytest.raises(SystemExit) as exited:
            parsed(*words, "train.py")
        assert exited.value.code == 2
    assert "usage: elasticjob-agent" in capsys.readouterr().err


CORES = len(os.sched_getaffinity(0))


@pytest.fixture
def two_gpus(tmp_path: Path) -> Path:
    """A machine with two GPUs."""
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1"):
        (tmp_path / "dev" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "environment", "count"),
    [
        pytest.param("3", {}, 3, id="a number"),
        pytest.param("cpu", {}, CORES, id="cores"),
        pytest.param("gpu", {}, 2, id="GPUs"),
        pytest.param("auto", {}, 2, id="GPUs before cores"),
        pytest.param("xpu", {"ZE_AFFINITY_MASK": "0,1,2"}, 3, id="XPUs"),
        pytest.param("auto", {"CUDA_VISIBLE_DEVICES": "", "ZE_AFFINITY_MASK": "0"}, 1, id="XPUs before cores"),
        pytest.param("auto", {"CUDA_VISIBLE_DEVICES": ""}, CORES, id="hidden GPUs do not count"),
    ],
)
def test_workers_of_this_node(text: str, environment: dict[str, str], count: int, two_gpus: Path) -> None:
    assert values.parse_nproc(text, environment, two_gpus) == count


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "", "1025", "1" * 5000])
def test_a_wrong_number_of_workers_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it must be a number from 1 to 1024, auto, gpu, cpu or xpu"):
        values.parse_nproc(text, {}, tmp_path)


@pytest.mark.parametrize("kind", ["gpu", "xpu"])
def test_counting_missing_devices_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"there is no {kind.upper()} here"):
        values.parse_nproc(kind, {}, tmp_path)
    assert values.parse_nproc("auto", {}, tmp_path) == CORES


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("7", 7)])
def test_whole_numbers(text: str, number: int) -> None:
    assert values.parse_positive_int("max-restarts", text) == number


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x"])
def test_a_number_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        values.parse_positive_int("max-restarts", text)
    assert str(refused.value) == f"--max-restarts {text}: it must be a whole number from 0"


@pytest.mark.parametrize(("text", "seconds"), [("0.1", 0.1), ("30", 30.0)])
def test_intervals(text: str, seconds: float) -> None:
    assert values.parse_interval("monitor-interval", text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "soon"])
def test_wrong_intervals_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="it must be a number of seconds above 0"):
        values.parse_interval("monitor-interval", text)


@pytest.mark.parametrize(
    ("text", "both"),
    [
        pytest.param("0", [(False, False), (False, False)], id="nothing"),
        pytest.param("1", [(True, False), (True, False)], id="stdout of all"),
        pytest.param("2", [(False, True), (False, True)], id="stderr of all"),
        pytest.param("3", [(True, True), (True, True)], id="both of all"),
        pytest.param("0:3,1:1", [(True, True), (True, False)], id="by local rank"),
        pytest.param("1:2", [(False, False), (False, True)], id="ranks that are not named have no stream"),
        pytest.param("12:3,0:1", [(True, False), (False, False)], id="ranks of several digits"),
    ],
)
def test_streams(text: str, both: list[tuple[bool, bool]]) -> None:
    streams = values.parse_streams("redirects", text)
    assert [(streams.stdout(rank), streams.stderr(rank)) for rank in range(2)] == both


@pytest.mark.parametrize("text", ["", "4", "-1", "x", "0:4", "0:1,", "a:1", "0:1:2"])
def test_wrong_streams_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        values.parse_streams("tee", text)
    assert str(refused.value) == f"--tee {text}: it must be 0, 1, 2 or 3, or RANK:VALUE,… for example 0:3,1:1"


def test_ranks_and_no_ranks() -> None:
    assert values.parse_ranks("local-ranks-filter", "0, 2") == frozenset({0, 2})
    assert values.parse_ranks("local-ranks-filter", "") is None


@pytest.mark.parametrize("text", ["one", "0,", "-1"])
def test_wrong_ranks_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="it must be local ranks separated by commas, for example 0,2"):
        values.parse_ranks("local-ranks-filter", text)


def test_words_with_a_doubled_comma() -> None:
    assert values.parse_list("loss,a,,b") == ("loss", "a,b")
    assert values.parse_list("") == ()


def test_signals_by_name() -> None:
    assert values.parse_signals("SIGTERM, SIGUSR1") == (signal.SIGTERM, signal.SIGUSR1)


@pytest.mark.parametrize("text", ["", "TERM", "SIGKILL", "SIGSTOP", "SIGTERM,,", "SIGCHLD"])
def test_signals_that_cannot_be_handled(text: str) -> None:
    with pytest.raises(UsageError, match="not a signal that can be handled"):
        values.parse_signals(text)


@pytest.mark.parametrize("text", ["0", "65536", "http", ""])
def test_wrong_ports_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="it must be a port, 1 to 65535"):
        values.parse_port("master-port", text)


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (("train.py", "-x"), ("python", "-u", "train.py", "-x")),
        (("-m", "pkg.train", "-x"), ("python", "-u", "-m", "pkg.train", "-x")),
        (("--no-python", "./train.sh", "-x"), ("./train.sh", "-x")),
        (("--run-path", "/x.py", "-x"), ("python", "-u", "-c", values.RUN_PATH, "/x.py", "-x")),
    ],
)
def test_the_command_of_a_worker(words: tuple[str, ...], argv: tuple[str, ...]) -> None:
    assert values.worker_argv(build_parser({}).parse_args(words), "python") == argv


@pytest.mark.parametrize(
    ("words", "why"),
    [((), "the script is missing"), (("-m", "--no-python", "x"), "-m cannot be used together with --no-python")],
)
def test_an_impossible_command_is_refused(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        values.worker_argv(build_parser({}).parse_args(words), "python")
