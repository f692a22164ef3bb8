"""`make fuzz`: each target for a while under atheris, which looks for bytes that reach new code.

A finding is printed with its traceback and saved as `crash-…` in the folder of findings; add it to the target's
seeds. Atheris is no dependency of the project: `make fuzz` gets it, pinned, into a folder of its own.
"""

import argparse
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NAMES = ("link", "keeper", "stored", "told")
FINDS = Path("runs") / "fuzz"
_MOST_BYTES = 8192


def fuzz(name: str, seconds: int, corpus: Path) -> None:
    """One target in this process, which ends with it: atheris does not return."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["elasticjob_api", "elasticjob_agent", "elasticjob_operator"]):
        target = importlib.import_module("tests.fuzz.targets").TARGETS[name]
    for number, seed in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(seed)
    limits = [f"-max_total_time={seconds}", f"-max_len={_MOST_BYTES}"]
    shown = ["-verbosity=0", "-print_final_stats=1", f"-artifact_prefix={FINDS}/{name}-"]
    atheris.Setup([sys.argv[0], *limits, *shown, str(corpus)], target.read)
    atheris.Fuzz()


def apart(name: str, seconds: int) -> int:
    """One target in a process of its own; its exit code."""
    print(f"\n=== {name}", flush=True)
    with tempfile.TemporaryDirectory() as corpus:
        command = [sys.executable, "-m", "tests.fuzz", "--only", name, "--seconds", str(seconds), "--corpus", corpus]
        return subprocess.run(command, check=False).returncode


def main() -> None:
    """All targets in turn; the exit code is 1 if any found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=NAMES, help="one target instead of all")
    parser.add_argument("--seconds", type=int, default=120, help="of each")
    parser.add_argument("--corpus", type=Path, help="in this process and this folder, for --only")
    options = parser.parse_args()
    FINDS.mkdir(parents=True, exist_ok=True)
    if options.corpus:
        fuzz(options.only, options.seconds, options.corpus)
    names = [options.only] if options.only else NAMES
    failed = [name for name in names if apart(name, options.seconds)]
    sys.exit(f"finds in {', '.join(failed)}: see {FINDS}" if failed else 0)


if __name__ == "__main__":
    main()
