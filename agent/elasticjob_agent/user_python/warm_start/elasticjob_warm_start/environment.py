"""Record how imports read and change the environment, and give a forked worker the environment of its own."""

import os
import posix
import sys

from . import libc, listed_names
from .listed_names import ListedName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, KeysView, ValuesView
    from types import FrameType

_REQUEST, _ORIGINAL = b"ELASTICJOB_PRELOAD", b"ELASTICJOB_"
_CHANGED_BY_US = (b"PYTHONPATH", b"PYTHONWARNINGS")
FIRST_MARK, MOST_MARKS = 1_731_942_000, 1000
"""Numbers that no import has by chance. They have ten digits, and they are C integers."""


class RecordingEnvironment:
    """Watches os.environ while modules are imported.

    A module that reads a variable of one rank keeps the value of another rank. A module that sets a variable did so for
    the zygote, and each forked worker must have it too.
    """

    def __init__(self) -> None:
        self.reads: "dict[str, set[str]]" = {}
        """Variable → the packages that have read it."""
        self.script_reads: "dict[str, set[str]]" = {}
        """Variable that the script may have changed by then → the packages that have read it."""
        self._of_script: "set[str]" = set()
        self.loops: "set[str]" = set()
        """The packages that have read all variables: few of them keep what they have read."""
        self.loops_for: "set[str]" = set()
        """These packages, and those that have called them."""
        self._is_on = True
        self.marks: "dict[str, str]" = {}
        """Mark → its variable."""
        self._marked: "dict[bytes, bytes]" = {}
        self._given = given_environment()
        self._after: "dict[bytes, bytes]" = {}
        self._in_c: "dict[bytes, bytes | None]" = {}
        """Variables that differ in C's environment, as after os.putenv(); None: it has none."""
        self._data: "dict[bytes, bytes]" = os.environ._data  # type: ignore[attr-defined]
        self._recorder = _RecordingDict(self._data, self)
        self._set_data(self._recorder)
        self.replaced = (self._recorder, self._data)
        """The object that modules may have got meanwhile, and the one that they should have."""

    @staticmethod
    def _set_data(data: "dict[bytes, bytes]") -> None:
        os.environ._data = os.environb._data = posix.environ = data  # type: ignore[attr-defined]

    def stop(self) -> None:
        """Record no more."""
        self._is_on = False
        self._after = after = dict(dict.items(self._recorder))  # without the reads that a copy makes
        in_c = libc.environment()
        for key in {**after, **in_c}:
            # A copy of the environment that was written back has put a mark there.
            if in_c.get(key) != after.get(key) and (key not in in_c or in_c[key] != self._marked.get(key)):
                self._in_c[key] = in_c.get(key)
        self._data.clear()
        self._data.update(self._after)
        self._set_data(self._data)

    def note_read(self, key: object) -> None:
        """Record that this variable is read now, here or in a copy."""
        if not self._is_on:
            return
        name, reader = os.fsdecode(key), _reader()  # type: ignore[arg-type]
        self.reads.setdefault(name, set()).add(reader)
        if name in self._of_script:
            self.script_reads.setdefault(name, set()).add(reader)

    def expect_change(self, variables: "list[str]") -> None:
        """From now on, the script may have changed these variables before the import."""
        self._of_script.update(variables)

    def changed_by_script(self, values: "dict[str, str]") -> "set[str]":
        """Return those of these variables that have another value here, after the imports: only the script set it.

        `values` are those in the recorded worker, as `ascii` writes them; an empty one is not known.
        """
        own = {os.fsdecode(key): value for key, value in self._after.items()}
        return {name for name, value in values.items() if value != ascii(own.get(name))}

    def mark(self, variables: "set[str]") -> None:
        """From now on, give each loop over all variables a mark in place of the value of one of these.

        A value that a package keeps of a loop is found by its mark, also under another name and as a number.
        """
        for number, variable in enumerate(sorted(variables)[:MOST_MARKS], FIRST_MARK):
            self.marks[str(number)] = variable
            self._marked[variable.encode()] = str(number).encode()

    def note_loop(self, key: bytes, value: bytes) -> bytes:
        """Record that all variables are read now, or copied; return what the reader gets as the value of this one."""
        self.loops.add(_reader())
        frame: "FrameType | None" = sys._getframe(2)
        while frame is not None:
            self.loops_for.add(package_of(frame.f_globals))
            frame = frame.f_back
        return self._marked.get(key, value)

    def listed_name(self, key: bytes) -> bytes:
        """Return the name of a variable for a loop; a marked one records packages that look it up in a copy."""
        if key not in self._marked:
            return key
        return ListedName.of(key, self.note_read)

    def original(self, key: bytes, value: bytes) -> bytes:
        """Return the value of a variable that is set to this: a mark is from a copy, which is written back."""
        return self._given.get(key, value) if self._marked.get(key) == value else value

    @property
    def writes(self) -> "set[str]":
        """Return the variables that were changed since the interpreter was started."""
        return {os.fsdecode(key) for key in self._changed()}

    def _changed(self) -> "list[bytes]":
        return [key for key in {**self._given, **self._after} if self._given.get(key) != self._after.get(key)]

    def replace(self, environment: "dict[bytes, bytes]") -> None:
        """Give this process that environment, in its order, with what the imports have set and removed."""
        new = dict(environment)
        for key in self._changed():
            if key in self._after:
                new[key] = self._after[key]
            else:
                new.pop(key, None)
        # C's environment has an order, which children inherit. So it is built anew.
        libc.clear_environment()
        self._data.clear()
        for key, value in new.items():
            os.environb[key] = value
        for key, in_c in self._in_c.items():
            if in_c is None:
                os.unsetenv(key)
            else:
                os.putenv(key, in_c)


