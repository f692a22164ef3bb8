"""Do what the agent asked this interpreter for, before its script begins; see site/sitecustomize.py.

A worker that only records or registers a signal must look as if it had been started without us. So this module, the
recorder and stacks.py import nothing that Python has not loaded before its script. Otherwise a file `signal.py` or
`enum.py` beside the script would not be found.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_zygote = None


def begin_zygote(request: str, modules_before: "frozenset[str]") -> None:
    """Begin to watch, and read what to import: `modules_before` are those that Python loads before the module `site`.

    That comes before `.pth` files and the `sitecustomize` of the user, so that a zygote watches these, too.
    """
    global _zygote  # noqa: PLW0603 - one interpreter has one request
    from . import zygote

    if "site" in sys.modules:
        raise RuntimeError("an import of ours has run the module site, which nothing has watched")
    _zygote = zygote.Zygote(int(request.partition(":")[2]), modules_before)


def run(request: str) -> None:
    """Carry out `KIND[:FD]`; for a zygote, return in its forked children only.

    A worker must start whatever is wrong here. So an error of the recorder is dropped: without a recorder's greeting,
    the agent starts no zygote.
    """
    if _zygote is not None:
        _zygote.run()
        return
    kind, _, fd = request.partition(":")
    try:
        from . import stacks

        stacks.register()
        if kind == "record":
            from . import recorder

            recorder.start(int(fd))
    except Exception:  # noqa: BLE001 - the worker starts in any case
        return


def is_own_module(name: str) -> bool:
    """Whether this module belongs to the warm start itself."""
    return name.partition(".")[0] == __name__.partition(".")[0]


def loaded(name: str) -> "Any":
    """Return this module; None if it is not loaded, or is a lazy one whose code a reader would run."""
    module = sys.modules.get(name)
    return None if is_lazy(module) else module


def is_lazy(module: object) -> bool:
    """Whether `importlib.util.LazyLoader` has made this module, and nothing has run its code yet."""
    return type(module).__name__ == "_LazyModule"


def is_of_lazy_loader(module: object) -> bool:
    """Whether `importlib.util.LazyLoader` has made this module; its code may have run since."""
    spec = spec_of(module)
    # Python 3.13 imports another module before it makes this one lazy.
    loader_classes = {each.__name__ for each in type(getattr(spec, "loader", None)).__mro__}
    state = getattr(spec, "loader_state", None)
    return is_lazy(module) or "LazyLoader" in loader_classes or (type(state) is dict and "__class__" in state)


def names_of(module: object) -> "dict[str, Any]":
    """Return the names of a module, also those of a lazy one, without running its code."""
    names = _read(module, "__dict__")
    return names if type(names) is dict else {}


def spec_of(module: object) -> object:
    """Return the spec of a module, also that of a lazy one, without running its code; None if it has none."""
    return _read(module, "__spec__")


def _read(module: object, name: str) -> object:
    try:
        return object.__getattribute__(module, name)
    except AttributeError:
        return None


def origin_of(name: str) -> str:
    """Return the file of a loaded module; empty if it has none."""
    module = sys.modules[name]
    # Not getattr: the __getattr__ of a lazy module would import something.
    read = object.__getattribute__
    try:
        spec = read(module, "__spec__")
        # One module may have several names, as those that setuptools brings along. Then it has the spec of the last.
        origin = spec.origin if spec.name == name else read(module, "__file__")
    except AttributeError:
        return ""
    return origin if isinstance(origin, str) else ""
