"""Renames identifiers: every place that means a definition of the table, and no other."""

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache

from hack.rename import index as indexes
from hack.rename import prose, tables, wire
from hack.rename.text import ROOT, Edits, python_files

Member = tuple[str, str]


@dataclass
class Decisions:
    """What each definition is called afterwards."""

    globals: dict[str, str] = field(default_factory=dict)
    members: dict[Member, str] = field(default_factory=dict)
    variables: dict[int, str] = field(default_factory=dict)
    forwards: dict[str, str] = field(default_factory=dict)
    """Function → the class whose fields its keywords are."""
    faults: list[str] = field(default_factory=list)
    """Rows that cannot be applied."""


def apply(sections: tuple[str, ...]) -> int:
    """Rename; return the number of places that could not be decided. Nothing is written if there is one."""
    index, edits, faults = _plan(sections)
    if faults:
        print(*faults, sep="\n")
        return len(faults)
    for name, each in edits.items():
        (ROOT / name).write_text(prose.rewritten(name, each.result(), "names"))
    print(f"{sum(len(each.edits) for each in edits.values())} places in {len(edits)} of {len(index.places)} files")
    return 0


def check(sections: tuple[str, ...]) -> int:
    """Print what `apply` would refuse; return how much that is."""
    _, edits, faults = _plan(sections)
    print(*faults, sep="\n")
    print(f"{sum(len(each.edits) for each in edits.values())} places in {len(edits)} files; {len(faults)} undecided")
    return len(faults)


def _plan(sections: tuple[str, ...]) -> tuple[indexes.Index, dict[str, Edits], list[str]]:
    index, names = indexes.load(), tables.names(sections)
    decisions = decide(index, names)
    edits: dict[str, Edits] = {}
    decided = _decided()
    faults = decisions.faults + wire.missing(list(decisions.members))
    for file, places in index.places.items():
        each = Edits((ROOT / file).read_text())
        faults += _edit(file, each, places, decisions, decided)
        _edit_prose(each, places, decisions)
        faults += [f"{file}:{clash}" for clash in each.clashes]
        if each.edits:
            edits[file] = each
    faults += _captures(index, decisions)
    return index, edits, faults


def _decided() -> dict[str, object]:
    """Return the answers of the table by "file::name", each with the file as it is called in this tree."""
    rows = tables.load("names").get("decided", {})
    assert isinstance(rows, dict)
    parts = {key: key.partition("::") for key in rows}
    return {f"{tables.path_now(file)}::{name}": rows[key] for key, (file, _, name) in parts.items()}


def in_turn(sections: tuple[str, ...]) -> list[tuple[str, dict[str, str]]]:
    """Return the files of each section as they are once it and those before it are renamed; exit if it refuses."""
    states = []
    for number, section in enumerate(sections, 1):
        _, edits, faults = _plan(sections[:number])
        if faults:
            sys.exit("\n".join(faults))
        states.append((section, {name: prose.rewritten(name, each.result(), "names") for name, each in edits.items()}))
    return states


# --- what each definition is called ---


def decide(index: indexes.Index, names: tables.Names) -> Decisions:
    """Return the new name of each definition: of the table, and of what overrides or implements it."""
    out = Decisions(forwards=names.forwards)
    _decide_globals(index, names, out)
    groups = _groups(index)
    _decide_members(index, names, groups, out)
    _decide_variables(index, names, groups, out)
    return out


def _decide_globals(index: indexes.Index, names: tables.Names, out: Decisions) -> None:
    for full, new in names.globals.items():
        module, _, old = full.rpartition(".")
        there = index.globals.get(module)
        if there is None or old not in there:
            out.faults.append(f"names.toml: {full} is not there")
        elif new in there and f"{module}.{new}" not in names.globals:
            out.faults.append(f"names.toml: {full} → {new}: there is one already")
        else:
            out.globals[full] = new


def _groups(index: indexes.Index) -> dict[Member, list[Member]]:
    """Return each attribute with all that must have the same name: overridden, overriding, by a protocol."""
    parent: dict[Member, Member] = {}

    def root(member: Member) -> Member:
        while parent.setdefault(member, member) != member:
            member = parent[member]
        return member

    for full, info in index.classes.items():
        related = [base for base in info.bases[1:] if base in index.classes] + sorted(info.implements)
        for base in related:
            for name in index.classes[base].names:
                owner = _owner(index, full, name)
                if owner is not None:
                    parent[root((owner, name))] = root((base, name))
    groups: dict[Member, list[Member]] = defaultdict(list)
    for member in list(parent):
        groups[root(member)].append(member)
    return {member: group for group in groups.values() for member in group}


