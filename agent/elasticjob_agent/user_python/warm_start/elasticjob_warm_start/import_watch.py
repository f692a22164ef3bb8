"""Watch what modules do while they are imported that is right for one process only.

Each watch replaces a function for the time of the imports. Calls by the standard library are not recorded. It checks
the pid where it keeps it, and keeps nothing that it reads of the script.
"""

import _thread
import opcode
import os
import posix
import sys
import tempfile
import threading
import types

from .callers import is_standard_library, package_of
from .entry import is_own_module
from .generators import Generators, instances, owner_of
from .kept_objects import give_back
from .package_objects import layers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_IMPORT = opcode.opmap["IMPORT_NAME"]
_NUMBERS = (
    (os, "getpid"),
    (os, "getpgrp"),
    (os, "getpgid"),
    (os, "getsid"),
    (posix, "getpid"),
    (posix, "getpgrp"),
    (posix, "getpgid"),
    (posix, "getsid"),
    (threading, "get_native_id"),
    (_thread, "get_native_id"),
)
"""The functions that return the number of this process, or that of its main thread, group or session."""
_KEEPS_NUMBER = "keeps the number of its process"
_KEEPS_FUNCTION = "keeps a function that is watched during the import"
_MAX_LEFT = 20
"""Objects whose package is searched for; each search looks at all objects a few times."""
_HAND_ON_NUMBER = frozenset({"multiprocessing.process", "multiprocessing.util"})
"""Modules of Python whose functions give the number to their caller, or keep it for that."""
_HARMLESS = {
    ("psutil", "pid"): "looks up which files /proc has",
    ("pkg_resources", "script"): "asks for __requires__, which only its own scripts have",
}
"""(package, kind) → why its reads have no effect on a forked worker."""
_READ_AGAIN = {
    ("filelock", "_ForkState.__init__"),
    ("filelock", "_reset_child_after_fork"),
    ("filelock", "ensure_current_process"),
    ("filelock", "fork_transition"),
    ("fsspec", "_Cached.__init__"),
    ("joblib", "<module>"),  # in the name of a semaphore that it deletes at once
}
"""(package, function) that keeps the pid for a call, or replaces it after a fork. Their modules change by release."""


