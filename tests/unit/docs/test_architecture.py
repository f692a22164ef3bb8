"""docs/architecture/ names what there is: every file and test that it cites, every key, every transaction."""

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from elasticjob_agent.rendezvous import txns
from elasticjob_api.keys import Keys, Kind
from elasticjob_etcd.protocol import Txn
from elasticjob_operator import txns as operator_txns

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "architecture"
PAGES = sorted(FOLDER.glob("*.md"))
BASES = (ROOT, ROOT / "agent" / "elasticjob_agent")
"""A path is from the root of the repository, or from the agent's package."""
_PATH = re.compile(r"`(?!P/)([\w.-]+(?:/[\w.*-]+)*(?:/|\.py|\.yaml|\.toml|\.c|\.md))(?:::(\w+))?`")
_KEY = re.compile(r"^\| `(P/[^`]+)` \|", re.MULTILINE)
_EXAMPLES = {"<slot>": "0001", "<incarnation>": "0000000a", "<round>": "1", "<local rank>": "0"}


def citations(page: Path) -> set[tuple[str, str]]:
    """Each path in code font, and the name behind `::` if there is one."""
    return {(match[1], match[2] or "") for match in _PATH.finditer(page.read_text())}


def is_there(path: str, name: str) -> bool:
    """The file or folder exists and, if a name is given, defines it."""
    found = next((base / path for base in BASES if (base / path).exists()), None)
    if found is None or not name:
        return found is not None
    return re.search(rf"^\s*(async def|def|class) {name}\b", found.read_text(), re.MULTILINE) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_cites_is_there(page: Path) -> None:
    cited = citations(page)
    assert cited
    assert [where for where in sorted(cited) if not is_there(*where)] == []


@pytest.mark.parametrize(
    ("path", "name"),
    [("rendezvous/nothing.py", ""), ("rendezvous/plan.py", "nothing"), ("tests/nowhere/", "")],
)
def test_what_is_not_there_is_seen(path: str, name: str) -> None:
    assert not is_there(path, name)


def test_every_kind_of_key_has_its_row() -> None:
    kinds = []
    for row in _KEY.findall((FOLDER / "rendezvous.md").read_text()):
        for placeholder, example in _EXAMPLES.items():
            row = row.replace(placeholder, example)  # noqa: PLW2901 -- one after the other
        parsed = Keys("P").parse(row)
        assert parsed is not None, f"{row} is no key"
        kinds.append(parsed.kind)
    assert sorted(kinds) == sorted(get_args(Kind))


@pytest.mark.parametrize("module", [txns, operator_txns])
def test_every_transaction_is_on_the_page(module: ModuleType) -> None:
    made = [name for name, each in inspect.getmembers(module, inspect.isfunction) if makes_a_txn(module, each)]
    page = (FOLDER / "rendezvous.md").read_text()
    assert made
    assert [name for name in made if f"| `{name}` |" not in page] == []


def makes_a_txn(module: ModuleType, function: object) -> bool:
    """It is the module's own, and returns a transaction."""
    own = getattr(function, "__module__", "") == module.__name__
    return own and inspect.signature(function).return_annotation is Txn  # type: ignore[arg-type]
