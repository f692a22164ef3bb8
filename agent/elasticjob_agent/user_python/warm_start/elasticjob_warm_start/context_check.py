"""Keep those modules out of a zygote whose import has begun in a context, such as a coroutine.

The changes of such an import may end with the context, and a zygote imports outside of it. A context around a part of
another import is there again if a zygote repeats that import. If the context is a `with` block, the module is imported
ahead unless it changes a setting.
"""

import sys
import threading

from .callers import is_standard_library
from .module_ends import ModuleEnds
from .settings import Settings, changed_setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from importlib.machinery import ModuleSpec

_BESIDE = "beside:"
_SENTENCES = {
    "environ": "is imported while `os.environ` is another object",
    "with": "is imported while torch computes without gradients, as in `torch.no_grad()`",
    "coroutine": "is imported by a coroutine or in an event loop",
    "thread": "is imported in a thread or a greenlet",
}


class ContextCheck:
    """A finder in front of all others that refuses these modules, and watches some."""

    def __init__(
        self, contexts: "Mapping[str, str]", modules: "Mapping[str, str]", denied: "Collection[str]" = ()
    ) -> None:
        """Refuse from now on.

        `contexts` are those of import_contexts.py. `modules` has the files of modules: those of Python change no
        setting. `denied` are packages and modules that are not imported ahead, unless others bring them in.
        """
        self._settings = Settings()
        self._denied = denied
        self._before: "dict[str, object]" = {}
        self._measured = ""
        """The module that another one imports now, and whose changes are compared."""
        beside = {name: text.partition(":")[2] for name, text in contexts.items() if text.startswith(_BESIDE)}
        self._contexts = {
            name: text
            for name, text in contexts.items()
            if name not in beside and not _is_of_python(modules.get(name, ""))
        }
        self._locks = sys.modules["_frozen_importlib"]._module_locks
        self.importing = ""
        """The module that is imported ahead now."""
        self.left_out: "dict[str, str]" = {}
        """Modules that are not imported ahead, each with the reason as the end of a sentence."""
        # It may look for such modules, and not find them when it is imported ahead.
        what = "imports {}, which is not installed"
        packages = {outer.partition(".")[0]: what.format(name) for name, outer in beside.items()}
        self.refused: "dict[str, str]" = {each: packages[each] for each in packages.keys() - set(denied)}
        """Packages that must not be imported ahead, or modules that were and must not be, each with the reason."""
        if self._contexts:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Refuse no more."""
        self._settings.stop()
        sys.meta_path[:] = [each for each in sys.meta_path if each is not self]

    def begin(self, name: str) -> bool:
        """Whether this module may be imported ahead, which begins then; note the reason if not."""
        self.importing, self._measured, self._before = name, "", {}
        if not self._is_outside(name):
            return True
        kind, _, around = self._contexts[name].partition(":")
        if self._root_kind(name) == "call":
            self._before = self._settings.read()
            return True
        if kind:
            of = " during the import of {}, which each worker does itself".format(around) if around else ""
            self.left_out[name] = _SENTENCES[kind] + of
        return False

    def end(self) -> None:
        """Note what the import has changed that a context may restore."""
        self._compare(self.importing, self._before)

    def _compare(self, name: str, before: "dict[str, object]") -> None:
        changed = changed_setting(before, self._settings.read()) if before else ""
        if changed:
            what = "changes {} when it is imported, which is done in a `with` block".format(changed)
            if name in self._denied and "." in name:  # of a package, the agent finds out what brings it
                name, what = self.importing, "imports {}, which {}".format(name, what)
            self.refused.setdefault(name, what)

    def _is_outside(self, name: str) -> bool:
        """Whether the context of this module is missing now."""
        return name in self._contexts and self._contexts[name].partition(":")[2] not in sys.modules

    def _root_kind(self, name: str) -> str:
        """Return the kind of the context around this module, or around the one that brings it."""
        for _ in self._contexts:  # a hostile profile may have an endless chain
            kind, _, around = self._contexts.get(name, "").partition(":")
            if kind or not around:
                return kind
            name = around
        return ""

    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """Raise ImportError if this module is imported outside of its context, or compare what it changes."""
        # Without a lock, it is only asked for. A thread of an import ahead is there in each such import.
        is_imported = name in self._locks and threading.current_thread() is threading.main_thread()
        if name in (self.importing, self._measured) or not is_imported or not self._is_outside(name):
            return None
        if self._root_kind(name) == "call":
            return None if self._measured or self._before else self._measure(name, path, target)
        what = "imports {}, which the script imports in a context before".format(name)
        self.refused.setdefault(self.importing, what)
        raise ImportError(what)

    def _measure(self, name: str, path: object, target: object) -> "ModuleSpec | None":
        """Return the spec of this module, at the end of whose import its changes are compared."""
        self._measured, before = name, self._settings.read()

        def compare() -> None:
            self._measured = ""
            self._compare(name, before)

        ends = ModuleEnds((name,), compare)
        ends.stop()
        return ends.find_spec(name, path, target)


def _is_of_python(file: str) -> bool:
    return bool(file) and (not file.startswith("/") or is_standard_library(file))
