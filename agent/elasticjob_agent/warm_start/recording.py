"""The imports of one worker, read from the pipe of its recorder."""

import asyncio
import os
from collections.abc import Callable, Collection

from elasticjob_agent.supervisor import fd_registry
from elasticjob_agent.warm_start.greeting import MAX_BYTES, Greeting, parse_greeting
from elasticjob_api.import_profile import is_context, is_module_name

_READ_BYTES = 1 << 16
_MAX_MODULES = 20_000
_MAX_FOLDERS = 1000
_MAX_VARIABLES = 1000
_MAX_KNOWN = 2000
_MAX_LINE = 4096
"""Bytes of a line after the greeting: the recorder writes no longer one."""
_MAX_KEPT, _MAX_KEPT_OF_OTHERS = 1 << 24, 1 << 21
"""Bytes of all lines that are kept. The imports of the largest frameworks take less than the second number."""


class Recording:
    """Reads one recorder; the worker's end of the pipe is in `write_fd` until it was started."""

    def __init__(self, *, is_first: bool = True, on_news: Callable[[], None] = lambda: None) -> None:
        """Begin to read.

        Args:
            is_first: whether a zygote will repeat these imports.
            on_news: is called after each new module, variable or context, and at the end.

        Raises:
            OSError: no descriptor is left.
        """
        self._on_news = on_news
        self.is_quiet = False
        """Whether it was complete once, and nothing new has come since."""
        self._most_bytes = _MAX_KEPT if is_first else _MAX_KEPT_OF_OTHERS
        self._begun: dict[str, str | None] = {}
        """The modules in the order of their imports, each with its file, or None while the import goes on."""
        self.module_count = 0
        self.folders: dict[str, None] = {}
        """Entries that sys.path has got since the interpreter was started."""
        self.variables: dict[str, tuple[str, str]] = {}
        """Environment variables that were changed, each with the module imported before, and its last value.

        The value is as `ascii` writes it. It is empty if it is too long, or has changed twice: a script may set one for
        a single import. It is never shown.
        """
        self.known_variables: set[str] = set()
        """Variables that were changed at any time, also if no import has seen the change."""
        self.contexts: dict[str, str] = {}
        """Modules whose import has begun in a context, each with this, as import_contexts.py writes it."""
        self.greeting: Greeting | None = None
        self.has_ended = False
        self._has_first_line = False
        self._partial_line = b""
        self._kept_bytes = 0
        self._news = asyncio.Event()
        self._read_fd, self.write_fd = os.pipe()
        fd_registry.register(self._read_fd)
        os.set_blocking(self._read_fd, False)
        asyncio.get_running_loop().add_reader(self._read_fd, self._read)

    @property
    def modules(self) -> dict[str, str]:
        """Return the modules whose import has ended, in the order of their beginnings, each with its file.

        An import that goes on may be the training itself: an installed package may do its work when it is imported.
        """
        return {name: path for name, path in self._begun.items() if path is not None}

    @property
    def begun(self) -> Collection[str]:
        """Return the modules whose import has begun, in this order."""
        return self._begun

    def worker_started(self) -> None:
        """Close our copy of the worker's end. May be called again."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def close(self) -> None:
        """Stop reading. May be called again."""
        self.worker_started()
        if not self.has_ended:
            self.has_ended = True
            asyncio.get_running_loop().remove_reader(self._read_fd)
            fd_registry.close(self._read_fd)
            self._news.set()
            self._on_news()

    async def wait_complete(self, *, greeting_s: float, quiet_s: float) -> None:
        """Return when there was no new import for `quiet_s`, no greeting within `greeting_s`, or the worker ended."""
        while not self.has_ended:
            self._news.clear()
            pause_s = quiet_s if self._has_first_line else greeting_s  # all may have come before the first wait
            try:
                async with asyncio.timeout(pause_s):
                    await self._news.wait()
            except TimeoutError:
                self.is_quiet = self._has_first_line
                return

    def _note_news(self) -> None:
        self.is_quiet = False
        self._news.set()
        self._on_news()

    def _read(self) -> None:
        try:
            data = os.read(self._read_fd, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        *lines, rest = (self._partial_line + data).split(b"\n")
        self._partial_line = rest[: MAX_BYTES + 1]
        for line in lines:
            self._on_line(line)

    def _on_line(self, line: bytes) -> None:
        if not self._has_first_line:
            self._has_first_line = True
            self.greeting = parse_greeting(line)
            self._note_news()
            return
        if len(line) > _MAX_LINE or self._kept_bytes + len(line) > self._most_bytes:
            return
        name, tab, path = line.decode(errors="surrogateescape").partition("\t")
        if tab and not name:
            self._add_folder(path)
        elif tab and name.startswith("="):
            self._add_variable(name[1:], path)
        elif tab and name.startswith("*"):
            self._add_known(name[1:])
        elif tab and name.startswith("~"):
            self._add_context(name[1:], path)
        elif tab and is_module_name(name.removeprefix("+")):
            self._add_module(name.removeprefix("+"), None if name.startswith("+") else path)

    def _add_module(self, name: str, path: str | None) -> None:
        if self._begun.get(name) is None and (name in self._begun or len(self._begun) < _MAX_MODULES):
            self._begun[name] = path
            self._kept_bytes += len(name) + len(path or "")
            self.module_count += path is not None
            self._note_news()

    def _add_variable(self, name: str, value: str) -> None:
        if name in self.variables:
            module, first = self.variables[name]
            self.variables[name] = (module, first if value == first else "")
        elif len(self.variables) < _MAX_VARIABLES:
            self.variables[name] = (next(reversed(self._begun), ""), value)
            self._kept_bytes += len(name) + len(value)
            self._note_news()

    def _add_known(self, name: str) -> None:
        if name not in self.known_variables and len(self.known_variables) < _MAX_KNOWN:
            self.known_variables.add(name)
            self._kept_bytes += len(name)
            self._on_news()  # no import has seen it, so a zygote does not wait for it

    def _add_context(self, name: str, text: str) -> None:
        if is_module_name(name) and is_context(text) and len(self.contexts) < _MAX_MODULES:
            self.contexts[name] = text
            self._kept_bytes += len(name) + len(text)
            self._note_news()

    def _add_folder(self, path: str) -> None:
        if path not in self.folders and len(self.folders) < _MAX_FOLDERS:
            self.folders[path] = None
            self._kept_bytes += len(path)
