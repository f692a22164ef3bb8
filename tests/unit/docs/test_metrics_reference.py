"""`docs/reference/metrics.md` is what `hack/reference/metrics.py` makes of the operator's metrics now."""

import runpy
import subprocess
import sys
from pathlib import Path

from elasticjob_operator.metrics.prometheus import PrometheusRecorder

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "hack" / "reference" / "metrics.py"


def test_the_reference_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_metric_is_on_the_page_with_its_type_and_labels() -> None:
    page = str(runpy.run_path(str(SCRIPT))["page"]())
    meter = PrometheusRecorder()
    meter.serve_state(dict, lambda: 0)
    found = [line.split()[2:4] for line in meter.text().decode().splitlines() if line.startswith("# TYPE")]
    shown = [(name, kind) for name, kind in found if not name.endswith("_created")]
    assert [name for name, kind in shown if f"| `{name}` | {kind} |" not in page] == []


def test_no_label_names_a_job() -> None:
    meter = PrometheusRecorder()
    meter.serve_state(dict, lambda: 0)
    assert not {"job", "name", "pod", "uid"} & {label for labels in meter.labels.values() for label in labels}
