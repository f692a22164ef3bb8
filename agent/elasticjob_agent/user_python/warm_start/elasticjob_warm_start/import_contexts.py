"""Find out in which context an import begins: what it changes there may end with the context.

That is a `with` block, a coroutine, a function that an event loop calls, or a thread. A zygote repeats the frames of an
installed package whose own import goes on, contexts included. So only the frames outside of that import count.

This module imports nothing that Python has not loaded before the script; see entry.py.
"""

import os
import sys

from . import entry
from .with_blocks import is_in_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_ASYNCHRONOUS = 0x80 | 0x100 | 0x200
"""Flags of the code of coroutines, of generators that are awaited, and of asynchronous generators."""
_WEAK = ("", "call")
"""Kinds of a frame that one of a frame around it replaces."""
_INSTALLED = ("site-packages", "dist-packages")


class ImportContexts:
    """Judges the imports of this process."""

    def __init__(self) -> None:
        self._import = sys.modules["_frozen_importlib"]._find_and_load.__code__
        self._thread_number = sys.modules["_thread"].get_ident
        self._main_thread = self._thread_number()
        self._modules = sys.modules
        self._origin_of = entry.origin_of
        self._library = os.path.dirname(os.__file__) + os.sep
        self._texts: "dict[str, str]" = {}

    def text(self, name: str) -> str:
        """Return `KIND:MODULE` for a module whose import has begun in a context, else an empty text.

        KIND is `coroutine`, `thread`, `with` for a block of the script, or `call` for a block of an installed function
        that the script calls. It is empty if MODULE has such a text itself. MODULE is the one whose own import goes on
        around this one; it is empty if the script imports.
        """
        return self._texts.get(name, "")

    def judge(self, name: str, frame: "FrameType | None") -> None:
        """Note the context of this module, whose import has begun in this frame."""
        self._texts.pop(name, None)
        kind = outer = ""
        called = frame
        while frame is not None:
            if frame.f_code is self._import:
                outer = frame.f_locals["name"]
                if outer != name and self._is_installed(outer):
                    break
            elif kind in _WEAK and not frame.f_code.co_filename.startswith("<frozen importlib"):
                kind = self._kind(frame, called) or kind
                called = frame
            frame = frame.f_back
        else:
            outer = ""
            if kind in _WEAK and self._thread_number() != self._main_thread:
                kind = "thread"
        if kind or outer in self._texts:
            self._texts[name] = "{}:{}".format(kind, outer)

    def _is_installed(self, name: str) -> bool:
        """Whether a zygote may import this module; it does not import those beside the script."""
        if name not in self._modules:  # its package is being imported first
            return False
        origin = self._origin_of(name)
        return not origin.startswith(os.sep) or self._is_of_package(origin)

    def _is_of_package(self, file: str) -> bool:
        is_library = file.startswith((self._library, "<frozen "))
        return is_library or any(os.sep + folder + os.sep in file for folder in _INSTALLED)

    def _kind(self, frame: "FrameType", called: "FrameType | None") -> str:
        """Return the kind of context that this frame is; it has called the other one."""
        code = frame.f_code
        if code.co_flags & _ASYNCHRONOUS or str(frame.f_globals.get("__name__")).startswith("asyncio."):
            return "coroutine"
        if not is_in_with(code, frame.f_lasti):
            return ""
        # A decorator has a block of its own around the function of the script.
        files = [code.co_filename, *([] if called is None else [called.f_code.co_filename])]
        return "call" if all(map(self._is_of_package, files)) else "with"
