"""docs/architecture/ compared with the code: cited files and tests, keys, transactions, states, actions, tasks."""

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from elasticjob_agent.keep.keeper import messages
from elasticjob_agent.keep.rules.replication import OfferAnswer
from elasticjob_agent.keep.transfer.handshake import Purpose
from elasticjob_agent.keep.volume.paths import VolumePath
from elasticjob_agent.node import run_node
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.member_plan import RestorePhase, Workers
from elasticjob_api.constants import Phase
from elasticjob_api.keys import Keys, Kind
from elasticjob_etcd.interface import Txn
from elasticjob_operator.controller import controller
from elasticjob_operator.controller import transactions as operator_txns
from elasticjob_operator.maintenance import tasks as maintenance_tasks
from elasticjob_operator.model.actions import Action
from tests.unit.agent.keep.sim import checks
from tests.unit.agent.keep.test_first_designs import HISTORIES

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "architecture"
PAGES = sorted(FOLDER.glob("*.md"))
PACKAGES = ("agent/elasticjob_agent", "operator/elasticjob_operator")
BASES = (ROOT, *(ROOT / package for package in PACKAGES))
"""A path is from the root of the repository, or from the package of the agent or the operator."""
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


@pytest.mark.parametrize("module", [transactions, operator_txns])
def test_every_transaction_is_on_the_page(module: ModuleType) -> None:
    made = [name for name, each in inspect.getmembers(module, inspect.isfunction) if makes_a_txn(module, each)]
    page = (FOLDER / "rendezvous.md").read_text()
    assert made
    assert [name for name in made if f"| `{name}` |" not in page] == []


def makes_a_txn(module: ModuleType, function: object) -> bool:
    """It is the module's own, and returns a transaction."""
    own = getattr(function, "__module__", "") == module.__name__
    return own and inspect.signature(function).return_annotation is Txn  # type: ignore[arg-type]


def page(name: str) -> str:
    """Return the text of a page."""
    return (FOLDER / f"{name}.md").read_text()


def rows(name: str) -> list[str]:
    """Return the code span that begins each row of a page's tables."""
    return re.findall(r"^\| `([^`]+)` \|", page(name), re.MULTILINE)


TASK = re.compile(r"create_task\(.*?name=\"([^\"]+)\"")


def test_the_agent_s_page_has_each_state_of_the_workers() -> None:
    assert [state.name for state in Workers if state.name not in rows("agent")] == []


def test_the_agent_s_page_has_the_tasks_of_its_loop() -> None:
    made = set(TASK.findall(inspect.getsource(run_node))) - {"node", "end of etcd", "agent"}
    assert made
    assert made - set(rows("agent")) == set()


def test_the_operator_s_page_has_each_of_its_tasks() -> None:
    made = set(TASK.findall(inspect.getsource(controller) + inspect.getsource(maintenance_tasks)))
    assert made
    assert made - set(rows("operator")) == set()


def test_the_operator_s_page_has_each_action() -> None:
    actions = [action.__name__ for action in get_args(Action)]
    assert actions
    assert [name for name in actions if name not in rows("operator")] == []


def test_the_operator_s_page_has_each_phase() -> None:
    assert [phase for phase in Phase if phase not in rows("operator")] == []


def test_the_agent_s_page_has_each_pure_module_of_the_rendezvous() -> None:
    rules = (ROOT / "agent/elasticjob_agent/rendezvous/protocol").glob("[!_]*.py")
    paths = sorted(f"rendezvous/protocol/{file.name}" for file in rules if file.name != "interfaces.py")
    assert paths
    assert [path for path in paths if path not in rows("agent")] == []


def test_every_finding_that_a_test_names_is_on_the_page() -> None:
    named = (ROOT / "tests/unit/rendezvous/test_findings.py").read_text()
    numbers = set(re.findall(r"test_finding_(\d+)_", named)) | set(re.findall(r'^    "(\d+): ', named, re.MULTILINE))
    findings = page("rendezvous").split("## Findings")[1]
    assert numbers
    assert numbers - set(re.findall(r"^\| (\d+) \|", findings, re.MULTILINE)) == set()


def test_keep_s_page_has_each_guarantee_that_the_state_machine_checks() -> None:
    checked = set(re.findall(r"^\| (G\d+) \|", checks.__doc__ or "", re.MULTILINE))
    assert checked
    assert checked - set(re.findall(r"^\| (G\d+) \|", page("keep"), re.MULTILINE)) == set()


def test_keep_s_page_has_each_first_design_with_its_history_and_what_it_breaks() -> None:
    designs = page("keep").split("## First designs")[1].split("\n## ")[0]
    found = re.findall(r"^\| (\d+) \|.*?\| (G\d+)? *\| `(\w+)` \|", designs, re.MULTILINE)
    histories = {int(number): (history, broken) for number, broken, history in found}
    assert histories.pop(13)[0].startswith("test_13_")
    assert histories == {number: (history.__name__, broken) for number, (history, broken) in HISTORIES.items()}


def test_keep_s_page_has_each_answer_phase_and_purpose() -> None:
    words = [*OfferAnswer.__members__, *RestorePhase.__members__, *(purpose.value for purpose in Purpose)]
    assert [word for word in words if word not in rows("keep")] == []


def test_keep_s_page_has_each_request_to_a_keeper() -> None:
    requests = [request.__name__ for request in get_args(messages.Request)]
    assert requests
    assert [name for name in requests if f"`{name}`" not in page("keep")] == []


def test_keep_s_page_has_each_name_of_a_volume() -> None:
    names = {line.split()[0].partition("/")[0] for line in page("keep").splitlines() if line.startswith("    ")}
    assert set(VolumePath.NAMES) - names == set()
