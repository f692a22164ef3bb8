"""`docs/reference/cli.md` is the present output of `hack/reference/cli.py`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "hack" / "reference" / "cli.py"


def test_the_reference_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
