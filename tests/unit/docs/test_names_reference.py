"""`docs/reference/exit-codes.md` and `names.md` are what `hack/reference/names.py` makes of the contract now."""

import subprocess
import sys
from pathlib import Path

from elasticjob_api import constants
from elasticjob_api.exit_codes import ExitCode

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs" / "reference"


def test_the_reference_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "hack" / "reference" / "names.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_exit_code_is_on_the_page() -> None:
    page = (REFERENCE / "exit-codes.md").read_text()
    assert [code.name for code in ExitCode if f"| {code.value} | `{code.name}` | " not in page] == []


def test_every_variable_and_every_word_is_on_the_page() -> None:
    page = (REFERENCE / "names.md").read_text()
    variables = [value for name, value in vars(constants).items() if name.startswith("ENV_")]
    words = [word.value for kind in (constants.Phase, constants.ConditionType, constants.EventReason) for word in kind]
    assert [name for name in [*variables, *words] if f"`{name}`" not in page] == []
