#!/usr/bin/env python3
"""python-reference [--check] — write docs/reference/python.md from the public docstrings; with --check only compare.

Signatures are the source's own text, so that the page is the same whatever Python writes it. A name is public if its
package's `__all__` has it; a member, if no underscore begins it.
"""

import argparse
import ast
import dataclasses
import enum
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "python.md"
OURS = "elasticjob"
"""The prefix of every package of the project."""
PARTS: dict[str, tuple[str, ...]] = {  # without names: those of its __all__
    "elasticjob_agent.multiprocessing": (),
    "elasticjob_agent.multiprocessing.errors": (),
    "elasticjob_agent.multiprocessing.redirects": ("redirect",),
    "elasticjob_agent.multiprocessing.api": ("get_std_cm",),
    "elasticjob_agent.multiprocessing.subprocess_handler": (),
    "elasticjob_agent.multiprocessing.numa": ("NumaOptions", "AffinityMode"),
    "elasticjob_agent.multiprocessing.tail_log": (),
    "elasticjob_agent.spawn": (),
    "elasticjob_agent.launch": (),
    "elasticjob_agent.server": (),
    "elasticjob_agent.events": (),
    "elasticjob_agent.metrics": (),
    "elasticjob_agent.worker": (),
    "elasticjob_agent.sampler": (),
    "elasticjob": (),
    "elasticjob.errors": (),
}
HEAD = """# Python

<!-- Written by hack/reference/python.py from the docstrings: change those instead, and run `make reference`. -->

The public names of `elasticjob_agent`, and of `elasticjob`, which has the most used of them and the way to a cluster.
Durations are seconds unless a name or sentence says otherwise. Differences from torch are in
[migrating-from-torch.md](../migrating-from-torch.md), the cluster in [sdk.md](../sdk.md).
"""
_SECTION = re.compile(r"(Args|Returns|Raises|Yields):")
_ITEM = re.compile(r"    (\*{0,2}\w+): (.*)")
_WIDTH = 100


def page() -> str:
    """Return the whole page."""
    lines = [HEAD, *(f"- [{part}](#{_anchor(part)})" for part in PARTS), ""]
    described: dict[int, str] = {}
    for part, names in PARTS.items():
        lines += _part(part, names, described)
    return "\n".join(lines).rstrip() + "\n"


def _part(module: str, names: tuple[str, ...], described: dict[int, str]) -> Iterator[str]:
    """Yield a heading, the module's docstring, then a section a name; `described` has earlier values."""
    found = import_module(module)
    yield from (f"## {module}", "", *_text(found), "")
    for name in names or found.__all__:
        value = getattr(found, name)
        yield from (f"### {name}", "")
        if id(value) in described:
            yield from (f"See {described[id(value)]}.", "")
            continue
        if callable(value):
            described[id(value)] = f"`{module}.{name}`"
        yield from _name(name, value)


def _name(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value) and hasattr(value, "__mro__"):
        yield from _class(name, value)
    elif inspect.isroutine(value):
        yield from (*_code(_signature(name, value)), *_text(value), "")
    else:
        shown = json.dumps(value) if isinstance(value, str) else repr(value)  # quotes as the formatter wants them
        yield from _code(f"{name} = {shown}")


def _class(name: str, cls: type) -> Iterator[str]:
    """Yield its heading, its docstring, its fields or members, then its methods."""
    bases = list(_bases(cls))
    made = f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    init = next((base.__dict__["__init__"] for base in cls.__mro__ if "__init__" in base.__dict__), None)
    if inspect.isfunction(init) and init.__module__.startswith(OURS) and not dataclasses.is_dataclass(cls):
        yield from (*_code(made, _signature(name, init, bound=True)), *_text(cls), "")
        yield from (*_text(init), "") if init.__doc__ else ()
    else:
        yield from (*_code(made), *_text(cls), "")
    yield from _values(cls)
    for member, value in _members(cls).items():
        yield from _member(member, value)


def _bases(cls: type) -> Iterator[str]:
    """Return the names of its bases; in place of a private class, the bases of that class."""
    for base in cls.__bases__:
        if base.__name__.startswith("_"):
            yield from _bases(base)
        elif base is not object:
            yield base.__name__


def _values(cls: type) -> Iterator[str]:
    """Yield an enum's members, or the fields that the class and its `__init__` declare, each with the text below it.

    A field of `__init__` without a text is left out: most often it is an argument, and documented there.
    """
    tree = _tree(cls)
    bodies = [tree.body, *(each.body for each in tree.body if getattr(each, "name", "") == "__init__")]
    rows = []
    for body in bodies:
        for statement, below in zip(body, [*body[1:], None], strict=True):
            field = _field(statement, known=cls.__members__ if issubclass(cls, enum.Enum) else {})
            text = _below(below)
            rows += [f"- `{field}`{text}"] if field and (text or body is tree.body) else []
    yield from (*rows, "") if rows else ()


