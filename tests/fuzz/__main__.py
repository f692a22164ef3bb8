"""`make fuzz`: each target for a while under atheris, which looks for bytes that reach new code.

`sessions` is without atheris: changed conversations with a real keeper, after the proof of identity.

A finding is printed with its traceback and saved as `crash-…` in the folder of findings; add it to the target's
seeds. Atheris is no dependency of the project: `make fuzz` gets it, pinned, into a folder of its own.
"""

import argparse
import asyncio
import contextlib
import importlib
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("link", "keeper", "stored", "told", "sessions")
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


def fuzz_sessions(seconds: int, folder: Path) -> None:
    """A keeper and the sessions with it in this process; the seed that is printed repeats the choices."""
    seed = secrets.randbits(32)
    print(f"seed {seed}", flush=True)
    fuzzed_keeper = importlib.import_module("tests.fuzz.fuzzed_keeper")
    with errors_in(folder / "stderr"):
        sent = asyncio.run(fuzzed_keeper.fuzz_keeper(folder / "volumes", seed, within_s=seconds))
    errors = (folder / "stderr").read_text(errors="replace")
    print(f"{sent} pieces were sent\n{errors}", flush=True)
    if "Traceback" in errors:
        sys.exit("a thread of the keeper ended by an error")


@contextlib.contextmanager
def errors_in(path: Path) -> Iterator[None]:
    """Let this process and its children write their errors to a file."""
    before = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


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
    if options.corpus and options.only == "sessions":
        fuzz_sessions(options.seconds, options.corpus)
        return
    if options.corpus:
        fuzz(options.only, options.seconds, options.corpus)
    names = [options.only] if options.only else NAMES
    failed = [name for name in names if apart(name, options.seconds)]
    sys.exit(f"finds in {', '.join(failed)}: see {FINDS}" if failed else 0)


if __name__ == "__main__":
    main()
