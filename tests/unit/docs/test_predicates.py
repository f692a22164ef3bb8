"""A function whose name begins with `is_` or `has_` returns a truth value, and nothing else."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDERS = (
    "api",
    "etcd",
    "agent",
    "operator",
    "sdk",
    "cli",
    "testing",
    "tests",
    "e2e",
    "benchmarks",
    "hack",
    "examples",
)
_TRUTH = ("bool", "TypeGuard[", "TypeIs[", "NoReturn")


def other_results(source: str) -> Iterator[str]:
    """Yield the name and the annotated result of each predicate that returns something else."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.lstrip("_").startswith(
            ("is_", "has_")
        ):
            result = "" if node.returns is None else ast.unparse(node.returns).strip("'\"")
            if not result.startswith(_TRUTH):
                yield f"{node.name} -> {result}"


def test_a_predicate_returns_a_truth_value() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 1000
    found = {str(file.relative_to(ROOT)): list(other_results(file.read_text())) for file in files}
    assert {name: results for name, results in found.items() if results} == {}


def test_a_predicate_that_returns_text_is_found() -> None:
    assert list(other_results("def is_active(self) -> str: ...")) == ["is_active -> str"]
