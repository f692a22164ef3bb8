"""Find out in which context an import begins: what it changes there may end with the context.

That is a `with` block, a coroutine, a function that an event loop calls, a thread or a greenlet. It is also the mode of
torch without gradients. A zygote repeats the frames of an installed package whose own import goes on, contexts
included. So only the frames outside of that import count.

This module imports nothing that Python has not loaded before the script; see entry.py.
"""

import os
import sys

from . import entry
from .callers import is_installed
from .with_blocks import WithBlockCache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_ASYNCHRONOUS = 0x80 | 0x100 | 0x200
"""Flags of the code of coroutines, of generators that are awaited, and of asynchronous generators."""
_FIRST_MODULES = frozenset({"runpy", "site", "sitecustomize"})
"""Python calls functions of these outside of all others, besides the code of the script."""
_SET_BACK_THEIR_OWN = frozenset(
    {
        ("hydra.core.utils", "run_job"),
        ("click.core", "main"),
        ("click.core", "invoke"),
        ("typer.core", "_main"),
        # numpy is first imported here where a script imports these first: in a lock, and in `suppress(ImportError)`.
        ("wandb.util", "load"),
        ("mlflow.data.dataset_registry", "<module>"),
    }
)
"""Functions that import, or call what does, in a `with` block that sets back only what it has set itself."""


class ImportContexts:
    """Judges the imports of this process."""

    def __init__(self) -> None:
        self._import = sys.modules["_frozen_importlib"]._find_and_load.__code__
        self._thread_number = sys.modules["_thread"].get_ident
        self._main_thread = self._thread_number()
        self._modules = sys.modules
        self._origin_of = entry.origin_of
        self._blocks = WithBlockCache()
        self._environ = id(os.environ)  # a reference would keep it, and its attributes, at the end of Python
        self._texts: "dict[str, str]" = {}
        self._outer: "dict[str, str]" = {}
        """Module → the installed one whose own import goes on around the import of it."""

    def text(self, name: str) -> str:
        """Return `KIND:MODULE` for a module whose import has begun in a context, else an empty text.

        KIND is `environ` if `os.environ` is another object then, `coroutine`, `thread`, `call` for a `with` block, or
        `with` if torch computes without gradients there. It is empty if MODULE has such a text itself. MODULE is the
        one whose own import goes on around this one; it is empty if the script imports. KIND is `beside` for a module
        that is not installed, and that MODULE imports.
        """
        outer = self._outer.get(name)
        return "beside:" + outer if outer and not self._is_installed(name) else self._texts.get(name, "")

    def judge(self, name: str, frame: "FrameType | None") -> None:
        """Note the context of this module, whose import has begun in this frame."""
        self._texts.pop(name, None)
        self._outer.pop(name, None)
        kind = outer = ""
        is_of_script = True
        inner = outermost = None
        while frame is not None:
            if frame.f_code is self._import:
                outer = frame.f_locals["name"]
                if outer != name and self._is_installed(outer):
                    self._outer[name] = outer
                    break
            elif not frame.f_code.co_filename.startswith("<frozen importlib"):
                outermost = frame
                if self._is_asynchronous(frame):
                    kind = "coroutine"
                elif not kind and self._blocks.has(frame.f_code, frame.f_lasti) and not _sets_back_its_own(frame):
                    # A decorator has a block of its own around the function of the script.
                    kind, is_of_script = "call", self._is_script(frame) or self._is_script(inner)
                inner = frame
            frame = frame.f_back
        else:
            outer = ""
            kind = self._outermost_kind(outermost) or kind
            if id(os.environ) != self._environ:
                kind = "environ"
            if kind in ("", "call") and is_of_script and self._computes_without_gradients():
                kind = "with"
        if kind or outer in self._texts:
            self._texts[name] = "{}:{}".format(kind, outer)

    def _outermost_kind(self, frame: "FrameType | None") -> str:
        """Return the kind if this frame, outside of which is none, is not that of the main module."""
        if self._thread_number() != self._main_thread:
            return "thread"
        name = None if frame is None else frame.f_globals.get("__name__")
        is_script = frame is not None and name == "__main__" and frame.f_code.co_name == "<module>"
        return "" if frame is None or is_script or name in _FIRST_MODULES else "thread"

    def _computes_without_gradients(self) -> bool:
        """Whether torch does here, for example in a block around a generator, or in `autograd.Function`."""
        names = entry.names_of(self._modules.get("torch"))
        return "is_grad_enabled" in names and not names["is_grad_enabled"]()

    def _is_installed(self, name: str) -> bool:
        """Whether a zygote may import this module; it does not import those beside the script."""
        if name not in self._modules:  # its package is being imported first
            return False
        origin = self._origin_of(name)
        return not origin.startswith(os.sep) or is_installed(origin)

    @staticmethod
    def _is_script(frame: "FrameType | None") -> bool:
        """Whether this is code of the script, which may be an installed module itself."""
        if frame is None:
            return False
        is_main = frame.f_globals.get("__name__") == "__main__"
        return is_main or not is_installed(frame.f_code.co_filename)

    @staticmethod
    def _is_asynchronous(frame: "FrameType") -> bool:
        code = frame.f_code
        is_of_loop = str(frame.f_globals.get("__name__")).startswith("asyncio.") and code.co_name != "<module>"
        return is_of_loop or bool(code.co_flags & _ASYNCHRONOUS)


def _sets_back_its_own(frame: "FrameType") -> bool:
    return (frame.f_globals.get("__name__"), frame.f_code.co_name) in _SET_BACK_THEIR_OWN