class ImportWatch:
    """Records, by package, what must not be done before a fork."""

    def __init__(self) -> None:
        self.unsafe: "dict[str, str]" = {}
        """Package → what it does when it is imported, as the end of a sentence about the package."""
        self._importing = "site"
        """The package whose import was asked for."""
        self.generators = Generators()
        self._psutil_users: "set[str]" = set()
        """The packages that have called psutil for this process."""
        self._numbers = [
            (module, name, getattr(module, name), self._recording_number(getattr(module, name)))
            for module, name in _NUMBERS
        ]
        self.made_temporary_files = False
        self._names = tempfile._get_candidate_names  # type: ignore[attr-defined]
        self._main = sys.modules["__main__"]
        for module, name, _, watch in self._numbers:
            setattr(module, name, watch)
        # Only this private function: modules keep references to the public ones.
        self._noting_names = self._recording_names  # one object: each access to a method makes another
        tempfile._get_candidate_names = self._noting_names  # type: ignore[attr-defined]
        self._main.__class__ = _recording_module(self._note_main)
        self._native_id: property = vars(threading.Thread)["native_id"]
        self._noting_native_id = property(self._recording_number(self._native_id.fget))
        self._set_native_id(self._noting_native_id)

    def stop(self, replaced: "list[tuple[object, object]]") -> None:
        """Record no more; `replaced` are other functions that modules may have, each with the one in its place."""
        self.begin("")
        for module, name, original, _ in self._numbers:
            setattr(module, name, original)
        tempfile._get_candidate_names = self._names  # type: ignore[attr-defined]
        self._main.__class__ = types.ModuleType
        self._set_native_id(self._native_id)
        for package in self._psutil_users:
            if any(_is_process(each) for layer in layers(package) for each in layer):
                self._note(package, _KEEPS_NUMBER)
        for record in instances((sys.modules["logging"].LogRecord,)) if "logging" in sys.modules else []:
            self._note(owner_of(record).partition(".")[0], "keeps a log record, which has the number of its process")
        for name in self.generators.stop():
            self._note(name.partition(".")[0], "keeps a random generator with a seed of its own")
        self._give_back(replaced)

    def _give_back(self, replaced: "list[tuple[object, object]]") -> None:
        """Put the originals where an import has kept one of ours; record the package where that cannot be done."""
        pairs = [(watch, original) for _, _, original, watch in self._numbers]
        self._numbers.clear()
        names = (self._noting_names, self._names)
        native_id = (self._noting_native_id, self._native_id)
        for holder in give_back([*pairs, names, native_id, *self.generators.replaced, *replaced])[:_MAX_LEFT]:
            package = owner_of(holder).partition(".")[0]
            if package and not is_own_module(package):
                self._note(package, _KEEPS_FUNCTION)

    @staticmethod
    def _set_native_id(new: property) -> None:
        threading.Thread.native_id = new  # type: ignore[method-assign,assignment]

    def begin(self, package: str) -> None:
        """Record that an import of this package begins, and what the one before it has left."""
        if package == self._importing:
            return
        if self.generators.compare_states():
            self._note(self._importing, "seeds or uses a global random generator when it is imported")
        self._importing = package

    def _note(self, package: str, what: str) -> None:
        self.unsafe.setdefault(package, what)

    def note_write(self) -> None:
        """Record the package that has Python or itself open a file to write it."""
        frame: "types.FrameType | None" = sys._getframe(1)
        while frame is not None and _is_of_python_or_ours(frame):
            frame = frame.f_back
        package = self._importing if frame is None else package_of(frame.f_globals)
        self._note(package, "writes a file when it is imported")

    def _recording_number(self, original: "Callable[..., int]") -> "Callable[..., int]":
        def recording(*arguments: object) -> int:
            self._note_caller("pid", _KEEPS_NUMBER, skip=_HAND_ON_NUMBER)
            return original(*arguments)

        return recording

    def _recording_names(self) -> object:
        self.made_temporary_files = True
        self._note_caller("temporary", "makes a temporary file when it is imported", skip=frozenset({"tempfile"}))
        return self._names()

    def _note_main(self) -> None:
        self._note_caller("script", "looks at the script when it is imported")

    def _note_caller(self, kind: str, what: str, skip: "frozenset[str]" = frozenset()) -> None:
        frame = sys._getframe(2)
        while frame is not None and frame.f_globals.get("__name__") in {__name__, *skip}:
            if frame.f_code.co_name == "<module>":
                return  # the module keeps it for itself
            frame = frame.f_back  # type: ignore[assignment]
        if frame is None or (is_standard_library(frame.f_code.co_filename) and kind != "temporary"):
            return
        package = package_of(frame.f_globals)
        if package == "psutil":
            self._note_psutil_user(frame)
        if (package, kind) in _HARMLESS or is_own_module(package):
            return
        if kind == "pid" and not _READ_AGAIN.isdisjoint((package, name) for name in _names_of(frame)):
            return
        self._note(package, what)

    def _note_psutil_user(self, frame: types.FrameType) -> None:
        """Record which package has called psutil; nothing if psutil itself is being imported."""
        user: "types.FrameType | None" = frame
        while user is not None and package_of(user.f_globals) == "psutil" and user.f_code.co_name != "<module>":
            user = user.f_back
        if user is not None and package_of(user.f_globals) != "psutil":
            self._psutil_users.add(package_of(user.f_globals))


def _is_of_python_or_ours(frame: types.FrameType) -> bool:
    return is_standard_library(frame.f_code.co_filename) or is_own_module(package_of(frame.f_globals))


def _is_process(value: object) -> bool:
    """Whether this is an object of psutil for one process."""
    return type(value).__module__ == "psutil" and type(value).__name__ == "Process"


def _names_of(frame: types.FrameType) -> "list[str]":
    """Return the name of this function; of a method one name for each class of its object."""
    code = frame.f_code
    if not code.co_argcount or code.co_varnames[0] not in {"self", "cls"}:
        return [code.co_name]
    classes = type(frame.f_locals.get(code.co_varnames[0])).__mro__
    return ["{}.{}".format(each.__name__, code.co_name) for each in classes]


def _recording_module(note: object) -> type:
    class RecordingModule(types.ModuleType):
        def __getattribute__(self, name: str) -> object:
            if name != "__spec__" or not _is_import(sys._getframe(1)):
                note()  # type: ignore[operator]
            return super().__getattribute__(name)

    return RecordingModule


def _is_import(frame: types.FrameType) -> bool:
    """Whether this code executes `import __main__`: the module is the same one when the script runs in it."""
    return frame.f_code.co_code[frame.f_lasti] == _IMPORT
