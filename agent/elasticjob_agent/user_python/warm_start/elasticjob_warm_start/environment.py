"""Record how imports read and change the environment, and give a forked worker the environment of its own."""

import ast
import contextlib
import os
import posix
import sys

from . import libc
from .callers import calling_package
from .changed_variables import ReadNames
from .listed_names import ListedName, NameRecord, NameState, plain_name
from .listed_values import ListedValue
from .noting_dict import NotingDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
    from typing import Any

_REQUEST, _ORIGINAL = b"ELASTICJOB_PRELOAD", b"ELASTICJOB_"
_CHANGED_BY_US = (b"PYTHONPATH", b"PYTHONWARNINGS")


class RecordingEnvironment:
    """Watches os.environ while modules are imported.

    A module that reads a variable of one rank keeps the value of another rank. A module that sets a variable did so for
    the zygote, and each forked worker must have it too.
    """

    def __init__(self, read_in_c: "list[str]") -> None:
        """`read_in_c` are the first letters of variables that C code may read."""
        self.reads: "dict[str, set[str]]" = {}
        """Variable → the packages that have read it."""
        self.script_reads: "dict[str, set[str]]" = {}
        """Variable that the script has changed by then → the packages, or modules of packages, that have read it."""
        self.script_writes: "dict[str, set[str]]" = {}
        """Variable that the script has changed by then → the packages that have given it another value."""
        self.importing = ""
        """The module that is imported ahead now."""
        self.script_variables: "set[str]" = set()
        """The variables that the script has changed, and no import done so far."""
        self._of_script: "dict[bytes, bytes | None]" = {}
        """These as long as the script's value is not here, each with that value; None: it is not known, or removed."""
        self._varying: "set[bytes]" = set()
        self._known: "set[bytes]" = set()
        self._records: "dict[tuple[str, bytes], NameRecord]" = {}
        """Of the names in loops, by package and variable."""
        self._has_loops = False
        """Whether an import has looped over all names: it may have looked for one that was not there."""
        self._read_in_c = tuple(map(os.fsencode, read_in_c))
        self._is_on = True
        self._given = given_environment()
        self._after: "dict[bytes, bytes]" = {}
        self._in_c: "dict[bytes, bytes | None]" = {}
        """Variables that differ in C's environment, as after os.putenv(); None: it has none."""
        self._data = NotingDict()
        self._recorder = _RecordingDict(os.environ._data, self)  # type: ignore[attr-defined]
        self._set_data(self._recorder)
        self.replaced = (self._recorder, self._data)
        """The object that modules may have got meanwhile, and the one that they should have."""

    @staticmethod
    def _set_data(data: "dict[bytes, bytes]") -> None:
        os.environ._data = os.environb._data = posix.environ = data  # type: ignore[attr-defined]

    def stop(self) -> None:
        """Record no more."""
        self._is_on = False
        self._note_values()
        self._after = after = dict(dict.items(self._recorder))  # without the reads that a copy makes
        in_c = libc.environment()
        self._in_c = {key: in_c.get(key) for key in {**after, **in_c} if in_c.get(key) != after.get(key)}
        self._data.clear()
        self._data.update(self._after)
        self._set_data(self._data)

    def watch(self, variables: "Iterable[str]", known: "Iterable[str]") -> None:
        """From now on, watch what loops over all variables do with these, which differ by rank or round.

        The script is known to change the variables in `known`.
        """
        self._varying = set(map(os.fsencode, variables))
        self._known = set(map(os.fsencode, known))

    def note_read(self, key: "Any") -> None:
        """Record that this variable is read now."""
        if self._is_on:
            self._note_read(os.fsencode(key), calling_package(sys._getframe(2)))

    def _note_read(self, key: bytes, package: str) -> None:
        name = os.fsdecode(key)
        self.reads.setdefault(name, set()).add(package)
        if key in self._of_script:
            # Often it is a module that the package imports late, so that the others can be imported ahead.
            is_part = self.importing.startswith(package + ".")
            self.script_reads.setdefault(name, set()).add(self.importing if is_part else package)

    def _note_values(self) -> None:
        """Record the packages that have used or kept a value which a loop has handed out."""
        for (package, key), record in self._records.items():
            readers, name = record.value_readers(package), os.fsdecode(key)
            self.reads.setdefault(name, set()).update(readers)
            if readers and name in self.script_variables:
                self.script_reads.setdefault(name, set()).update(readers)

    def expect_changes(self, values: "dict[str, str]") -> None:
        """From now on, the script may have changed these variables before an import.

        `values` are those in the recorded worker, as `ascii` writes them; an empty one is not known. If a variable has
        this value here, an import has set it.
        """
        for name, value in values.items():
            key = os.fsencode(name)
            if value != ascii(dict.get(self._recorder, key)):
                self.script_variables.add(name)
                self._of_script[key] = _parse_value(value)

    def note_set(self, key: bytes, value: bytes) -> None:
        """Record that an import sets this variable; not the script but an import has set it if the value is the same.

        Else the script would give it its own value again in a warm worker.
        """
        if not self._is_on or key not in self._of_script:
            return
        if self._of_script[key] == value:
            del self._of_script[key]
        else:
            self.script_writes.setdefault(os.fsdecode(key), set()).add(calling_package(sys._getframe(2)))

    def list_names(self) -> "list[bytes]":
        """Return all names for a loop or a copy, with those of variables that only the script has set."""
        own = [*dict.keys(self._recorder)]
        if not self._is_on:
            return own
        self._has_loops = True
        package = calling_package(sys._getframe(2))
        missing = [key for key in self._of_script if not dict.__contains__(self._recorder, key)]
        return [self._listed(key, package) for key in (*own, *missing)]

    def _listed(self, key: bytes, package: str) -> bytes:
        if key not in self._varying and key not in self._of_script:
            return key
        record = self._records.setdefault((package, key), NameRecord(key, self._note_read))
        return ListedName.of(key, NameState(record))  # type: ignore[no-any-return]

    def listed_value(self, key: bytes) -> bytes:
        """Return the value of this variable for a loop or a copy."""
        variable = plain_name(key)
        found = self._of_script.get(variable)
        value = dict.get(self._recorder, variable, b"") if found is None else found
        return ListedValue.of(value, key.state) if isinstance(key, ListedName) else value

    @property
    def readers_of_all(self) -> "set[str]":
        """Return the packages that may have read all variables."""
        return {package for (package, _), record in self._records.items() if record.may_be_read}

    @property
    def writes(self) -> "set[str]":
        """Return the variables that were changed since the interpreter was started."""
        return {os.fsdecode(key) for key in self._changed()}

    def _changed(self) -> "list[bytes]":
        return [key for key in {**self._given, **self._after} if self._given.get(key) != self._after.get(key)]

    @property
    def read_names(self) -> ReadNames:
        """Return the variables that the imports may have read, or have looked for, and that are not known to change."""
        without = self._varying | self._known
        return ReadNames(names=self.reads, in_c=self._read_in_c, without=without, are_all=self._has_loops)

    def note_changes(self, note: "Callable[[bytes], None]") -> None:
        """From now on, call this function with each variable that this process changes."""
        self._data.note = note

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


