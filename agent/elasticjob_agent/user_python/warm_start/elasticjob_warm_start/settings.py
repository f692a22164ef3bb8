"""Read the settings of this process and of its main thread that a `with` block may set back at its end.

Of `contextvars`, `locale` and `weakref`, only the built-in parts are imported: a file beside the script may have such a
name.
"""

import _locale
import gc
import os
import sys
import threading
import warnings
from _contextvars import copy_context
from _weakref import ref

from .entry import names_of
from .generators import instances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OF_SYS = ("stdin", "stdout", "stderr", "excepthook", "displayhook", "breakpointhook", "unraisablehook")
_OF_LIBRARIES = {
    "numpy": ("geterr", "geterrcall", "get_printoptions"),
    "torch": (
        *("is_grad_enabled", "is_inference_mode_enabled", "get_default_dtype"),
        *("is_autocast_enabled", "is_autocast_cache_enabled", "is_anomaly_enabled", "get_num_threads"),
        "get_float32_matmul_precision",
        *("are_deterministic_algorithms_enabled", "is_warn_always_enabled", "get_deterministic_debug_mode"),
    ),
    # The first of these has the default device, too: `get_default_device` would import a module.
    "torch._C": ("_len_torch_function_stack", "_len_torch_dispatch_stack"),
    "socket": ("getdefaulttimeout",),
}
"""Library → its functions without an argument that return a setting; another version may not have one."""


class Settings:
    """Reads the settings again and again."""

    def __init__(self) -> None:
        self._locals: "list[ref[threading.local]]" = []
        """All objects of `threading.local` that a read has found."""
        self._has_read = False

    def read(self) -> "dict[str, object]":
        """Return the settings, each under what it is, as the object of a sentence."""
        settings: "dict[str, object]" = {}
        for what, read in {**_READERS, _LOCALS: self._of_thread}.items():
            try:
                settings[what] = read()
            except Exception:  # noqa: BLE001 - a library may raise anything
                settings[what] = object()  # it counts as changed
        return settings

    def stop(self) -> None:
        """Let the collector see all objects again."""
        if self._has_read:
            gc.unfreeze()

    def _of_thread(self) -> "dict[int, object]":
        """Return the values that the objects of `threading.local` have for this thread."""
        self._locals += map(ref, instances((threading.local,)))  # type: ignore[arg-type]
        gc.freeze()  # the next read finds only newer objects: there may be millions of others
        self._has_read = True
        alive = filter(None, (reference() for reference in self._locals))
        return {id(each): {name: id(value) for name, value in vars(each).items()} for each in alive}


def changed_setting(before: "dict[str, object]", after: "dict[str, object]") -> str:
    """Return what is different, as the object of a sentence; an empty text if nothing is."""
    for what, value in before.items():
        now = after[what]
        if what in _MAY_GROW and isinstance(value, dict) and isinstance(now, dict):
            now = {key: now.get(key, each) for key, each in value.items()}
        if now != value:
            return what
    return ""


def _context() -> "dict[int, object]":
    """Return the identity of each value, and of a context of `decimal` what it has."""
    values = {id(variable): value for variable, value in copy_context().items()}
    return {key: repr(each) if type(each).__module__ == "decimal" else id(each) for key, each in values.items()}


def _of_logging() -> "dict[str, object]":
    if "logging" not in sys.modules:
        return {}
    root = sys.modules["logging"].getLogger()
    return {"level": root.level, "handlers": list(map(id, root.handlers)), "disable": root.manager.disable}


def _values() -> "Iterator[tuple[str, object]]":
    for library, names in _OF_LIBRARIES.items():
        for name in names:
            read = names_of(sys.modules.get(library)).get(name)
            if read is not None:
                try:
                    yield library + "." + name, str(read())
                except Exception as error:  # noqa: BLE001 - as above
                    yield library + "." + name, type(error)


def _of_autocast() -> "dict[str, object]":
    """Return what torch has for its processors; a release before 2.4 has other functions."""
    torch = names_of(sys.modules.get("torch"))
    if "get_autocast_dtype" in torch:
        read = (torch["is_autocast_enabled"], torch["get_autocast_dtype"])
        return {kind: [each(kind) for each in read] for kind in ("cpu", "cuda")}
    names = ("is_autocast_cpu_enabled", "get_autocast_cpu_dtype", "get_autocast_gpu_dtype")
    return {name: torch[name]() for name in names if name in torch}


_LOCALS, _LIBRARIES = "values of threading.local", "a setting of a library"
_AUTOCAST, _LOGGER = "the autocast of torch", "the root logger"
_MAY_GROW = frozenset({_LOCALS, _LIBRARIES, _AUTOCAST, _LOGGER})
"""Of these, an import may bring more."""
_READERS: "dict[str, Callable[[], object]]" = {
    "the filters of warnings": lambda: (list(warnings.filters), warnings.showwarning),
    "a context variable": _context,
    "a variable of the environment": lambda: dict(dict.items(os.environ._data)),  # type: ignore[attr-defined]
    "sys.path": lambda: list(sys.path),
    "a stream or hook of sys": lambda: [id(getattr(sys, name)) for name in _OF_SYS],
    "the locale": lambda: _locale.setlocale(_locale.LC_ALL),
    "the collector": lambda: (gc.isenabled(), gc.get_threshold()),
    "a limit of the interpreter": lambda: (sys.getrecursionlimit(), sys.getswitchinterval(), sys.dont_write_bytecode),
    _LOGGER: _of_logging,
    _AUTOCAST: _of_autocast,
    _LIBRARIES: lambda: dict(_values()),
}
