#!/usr/bin/env python3
"""cli-reference [--check] — write docs/reference/cli.md from the commands' own help; with --check only compare.

Every word is from the program: `elasticjob COMMAND --help` and the page cannot disagree.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "cli.md"
HEAD = """# Command line

<!-- Written by hack/reference/cli.py from the commands' own help: change that instead, and run it again. -->

`elasticjob`, and `kubectl elasticjob`, which is the same program. What each command is for, with pictures of what it
prints, is in [The command line](../cli.md).
"""


def page() -> str:
    """Return the whole page."""
    os.environ["COLUMNS"] = "100"  # argparse asks for the width of the terminal
    from elasticjob_cli.command_registry import ENTRIES  # noqa: PLC0415  # after the width is set
    from elasticjob_cli.exit_codes import EXIT_CODES  # noqa: PLC0415  # the same

    lines = [HEAD, "## Exit codes", "", "The same for every command.", "", "| Code | Meaning |", "| ---: | --- |"]
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES]
    for name, entry in ENTRIES.items():
        lines += ["", f"## elasticjob {name}", "", f"{entry.help[:1].upper()}{entry.help[1:]}.", ""]
        lines += indented(entry.page().parser(name).format_help())
    return "\n".join(lines).rstrip() + "\n"


def indented(text: str) -> Iterator[str]:
    """Yield the text as a block of code."""
    yield from (f"    {line}".rstrip() for line in text.rstrip().splitlines())


def main() -> int:
    """Write or compare; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is out of date")
    check = parser.parse_args().check
    made = page()
    if not check:
        PAGE.write_text(made, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == made:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is out of date: run make reference", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
