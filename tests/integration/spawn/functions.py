"""Functions of these tests' processes; in a module, so that a spawned Python can import it."""

import faulthandler
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, Never, NoReturn


def wait_for(condition: Callable[[], object], *, within_s: float = 60.0) -> None:
    """Wait in a worker, for a limited time."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            os._exit(99)
        time.sleep(0.005)


def nothing(index: int) -> None:
    del index


def note(index: int, folder: Path, *args: object) -> None:
    """Write the arguments to a file."""
    write(folder / str(index), repr((index, args)))


def write(path: Path, text: str = "") -> None:
    """Write the file at once, so that no reader gets a part of it."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.rename(path)


def put(index: int, queue: "SimpleQueue[int]", event: Any) -> None:
    queue.put(index)
    event.wait()


def wait_for_file(index: int, path: Path) -> None:
    del index
    wait_for(path.exists)


def wait_unless(index: int, ending: int, path: Path) -> None:
    """Process `ending` ends at once, the others when the file exists."""
    if index != ending:
        wait_for(path.exists)


def fail_on_request(index: int, folder: Path) -> None:
    """Process 0 ends with 0 at once; process 1 fails when `fail` exists."""
    if index == 1:
        wait_for((folder / "fail").exists)
        sys.exit(3)


def raise_if(index: int, failing: int) -> None:
    """Process `failing` raises, the others hang."""
    if index == failing:
        raise ValueError(f"legitimate exception from process {index}")
    hang(index)


def raise_in_turn(index: int, folder: Path, order: list[int]) -> Never:
    """All raise, each after the end of the one before it in `order`."""
    write(folder / str(index), str(os.getpid()))
    place = order.index(index)
    if place:
        before = folder / str(order[place - 1])
        wait_for(before.exists)
        wait_for(lambda: not Path("/proc", before.read_text()).exists())
    raise ValueError(f"process {index}")


def hang(index: int) -> NoReturn:
    del index
    while True:
        signal.pause()


def die(index: int, signum: int, failing: int = 0) -> None:
    faulthandler.disable()  # pytest's, which a fork inherits
    if index == failing:
        os.kill(os.getpid(), signum)
    hang(index)


def exit_with(index: int, code: object) -> NoReturn:
    del index
    sys.exit(code)  # type: ignore[arg-type]


def interrupt(index: int) -> NoReturn:
    del index
    raise KeyboardInterrupt


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class _Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("with a payload")
        self.payload = lambda: None


class _Base(BaseException):
    pass


def raise_oddly(index: int, kind: str) -> Never:
    del index
    match kind:
        case "unpicklable":
            raise _Unpicklable
        case "unprintable":
            raise _Unprintable
        case "local class":
            raise type("OfNoModule", (Exception,), {"__module__": "__main__"})("made in the child")
        case "5 MB":
            raise ValueError("x" * 5_000_000 + "end")
        case "base exception":
            raise _Base("not even an Exception")
    raise AssertionError(kind)


def fail_beside(index: int, folder: Path, kind: str) -> None:
    """Process 0 fails when process 1 is ready; process 1 records its SIGTERM."""
    if index == 0:
        write(folder / "pid of 0", str(os.getpid()))
        wait_for((folder / "ready").exists)
        sys.exit(3)
    wait_for((folder / "pid of 0").exists)
    failing = Path("/proc", (folder / "pid of 0").read_text())

    def on_sigterm(*_: object) -> None:
        write(folder / "got SIGTERM")
        if kind != "stubborn":
            sys.exit(0)

    signal.signal(signal.SIGTERM, on_sigterm)
    write(folder / "ready")
    if kind == "ends by itself":
        wait_for(lambda: not failing.exists())
        sys.exit(0)
    hang(index)


def leave_grandchild(index: int, folder: Path, fail: bool) -> None:  # noqa: FBT001 - start_processes passes positionally
    """Leave a grandchild in a session of its own that has our streams open; then fail, or end with 0."""
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    write(folder / f"grandchild of {index}", str(child.pid))
    if fail:
        sys.exit(5)


def stop_itself(index: int, folder: Path) -> None:
    """Process 1 freezes itself; then process 0 fails."""
    if index == 1:
        write(folder / "frozen", str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    wait_for((folder / "frozen").exists)
    pid = (folder / "frozen").read_text()
    wait_for(lambda: Path("/proc", pid, "stat").read_text().split()[2] == "T")
    sys.exit(4)


def interrupt_parent(index: int, pid: int, folder: Path) -> None:
    """Send SIGINT when `ready` exists; end when `go` does."""
    wait_for((folder / "ready").exists)
    if index == 0:
        os.kill(pid, signal.SIGINT)
    wait_for((folder / "go").exists)


def nested(index: int, folder: Path) -> None:
    """Start two processes of its own, and hang."""
    del index
    import elasticjob_agent.spawn as ours  # noqa: PLC0415 - others do not need it, and start faster

    context = ours.start_processes(record_pid_and_hang, args=(folder,), nprocs=2, join=False, start_method="fork")
    assert context is not None
    write(folder / "middle", str(os.getpid()))
    context.join()


def record_pid_and_hang(index: int, folder: Path) -> None:
    write(folder / f"leaf {index}", str(os.getpid()))
    hang(index)


def record_daemon_flag(index: int, folder: Path) -> None:
    import multiprocessing  # noqa: PLC0415 - the child's own

    write(folder / f"daemon {index}", str(multiprocessing.current_process().daemon))


def start_another(index: int) -> None:
    del index
    import elasticjob_agent.spawn as ours  # noqa: PLC0415 - as above

    ours.start_processes(nothing, start_method="fork")


def return_unpicklable(index: int) -> object:
    return lambda: index


def note_when(index: int, folder: Path) -> None:
    """Report the start; write its index after `go`."""
    write(folder / f"begun {index}")
    wait_for((folder / "go").exists)
    write(folder / str(index))


def note_parent(index: int, folder: Path) -> None:
    write(folder / f"parent of {index}", str(os.getppid()))


def note_pid(index: int, folder: Path) -> None:
    write(folder / f"pid of {index}", str(os.getpid()))


def meet(index: int, folder: Path, count: int) -> None:
    """Return when all processes are here."""
    write(folder / f"here is {index}")
    wait_for(lambda: len(list(folder.glob("here is ?"))) == count)


def ignore_and_hang(index: int, folder: Path) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    record_pid_and_hang(index, folder)


def note_importer(index: int, folder: Path) -> None:
    module = importlib.import_module("notes_its_pid")
    assert os.getpid() != module.PID
    write(folder / f"importer of {index}", str(module.PID))


def compute(index: int) -> None:
    """Compute with arrays so large that the library uses its threads."""
    numpy = importlib.import_module("numpy")
    size = 300 + index
    assert (numpy.ones((size, size)) @ numpy.ones((size, size)))[0, 0] == size
