"""Every command of the pages is executed by a test that is named in commands.yaml, or has a reason there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.docs.commands import ROOT, commands, of_page

LEDGER: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("commands.yaml").read_text())


def fits(entry: dict[str, Any], page: str, command: str) -> bool:
    return entry.get("page", page) == page and re.fullmatch(entry["command"], command) is not None


@pytest.mark.parametrize(("page", "command"), sorted(set(commands())))
def test_a_command_is_executed_or_has_a_reason(page: str, command: str) -> None:
    assert any(fits(entry, page, command) for entry in LEDGER), (
        f"{page} tells to type {command!r}: say in tests/unit/docs/commands.yaml which test types it, or why none does"
    )


@pytest.mark.parametrize("entry", LEDGER, ids=lambda entry: entry["command"])
def test_an_entry_is_about_a_command_that_is_there_and_a_test_that_does_it(entry: dict[str, Any]) -> None:
    assert any(fits(entry, page, command) for page, command in commands())
    assert ("by" in entry) != ("why" in entry)
    if "by" in entry:
        assert entry["says"] in (ROOT / entry["by"]).read_text()


def test_commands_are_distinguished_from_their_output() -> None:
    page = (
        "Text.\n\n    make a  # b\n    kind: Job\n\nMore.\n\n    $ kubectl get \\\n        pods\n    make no command\n"
    )
    assert list(of_page(page)) == ["make a", "kubectl get pods"]


def test_commands_in_a_table_are_those_under_the_word_type() -> None:
    typed = "| you want | type |\n| --- | --- |\n| `x` | `make a`, `make b \\| less` |\n"
    page = f"{typed}\n| y | z |\n| --- | --- |\n| - | `c` |\n"
    assert list(of_page(page)) == ["make a", "make b | less"]
