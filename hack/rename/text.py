"""Edits of source text by position, and the files of the repository."""

import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

TEXT = {
    "", ".md", ".toml", ".yaml", ".yml", ".sh", ".py", ".in", ".txt", ".json", ".c", ".go", ".svg", ".html",
    ".js", ".tpl", ".mk", ".cfg", ".agent", ".operator", ".etcd", ".digits", ".plain", ".python",
}  # fmt: skip


def tracked() -> list[str]:
    """Return every tracked file but the tables of this program."""
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in out.splitlines() if not name.startswith("hack/rename/") and (ROOT / name).is_file()]


def python_files() -> list[str]:
    """Return every tracked Python file, scripts without a suffix included."""
    return [name for name in tracked() if name.endswith(".py") or _is_python_script(name)]


def _is_python_script(name: str) -> bool:
    if not name.startswith("hack/") or "." in Path(name).name:
        return False
    with (ROOT / name).open("rb") as file:
        return b"python" in file.readline()


def read(name: str) -> str | None:
    """Return the text of a file; None if it is not text."""
    if Path(name).suffix not in TEXT:
        return None
    try:
        return (ROOT / name).read_text()
    except UnicodeDecodeError:
        return None


class Edits:
    """Replacements in one file, in any order; an equal one twice counts once."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._bytes = source.encode()
        self.edits: dict[tuple[int, int], str] = {}
        self.clashes: list[str] = []

    def offset(self, line: int, column: int) -> int:
        """Return the byte offset of a position as `ast` counts it."""
        return self._starts[line - 1] + column

    def text(self, start: int, end: int) -> str:
        """Return the text between two byte offsets."""
        return self._bytes[start:end].decode(errors="replace")

    def replace(self, start: int, end: int, new: str) -> None:
        """Note a replacement; two different ones at one place are a clash."""
        if self.edits.setdefault((start, end), new) != new:
            line = self._bytes[:start].count(b"\n") + 1
            self.clashes.append(f"{line}: both {self.edits[start, end]} and {new}")

    def result(self) -> str:
        """Return the text with all replacements done."""
        out = self._bytes
        for (start, end), new in sorted(self.edits.items(), reverse=True):
            out = out[:start] + new.encode() + out[end:]
        return out.decode()


def by_file() -> "defaultdict[str, list[str]]":
    """Return an empty collection of remarks for each file."""
    return defaultdict(list)


def run(*command: str) -> None:
    """Run a command at the repository root; raise if it fails."""
    subprocess.run(command, cwd=ROOT, check=True)
