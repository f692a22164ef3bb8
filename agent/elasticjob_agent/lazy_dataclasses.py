"""Dataclasses whose methods are compiled at their first call, which makes a class in a third of the time.

Up to Python 3.12 `dataclasses` compiles each method of each class separately: about 70 µs a method, and six methods
for a frozen class. An agent has more than a hundred such classes, and calls few of their methods at first. The
compilation took a third of the start-up time. Inside `lazy_methods` each method is a placeholder. Its first call
compiles the method of `dataclasses`, replaces the placeholder by it and calls it. A class behaves the same, but its
signature is unknown before the first instance. Python 3.13 compiles all methods of a class together: there this
module does nothing.
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
