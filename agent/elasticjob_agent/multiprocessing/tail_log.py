"""`TailLog`: follow log files of other processes line by line. Our own contexts use pipes instead.

One thread follows all files. A call of `stop` means that the writers have ended. Each file is then read to its end once
more, and the last line is shown. Only whole lines are shown, each with one prefix. An error of one file is logged once.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from elasticjob_agent.supervisor.line_prefixer import ConsoleText, LinePrefixer

__all__ = ["TailLog", "tail_logfile"]
logger = logging.getLogger(__name__)
LineFilter = Callable[[str], bool]
_CHUNK_BYTES = 1 << 18


class _Follower:
    """One file, of which new content is shown as prefixed lines."""

    def __init__(self, header: str, path: str, dst: TextIO, line_filter: LineFilter | None) -> None:
        self._header, self._path, self._dst, self._filter = header, path, dst, line_filter
        self._text, self._lines = ConsoleText(), LinePrefixer(b"")
        self._fd = -1
        self.broken = False

    def follow(self) -> None:
        """Show the new content."""
        if self.broken:
            return
        try:
            if self._fd < 0 and os.path.exists(self._path):  # noqa: PTH110 - a str
                self._fd = os.open(self._path, os.O_RDONLY)
            while self._fd >= 0 and (data := os.read(self._fd, _CHUNK_BYTES)):
                self._show(self._lines.feed(self._text.feed(data)))
        except (OSError, ValueError) as error:
            self.broken = True
            logger.error("cannot follow %s: %s", self._path, error)  # noqa: TRY400 - the message has all facts

    def end(self) -> None:
        """Show the last line, finished or not, and close."""
        self.follow()
        if not self.broken:
            try:
                self._show(self._lines.feed(self._text.flush()) + self._lines.flush())
            except (OSError, ValueError) as error:
                logger.error("cannot show the end of %s: %s", self._path, error)  # noqa: TRY400 - as above
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _show(self, data: bytes) -> None:
        lines = data.decode(errors="replace").split("\n")[:-1]
        text = "".join(f"{self._header}{line}\n" for line in lines if not self._filter or self._filter(line))
        if text:
            self._dst.write(text)
            self._dst.flush()


def tail_logfile(  # noqa: PLR0917 - the signature is torch's
    header: str,
    file: str,
    dst: TextIO,
    finished: threading.Event,
    interval_sec: float,
    log_line_filter: LineFilter | None = None,
) -> None:
    """Show the lines of one file, which need not exist yet, until `finished` is set and its end is reached."""
    _follow_all([_Follower(header, file, dst, log_line_filter)], finished, interval_sec)


def _follow_all(followers: list[_Follower], finished: threading.Event, interval_sec: float) -> None:
    while not finished.wait(interval_sec):
        for follower in followers:
            follower.follow()
    for follower in followers:
        follower.end()


class TailLog:
    """Follows one file for each local rank."""

    def __init__(  # noqa: PLR0917 - the signature is torch's
        self,
        name: str,
        log_files: dict[int, str],
        dst: TextIO | str,
        log_line_prefixes: dict[int, str] | None = None,
        interval_sec: float = 0.1,
        log_line_filter: LineFilter = lambda _: True,
    ) -> None:
        """Keep the arguments; `start` begins.

        Args:
            name: goes into the prefix `[<name><rank>]:`.
            log_files: by local rank; they need not exist yet.
            dst: the stream to write to, or the path of a file.
            log_line_prefixes: other prefixes, by local rank.
            interval_sec: seconds between two reads.
            log_line_filter: only lines for which it returns True are shown.
        """
        self._name = name
        self._files = dict(log_files)
        self._dst = dst
        self._prefixes = dict(log_line_prefixes or {})
        self._interval_sec = interval_sec
        self._filter = log_line_filter
        self._finished = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> "TailLog":
        """Begin to follow and return self."""
        if self._files and not self._thread:
            self._thread = threading.Thread(target=self._run, name=f"tail {self._name}", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Show the rest, then return; files that were never created are ignored."""
        self._finished.set()
        if self._thread:
            self._thread.join()

    def stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._finished.is_set()

    @property
    def _threadpool(self) -> threading.Thread | None:
        """Return the thread that follows the files, or None without files. The name is the one in torch's tests."""
        return self._thread

    def _run(self) -> None:
        with _open_destination(self._dst) as dst:
            followers = [
                _Follower(self._prefixes.get(rank, f"[{self._name}{rank}]:"), path, dst, self._filter)
                for rank, path in self._files.items()
            ]
            _follow_all(followers, self._finished, self._interval_sec)


@contextmanager
def _open_destination(dst: TextIO | str) -> Iterator[TextIO]:
    if not isinstance(dst, str):
        yield dst
        return
    with open(dst, "a", encoding="utf-8") as file:  # noqa: PTH123 - a str
        yield file