def given_environment() -> "dict[bytes, bytes]":
    """Return the environment of the worker at its exec, without what the agent has added for us."""
    given: "dict[bytes, bytes]" = {}
    with open("/proc/self/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            name, equals, value = entry.partition(b"=")
            if equals:
                given.setdefault(name, value)
    given.pop(_REQUEST, None)
    for name in _CHANGED_BY_US:
        original = given.pop(_ORIGINAL + name, None)
        if original is None:
            given.pop(name, None)
        else:
            given[name] = original
    return given


class _RecordingDict(dict):  # type: ignore[type-arg]
    """The data of os.environ, which are posix.environ.

    A copy, and a loop over names and values, first list all names and then read the values in that order.
    """

    def __init__(self, data: "dict[bytes, bytes]", recording: RecordingEnvironment) -> None:
        super().__init__(data)
        self._recording = recording
        self._listed: "list[bytes]" = []

    def __iter__(self) -> "Iterator[bytes]":
        self._listed = list(super().keys())[::-1]
        return map(self._recording.listed_name, list(super().keys()))

    def keys(self) -> "KeysView[bytes]":  # type: ignore[override]
        self._listed = list(super().keys())[::-1]
        return super().keys()

    def copy(self) -> "dict[bytes, bytes]":
        listed = self._recording.listed_name
        return {listed(key): self._recording.note_loop(key, value) for key, value in super().items()}

    def items(self) -> "ItemsView[bytes, bytes]":  # type: ignore[override]
        return self.copy().items()

    def values(self) -> "ValuesView[bytes]":  # type: ignore[override]
        return self.copy().values()

    def __repr__(self) -> str:
        return repr(self.copy())

    def get(self, key: bytes, default: object = None) -> object:
        try:
            return self[key]
        except KeyError:
            return default

    def __getitem__(self, key: bytes) -> bytes:
        if self._listed and self._listed[-1] == key:
            self._listed.pop()
            return self._recording.note_loop(key, super().__getitem__(key))
        self._listed = []
        self._recording.note_read(key)
        return super().__getitem__(key)  # type: ignore[no-any-return]

    def __setitem__(self, key: bytes, value: bytes) -> None:
        super().__setitem__(key, self._recording.original(key, value))

    def __contains__(self, key: object) -> bool:
        self._recording.note_read(key)
        return super().__contains__(key)


_PASSED_ON = {"os", "_collections_abc", "collections.abc", __name__, listed_names.__name__}


def _reader() -> str:
    """Return the package whose code reads the environment."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in _PASSED_ON:
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else package_of(frame.f_globals)


def package_of(names: "dict[str, object]") -> str:
    """Return the package of the module that has these names."""
    return str(names.get("__name__", "")).partition(".")[0]