def _owner(index: indexes.Index, full: str, name: str) -> str | None:
    return next(
        (base for base in index.classes[full].bases if base in index.classes and name in index.classes[base].names),
        None,
    )


def _decide_members(
    index: indexes.Index, names: tables.Names, groups: dict[Member, list[Member]], out: Decisions
) -> None:
    for (owner, old), new in names.members.items():
        info = index.classes.get(owner)
        if info is None or old not in info.names:
            if not _is_function(index, f"{owner}.{old}"):
                out.faults.append(f"names.toml: {owner}.{old} is not there")
            continue
        for member in groups.get((owner, old), [(owner, old)]):
            other = index.classes[member[0]]
            if old in other.foreign and not old.startswith("_"):
                out.faults.append(f"names.toml: {owner}.{old}: {member[0]} has it of a library")
            elif out.members.setdefault(member, new) != new:
                out.faults.append(f"names.toml: {owner}.{old} → {new}, but {member[0]}.{old} → {out.members[member]}")
    for (owner, old), new in out.members.items():
        info = index.classes[owner]
        for base in info.bases:
            if base in index.classes and new in index.classes[base].names and (base, new) not in out.members:
                out.faults.append(f"names.toml: {owner}.{old} → {new}: {base} has one already")


def _is_function(index: indexes.Index, full: str) -> bool:
    return any(each.function == full for each in index.variables)


def _decide_variables(
    index: indexes.Index, names: tables.Names, groups: dict[Member, list[Member]], out: Decisions
) -> None:
    by_function: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, variable in enumerate(index.variables):
        by_function[variable.function, variable.name].append(number)
        new = names.typed.get((variable.name, variable.type))
        if new is not None and not (variable.file.startswith(_TESTS) and variable.name in given_by_pytest()):
            out.variables[number] = new
    for (function, old), new in names.variables.items():
        owner, _, method = function.rpartition(".")
        functions = [".".join(member) for member in groups.get((owner, method), [(owner, method)])]
        numbers = [number for each in functions for number in by_function.get((each, old), [])]
        if not numbers:
            out.faults.append(f"names.toml: {function}({old}) is not there")
        out.variables.update(dict.fromkeys(numbers, new))
    _leave_where_taken(index, names, out)


_TESTS = ("tests/", "testing/", "e2e/")


@cache
def given_by_pytest() -> frozenset[str]:
    """Return the names that parameters of tests have from elsewhere: fixtures, parametrize, given."""
    found: set[str] = set()
    for name in python_files():
        if name.startswith(_TESTS):
            for node in ast.walk(ast.parse((ROOT / name).read_text())):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found.update(_given_to(node))
    return frozenset(found)


