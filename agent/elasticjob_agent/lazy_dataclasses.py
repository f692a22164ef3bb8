"""Compile the methods of the agent's dataclasses at their first call: it makes the start a third shorter.

Up to Python 3.12 `dataclasses` compiles each method of each class separately: about 70 µs a method, and six methods
for a frozen class. An agent has more than a hundred such classes, and calls few of their methods at first. Inside
`lazy_methods` each method is a placeholder. Its first call compiles the method of `dataclasses`, replaces the
placeholder by it and calls it.

The cost: while `cli.main` imports the agent, a private function of `dataclasses` is replaced for the whole process. A
class has no signature before its first instance, and the agent takes 0.4 MiB more memory. In return the imports take
79 ms of processor time instead of 121 (Python 3.11), with the same system calls. Python 3.13 compiles all methods of a
class together. There this module does nothing; delete it when no older Python is supported.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

_MAKER = "_create_fn"
"""The function by which Python 3.11 and 3.12 compile a method; its first argument is the method's name."""

Method = Callable[..., Any]


@contextlib.contextmanager
def lazy_methods() -> Iterator[None]:
    """Make the methods of dataclasses that are defined inside lazy. For one thread only; it cannot be nested."""
    make: Callable[..., Method] | None = getattr(dataclasses, _MAKER, None)
    if make is None:
        yield
        return
    setattr(dataclasses, _MAKER, _lazy_maker(make))
    try:
        yield
    finally:
        setattr(dataclasses, _MAKER, make)


def _lazy_maker(compile_method: Callable[..., Method]) -> Callable[..., Method]:
    def made(name: str, *arguments: Any, **options: Any) -> Method:
        return _placeholder(name, lambda: compile_method(name, *arguments, **options))

    return made


def _placeholder(name: str, compile_method: Callable[[], Method]) -> Method:
    real: Method | None = None

    def method(self: Any, *others: Any, **named: Any) -> Any:
        nonlocal real
        if real is None:
            real = compile_method()  # two threads may both compile it: the results are equal
            _replace(type(self), name, method, real)
        return real(self, *others, **named)

    method.__name__ = name
    return method


def _replace(cls: type, name: str, placeholder: Method, real: Method) -> None:
    """Replace the placeholder in the class that holds it. A placeholder inside a wrapper remains and forwards calls."""
    for owner in cls.__mro__:
        if owner.__dict__.get(name) is placeholder:
            real.__qualname__ = placeholder.__qualname__
            setattr(owner, name, real)
