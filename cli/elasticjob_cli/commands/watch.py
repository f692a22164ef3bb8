"""`elasticjob watch`: a live view on a terminal, or a line for each change in a pipe."""

import argparse
import contextlib
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator
from typing import TYPE_CHECKING

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.cluster_options import add_cluster_options, add_job, connect, get_job
from elasticjob_cli.command import CommandPage
from elasticjob_cli.target import recorded, run_folder
from elasticjob_cli.terminal import has_colour, is_terminal, show, width
from elasticjob_cli.views.dashboard import WatchState, dashboard
from elasticjob_cli.views.job_history import HistoryEntry, job_history
from elasticjob_cli.views.text import clock, one_line

if TYPE_CHECKING:
    from elasticjob_cli.job_watcher import JobWatcher

_REDRAW_S = 0.5
_MIN_INTERVAL_S = 0.1
"""Seconds between two drawings, even if the job changes more often."""
_TALL = 10_000
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _TO_END_OF_LINE, _TO_END = "\x1b[H", "\x1b[K", "\x1b[J"
_QUIT = b"qQ\x03\x04"


def _configure(parser: argparse.ArgumentParser) -> None:
    add_job(parser, recorded=True)
    parser.add_argument("--once", action="store_true", help="print the current state and exit")
    add_cluster_options(parser)


def _run(arguments: argparse.Namespace) -> int:
    if (folder := run_folder(arguments.job)) is not None:
        target = recorded(folder)
        history = job_history(target.job, target.history_entries, now_s=time.time())
        _print(WatchState(job=target.job, now_s=time.time(), history=history))
        return ExitCode.OK
    from elasticjob_cli.job_watcher import JobWatcher  # noqa: PLC0415  # see `cluster_options`

    cluster = connect(arguments)
    watcher = JobWatcher(cluster, get_job(arguments, cluster).manifest)
    if arguments.once:
        watcher.fetch()
        _print(_watch_state(watcher))
        return ExitCode.OK
    watcher.start()
    left = _live(watcher) if is_terminal() and sys.stdin.isatty() else _lines(watcher)
    return ExitCode.OK if left else _exit_code(watcher)


def _watch_state(watcher: "JobWatcher") -> WatchState:
    now_s, job = time.time(), watcher.job
    history = job_history(job, watcher.history_entries, now_s=now_s)
    notice = "the job was deleted" if watcher.deleted else (str(watcher.error) if watcher.error else "")
    return WatchState(job=job, now_s=now_s, history=history, usage=watcher.usage, notice=notice)


def _print(state: WatchState) -> None:
    print("\n".join(dashboard(state, width=width(), height=_TALL, colour=has_colour())))


def _exit_code(watcher: "JobWatcher") -> int:
    if watcher.error is not None:
        raise watcher.error
    phase = (watcher.job.get("status") or {}).get("phase")
    return ExitCode.OK if phase == "Succeeded" else ExitCode.FAILED


def _lines(watcher: "JobWatcher") -> bool:
    """Print a line for each event and each change of phase; return False when the job has ended."""
    printed: set[HistoryEntry] = set()
    phase = None
    while True:
        ended = watcher.ended  # read first: no change follows it
        watcher.changed.clear()
        for each in [each for each in watcher.history_entries if each not in printed]:
            printed.add(each)
            show(f"{clock(each.time_s)} {each.reason}: {one_line(each.message)}")
        now = str((watcher.job.get("status") or {}).get("phase") or "Pending")
        if now != phase:
            phase = now
            print(
                f"{clock(time.time())} {dashboard(_watch_state(watcher), width=200, height=1, colour=False)[0]}",
                flush=True,
            )
        if ended:
            return False
        watcher.changed.wait()


def _live(watcher: "JobWatcher") -> bool:
    """Show the live view; return False when the job has ended, True when the user quits."""
    colour, drawn_s = has_colour(), 0.0
    with _screen():
        while not watcher.ended:
            watcher.changed.clear()
            size = shutil.get_terminal_size()
            lines = dashboard(_watch_state(watcher), width=size.columns, height=size.lines - 1, colour=colour)
            hint = f"q quits; {clock(time.time())} UTC"
            body = "".join(f"{line}{_TO_END_OF_LINE}\r\n" for line in lines)
            sys.stdout.write(f"{_HOME}{body}{_TO_END}\x1b[{size.lines};1H{hint}")
            sys.stdout.flush()
            drawn_s = time.monotonic()
            if _pressed_quit(watcher, drawn_s):
                return True
    _print(_watch_state(watcher))
    return False


def _pressed_quit(watcher: "JobWatcher", drawn_s: float) -> bool:
    """Wait for a key, a change or the next drawing; return whether a key that quits was pressed."""
    while time.monotonic() < drawn_s + _REDRAW_S:
        ready, _, _ = select.select([sys.stdin], [], [], _MIN_INTERVAL_S)
        if ready:
            return any(key in _QUIT for key in os.read(sys.stdin.fileno(), 64))
        if watcher.changed.is_set():
            return False
    return False


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    """Switch to the alternate screen, without cursor and echo, and restore the terminal in the end."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    sys.stdout.write(_ENTER)
    try:
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


PAGES = {
    "watch": CommandPage(
        description=(
            "Show a live view of one job: phase, progress, nodes, ranks, cpu, memory, rounds, the last failure,\n"
            "events. Few nodes are a table, many a map with a letter for each rank. The view ends with the job; q or\n"
            "Ctrl-C end it earlier. In a pipe it is a line for each event. Of the folder of a run, the present state\n"
            "is printed once."
        ),
        examples=(
            ("watch digits", ""),
            ("watch digits -n team --once", "the current state, once"),
            ("watch digits | tee digits.log", "a line for each event"),
        ),
        notes="Ranks: ■ running, ▸ starting, · pending, ✓ succeeded, ✗ failed, ▪ stopped, ? unknown.",
        configure=_configure,
        run=_run,
    )
}