def _given_to(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    found: set[str] = set()
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        kind = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if kind == "fixture":
            found.add(function.name)
        if isinstance(decorator, ast.Call):
            found.update(keyword.arg for keyword in decorator.keywords if keyword.arg)
            texts = (
                [each.value for each in ast.walk(decorator.args[0]) if isinstance(each, ast.Constant)]
                if decorator.args
                else []
            )
            found.update(word for text in texts if kind == "parametrize" for word in re.findall(r"\w+", str(text)))
    return found


def _leave_where_taken(index: indexes.Index, names: tables.Names, out: Decisions) -> None:
    """Leave a variable its name where the function has the new one; a row that asks for it by function is refused."""
    taken = defaultdict(set)
    for number, variable in enumerate(index.variables):
        if number not in out.variables:
            taken[variable.function].add(variable.name)
    for number, new in list(out.variables.items()):
        variable = index.variables[number]
        if new not in taken[variable.function] or new == variable.name:
            continue
        if (variable.function, variable.name) in names.variables:
            out.faults.append(f"names.toml: {variable.function}({variable.name}) → {new}: there is one already")
        else:
            del out.variables[number]


# --- the places ---


def _edit(
    file: str, edits: Edits, places: list[tuple[int, int, str, tuple[indexes.Target, ...]]], decisions: Decisions,
    decided: dict[str, object],
) -> list[str]:  # fmt: skip
    faults = []
    renamed = {name for _, name in decisions.members} | {_last(full) for full in decisions.globals}
    for start, end, name, targets in places:
        new = {_new(target, name, decisions) for target in targets if target[0] != "?"}
        unknown = any(target[0] == "?" for target in targets)
        if unknown and name in renamed:
            answer = decided.get(f"{file}::{name}", decided.get(f"*::{name}"))
            if answer is None:
                line = edits.source.encode()[:start].count(b"\n") + 1
                faults.append(f"{file}:{line}: {name}: what this is of cannot be told ({targets[0][1]})")
            elif answer != "keep":
                edits.replace(start, end, str(answer))
        elif len(new) > 1:
            answer = decided.get(f"{file}::{name}")
            line = edits.source.encode()[:start].count(b"\n") + 1
            if answer is None:
                faults.append(f"{file}:{line}: {name}: one of {', '.join(sorted(map(str, new)))}, by {targets}")
            elif answer != "keep":
                edits.replace(start, end, str(answer))
        elif new and (only := new.pop()) != name:
            edits.replace(start, end, only)
    return faults + _clashes(file, places, decisions)


def _clashes(
    file: str, places: list[tuple[int, int, str, tuple[indexes.Target, ...]]], decisions: Decisions
) -> list[str]:
    """Return the names that two definitions used in one file would both have."""
    owners: dict[str, set[str]] = defaultdict(set)
    for _, _, name, targets in places:
        for target in targets:
            if target[0] == "g":
                owners[_new(target, name, decisions)].add(target[1])
    return [
        f"{file}: {name} would be {' and '.join(sorted(fulls))}"
        for name, fulls in owners.items()
        if len(fulls) > 1 and any(decisions.globals.get(full) == name for full in fulls)
    ]


def _last(full: str) -> str:
    return full.rpartition(".")[2]


def _new(target: indexes.Target, name: str, decisions: Decisions) -> str:
    kind, key, attribute = target
    if kind == "g":
        return decisions.globals.get(key, name)
    if kind == "m":
        return decisions.members.get((key, attribute), name)
    if kind == "f":
        return decisions.members.get((decisions.forwards.get(key, ""), attribute), name)
    return decisions.variables.get(int(key), name)


# --- names in docstrings and comments ---

_TICKED = re.compile(r"`([A-Za-z_]\w*)((?:\.\w+)*)(\(\))?`")


def _edit_prose(
    edits: Edits, places: list[tuple[int, int, str, tuple[indexes.Target, ...]]], decisions: Decisions
) -> None:
    """Rewrite names between backticks whose meaning in this file is plain."""
    meanings: dict[str, set[str]] = defaultdict(set)
    for _, _, name, targets in places:
        for target in targets:
            if target[0] != "?":
                meanings[name].add(_new(target, name, decisions))
    for start, text in _prose(edits):
        for match in _TICKED.finditer(text):
            at = start + len(text[: match.start() + 1].encode())
            for part in [match[1], *match[2].split(".")[1:]]:
                new = meanings.get(part, set())
                if len(new) == 1 and (only := next(iter(new))) != part:
                    edits.replace(at, at + len(part.encode()), only)
                at += len(part.encode()) + 1


def _prose(edits: Edits) -> list[tuple[int, str]]:
    """Return the docstrings and comments of a file with the offset of each."""
    found = []
    for node in ast.walk(ast.parse(edits.source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            start = edits.offset(node.lineno, node.col_offset)
            end = edits.offset(int(node.end_lineno or 0), int(node.end_col_offset or 0))
            found.append((start, edits.text(start, end)))
    for token in tokenize.generate_tokens(io.StringIO(edits.source).readline):
        if token.type == tokenize.COMMENT:
            line = edits.source.splitlines()[token.start[0] - 1]
            column = len(line[: token.start[1]].encode())
            found.append((edits.offset(token.start[0], column), token.string))
    return found


# --- names that would be hidden ---


def _captures(index: indexes.Index, decisions: Decisions) -> list[str]:
    """Return the functions in which a variable would hide a module's own name that is used there."""
    news = {new: full for full, new in decisions.globals.items()}
    hidden: dict[str, set[str]] = defaultdict(set)
    for number, variable in enumerate(index.variables):
        name = decisions.variables.get(number, variable.name)
        if name in news:
            hidden[variable.file].add(name)
    faults: list[tuple[str, str]] = []
    for file, names in hidden.items():
        used = {target[1] for place in index.places[file] for target in place[3] if target[0] == "g"}
        here = {decisions.globals.get(full) for full in used}
        faults += [(file, name) for name in names if name in here]
    return [
        f"{file}: a variable {name} may hide the function that is called so now"
        for file, name in faults
        if _really(index, decisions, file, name)
    ]


def _really(index: indexes.Index, decisions: Decisions, file: str, name: str) -> bool:
    """Return True if a function of the file has the variable and uses the global."""
    spans = [
        (node.lineno, int(node.end_lineno or 0))
        for node in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    edits = Edits((ROOT / file).read_text())
    lines: dict[str, set[int]] = {"v": set(), "g": set()}
    for start, _, old, targets in index.places[file]:
        for target in targets:
            if target[0] in lines and _new(target, old, decisions) == name:
                lines[target[0]].add(edits.source.encode()[:start].count(b"\n") + 1)
    return any(
        any(first <= line <= last for line in lines["v"]) and any(first < line <= last for line in lines["g"])
        for first, last in spans
    )
