"""The tables: which modules move, which identifiers are renamed."""

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache

from hack.rename.text import HERE, ROOT

SOURCES = {
    "elasticjob_api": "api", "elasticjob_etcd": "etcd", "elasticjob_agent": "agent",
    "elasticjob_operator": "operator", "elasticjob": "sdk", "elasticjob_cli": "cli",
}  # fmt: skip
"""Top-level package → the folder that holds it; other packages are at the root."""


@cache
def load(name: str) -> dict[str, object]:
    """Return a table of this folder."""
    return tomllib.loads((HERE / f"{name}.toml").read_text())


def path_of(module: str) -> str:
    """Return the path of a module, with neither `.py` nor `/__init__.py`."""
    top = module.split(".", maxsplit=1)[0]
    return (f"{SOURCES[top]}/" if top in SOURCES else "") + module.replace(".", "/")


def module_of(path: str) -> str:
    """Return the dotted name of a Python file."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    if len(parts) > 1 and parts[1] in SOURCES and SOURCES[parts[1]] == parts[0]:
        parts = parts[1:]
    return ".".join(parts)


def moves(sections: tuple[str, ...] = ()) -> dict[str, str]:
    """Return old dotted module name → new one, of some sections or of all."""
    found: dict[str, str] = {}
    for section, rows in load("modules").items():
        if section in {"packages", "public", "files", "keep", "text", "folders", "whole_packages"} or (
            sections and section not in sections
        ):
            continue
        assert isinstance(rows, dict)
        found.update(rows)
    return found


def new_module(module: str, table: dict[str, str]) -> str:
    """Return the name of a module after the moves; a package takes its modules along."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        head = ".".join(parts[:end])
        if head in table and (end == len(parts) or _is_package(head)):
            return ".".join([table[head], *parts[end:]])
    return module


@cache
def _is_package(module: str) -> bool:
    return module in _packages()


@cache
def _packages() -> frozenset[str]:
    rows = load("modules").get("whole_packages", {})
    return frozenset(rows) if isinstance(rows, dict) else frozenset()


@dataclass
class Names:
    """Old → new identifiers, by what they are."""

    globals: dict[str, str] = field(default_factory=dict)
    members: dict[tuple[str, str], str] = field(default_factory=dict)
    variables: dict[tuple[str, str], str] = field(default_factory=dict)
    """(full name of the function, variable) → new."""
    typed: dict[tuple[str, str], str] = field(default_factory=dict)
    """(variable, full name of its class) → new."""
    forwards: dict[str, str] = field(default_factory=dict)
    """Function that takes any keywords → the class whose fields they are."""


_PARAMETER = re.compile(r"^(?P<function>[\w.]+)\((?P<name>\w+)\)$")


@cache
def modules_now() -> dict[str, str]:
    """Return old module name → its name in this tree, before or after its move."""
    table = moves()
    now: dict[str, str] = {}
    for old in {str(row) for row in load("names")} | set(table):
        new = new_module(old, table)
        now[old] = new if new != old and _is_there(new) and not (_is_there(old) and _older(old, new)) else old
    return now


def path_now(path: str) -> str:
    """Return where a file of the tables is in this tree, before or after its move."""
    if not path.endswith(".py") or (ROOT / path).exists():
        return path
    module = module_of(path)
    now = modules_now().get(module, module)
    return path_of(now) + ("/__init__.py" if path.endswith("/__init__.py") else ".py")


def _is_there(module: str) -> bool:
    base = ROOT / path_of(module)
    return base.with_name(base.name + ".py").is_file() or (base / "__init__.py").is_file()


def _older(old: str, new: str) -> bool:
    """Return True if the old file still is the module: it is no package that took its place."""
    base = ROOT / path_of(old)
    return base.with_name(base.name + ".py").is_file() and not new.startswith(old + ".") and not _is_reexport(old)


def _is_reexport(module: str) -> bool:
    rows = load("modules").get("public", {})
    return isinstance(rows, dict) and module in rows


def names(wanted: tuple[str, ...]) -> Names:
    """Return the identifiers of the modules whose top-level package or section is wanted (none: all)."""
    now, out = modules_now(), Names()
    for module, rows in load("names").items():
        if module in {"decided", "typed", "forwards"}:
            continue
        if wanted and section_of(module) not in wanted:
            continue
        assert isinstance(rows, dict)
        for old, new in rows.items():
            _note(out, now.get(module, module), old, str(new))
    _note_typed(out, now, wanted)
    rows = load("names").get("forwards", {})
    assert isinstance(rows, dict)
    out.forwards = {_now(old, now): _now(str(new), now) for old, new in rows.items()}
    return out


def _now(full: str, now: dict[str, str]) -> str:
    """Return the full name of a definition with its module as it is called now."""
    parts = full.split(".")
    for end in range(len(parts) - 1, 0, -1):
        if (module := ".".join(parts[:end])) in now:
            return ".".join([now[module], *parts[end:]])
    return full


def section_of(module: str) -> str:
    """Return the section of a module: the folder of its package, or its top-level name."""
    top = module.split(".", maxsplit=1)[0]
    return SOURCES.get(top, top)


def _note(out: Names, module: str, old: str, new: str) -> None:
    if match := _PARAMETER.match(old):
        out.variables[f"{module}.{match['function']}", match["name"]] = new
    elif "." in old:
        owner, name = old.rsplit(".", 1)
        out.members[f"{module}.{owner}", name] = new
    else:
        out.globals[f"{module}.{old}"] = new


def _note_typed(out: Names, now: dict[str, str], wanted: tuple[str, ...]) -> None:
    rows = load("names").get("typed", {})
    assert isinstance(rows, dict)
    for old, new in rows.items():
        variable, _, full = old.partition(": ")
        module, _, name = full.rpartition(".")
        if not wanted or section_of(module) in wanted:
            out.typed[variable, f"{now.get(module, module)}.{name}"] = str(new)
