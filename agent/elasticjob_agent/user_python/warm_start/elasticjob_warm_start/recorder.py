"""Record the imports of one worker for the agent.

The first line on the pipe is the greeting: a few facts about this interpreter, as a Python literal. Then there are
six kinds of lines, with a tab in each:

    +NAME<tab>         a module whose import has begun, and goes on
    NAME<tab>FILE      an imported module and the file from which it came (or `built-in`, `frozen`, nothing)
    <tab>FOLDER        an entry that sys.path has got since Python started, in which modules may hide others
    =NAME<tab>VALUE    an environment variable that has another value since, as `ascii` writes it; `None` without one
    *NAME<tab>         a variable that is changed now; it may get its value back before an import sees the change
    ~NAME<tab>CONTEXT  comes before the line of a module whose import has begun in a context; see import_contexts.py

The pipe never blocks the worker. A line that is lost only makes a later start slower: a module without a line is not
imported ahead.

This module uses only what Python has loaded before the script; see entry.py.
"""

import os
import sys
import time

from . import entry
from .import_contexts import ImportContexts
from .noting_dict import NotingDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 600.0
"""After this time nothing is recorded: the script has long begun its work."""
_MAX_PENDING = 500
_PIPE_BUF = 4096
"""A write of at most this length is never cut."""
_MAX_FD = 1023
_MAX_NAMES = 2000


def start(fd: int) -> None:
    """Send the greeting on this descriptor and record imports from now on."""
    fd = _move_up(fd)
    os.set_inheritable(fd, False)
    os.set_blocking(fd, False)
    os.write(fd, ascii(greeting()).encode() + b"\n")
    sys.meta_path.insert(0, ImportRecorder(fd))


def _move_up(fd: int) -> int:
    """Give the pipe a high number, so that the files of the script get the same numbers as without a recorder."""
    high = min(os.sysconf("SC_OPEN_MAX") - 1, _MAX_FD)
    try:
        os.fstat(high)
    except OSError:  # it is free
        os.dup2(fd, high, inheritable=False)
        os.close(fd)
        return high
    return fd


