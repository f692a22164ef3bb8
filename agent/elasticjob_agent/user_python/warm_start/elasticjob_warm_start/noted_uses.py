"""Find the uses of a name or a value that a loop over all variables has handed out: make the methods that note them."""

import sys

from .callers import package_of
from .entry import is_own_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import FrameType
    from typing import Any

_NO_USES = frozenset(
    (
        *("__class__", "__del__", "__delattr__", "__dir__", "__doc__", "__getattribute__", "__getstate__", "__init__"),
        *("__init_subclass__", "__new__", "__setattr__", "__sizeof__", "__subclasshook__", "fromhex", "maketrans"),
        *("__buffer__", "__release_buffer__"),
    )
)
"""Attributes that each object has, and others that do not show the text."""


def note_uses(listed: "Any", without: "Collection[str]" = ()) -> "Any":
    """Return this class, in which each method of its kind notes a use, but those that it has itself or `without`."""
    own = {name for each in listed.__mro__[: listed.__mro__.index(listed.kind)] for name in vars(each)}
    for name in set(dir(listed.kind)).difference(_NO_USES, own, without):
        if callable(getattr(listed.kind, name)):
            setattr(listed, name, _noting(listed.kind, name))
    return listed


def _noting(kind: type, name: str) -> "Callable[..., Any]":
    plain = getattr(kind, name)

    def method(self: "Any", *arguments: "Any", **options: "Any") -> "Any":
        self.note_use(sys._getframe(1))
        return plain(self, *arguments, **options)

    return method


def is_for_child(frame: "FrameType | None") -> bool:
    """Whether `subprocess` does this: it makes the environment of a child process."""
    while frame is not None and (_is_own(frame) or _is_in_os(frame, "fsencode")):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "subprocess"


def is_for_lookup(frame: "FrameType") -> bool:
    """Whether `os.environ` itself encodes a name, to look up its value."""
    return _is_in_os(frame, "encode")


def _is_own(frame: "FrameType") -> bool:
    return is_own_module(package_of(frame.f_globals))


def _is_in_os(frame: "FrameType", function: str) -> bool:
    return frame.f_globals.get("__name__") == "os" and frame.f_code.co_name == function
