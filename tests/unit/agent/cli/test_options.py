"""The table of options, compared with the options of torchrun's own parser."""

import json
from pathlib import Path
from typing import Any

import pytest

from elasticjob_agent.cli.options import OPTIONS, build_parser
from elasticjob_agent.errors import UsageError

TORCHRUN: dict[str, Any] = json.loads((Path(__file__).parent / "torchrun_options.json").read_text())
"""The options of torchrun; tests/torch/save_torchrun_options.py writes the file."""

OURS = {option.dest: option for option in OPTIONS}
OTHER_DEFAULTS = {"node_rank": None}
"""Options with another default. An unset node rank means the lowest free slot; with torchrun's 0 all have one slot."""

MORE_VARIABLES = {"numa_binding"}
"""Options that torchrun reads only from the command line; a pod sets them by its environment."""


@pytest.mark.parametrize("theirs", TORCHRUN["options"], ids=lambda option: option["dest"])
def test_every_option_of_torchrun_exists_with_its_spellings_choices_and_variable(theirs: dict[str, Any]) -> None:
    ours = OURS[theirs["dest"]]
    assert sorted(ours.flags) == theirs["spellings"]
    assert ours.flag is not theirs["takes_value"]
    assert sorted(ours.choices) == (theirs["choices"] or [])
    assert ours.from_environment is (theirs["from_environment"] or ours.dest in MORE_VARIABLES)


@pytest.mark.parametrize("theirs", TORCHRUN["options"], ids=lambda option: option["dest"])
def test_every_default_is_torchruns(theirs: dict[str, Any]) -> None:
    name, default = theirs["dest"], theirs["default"]
    as_text = "" if default == [] else default if default is None or isinstance(default, bool) else str(default)
    assert vars(build_parser({}).parse_args(["train.py"]))[name] == OTHER_DEFAULTS.get(name, as_text)


def test_these_options_are_not_torchruns() -> None:
    keep = {"keep_dir", "keep_size", "keep_copies", "keep_bandwidth", "keep_restore_timeout"}
    persist = {"keep_persist_to", "keep_persist_every", "keep_persist_keep", "keep_no_resume"}
    assert set(OURS) - {option["dest"] for option in TORCHRUN["options"]} == {"warm_start"} | keep | persist


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.from_environment and not o.flag], ids=lambda o: o.name)
def test_every_value_may_come_from_its_variable(option: Any) -> None:
    value = option.choices[-1] if option.choices else "7"
    assert vars(build_parser({option.variable: value}).parse_args(["x.py"]))[option.dest] == value


@pytest.mark.parametrize(("text", "value"), [("1", True), ("0", False), ("2", True)])
@pytest.mark.parametrize("option", [o for o in OPTIONS if o.flag and o.from_environment], ids=lambda o: o.name)
def test_every_switch_may_come_from_its_variable(option: Any, text: str, *, value: bool) -> None:
    assert vars(build_parser({option.variable: text}).parse_args(["x.py"]))[option.dest] is value


def test_a_wrong_choice_is_answered_with_the_words_to_choose_from(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser({}).parse_args(["--warm-start", "on", "x.py"])
    assert "invalid choice: 'on' (choose from" in (error := capsys.readouterr().err)
    assert "<" not in error.splitlines()[-1]
    assert all(each in error.splitlines()[-1] for each in ("Auto", "Off"))


def test_a_switch_that_is_neither_0_nor_1_is_refused() -> None:
    with pytest.raises(UsageError, match="PET_STANDALONE=yes: it must be 0 or 1"):
        build_parser({"PET_STANDALONE": "yes"})


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser({}).parse_args(["--help"])
    text = capsys.readouterr().out
    assert [option.name for option in OPTIONS if f"--{option.name}" not in text] == []