def greeting() -> "dict[str, object]":
    """Return the facts on which the agent decides whether this command can be started warm."""
    with open("/proc/self/cmdline", "rb") as file:
        cmdline = file.read().split(b"\0")[:-1]
    return {
        "pid": os.getpid(),
        "executable": os.path.realpath("/proc/self/exe"),
        "cmdline": [os.fsdecode(word) for word in cmdline],
        "argv0": sys.argv[0] if getattr(sys, "argv", None) else "",
        "version": list(sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "libc": _libc(),
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "debug_build": hasattr(sys, "gettotalrefcount"),
        "tracer": has_tracer(),
        "inspect": bool(sys.flags.inspect or sys.flags.interactive),
        "safe_path": bool(getattr(sys.flags, "safe_path", False)),
        "usercustomize": _has_usercustomize(),
        "import_log": _has_import_log(),
        "debug_allocator": bool(sys.flags.dev_mode or "debug" in os.environ.get("PYTHONMALLOC", "")),
    }


def has_tracer() -> bool:
    """Whether a debugger, a profiler or a coverage tool watches this interpreter."""
    monitoring = getattr(sys, "monitoring", None)  # from Python 3.12 on; it has six places for tools
    has_tool = monitoring is not None and any(map(monitoring.get_tool, range(6)))
    return has_tool or sys.gettrace() is not None or sys.getprofile() is not None


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return ""  # another libc


def _has_usercustomize() -> bool:
    """Whether Python will import a usercustomize: it may change what the imports of the script do."""
    site = sys.modules.get("site")
    finder = sys.modules["_frozen_importlib_external"].PathFinder
    return bool(getattr(site, "ENABLE_USER_SITE", True)) and finder.find_spec("usercustomize") is not None


def _has_import_log() -> bool:
    """Whether this interpreter writes about each import, or to a file with its pid in the name."""
    options = getattr(sys, "_xoptions", {})
    variables = ("PYTHONPROFILEIMPORTTIME", "PYTHONPERFSUPPORT", "PYTHON_PERF_JIT_SUPPORT")
    return bool(
        sys.flags.verbose
        or any(name in options for name in ("importtime", "perf", "perf_jit"))
        or any(os.environ.get(name) for name in variables)
    )


def _noting_environment(note: "Callable[[bytes], None]") -> NotingDict:
    """Have `os.environ` call this function for each change; return its data."""
    data = NotingDict(os.environ._data)  # type: ignore[attr-defined]
    data.note = note
    posix = sys.modules["posix"]
    os.environ._data = os.environb._data = posix.environ = data  # type: ignore[attr-defined]
    return data


class ImportRecorder:
    """A finder that finds nothing: Python asks it first for each module that is not loaded yet."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pipe = self._identity(fd)
        self._pid = os.getpid()
        self._monotonic = time.monotonic
        self._until_s = time.monotonic() + SECONDS
        self._getpid = os.getpid
        self._write = os.write
        self._modules = sys.modules
        self._origin_of = entry.origin_of
        self._is_of_lazy_loader = entry.is_of_lazy_loader
        self._pending: "dict[str, None]" = {}
        self._contexts = ImportContexts()
        self._ends: "dict[str, object]" = {}
        """Modules whose import goes on, each with a reference that calls us at the end."""
        self._begun: "set[str]" = set()
        self._locks = sys.modules["_frozen_importlib"]._module_locks
        self._reference = sys.modules["_weakref"].ref
        self._folders = set(sys.path)
        self._environment = _noting_environment(self._note_change)
        self._variables = dict(self._environment)
        self._decode = os.fsdecode
        self._noted: "set[bytes]" = set()

    @staticmethod
    def _identity(fd: int, fstat: object = os.fstat) -> "tuple[int, int]":
        status = fstat(fd)  # type: ignore[operator]
        return status.st_dev, status.st_ino

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Write the modules that have been found since; a forked child of the worker records nothing."""
        del path, target
        try:
            if not self._check_pipe():
                return
            self._write_news()
            if len(self._pending) < _MAX_PENDING:
                self._contexts.judge(name, sys._getframe(1))
                self._pending[name] = None
                self._await_end(name)
            if self._monotonic() > self._until_s:
                self._fd = -1
        except Exception:  # noqa: BLE001 - never an error in an import of the script
            return

    def _note_change(self, name: bytes) -> None:
        """Write the name of a variable that the script changes for the first time; an error is dropped, as above."""
        if name not in self._noted and len(self._noted) < _MAX_NAMES and self._check_pipe():
            self._noted.add(name)
            self._write_name("*" + self._decode(name), "")

    def _await_end(self, name: str) -> None:
        # Python holds a lock of this module for the time of the import, and nothing else keeps it.
        lock = self._locks.get(name, lambda: None)()
        if lock is not None:
            self._ends[name] = self._reference(lock, lambda _: self._end(name))

    def _end(self, name: str) -> None:
        """Write a module whose import has ended; one that has failed is not there."""
        self._ends.pop(name, None)
        try:
            if self._check_pipe():
                self._write_news()
        except Exception:  # noqa: BLE001 - as above
            return

    def _write_news(self) -> None:
        self._write_modules()
        # After the modules: one whose import has begun, and asks for another now, has set them.
        if self._environment != self._variables:
            self._write_variables()

    def _check_pipe(self) -> bool:
        """Return whether this process may write to the pipe; if not, it never does again."""
        # A script may close all descriptors, and open a file of its own under this number.
        try:
            if self._fd >= 0 and self._identity(self._fd) != self._pipe:
                self._fd = -1
        except OSError:
            self._fd = -1
        return self._fd >= 0 and self._getpid() == self._pid

    def _write_modules(self) -> None:
        for folder in sys.path:
            if folder not in self._folders:
                self._write_line("", folder)
                self._folders.add(folder)
        # A module is in sys.modules before its own imports begin. So an outer module comes before the inner ones.
        for name in [name for name in self._pending if name in self._modules]:
            if self._is_of_lazy_loader(self._modules[name]):  # its code asks no finder
                del self._pending[name]
                continue
            if name not in self._begun and self._contexts.text(name):
                self._write_line("~" + name, self._contexts.text(name))
            if name not in self._ends:
                self._write_line(name, self._origin_of(name))
                del self._pending[name]
            elif name not in self._begun:
                self._write_line("+" + name, "")
                self._begun.add(name)

    def _write_variables(self) -> None:
        now = dict(self._environment)
        for key in [key for key in {**self._variables, **now} if self._variables.get(key) != now.get(key)]:
            name, value = "=" + self._decode(key), ascii(now.get(key))
            # A text that is too long is left out: the variable then counts as one of the script.
            self._write_name(name, value if len(name) + len(value) < _PIPE_BUF // 2 else "")
        self._variables = now

    def _write_name(self, name: str, text: str) -> None:
        if "\t" not in name and "\n" not in name:
            self._write_line(name, text)

    def _write_line(self, name: str, text: str) -> None:
        line = "{}\t{}\n".format(name, text).encode("utf-8", "surrogateescape")
        if len(line) <= _PIPE_BUF:
            self._write(self._fd, line)  # a full pipe raises, and the line stays pending
