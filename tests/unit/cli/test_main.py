"""The command line: pages, help, the table of exit codes, options before the command, its imports."""

import argparse
import os
import re
import subprocess
import sys

import pytest

from elasticjob_cli.command_registry import ENTRIES
from elasticjob_cli.exit_codes import EXIT_CODES
from elasticjob_cli.main import help_text, main

_HEAVY = ("yaml", "kubernetes", "elasticjob_operator", "elasticjob_etcd", "grpc", "asyncio", "psutil")


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_every_command_has_help_with_examples_that_its_parser_accepts(name: str) -> None:
    page = ENTRIES[name].page()
    parser = page.parser(name)
    assert "examples:" in parser.format_help()
    for example, _ in page.examples:
        plain = re.sub(r"<\(.*?\)", "FILE", example)
        first, *words = plain.partition("|")[0].replace("2>/dev/null", "").partition(">")[0].split()
        assert first == name
        assert isinstance(parser.parse_args(words), argparse.Namespace)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_no_line_of_a_page_is_wider_than_the_terminal(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    page = ENTRIES[name].page().parser(name).format_help()
    commands = {f"  elasticjob {command}" for command, _ in ENTRIES[name].page().examples}  # never wrapped
    assert [line for line in page.splitlines() if len(line) > columns and line not in commands] == []


@pytest.mark.parametrize("columns", [80, 200])
def test_no_line_of_the_first_page_is_wider_than_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, help_text().splitlines())) <= columns


def test_remarks_are_beside_their_examples_if_there_is_room_and_below_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert "  elasticjob logs digits --tail 20    " in ENTRIES["logs"].page().parser("logs").format_help()
    monkeypatch.setenv("COLUMNS", "80")
    narrow = ENTRIES["logs"].page().parser("logs").format_help()
    assert "  elasticjob logs digits --tail 20\n      the last 20 lines of every pod\n" in narrow


def test_help_has_all_commands_and_all_exit_codes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    assert all(f"  {name} " in output for name in ENTRIES)
    assert all(f"  {code:<4}{meaning}" in output for code, meaning in EXIT_CODES)


@pytest.mark.parametrize("arguments", [["--help"], ["get", "--help"], ["crd"]])
def test_a_closed_reader_causes_no_traceback(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-m", "elasticjob_cli.main", *arguments]
    done = subprocess.run(program, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode in {0, 141}  # argparse ignores the error when it prints help


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom elasticjob_cli.main import main\nmain(['--help'])\n"
        f"print([m for m in {_HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_the_help_of_a_command_imports_nothing_heavy(name: str) -> None:
    code = (
        "import sys\nfrom elasticjob_cli.command_registry import ENTRIES\n"
        f"ENTRIES[{name!r}].page().parser({name!r}).format_help()\nprint([m for m in {_HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_options_of_the_cluster_may_precede_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-n", "team", "version"], ["--context=prod", "version"]):
        assert main(words) == 2  # `version` has no such option, and must report that itself
        assert capsys.readouterr().err.startswith("elasticjob version: unrecognized arguments")


def test_the_plugin_uses_its_own_name_in_messages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-elasticjob"])
    assert main(["--help"]) == 0
    assert "usage: kubectl elasticjob COMMAND" in capsys.readouterr().out


def test_doctor_reports_missing_libraries_for_a_cluster_as_a_finding() -> None:
    script = "import sys; sys.modules['kubernetes'] = None; from elasticjob_cli.main import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", script, "doctor"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "FAIL  cluster" in done.stdout
    assert "-> pip install 'elasticjob[cli]', or use --machine to skip the cluster" in done.stdout
