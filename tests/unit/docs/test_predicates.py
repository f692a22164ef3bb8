"""A function whose name begins with `is_`, `has_`, `can_` or `may_` returns a truth value, and does nothing else."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SHIPPED = ("api", "etcd", "agent", "operator", "sdk", "cli", "testing")
OTHERS = ("tests", "e2e", "benchmarks", "hack", "examples")
_TRUTH = ("bool", "TypeGuard[", "TypeIs[", "NoReturn")
_PREDICATE = ("is_", "has_", "can_", "may_")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_WAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.YieldFrom)


def predicates(source: str) -> Iterator[_Function]:
    """Yield each function with the name of a predicate."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _Function) and node.name.lstrip("_").startswith(_PREDICATE):
            yield node


def other_results(source: str) -> Iterator[str]:
    """Yield the name and the annotated result of each predicate that returns something else."""
    for node in predicates(source):
        result = "" if node.returns is None else ast.unparse(node.returns).strip("'\"")
        if not result.startswith(_TRUTH):
            yield f"{node.name} -> {result}"


def side_effects(source: str) -> Iterator[str]:
    """Yield name and text of what a predicate does besides returning: it waits, assigns, or calls a method of self."""
    for function in predicates(source):
        if isinstance(function, ast.AsyncFunctionDef):
            yield f"async {function.name}"
        for node in ast.walk(function):
            if isinstance(node, _WAITS) or _is_store(node) or _is_call_of_self(node):
                yield f"{function.name}: {ast.unparse(node)}"


def _is_store(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)


def _is_call_of_self(node: ast.AST) -> bool:
    """Whether the node calls a method below `self` and ignores its result."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    called = ast.unparse(node.value.func)
    return called.startswith("self.")


def sources(*folders: str) -> dict[str, str]:
    """Return the text of every module in these folders."""
    files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 300
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


def test_a_predicate_returns_a_truth_value() -> None:
    found = {name: list(other_results(source)) for name, source in sources(*SHIPPED, *OTHERS).items()}
    assert {name: results for name, results in found.items() if results} == {}


def test_a_predicate_has_no_side_effects() -> None:
    found = {name: list(side_effects(source)) for name, source in sources(*SHIPPED).items()}
    assert {name: effects for name, effects in found.items() if effects} == {}


def test_a_predicate_that_returns_text_is_found() -> None:
    assert list(other_results("def is_active(self) -> str: ...")) == ["is_active -> str"]


@pytest.mark.parametrize(
    ("body", "effects"),
    [
        ("return self.known[key] is None", []),
        ("seen = self.next()\n return seen", []),
        ("self.known = True\n return True", ["has_key: self.known"]),
        ("self.known[key] += 1\n return True", ["has_key: self.known[key]"]),
        ("self.known.add(key)\n return True", ["has_key: self.known.add(key)"]),
        ("yield key", ["has_key: (yield key)"]),
    ],
)
def test_a_side_effect_of_a_predicate_is_found(body: str, effects: list[str]) -> None:
    assert list(side_effects(f"def has_key(self, key) -> bool:\n {body}")) == effects


def test_an_async_predicate_is_found() -> None:
    assert list(side_effects("async def is_up(self) -> bool:\n return await self.get()")) == [
        "async is_up",
        "is_up: await self.get()",
    ]
