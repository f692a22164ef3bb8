"""Moves modules: the files, the imports, the texts that name them."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hack.rename import prose, scopes, tables
from hack.rename.text import ROOT, Edits, python_files, read, run, tracked

_DONE = "\ue000"
"""Stands before a dotted name that is new already, until the texts are done."""
_PARENTS = re.compile(r"(Path\(__file__\)(?:\.resolve\(\))?\.parents\[)(\d+)(\])")


def apply(sections: tuple[str, ...]) -> int:
    """Move what the sections say, and print what deserves a look; return 0."""
    table = tables.moves(sections)
    before = {tables.module_of(name): name for name in python_files()}
    moved = {old: tables.new_module(old, table) for old in before if tables.new_module(old, table) != old}
    if missing := [old for old in table if not _exists(old)]:
        sys.exit(f"no such modules: {', '.join(sorted(missing))}")
    files = _files(sections)
    remarks: list[str] = []
    _edit_imports(moved, remarks)
    _edit_texts(moved, {**_paths(moved, before), **files}, sections)
    _move_files(moved, before, files)
    _write_packages()
    _write_reexports()
    if remarks:
        print(*remarks, sep="\n")
    return 0


def _exists(module: str) -> bool:
    base = ROOT / tables.path_of(module)
    return base.with_name(base.name + ".py").is_file() or base.is_dir()


def _files(sections: tuple[str, ...]) -> dict[str, str]:
    rows = tables.load("modules").get("files", {})
    assert isinstance(rows, dict)
    return {
        old: new
        for section, each in rows.items()
        if not sections or section in sections
        for old, new in each.items()
    }  # fmt: skip


def _paths(moved: dict[str, str], before: dict[str, str]) -> dict[str, str]:
    """Return old path → new path of each moved Python file."""
    return {before[old]: _new_path(before[old], new) for old, new in moved.items()}


def _new_path(old_path: str, new: str) -> str:
    tail = "/__init__.py" if old_path.endswith("/__init__.py") else ".py"
    return tables.path_of(new) + tail


# --- imports ---


@dataclass
class _File:
    """A file whose imports are rewritten."""

    name: str
    edits: Edits
    tree: ast.Module
    moved: dict[str, str]
    remarks: list[str]

    def replace(self, node: ast.ImportFrom, text: str) -> None:
        start = self.edits.offset(node.lineno, node.col_offset)
        self.edits.replace(start, self.edits.offset(int(node.end_lineno or 0), int(node.end_col_offset or 0)), text)

    def rename_uses(self, scope: ast.AST, old: str, new: str) -> None:
        for use in scopes.uses(old, scope):
            start = self.edits.offset(use.lineno, use.col_offset)
            self.edits.replace(start, start + len(old.encode()), new)
        for text in scopes.texts_of_types(self.tree):
            start = self.edits.offset(text.lineno, text.col_offset) + 1
            for match in re.finditer(rf"(?<![\w.]){old}(?=\.\w)", str(text.value)):
                self.edits.replace(start + match.start(), start + match.end(), new)


def _edit_imports(moved: dict[str, str], remarks: list[str]) -> None:
    for name in python_files():
        source = (ROOT / name).read_text()
        tree = ast.parse(source)
        file = _File(name, Edits(source), tree, moved, remarks)
        for scope, node in scopes.imports(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                _edit_import_from(file, scope, node)
            elif isinstance(node, ast.ImportFrom) and node.level == 1 and not node.module:
                _edit_neighbours(file, scope, node)
        _write_if_changed(name, source, file.edits.result())


def _edit_import_from(file: _File, scope: ast.AST, node: ast.ImportFrom) -> None:
    """Rewrite `from package import module`; the dotted part of others is a text like any other."""
    own = _own_names(str(node.module))
    gone = [each for each in node.names if f"{node.module}.{each.name}" in file.moved and each.name not in own]
    if not gone:
        return
    staying = [alias for alias in node.names if alias not in gone]
    lines = [_import_line(file, scope, alias, node) for alias in gone]
    if staying:
        rest = ", ".join(alias.name + (f" as {alias.asname}" if alias.asname else "") for alias in staying)
        lines.insert(0, f"from {node.module} import {rest}")
    file.replace(node, ("\n" + " " * node.col_offset).join(lines))


@cache
def _own_names(package: str) -> frozenset[str]:
    """Return what a package binds itself: that is what an import of such a name gives, and no module."""
    path = ROOT / tables.path_of(package) / "__init__.py"
    return frozenset(scopes.bound_names(ast.parse(path.read_text()))) if path.is_file() else frozenset()


def _edit_neighbours(file: _File, scope: ast.AST, node: ast.ImportFrom) -> None:
    """Rewrite `from . import module`; what is imported must move with its importer."""
    package = tables.module_of(file.name).rpartition(".")[0]
    lasts = {
        alias.name: file.moved.get(f"{package}.{alias.name}", alias.name).rpartition(".")[2] for alias in node.names
    }
    for old, new in lasts.items():
        file.rename_uses(scope, old, new)
    file.replace(node, f"from . import {', '.join(sorted(lasts.values()))}")


def _import_line(file: _File, scope: ast.AST, alias: ast.alias, node: ast.ImportFrom) -> str:
    package, _, last = file.moved[f"{node.module}.{alias.name}"].rpartition(".")
    head = f"from {_DONE}{package} import {last}" if package else f"import {_DONE}{last}"
    if alias.asname:
        return head if alias.asname == last else f"{head} as {alias.asname}"
    if alias.name == last:
        return head
    if last in scopes.free_names(file.tree):
        file.remarks.append(f"{file.name}:{node.lineno}: {last} is taken in this file, so it stays {alias.name}")
        return f"{head} as {alias.name}"
    file.rename_uses(scope, alias.name, last)
    _edit_names_in_texts(file.edits, file.tree, alias.name, last)
    return head


def _edit_names_in_texts(edits: Edits, tree: ast.Module, old: str, new: str) -> None:
    """Rewrite `module.name` between backticks of the file's docstrings."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        start = edits.offset(node.lineno, node.col_offset)
        text = edits.text(start, edits.offset(int(node.end_lineno or 0), int(node.end_col_offset or 0)))
        for match in re.finditer(rf"`{old}(?=\.\w)", text):
            at = start + len(text[: match.start() + 1].encode())
            edits.replace(at, at + len(old.encode()), new)


