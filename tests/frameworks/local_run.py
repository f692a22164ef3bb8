"""Run an example by `elasticjob run`, the command of its first line, with a Python that has its imports."""

import shutil
import subprocess
import sys
from pathlib import Path

from testing.waiting import scaled

ROOT = Path(__file__).resolve().parents[2]
_BESIDE = {"sampler": ROOT / "agent" / "elasticjob_agent" / "user_python" / "worker" / "elasticjob_sampler.py"}
"""A file that the image of an example has beside the program."""


def run_example(name: str, folder: Path, python: Path | None = None, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of `examples/<name>` to its end; `python` replaces the image's interpreter."""
    place = folder / name
    shutil.copytree(ROOT / "examples" / name, place)
    if name in _BESIDE:
        shutil.copy(_BESIDE[name], place)
    manifest = place / "job.yaml"
    if python is not None:
        manifest.write_text(manifest.read_text().replace("[python,", f"[{python},"))
    command = [str(Path(sys.executable).with_name("elasticjob")), "run", *options, str(manifest)]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=scaled(280))