def _parse_value(text: str) -> "bytes | None":
    """Return the value that `ascii` has written, None if that is not known."""
    if text.startswith(("b'", 'b"')):
        with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            value = ast.literal_eval(text)
            return value if isinstance(value, bytes) else None
    return None


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
    """The data of os.environ, which are posix.environ."""

    def __init__(self, data: "dict[bytes, bytes]", recording: RecordingEnvironment) -> None:
        super().__init__(data)
        self._recording = recording

    def __iter__(self) -> "Iterator[bytes]":
        return iter(self._recording.list_names())

    def keys(self) -> "KeysView[bytes]":  # type: ignore[override]
        return dict.fromkeys(self._recording.list_names()).keys()

    def copy(self) -> "dict[bytes, bytes]":
        return {key: self._recording.listed_value(key) for key in self._recording.list_names()}

    def items(self) -> "ItemsView[bytes, bytes]":  # type: ignore[override]
        return self.copy().items()

    def values(self) -> "ValuesView[bytes]":  # type: ignore[override]
        return self.copy().values()

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce_ex__(self, protocol: object) -> "tuple[type, tuple[dict[bytes, bytes]]]":
        return dict, (self.copy(),)

    def get(self, key: bytes, default: object = None) -> object:
        try:
            return self[key]
        except KeyError:
            return default

    def __getitem__(self, key: bytes) -> bytes:
        if isinstance(key, ListedName):
            return self._recording.listed_value(key)
        self._recording.note_read(key)
        return super().__getitem__(key)  # type: ignore[no-any-return]

    def __setitem__(self, key: bytes, value: bytes) -> None:
        if isinstance(key, ListedName):
            key.state.note(is_hit=True)  # the loop writes to it
        self._recording.note_set(plain_name(key), value)
        super().__setitem__(plain_name(key), value[:] if isinstance(value, ListedValue) else value)

    def __delitem__(self, key: bytes) -> None:
        if isinstance(key, ListedName):
            key.state.note(is_hit=True)
        self._recording.note_read(plain_name(key))
        super().__delitem__(plain_name(key))

    def __contains__(self, key: object) -> bool:
        if isinstance(key, ListedName):
            return True
        self._recording.note_read(key)
        return super().__contains__(key)