# --- texts ---


def _edit_texts(moved: dict[str, str], paths: dict[str, str], sections: tuple[str, ...]) -> None:
    """Rewrite dotted names and paths wherever a tracked file has them."""
    pathed = _replacer({**paths, **_folders(paths)}, r"(?<![\w.-])", r"(?![\w-]|\.\w)")
    in_documents = _replacer({**_suffixes(paths), **paths, **_folders(paths)}, r"(?<![\w.-])", r"(?![\w-]|\.\w)")
    own = _texts(sections)
    for name in tracked():
        if (text := read(name)) is None or name == "CHANGELOG.md":
            continue
        shorter = in_documents if name.endswith(".md") else pathed
        new = shorter(_dotted(moved, public=name.startswith(_PUBLIC))(text))
        new = _fix_parents(new.replace(_DONE, ""), name, paths)
        for old_text, new_text in own.get(name, []):
            if old_text not in new:
                sys.exit(f"{name}: there is no {old_text!r}")
            new = new.replace(old_text, new_text)
        _write_if_changed(name, text, prose.rewritten(name, new, "moves") if name.endswith(".py") else new)


_PUBLIC = ("docs/", "hack/", "tests/unit/docs/", "README.md")
"""Here a name is what a user imports: a public one stays."""


def _dotted(moved: dict[str, str], *, public: bool) -> Callable[[str], str]:
    kept, reexported = tables.load("modules").get("keep", {}), tables.load("modules").get("public", {})
    assert isinstance(kept, dict)
    assert isinstance(reexported, dict)
    table = dict(moved) | {old: old for old in kept.get("texts", [])} | _imports_in_texts(moved)
    table |= {old.replace(".", r"\."): new.replace(".", r"\.") for old, new in moved.items() if "." in old}
    if public:
        table |= {old: old for old in reexported}
    return _replacer(table, rf"(?<![\w.{_DONE}])", r"(?!\w)(?!\.(?:md|yaml|io)\b)")


def _imports_in_texts(moved: dict[str, str]) -> dict[str, str]:
    """Return the statements that import one module, for programs inside strings."""
    halves = {old.rpartition(".")[::2]: new.rpartition(".")[::2] for old, new in moved.items()}
    return {
        f"from {old[0]} import {old[1]}": f"from {new[0]} import {new[1]}"
        for old, new in halves.items()
        if old[0] and old[1] not in _own_names(old[0])
    }


def _replacer(table: dict[str, str], before: str, after: str) -> Callable[[str], str]:
    if not table:
        return lambda text: text
    longest_first = sorted(table, key=len, reverse=True)
    pattern = re.compile(f"{before}(?:{'|'.join(map(re.escape, longest_first))}){after}")
    return lambda text: pattern.sub(lambda match: table[match.group()], text)


