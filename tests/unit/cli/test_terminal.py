"""A terminal never receives control characters that a worker wrote."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from elasticjob_cli.main import main
from elasticjob_cli.terminal import printable
from elasticjob_cli.yaml_json import as_json, as_yaml
from tests.unit.cli.recorded import FAILURE, a_job, at, two_rounds

HOSTILE = "\x1b]0;OWNED\x07\x9b2J\x1b[31m\rfine\u202e\x7f"


def spoilt(value: Any) -> Any:
    """Return the value with control characters in every text without a meaning of its own."""
    if isinstance(value, dict):
        return {name: spoilt(item) for name, item in value.items()}
    if isinstance(value, list):
        return [spoilt(item) for item in value]
    return value + HOSTILE if isinstance(value, str) and not value.startswith("20") else value


def hostile_run(folder: Path) -> Path:
    """Return a run whose status and log are full of control characters."""
    job = a_job(
        rounds=two_rounds(), lastFailure=FAILURE, reason="R", message="m", phase="Running", lastRendezvousTime=at(-39)
    )
    job["status"] = {**spoilt(copy.deepcopy(job["status"])), "phase": "Running"}
    job["status"]["progress"] = {"step": 1, "total": 2, "metrics": {f"loss{HOSTILE}": f"1{HOSTILE}"}}
    (folder / "job.yaml").write_text(as_yaml(job))
    event = {"time": 1767225600.0, "reason": "Begun", "message": f"text{HOSTILE}", "warning": False}
    (folder / "events.jsonl").write_text(f"{json.dumps(event)}\n")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["describe"],
        ["watch", "--once"],
        ["get"],
        ["get", "-o", "wide"],
        ["get", "-o", "json"],
        ["get", "-o", "yaml"],
        ["describe", "-o", "json"],
        ["timeline"],
        ["timeline", "-o", "json"],
    ],
)
def test_no_command_prints_control_characters_of_a_worker(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *options = words
    assert main([command, str(hostile_run(tmp_path)), *options]) == 0
    printed = capsys.readouterr().out
    assert "OWNED" in printed
    assert [letter for letter in set(printed) - {"\n"} if ord(letter) < 32 or 127 <= ord(letter) < 160] == []


def test_an_error_that_quotes_a_file_is_printable_too(capsys: pytest.CaptureFixture[str]) -> None:
    main(["describe", f"./no{HOSTILE}"])
    assert printable(message := capsys.readouterr().err) == message


def test_json_is_still_the_same_value() -> None:
    assert as_json("\x9b\x7fü") == '"\\u009b\\u007fü"\n'
