"""Rewrites the identifiers that documents cite between backticks."""

from hack.rename import tables
from hack.rename.text import ROOT


def apply() -> int:
    """Rewrite what documents.toml lists, and the lines of prose.toml in documents; may be done again."""
    for name, rows in tables.load("documents").items():
        assert isinstance(rows, dict)
        for old, new in rows.items():
            _replace(name, f"`{old}`", f"`{new}`")
            _replace(name, f"::{old}`", f"::{new}`")
    lines = tables.load("prose")["line"]
    assert isinstance(lines, list)
    for row in lines:
        if row["file"].endswith(".md") or row.get("step") == "documents":
            _replace(tables.path_now(row["file"]), row["old"], row["new"])
    return 0


def _replace(name: str, old: str, new: str) -> None:
    path = ROOT / name
    text = path.read_text() if path.exists() else ""
    if old in text and (new not in text or old not in new):
        path.write_text(text.replace(old, new))