def _suffixes(paths: dict[str, str]) -> dict[str, str]:
    """Return the ends of paths that mean one file only: documents name files so."""
    ends = Counter(end for name in tracked() for end in _ends(name))
    found: dict[str, str] = {}
    for old, new in paths.items():
        for end in _ends(old):
            head = old.removesuffix(end)
            if ends[end] == 1:
                found[end] = new.removeprefix(head)
    return found


def _ends(path: str) -> list[str]:
    """Return the ends of a path that have a folder."""
    parts = path.split("/")
    return ["/".join(parts[start:]) for start in range(1, len(parts) - 1)]


def _folders(paths: dict[str, str]) -> dict[str, str]:
    """Return old folder → new folder, of the folders that move as a whole."""
    rows = tables.load("modules").get("folders", {})
    assert isinstance(rows, dict)
    return {old: new for old, new in rows.items() if any(path.startswith(old + "/") for path in paths)}


def _texts(sections: tuple[str, ...]) -> dict[str, list[tuple[str, str]]]:
    """Return path → texts to replace there, that no rule finds."""
    rows = tables.load("modules").get("text", [])
    assert isinstance(rows, list)
    found: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        if not sections or row["section"] in sections:
            found.setdefault(row["file"], []).append((row["old"], row["new"]))
    return found


def _fix_parents(text: str, name: str, paths: dict[str, str]) -> str:
    """Let `Path(__file__).parents[n]` go on to mean the repository's root."""
    if name not in paths or paths[name].count("/") == name.count("/"):
        return text
    depth = name.count("/")
    return _PARENTS.sub(
        lambda match: f"{match[1]}{paths[name].count('/') if int(match[2]) == depth else match[2]}{match[3]}", text
    )


# --- files ---


def _move_files(moved: dict[str, str], before: dict[str, str], files: dict[str, str]) -> None:
    steps = {**_paths(moved, before), **files}
    # By way of another name: a module may move to where another one was.
    for number, old in enumerate(steps):
        run("git", "mv", old, f"hack/rename/moving-{number}")
    for number, new in enumerate(steps.values()):
        (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
        run("git", "mv", f"hack/rename/moving-{number}", new)


def _write_packages() -> None:
    """Write the `__init__.py` of packages that are new."""
    rows = tables.load("modules").get("packages", {})
    assert isinstance(rows, dict)
    for package, sentence in rows.items():
        folder = ROOT / tables.path_of(package)
        if folder.is_dir() and not (folder / "__init__.py").exists():
            (folder / "__init__.py").write_text(f'"""{sentence}"""\n')
            run("git", "add", str(folder / "__init__.py"))


def _write_reexports() -> None:
    """Write a module at each public path whose module has moved."""
    rows = tables.load("modules").get("public", {})
    assert isinstance(rows, dict)
    for old, names in rows.items():
        new = tables.new_module(old, tables.moves())
        path = _reexport_path(old, new)
        if not _exists(new) or (
            path.exists() and (path.name != "__init__.py" or f"from {new} import" in path.read_text())
        ):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + _reexport(old, new, names))
        run("git", "add", str(path))


def _reexport_path(old: str, new: str) -> Path:
    base = ROOT / tables.path_of(old)
    is_package = new.startswith(old + ".") or (ROOT / tables.path_of(new)).is_dir()
    return base / "__init__.py" if is_package else base.with_name(base.name + ".py")


def _reexport(old: str, new: str, names: list[str]) -> str:
    """Return the text of a module that re-exports; of a package that was there, what is added."""
    first = "" if new.startswith(old + ".") else f'"""The public path of `{new}`."""\n'
    if not names:
        return first
    if old.endswith(".__main__"):
        return f'{first}\nimport sys\n\nfrom {new} import main\n\nif __name__ == "__main__":\n    sys.exit(main())\n'
    listed = ", ".join(f'"{name}"' for name in names)
    return f"{first}\nfrom {new} import {', '.join(names)}\n\n__all__ = [{listed}]\n"


def _write_if_changed(name: str, old: str, new: str) -> None:
    if new != old:
        (ROOT / name).write_text(new)


def show_leftovers() -> int:
    """Print the paths in texts that name no file; return how many there are."""
    found = list(leftovers())
    print(*found, sep="\n")
    return len(found)


def leftovers() -> Iterator[str]:
    """Yield each path in a text that names a Python file which is not there."""
    there = {Path(name).name for name in tracked()}
    for name in tracked():
        if (text := read(name)) is None or name.endswith((".json", "CHANGELOG.md")):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for match in re.finditer(r"[\w/]+\.py\b", line):
                if "/" in match.group() and Path(match.group()).name not in there:
                    yield f"{name}:{number}: {match.group()}"
