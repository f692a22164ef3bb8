"""prose-lint [--update] [--list [FILE…]] — check the sentences of this repository.

Looks at docstrings, comments, messages of errors and log lines, help of options, and at the documents. The rules are in
hack/prose/rules.py. A file may break them as often as hack/prose/baseline.toml allows, and never less often: a baseline
that is too high fails as well. --update lowers it. --list prints the violations of files, or of all.

Not looked at: docs/reference, docs/benchmarks.md and docs/latencies.md, which programs write.
"""

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from hack.prose import baseline
from hack.prose.passages import passages
from hack.prose.python_source import source_passages
from hack.prose.rules import ADVICE, Rule, Violation, violations

ROOT = Path(__file__).resolve().parents[2]
BASELINE = Path(__file__).with_name("baseline.toml")
_DOCUMENTS = ("docs/", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_WRITTEN_BY_PROGRAMS = ("docs/reference/", "docs/benchmarks.md", "docs/latencies.md")


def main() -> int:
    """Check all files; return 1 if one differs from the baseline."""
    options = _options()
    found = {name: _violations(name) for name in _files()}
    if options.list is not None:
        _list(found, options.list)
        return 0
    counts = {name: Counter(one.rule for one in ones) for name, ones in found.items()}
    allowed = baseline.parse(BASELINE.read_text())
    if options.update:
        allowed = baseline.lowered(counts, allowed)
        BASELINE.write_text(baseline.encode(allowed))
    differences = baseline.differences(counts, allowed)
    _report(differences, found)
    return 1 if differences else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="prose-lint", description="Check sentences against hack/prose/rules.py.")
    parser.add_argument("--update", action="store_true", help="lower the baseline to what there is; it never rises")
    parser.add_argument("--list", nargs="*", metavar="FILE", help="print violations of files or folders, or of all")
    return parser.parse_args()


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


def _list(found: Mapping[str, list[Violation]], chosen: list[str]) -> None:
    shown = {name: ones for name, ones in found.items() if not chosen or name.startswith(tuple(chosen))}
    for name, ones in shown.items():
        _print(name, ones)
    for rule, number in sorted(baseline.totals(Counter(one.rule for one in ones) for ones in shown.values()).items()):
        print(f"{number:6} {rule}")


def _print(name: str, ones: Iterable[Violation]) -> None:
    for one in ones:
        print(f"{name}:{one.line}: {one.rule}: {one.excerpt}")


def _report(differences: list[baseline.Difference], found: Mapping[str, list[Violation]]) -> None:
    for one in differences:
        if one.is_above:
            rule = Rule(one.rule)
            print(f"{one.file}: {rule} {one.found} times, {one.allowed} allowed ({ADVICE[rule]}):")
            _print(one.file, (each for each in found.get(one.file, ()) if each.rule == rule))
    fallen = sum(not one.is_above for one in differences)
    if fallen:
        print(f"prose-lint: {fallen} numbers are below the baseline: run hack/prose-lint --update")


if __name__ == "__main__":
    sys.exit(main())
