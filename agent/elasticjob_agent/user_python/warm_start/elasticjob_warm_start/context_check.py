"""Keep those modules out of a zygote whose import has begun in a context, such as a `with` block of the script.

The changes of such an import may end with the context, and a zygote imports outside of it. A context around a part of
another import is there again if a zygote repeats that import. If an installed function has the context, the module is
imported ahead unless it changes a setting.
"""

import sys
import threading

from .settings import Settings, changed_setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SENTENCES = {
    "with": "is imported inside a `with` block",
    "coroutine": "is imported by a coroutine or in an event loop",
    "thread": "is imported in a thread",
}


class ContextCheck:
    """A finder in front of all others that finds nothing, and refuses these modules."""

    def __init__(self, contexts: "Mapping[str, str]") -> None:
        """Refuse from now on; the values of `contexts` are those of import_contexts.py."""
        self._settings = Settings()
        self._before: "dict[str, object]" = {}
        self._contexts = contexts
        self._locks = sys.modules["_frozen_importlib"]._module_locks
        self.importing = ""
        """The module that is imported ahead now."""
        self.left_out: "dict[str, str]" = {}
        """Modules that are not imported ahead, each with the reason as the end of a sentence."""
        self.refused: "dict[str, str]" = {}
        """Modules that were imported ahead and must not be, each with the reason."""
        if contexts:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Refuse no more."""
        self._settings.stop()
        sys.meta_path[:] = [each for each in sys.meta_path if each is not self]

    def begin(self, name: str) -> bool:
        """Whether this module may be imported ahead, which begins then; note the reason if not."""
        self.importing = name
        kind, _, around = self._contexts.get(name, "").partition(":")
        if self._is_outside(name):
            if kind:
                of = " during the import of {}, which each worker does itself".format(around) if around else ""
                self.left_out[name] = _SENTENCES[kind] + of
            return False
        self._before = self._settings.read() if kind == "call" else {}
        return True

    def end(self) -> None:
        """Note what the import has changed that a context may restore."""
        changed = changed_setting(self._before, self._settings.read()) if self._before else ""
        if changed:
            what = "changes {} when it is imported, which is done in a `with` block".format(changed)
            self.refused.setdefault(self.importing, what)

    def _is_outside(self, name: str) -> bool:
        """Whether the context of this module is missing now."""
        kind, _, around = self._contexts.get(name, "").partition(":")
        if kind == "call" and name == self.importing:
            return False
        return name in self._contexts and around not in sys.modules

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise ImportError if this module is imported outside of its context."""
        del path, target
        # Without a lock, it is only asked for. A thread of an import ahead is there in each such import.
        if name in self._locks and self._is_outside(name) and threading.current_thread() is threading.main_thread():
            what = "imports {}, which the script imports in a context before".format(name)
            self.refused.setdefault(self.importing, what)
            raise ImportError(what)
