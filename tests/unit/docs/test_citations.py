"""A document or a Python file that a docstring, a comment or a document cites is in the repository."""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NOT_CHECKED = "CHANGELOG.md"
"""It is history: it names files that are gone."""
TO_BE_WRITTEN = {"node_losses.py", "test_node_losses.py"}
"""Files of a walkthrough."""
OF_OTHERS = {"etcd3/__init__.py"}
_CITED = re.compile(r"(?<![\w/.*<>{}$#-])((?:[\w.-]+/)+[\w-]+\.(?:py|svg|md)|[\w-]+\.md)(?![\w/-])")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def tracked() -> list[str]:
    """Return the paths of all files, without ignored ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in out.splitlines() if (ROOT / name).is_file()]


FILES = tracked()
ENDINGS = {name[at + 1 :] for name in FILES for at in (-1, *(m.start() for m in re.finditer("/", name)))}
"""Each path, and each end of it: `rendezvous/plan.py` is enough."""


def prose(name: str, text: str) -> Iterator[str]:
    """Yield the texts for readers: a document, or the docstrings and comments of a module."""
    if not name.endswith(".py"):
        yield text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def missing(name: str, text: str) -> set[str]:
    """Return the cited files that do not exist."""
    if not _CITED.search(text):
        return set()
    cited = {match for each in prose(name, text) for match in _CITED.findall(each)}
    known = ENDINGS | OF_OTHERS
    unknown = {path for path in cited if re.sub(r"^(\.\.?/)+", "", path) not in known}
    return {path for path in unknown if Path(path).name not in TO_BE_WRITTEN}


def undefined(text: str) -> list[str]:
    """Return each "`name` in `file.py`" whose name is not in the file."""
    found = re.findall(r"`(\w+)` in `([\w/.-]+\.py)`", " ".join(text.split()))
    paths = {path: [name for name in FILES if f"/{name}".endswith(f"/{path}")] for _, path in found}
    return [f"{name} in {path}" for name, path in found if not any(has_word(each, name) for each in paths[path])]


def has_word(path: str, name: str) -> bool:
    """The file has this identifier."""
    return re.search(rf"\b{re.escape(name)}\b", (ROOT / path).read_text()) is not None


@pytest.mark.parametrize("page", [name for name in FILES if name.endswith(".md") and not name.startswith(NOT_CHECKED)])
def test_a_name_that_a_page_cites_is_in_its_file(page: str) -> None:
    assert undefined((ROOT / page).read_text()) == []


def test_a_missing_name_is_found() -> None:
    assert undefined("`nothing` in `api/elasticjob_api/keys.py`") == ["nothing in api/elasticjob_api/keys.py"]


def test_every_cited_file_is_there() -> None:
    checked = [name for name in FILES if name.endswith((".py", ".md")) and not name.startswith(NOT_CHECKED)]
    assert checked
    found = {name: missing(name, (ROOT / name).read_text()) for name in checked}
    assert {name: paths for name, paths in found.items() if paths} == {}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.md", "see `rendezvous/nothing.py`", {"rendezvous/nothing.py"}),
        ("a.md", "[a page](../nothing.md#part)", {"../nothing.md"}),
        ("a.md", "[a page](architecture/overview.md)", set()),
        ("a.py", '"""Numbers: nothing-model.md, part 4."""', {"nothing-model.md"}),
        ("a.py", "x = 1  # see nothing.md", {"nothing.md"}),
        ("a.py", 'x = "nothing.md"', set()),
    ],
)
def test_a_missing_file_is_found(name: str, text: str, found: set[str]) -> None:
    assert missing(name, text) == found
