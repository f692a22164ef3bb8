"""What workers of the tests run; importable by the processes that agents start."""

import os
import signal
import sys
import time
from pathlib import Path

SAID = ("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "WORLD_SIZE", "ROLE_WORLD_SIZE")


def environment() -> dict[str, str]:
    """What torchrun's contract promises."""
    names = (*SAID, "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {name: os.environ[name] for name in (*names, "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID")}


def echo(*args: object) -> tuple[object, ...]:
    """Its arguments."""
    return args


def affinity() -> frozenset[int]:
    """Where it may run."""
    return frozenset(os.sched_getaffinity(0))


def killed_once() -> dict[str, str]:
    """Rank 1 is killed in the first incarnation."""
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


def first_fails_and_the_other_takes_its_time(folder: str) -> None:
    """Local rank 0 fails once the other runs, which ignores SIGTERM and ends well at a file `told`."""
    if os.environ["LOCAL_RANK"] == "0":
        while not list(Path(folder).glob("0.1.*")):
            time.sleep(0.01)
        raise ValueError("no more data")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _say(folder)
    while not Path(folder, "told").exists():
        time.sleep(0.01)


def sleeps(folder: str) -> None:
    """Says that it runs, and sleeps."""
    _say(folder)
    time.sleep(600)


def orphans(folder: str) -> None:
    """Leaves a grandchild behind that ends at once, and sleeps."""
    child = os.fork()
    if child == 0:
        os.fork()
        os._exit(0)
    os.waitpid(child, 0)
    sleeps(folder)


def stubborn(folder: str) -> None:
    """As `sleeps`, and ignores SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleeps(folder)


def careful(folder: str) -> None:
    """Saves its work at SIGTERM and ends well."""

    def save(_number: int, _frame: object) -> None:
        Path(folder, f"saved.{os.environ['RANK']}").write_text("saved")
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    sleeps(folder)


def waits_for(folder: str) -> str:
    """Says that it runs, until there is a file `finish`; fails once there is a file `fail.<rank>`, which it eats."""
    _say(folder)
    while not Path(folder, "finish").exists():
        fail = Path(folder, f"fail.{os.environ['RANK']}")
        if fail.exists():
            fail.unlink()
            sys.exit(9)
        time.sleep(0.01)
    return os.environ["RANK"]


def _say(folder: str) -> None:
    """A file with all that is known of this process; complete when it is there."""
    name = f"{os.environ['TORCHELASTIC_RESTART_COUNT']}.{os.environ['RANK']}.{os.getpid()}"
    draft = Path(folder, f".{name}")
    draft.write_text("\n".join(f"{key}={value}" for key, value in environment().items()))
    draft.rename(Path(folder, name))
