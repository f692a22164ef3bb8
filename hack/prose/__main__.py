"""prose-lint [FILE…] — check the sentences of this repository, or of some files and folders.

Looks at docstrings, comments, messages of errors and log lines, help of options, and at the documents. The rules are in
hack/prose/rules.py. Not looked at: docs/reference, docs/benchmarks.md and docs/latencies.md, which programs write.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from hack.prose.passages import passages
from hack.prose.python_source import source_passages
from hack.prose.rules import ADVICE, Violation, violations

ROOT = Path(__file__).resolve().parents[2]
_DOCUMENTS = ("docs/", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_WRITTEN_BY_PROGRAMS = ("docs/reference/", "docs/benchmarks.md", "docs/latencies.md")


def main() -> int:
    """Print the violations; return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="prose-lint", description="Check sentences against hack/prose/rules.py.")
    parser.add_argument("file", nargs="*", help="a file or folder (default: all)")
    chosen = tuple(parser.parse_args().file)
    found = [(name, each) for name in _files() if not chosen or name.startswith(chosen) for each in _violations(name)]
    for name, each in found:
        print(f"{name}:{each.line}: {each.rule}: {each.excerpt} ({ADVICE[each.rule]})")
    return 1 if found else 0


def _files() -> list[str]:
    """Return the tracked files, and those that could be, whose prose is checked."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.py", "*.md", "hack/*"]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in out.splitlines() if (ROOT / name).is_file() and (_is_python(name) or _is_document(name))]


def _is_document(name: str) -> bool:
    return name.endswith(".md") and name.startswith(_DOCUMENTS) and not name.startswith(_WRITTEN_BY_PROGRAMS)


def _is_python(name: str) -> bool:
    if name.endswith(".py"):
        return True
    if not name.startswith("hack/") or "." in Path(name).name:
        return False
    with (ROOT / name).open("rb") as file:
        return file.readline().endswith(b"python3\n")


def _violations(name: str) -> list[Violation]:
    text = (ROOT / name).read_text()
    found = passages(text) if name.endswith(".md") else source_passages(text)
    return sorted((one for passage in found for one in violations(passage)), key=lambda one: (one.line, one.rule))


if __name__ == "__main__":
    sys.exit(main())