def _field(statement: ast.stmt, known: Any) -> str:
    """Return a public field as `name: type = default`; empty for others. An enum's members are `known`."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return ""
    target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
    own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    name = ast.unparse(target).removeprefix("self.")
    if name in known:
        return f"{name} = {known[name].value!r}"
    if name.startswith("_") or not (own or (isinstance(statement, ast.AnnAssign) and isinstance(target, ast.Name))):
        return ""
    of = f": {ast.unparse(statement.annotation)}" if isinstance(statement, ast.AnnAssign) else ""
    return f"{name}{of}" + ("" if own else _default(statement.value))


def _default(value: ast.expr | None) -> str:
    """Return the default of a field as text, also from the arguments of `dataclasses.field`."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "field"):
        return f" = {ast.unparse(value)}" if value else ""
    arguments = {each.arg: ast.unparse(each.value) for each in value.keywords}
    factory = arguments.get("default_factory")
    return f" = {arguments['default']}" if "default" in arguments else f" = {factory}()" if factory else ""


def _below(node: ast.stmt | None) -> str:
    """Return the text that documents the field above it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " – " + " ".join(node.value.value.split())
    return ""


def _members(cls: type) -> dict[str, Any]:
    """Return its public methods and properties, and those of its private base classes."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if base is cls or (base.__name__.startswith("_") and base.__module__.startswith(OURS)):
            found = {**base.__dict__, **found}
    kinds = (property, staticmethod, classmethod)
    return {
        name: value
        for name, value in found.items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))
    }


def _member(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, property):
        yield from (f"#### {name}", "", *_code("@property", f"{name}{_returns(_tree(value.fget))}"), *_text(value), "")
        return
    plain = getattr(value, "__func__", value)
    kind = () if plain is value else (f"@{type(value).__name__}",)
    bound = not isinstance(value, staticmethod)
    yield from (f"#### {name}", "", *_code(*kind, _signature(name, plain, bound=bound)), *_text(plain), "")


def _signature(name: str, function: Any, *, bound: bool = False) -> str:
    """Return `name(…) -> …` as in the source, one parameter a line if it is long."""
    tree = _tree(inspect.unwrap(function))
    arguments = tree.args
    if bound:
        del (arguments.posonlyargs or arguments.args)[0]
    words, result = list(_parameters(arguments)), _returns(tree)
    short = f"{name}({', '.join(words)}){result}"
    return short if len(short) <= _WIDTH else "\n".join([f"{name}(", *(f"    {each}," for each in words), f"){result}"])


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    """Yield each parameter with its annotation and default, and the marks between them."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for number, (each, default) in enumerate(zip(plain, defaults, strict=True), 1):
        yield _parameter(each, default)
        if number == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg or arguments.kwonlyargs:
        yield "*" + (_parameter(arguments.vararg, None) if arguments.vararg else "")
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(each, default)
    if arguments.kwarg:
        yield "**" + _parameter(arguments.kwarg, None)


def _parameter(each: ast.arg, default: ast.expr | None) -> str:
    equals = " = " if each.annotation else "="
    return ast.unparse(each) + (f"{equals}{ast.unparse(default)}" if default else "")


def _returns(tree: Any) -> str:
    return f" -> {ast.unparse(tree.returns)}" if tree.returns else ""


def _tree(source: Any) -> Any:
    """Return the definition as in the source."""
    return ast.parse(textwrap.dedent(inspect.getsource(source))).body[0]


def _code(*blocks: str) -> tuple[str, ...]:
    return ("```python", *blocks, "```", "")


def _text(value: Any) -> Iterator[str]:
    """Yield its docstring as Markdown: the sections of arguments, results and errors become lists."""
    doc = inspect.getdoc(value)
    if not doc:
        raise ValueError(f"{value!r} is public and has no docstring: write one")
    section = False
    for line in doc.splitlines():
        if heading := _SECTION.fullmatch(line):
            section = True
            yield from (f"**{heading[1].replace('Args', 'Arguments')}**", "")
        elif section and line.strip():
            item = _ITEM.fullmatch(line)
            yield f"- `{item[1]}`: {item[2]}" if item else f"  {line.strip()}"
        else:
            section = section and not line.strip()
            yield line


def _anchor(heading: str) -> str:
    return heading.replace(".", "")


def main() -> int:
    """Write, or compare and print the cure; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is out of date")
    check = parser.parse_args().check
    wanted = page()
    if not check:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(wanted)
        return 0
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is out of date: run hack/reference/python.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
