"""`docs/reference/elasticjob.md` is what `hack/reference/crd.py` makes of the CRD now."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_reference_is_up_to_date_with_the_crd() -> None:
    script = ROOT / "hack" / "reference" / "crd.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
