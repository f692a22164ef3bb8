"""What the pages of docs/ show, for tests that do it."""

import textwrap
from pathlib import Path
from typing import Any

import yaml

_DOCS = Path(__file__).resolve().parents[1] / "docs"


def manifests(page: str, group: str) -> list[dict[str, Any]]:
    """Every manifest of this API group on a page, in their order."""
    blocks = (_DOCS / page).read_text().split("\n\n")
    shown = [textwrap.dedent(block) for block in blocks if f"    apiVersion: {group}/" in block]
    return [found for block in shown for found in yaml.safe_load_all(block) if found]
