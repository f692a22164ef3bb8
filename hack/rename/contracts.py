"""Puts the contracts of contracts.toml into pyproject.toml, and the new folders into the tools' settings."""

import re
import sys

from hack.rename.text import HERE, ROOT

_SETTINGS = (
    ('"images", "hack/prose"]', '"images", "hack/prose", "testing"]'),
    (
        '"e2e/**" = ["S"',
        '"testing/**" = ["TID251", "S", "PLR2004", "D103", "D102", "D101", "SLF001", "ANN201"]\n"e2e/**" = ["S"',
    ),
)


def apply() -> int:
    """Rewrite pyproject.toml; may be done again."""
    path = ROOT / "pyproject.toml"
    text = path.read_text()
    head = text.partition("[[tool.importlinter.contracts]]")[0]
    table = (HERE / "contracts.toml").read_text()
    table = table[table.index("[[contracts]]") :].replace("[[contracts]]", "[[tool.importlinter.contracts]]")
    for old, new in _SETTINGS:
        if new not in head:
            if old not in head:
                sys.exit(f"pyproject.toml: there is no {old!r}")
            head = head.replace(old, new)
    path.write_text(re.sub(r"\n{3,}", "\n\n", head + table))
    return 0
