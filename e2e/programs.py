"""Running other programs: kubectl, kind, docker and this project's scripts. The only file here that starts a process.

Every call has a deadline. Standard error of a script is passed on if the script takes long, and is part of the error
if it fails. This module knows neither clusters nor jobs.
"""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("ELASTICJOB_CACHE", "~/.cache/elasticjob")).expanduser()
ENVIRON = {**os.environ, "PATH": f"{CACHE / 'bin'}:{os.environ['PATH']}"}


class ProgramFailed(Exception):
    """A program could not run, took too long or ended with another code than 0; the message has its output."""


def succeeds(*command: str | Path) -> bool:
    """Return whether the command ends with 0."""
    try:
        run(*command)
    except ProgramFailed:
        return False
    return True


def run(*command: str | Path, stdin: str = "", limit_s: float = 60.0) -> str:
    """Return the standard output of a command that must succeed within `limit_s`; raise `ProgramFailed`."""
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=limit_s, env=ENVIRON, cwd=ROOT
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise ProgramFailed(str(error)) from error
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()
        raise ProgramFailed(f"{' '.join(map(str, command))} ended with {done.returncode}: {output}")
    return done.stdout


def show(*command: str | Path, limit_s: float) -> None:
    """Run a long script, and show its output at once; raise `ProgramFailed`."""
    try:
        code = subprocess.run(command, check=False, timeout=limit_s, env=ENVIRON, cwd=ROOT).returncode
    except subprocess.TimeoutExpired as error:
        raise ProgramFailed(str(error)) from error
    if code != 0:
        raise ProgramFailed(f"{' '.join(map(str, command))} ended with {code}; its output is above")


@contextmanager
def lines(*command: str | Path, within_s: float) -> Iterator[Iterator[str]]:
    """Yield the lines of a command's output; they end with the command, or after `within_s`."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRON, cwd=ROOT
    ) as process:
        timer = threading.Timer(within_s, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            yield iter(process.stdout)
        finally:
            timer.cancel()
            process.kill()
