"""Invalid input: one clear sentence, an exit code, and no process or file is left."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.cli.runs import Cli


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(None, "job.yaml: there is no such file; give the path of a manifest", id="missing"),
        pytest.param("a: [", "job.yaml:1: is not YAML: ", id="not YAML"),
        pytest.param("kind: Job", "job.yaml:1: apiVersion: is None; it must be ", id="wrong kind"),
        pytest.param("a: 1\n---\nb: 2\n", "job.yaml:3: a second document begins here", id="two documents"),
    ],
)
def test_a_bad_manifest_is_refused(cli: Cli, text: str | None, sentence: str) -> None:
    if text is not None:
        (cli.folder / "job.yaml").write_text(text)
    ended = cli.end(cli.begin("run", "job.yaml"))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"elasticjob run: {sentence}")
    assert not (cli.folder / "runs").exists()


def test_an_unknown_field_is_refused_with_its_line(cli: Cli) -> None:
    cli.manifest("true", replica=3)
    ended = cli.end(cli.begin("run", "job.yaml"))
    assert ended.code == 2
    assert ended.err == "elasticjob run: job.yaml:6: spec.replica: unknown field; did you mean replicas?\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "elasticjob: the following arguments are required: COMMAND; see `elasticjob -h`"),
        (["run"], "elasticjob run: the following arguments are required: MANIFEST; see `elasticjob run -h`"),
        (["walk"], "elasticjob: argument COMMAND: invalid choice: 'walk'"),
        (["run", "x", "-o", "xml"], "elasticjob run: argument -o/--output: invalid choice: 'xml'"),
        (
            ["run", "x", "--stop-timeout", "0.5"],
            "elasticjob run: argument --stop-timeout: '0.5' is not a time; give seconds, 1 or more",
        ),
        (
            ["run", "x", "--stop-timeout", "soon"],
            "elasticjob run: argument --stop-timeout: 'soon' is not a time; give seconds, 1 or more",
        ),
        (["run", "x", "--etcd-port", "70000"], "elasticjob run: argument --etcd-port: '70000' is not a port"),
        (["run", "job.yaml", "--inject", "explode"], "elasticjob run: --inject explode: 'explode' is not a fault"),
    ],
)
def test_a_bad_command_line_is_refused(cli: Cli, arguments: list[str], sentence: str) -> None:
    cli.manifest("true")
    ended = cli.end(cli.begin(*arguments))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(sentence)


def test_a_run_folder_that_cannot_be_created_is_refused(cli: Cli) -> None:
    cli.manifest("true")
    ended = cli.end(cli.begin("run", "job.yaml", "--run-dir", "job.yaml/x"))
    assert (ended.code, ended.out) == (2, "")
    assert "run folder job.yaml/x: cannot be created or written: Not a directory" in ended.err


@pytest.fixture
def port() -> Iterator[int]:
    """Yield a port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_in_use_is_named(cli: Cli, port: int) -> None:
    cli.manifest("true")
    ended = cli.run("--etcd-port", port)
    assert ended.code == 124
    assert ended.err.startswith(f"elasticjob run: etcd cannot listen on port {port} of this machine")


def test_a_missing_etcd_binary_is_named_with_the_cure(cli: Cli) -> None:
    cli.manifest("true")
    ended = cli.run("--etcd-binary", "/no/such/etcd")
    assert ended.code == 124
    assert "etcd binary /no/such/etcd is not an executable file" in ended.err
    assert "pip install 'elasticjob[local]'" in ended.err


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param("echo kaputt >&2; exit 3", "kaputt", id="it ends"),
        pytest.param("exec sleep 1000", "did not answer within 10 s", id="it does not answer"),
    ],
)
def test_an_etcd_that_does_not_answer_is_reported(
    cli: Cli, program: Callable[[str], Path], script: str, words: str
) -> None:
    cli.manifest("true")
    ended = cli.run("--etcd-binary", program(script))
    assert (ended.code, ended.err.count("\n")) == (124, 1)
    assert words in ended.err


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes an executable shell script."""

    def make(script: str) -> Path:
        path = tmp_path / "fake-etcd"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return make


def test_a_library_that_is_not_installed_is_named_with_the_cure(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/yaml.py").write_text("raise ModuleNotFoundError(name='yaml')")
    cli.manifest("true")
    ended = cli.run(env={"PYTHONPATH": str(tmp_path / "hidden"), "PYTHONDONTWRITEBYTECODE": "1"})
    assert (ended.code, ended.err) == (
        2,
        "elasticjob run: PyYAML is not installed: pip install 'elasticjob[local]'\n",
    )


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_the_version_is_printed(cli: Cli, arguments: list[str]) -> None:
    ended = cli.end(cli.begin(*arguments))
    assert (ended.code, ended.out.split()[0]) == (0, "elasticjob")


def test_help_has_examples(cli: Cli) -> None:
    ended = cli.end(cli.begin("run", "-h"))
    assert ended.code == 0
    assert "elasticjob run job.yaml --inject delete-pod:slot=0@30% --inject scale:4@60%" in ended.out


def test_the_exit_codes_of_all_commands_are_in_one_table(cli: Cli) -> None:
    ended = cli.end(cli.begin("--help"))
    assert ended.code == 0
    assert "exit codes:\n  0   success" in ended.out
