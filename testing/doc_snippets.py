"""Snippets of the pages of docs/, for tests that execute them."""

import textwrap
from pathlib import Path
from typing import Any

import yaml

_DOCS = Path(__file__).resolve().parents[1] / "docs"


def manifests(page: str, group: str) -> list[dict[str, Any]]:
    """Return every manifest of this API group on a page, in order."""
    blocks = (_DOCS / page).read_text().split("\n\n")
    shown = [textwrap.dedent(block) for block in blocks if f"    apiVersion: {group}/" in block]
    return [found for block in shown for found in yaml.safe_load_all(block) if found]
