"""Functions of the tests' workers; the processes that agents start import them."""

import os
import signal
import sys
import time
from pathlib import Path

RANK_VARIABLES = ("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "WORLD_SIZE", "ROLE_WORLD_SIZE")


def environment() -> dict[str, str]:
    """Return the variables of torchrun's contract."""
    names = (*RANK_VARIABLES, "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {name: os.environ[name] for name in (*names, "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID")}


def echo(*args: object) -> tuple[object, ...]:
    """Return the arguments."""
    return args


def affinity() -> frozenset[int]:
    """Return the processors of this process."""
    return frozenset(os.sched_getaffinity(0))


def killed_once() -> dict[str, str]:
    """Kill rank 1 before the first restart."""
    found = environment()
    if found["RANK"] == "1" and found["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    if found["TORCHELASTIC_RESTART_COUNT"] == "0":
        time.sleep(600)
    return found


def first_fails() -> None:
    """Local rank 0 fails; the others wait for it."""
    if os.environ["LOCAL_RANK"] == "0":
        raise ValueError("no more data")
    time.sleep(600)


def first_fails_and_the_other_stops_slowly(folder: str) -> None:
    """Local rank 0 fails when the other one runs; that one ignores SIGTERM and ends after a file `reported`."""
    if os.environ["LOCAL_RANK"] == "0":
        while not list(Path(folder).glob("0.1.*")):
            time.sleep(0.01)
        raise ValueError("no more data")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _report(folder)
    while not Path(folder, "reported").exists():
        time.sleep(0.01)


def sleeps(folder: str) -> None:
    """Report that it runs, and sleep."""
    _report(folder)
    time.sleep(600)


def orphans(folder: str) -> None:
    """Leave a grandchild that ends at once, and sleep."""
    child = os.fork()
    if child == 0:
        os.fork()
        os._exit(0)
    os.waitpid(child, 0)
    sleeps(folder)


def stubborn(folder: str) -> None:
    """As `sleeps`, and ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleeps(folder)


def careful(folder: str) -> None:
    """Save work at SIGTERM and end with code 0."""

    def save(_number: int, _frame: object) -> None:
        Path(folder, f"saved.{os.environ['RANK']}").write_text("saved")
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    sleeps(folder)


def waits_for(folder: str) -> str:
    """Report that it runs; end at a file `finish`, or fail at a file `fail.<rank>` and remove that."""
    _report(folder)
    while not Path(folder, "finish").exists():
        fail = Path(folder, f"fail.{os.environ['RANK']}")
        if fail.exists():
            fail.unlink()
            sys.exit(9)
        time.sleep(0.01)
    return os.environ["RANK"]


def _report(folder: str) -> None:
    """Write the variables of this process to a file; the file is complete when it exists."""
    name = f"{os.environ['TORCHELASTIC_RESTART_COUNT']}.{os.environ['RANK']}.{os.getpid()}"
    draft = Path(folder, f".{name}")
    draft.write_text("\n".join(f"{key}={value}" for key, value in environment().items()))
    draft.rename(Path(folder, name))
