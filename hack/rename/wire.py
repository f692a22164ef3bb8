"""Gives fields that are to be renamed their name outside, explicitly."""

import sys

from hack.rename import tables
from hack.rename.text import ROOT


def apply() -> int:
    """Make the edits of wire.toml; exit if a text is not there."""
    rows = tables.load("wire")["patch"]
    assert isinstance(rows, list)
    for row in rows:
        path = ROOT / tables.path_now(row["file"])
        text = path.read_text()
        if row["new"] in text:
            continue
        if text.count(row["old"]) != 1:
            sys.exit(f"{row['file']}: {text.count(row['old'])} times {row['old']!r}")
        path.write_text(text.replace(row["old"], row["new"]))
    return 0


def missing(renamed: list[tuple[str, str]]) -> list[str]:
    """Return the renamed fields of records that have no row."""
    table = tables.load("wire")
    records, fields = table["records"], table["fields"]
    assert isinstance(records, dict)
    assert isinstance(fields, dict)
    now = tables.modules_now()
    modules = {now.get(module, module) for module in records["modules"]}
    known = set()
    for full in fields:
        owner, _, name = full.rpartition(".")
        module, _, cls = owner.rpartition(".")
        known.add((f"{now.get(module, module)}.{cls}", name))
    return [
        f"wire.toml: no name outside for {owner}.{name}"
        for owner, name in renamed
        if owner.rpartition(".")[0] in modules and (owner, name) not in known and _is_field(owner, name)
    ]


def _is_field(owner: str, name: str) -> bool:
    """Return True if the class has a line `name: type`."""
    module, _, cls = owner.rpartition(".")
    base = ROOT / (tables.path_of(module) + ".py")
    text = base.read_text() if base.is_file() else ""
    body = text.partition(f"class {cls}")[2].partition("\nclass ")[0]
    return f"\n    {name}: " in body
