# ruff: noqa: INP001 -- mkdocs loads it by its path, it is in no package
"""mkdocs hook: links from docs/ to the rest of the repository, which the site does not have.

In the repository they are links like any other; on the site they become the file's path. One to nowhere ends the build.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the page with its links out of docs/ as text."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return link[0]
        if not target.exists():
            raise PluginError(f"docs/{page.file.src_uri} links to {link[2]}, which is not there")
        path = target.relative_to(ROOT)
        return link[1] if link[1].strip("`") == str(path) else f"{link[1]} (`{path}`)"

    return _LINK.sub(shown, markdown)
