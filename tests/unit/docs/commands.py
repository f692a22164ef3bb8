"""The shell commands of the pages, for a reader to type.

In a block with `$` lines these are the commands; in any other, lines that begin with a program of FIRST. In a table
with a column "type" they are the code in it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
FIRST = (
    r"make|kubectl|helm|docker|kind|pip|python3?|elasticjob(-agent|-operator)?|torchrun|etcdctl|git|export|prometheus|"
    r"promtool|\.venv/bin/\S+|hack/\S+|images/\S+|[A-Z_]+=\S+"
)
_COMMAND = re.compile(rf"(?:{FIRST})(?: .*)?")
_REMARK = re.compile(r"\s+#\s.*$")


def commands() -> list[tuple[str, str]]:
    """Page and command, remarks and line ends taken off."""
    return [(str(page.relative_to(ROOT)), command) for page in PAGES for command in of_page(page.read_text())]


def of_page(text: str) -> Iterator[str]:
    """The commands of one page."""
    for block in blocks(text):
        typed = [line.removeprefix("$ ") for line in block if line.startswith("$ ")]
        for command in typed or block:
            if typed or _COMMAND.fullmatch(command):
                yield " ".join(_REMARK.sub("", command).split())
    yield from in_tables(text)


def in_tables(text: str) -> Iterator[str]:
    """Code in the last column of tables that have "type" over it."""
    for table in re.findall(r"^\|.*\| type \|\n\|[ -|]*\n((?:\|.*\n)+)", text, re.MULTILINE):
        for row in table.splitlines():
            last = re.split(r"(?<!\\)\|", row)[-2]
            yield from (code.replace("\\|", "|") for code in re.findall("`([^`]+)`", last))


def blocks(text: str) -> Iterator[list[str]]:
    """Code, indented or fenced; a line that ends in a backslash is one with the next."""
    block: list[str] = []
    fenced = False
    for line in re.sub(r" *\\\n\s*", " ", text).splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            block.append(line.strip() if fenced else line[4:])
            continue
        elif not line.strip() and block:
            continue
        if block:
            yield block
            block = []
    if block:
        yield block
