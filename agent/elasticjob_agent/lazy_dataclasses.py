"""Dataclasses that are made in a third of the time: each of their methods is compiled when it is first called.

Up to Python 3.12 `dataclasses` compiles each method of each class by itself, some 70 µs a method, six of them for a
frozen class. An agent has more than a hundred such classes, and needs few of their methods before something happens.
That was a third of the start-up time. Inside `lazy_methods` each method is a placeholder. Its first call compiles the
method of `dataclasses`, puts it in its place and calls it. A class behaves the same; only its signature is not known
before the first instance. Python 3.13 makes all methods of a class together: there this does nothing.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

_MAKER = "_create_fn"
"""What Python 3.11 and 3.12 make a method by; its first argument is the method's name."""

Method = Callable[..., Any]


@contextlib.contextmanager
def lazy_methods() -> Iterator[None]:
    """For dataclasses made inside, in one thread; not to be nested."""
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
            real = compile_method()  # two threads may both make it: the results are alike
            _replace(type(self), name, method, real)
        return real(self, *others, **named)

    method.__name__ = name
    return method


def _replace(cls: type, name: str, placeholder: Method, real: Method) -> None:
    """In whichever class it was put; where something was wrapped around it, it stays and calls on."""
    for owner in cls.__mro__:
        if owner.__dict__.get(name) is placeholder:
            real.__qualname__ = placeholder.__qualname__
            setattr(owner, name, real)
