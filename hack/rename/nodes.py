"""mypy's nodes by position."""

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from mypy.nodes import (
    LDEF,
    ArgKind,
    AssignmentStmt,
    CallExpr,
    ClassDef,
    DictExpr,
    FuncDef,
    LambdaExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    Node,
    OpExpr,
    SuperExpr,
    TypeAlias,
    TypeInfo,
    Var,
)
from mypy.patterns import ClassPattern

_SKIPPED = {"node", "info", "type", "unanalyzed_type", "def_var", "analyzed", "var", "original_def", "names"}
_NOT_ENTERED = (Var, TypeInfo, TypeAlias, MypyFile)


@cache
def _attributes(kind: Any) -> tuple[str, ...]:
    """Return the attributes of a class of nodes that may hold other nodes."""
    names = [name for name in dir(kind) if not name.startswith("_") and name not in _SKIPPED]
    return tuple(name for name in names if inspect.isdatadescriptor(getattr(kind, name)))


def _inside(node: Node) -> Iterator[Node]:
    """Yield the nodes below a node; mypy's own visitors are compiled and cannot be derived from."""
    for name in _attributes(type(node)):  # type: ignore[arg-type]
        try:
            value = getattr(node, name)
        except (AttributeError, AssertionError):
            continue
        yield from _nodes_of(value)


def _nodes_of(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        if not isinstance(value, _NOT_ENTERED):
            yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _nodes_of(each)
    elif isinstance(value, dict):
        yield from _nodes_of(list(value.values()))


class Nodes:
    """mypy's nodes of a file by position, and its variables with the function of each."""

    def __init__(self, number_of: Callable[[Var, str, str], int], path: str) -> None:
        self.number_of, self.path = number_of, path
        self.names: dict[tuple[int, int], NameExpr] = {}
        self.members: dict[tuple[int, int, int, int], MemberExpr | SuperExpr] = {}
        self.calls: dict[tuple[int, int, int, int], CallExpr] = {}
        self.functions: dict[tuple[int, int], FuncDef] = {}
        self.lambdas: dict[tuple[int, int], LambdaExpr] = {}
        self.patterns: dict[tuple[int, int], ClassPattern] = {}
        self.infos: dict[str, TypeInfo] = {}
        self.class_infos: dict[tuple[int, int], TypeInfo] = {}
        self._seen: set[int] = set()

    def walk(self, node: Node, scope: str) -> None:
        """Note everything below a node."""
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        inner = self._note(node, scope)
        for each in _inside(node):
            self.walk(each, inner)

    def _note(self, node: Node, scope: str) -> str:
        """Note a node; return the scope of what is inside it."""
        at, whole = (node.line, node.column), (node.line, node.column, node.end_line or 0, node.end_column or 0)
        if isinstance(node, (FuncDef, LambdaExpr)):
            return self._note_function(node, scope)
        if isinstance(node, ClassDef):
            info: TypeInfo | None = node.info
            if info and info.fullname:
                self.infos[info.fullname] = self.class_infos[at] = info
                return info.fullname
        elif isinstance(node, NameExpr):
            self.names.setdefault(at, node)
            if node.kind == LDEF and isinstance(node.node, Var):
                self.number_of(node.node, scope, self.path)
        elif isinstance(node, (MemberExpr, SuperExpr)):
            self.members.setdefault(whole, node)
        elif isinstance(node, CallExpr):
            self.calls.setdefault(whole, node)
        elif isinstance(node, ClassPattern):
            self.patterns[at] = node
        return scope

    def _note_function(self, node: FuncDef | LambdaExpr, scope: str) -> str:
        if isinstance(node, LambdaExpr):
            self.lambdas[node.line, node.column] = node
        else:
            self.functions[node.line, node.column] = node
            scope = f"{scope}.{node.name}"
        for argument in node.arguments:
            self.number_of(argument.variable, scope, self.path)
        return scope


def calls_with(func: FuncDef, star: Var) -> Iterator[CallExpr]:
    """Yield the calls in a function that hand on its `**star`, by itself or as a part of a dictionary."""
    inside = list(_all_inside(func.body))
    carriers = {id(star)}
    for node in inside:
        if isinstance(node, AssignmentStmt) and _has(node.rvalue, carriers):
            carriers.update(id(each.node) for each in node.lvalues if isinstance(each, NameExpr))
    for node in inside:
        if isinstance(node, CallExpr):
            given = zip(node.args, node.arg_kinds, strict=True)
            if any(kind == ArgKind.ARG_STAR2 and _has(each, carriers) for each, kind in given):
                yield node


def _all_inside(node: Node) -> Iterator[Node]:
    waiting, met = [node], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) not in met:
            met.add(id(one))
            yield one
            waiting.extend(_inside(one))


def _has(node: Node, carriers: set[int]) -> bool:
    if isinstance(node, NameExpr):
        return id(node.node) in carriers
    return isinstance(node, (DictExpr, OpExpr)) and any(_has(each, carriers) for each in _inside(node))
