"""Running other programs: kubectl, kind, docker and this project's scripts. The only file here that starts a process.

Every call has a deadline. What a script says on standard error is passed on when it takes long, and is part of the
error when it fails. Nothing here knows what a cluster or a job is.
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
    """A program could not run, took too long or ended with another code than 0; the message has its words."""


def succeeds(*command: str | Path) -> bool:
    """True if the command ends with 0."""
    try:
        run(*command)
    except ProgramFailed:
        return False
    return True


def run(*command: str | Path, stdin: str = "", limit_s: float = 60.0) -> str:
    """Standard output of a command that must succeed within `limit_s`; raises `ProgramFailed`."""
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=limit_s, env=ENVIRON, cwd=ROOT
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise ProgramFailed(str(error)) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise ProgramFailed(f"{' '.join(map(str, command))} ended with {done.returncode}: {said}")
    return done.stdout


def show(*command: str | Path, limit_s: float) -> None:
    """Run a script that takes long, with its output shown as it comes; raises `ProgramFailed`."""
    try:
        code = subprocess.run(command, check=False, timeout=limit_s, env=ENVIRON, cwd=ROOT).returncode
    except subprocess.TimeoutExpired as error:
        raise ProgramFailed(str(error)) from error
    if code != 0:
        raise ProgramFailed(f"{' '.join(map(str, command))} ended with {code}; its own words are above")


@contextmanager
def lines(*command: str | Path, within_s: float) -> Iterator[Iterator[str]]:
    """The lines of a command's output as they come; they end when it ends, or after `within_s`."""
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
