"""Functions of these tests' workers; each takes one argument, like every launched function."""

import faulthandler
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from tests.integration.spawn.functions import wait_for, write

VARIABLES = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def local_rank() -> int:
    return int(os.environ["LOCAL_RANK"])


def note(folder: Path) -> None:
    """Write the variables to a file."""
    write(folder / os.environ["RANK"], " ".join(os.environ[name] for name in VARIABLES))


def note_args(args: Any) -> None:
    """Write the one argument to a file; the folder is inherited."""
    write(Path(os.environ["FOLDER"], str(local_rank())), repr(args))


def note_module(folder: Path) -> None:
    from tests.integration.launch import reads_rank  # noqa: PLC0415 - the import is the test

    write(folder / str(local_rank()), reads_rank.RANK)


def nothing(_: object) -> None:
    pass


def bind(folder: Path) -> None:
    """Rank 0 binds the master port and keeps it until both launches have theirs."""
    if local_rank() == 0:
        with socket.create_server(("", int(os.environ["MASTER_PORT"]))):
            write(folder / os.environ["MASTER_PORT"])
            wait_for(lambda: len([path for path in folder.iterdir() if path.name.isdigit()]) == 2)


def exit_with(how: dict[int, int]) -> None:
    """Exit with the code of this rank; ranks without a code hang."""
    code = how.get(local_rank())
    if code is None:
        hang(None)
    sys.exit(code)


def exit_when_read(folder: Path) -> None:
    """Rank 2 writes the time and exits with 7."""
    if local_rank() != 2:
        hang(None)
    write(folder / "at", str(time.monotonic()))
    os._exit(7)


def hang(_: object) -> NoReturn:
    while True:
        signal.pause()


def die(signum: int) -> None:
    faulthandler.disable()  # pytest's, which a fork inherits
    os.kill(os.getpid(), signum)
    hang(None)


def raise_error(_: object) -> NoReturn:
    raise ValueError("this worker raises")


def interrupt(_: object) -> None:
    if local_rank() == 0:
        raise KeyboardInterrupt
    hang(None)


def end_in_turn(args: tuple[Path, list[int]]) -> None:
    """Fail, each after the end of the one before it in the order."""
    folder, order = args
    write(folder / str(local_rank()), str(os.getpid()))
    place = order.index(local_rank())
    if place:
        before = folder / str(order[place - 1])
        wait_for(before.exists)
        wait_for(lambda: not Path("/proc", before.read_text()).exists())
    sys.exit(local_rank() + 1)


def succeed_oddly(_: object) -> None:
    match local_rank():
        case 0:
            sys.exit(0)
        case 1:
            sys.exit()


def with_tree(folder: Path) -> None:
    """Start a grandchild in a session of its own, write both pids to a file, and hang."""
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    write(folder / f"tree {local_rank()}", f"{os.getpid()} {child.pid}")
    hang(None)


def stubborn_tree(folder: Path) -> None:
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    with_tree(folder)


def leave_tree(folder: Path) -> None:
    """Start a grandchild and end with 0."""
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    write(folder / f"tree {local_rank()}", str(child.pid))


def fail_beside_stubborn(folder: Path) -> None:
    if local_rank() == 1:
        stubborn_tree(folder)
    wait_for((folder / "tree 1").exists)
    sys.exit(3)


def signal_main(args: tuple[int, int]) -> None:
    """Send the launching process a signal, and hang."""
    pid, signum = args
    if local_rank() == 0:
        os.kill(pid, signum)
    hang(None)


def signal_main_and_end(args: tuple[int, int]) -> None:
    """Send the launching process a signal in the last step."""
    os.kill(*args)


def signal_main_twice(args: tuple[int, Path]) -> None:
    """Answer SIGTERM with a SIGTERM to the launching process, so that a second one comes during the stop."""
    pid, folder = args
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    write(folder / f"tree {local_rank()}", str(os.getpid()))
    wait_for(lambda: len(list(folder.glob("tree ?"))) == 2)
    if local_rank() == 0:
        os.kill(pid, signal.SIGTERM)
    while True:
        signal.pause()


def fail_beside_graceful(folder: Path) -> None:
    """Worker 1 saves something at SIGTERM; worker 0 fails."""
    if local_rank() == 0:
        wait_for((folder / "tree 1").exists)
        sys.exit(3)

    def save(*_: object) -> None:
        write(folder / "saved")
        os._exit(0)

    signal.signal(signal.SIGTERM, save)
    write(folder / "tree 1", str(os.getpid()))
    hang(None)


def note_parent(folder: Path) -> None:
    write(folder / "parent", str(os.getppid()))


def launch_inside(args: tuple[Path, str]) -> None:
    from elasticjob_agent.launch import launch  # noqa: PLC0415 - others do not need it, and start faster

    folder, method = args
    launch(note_nested, (folder, local_rank()), 2, start_method=method)


def note_nested(args: tuple[Path, int]) -> None:
    folder, outer = args
    write(folder / f"{outer}.{local_rank()}")
