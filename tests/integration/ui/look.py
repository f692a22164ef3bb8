"""Loads the page in a headless Chromium and prints its content, one JSON object per line; for `hack/browser`'s Python.

It needs playwright, which the project's own environment does not have, and no code of the project.

    look.py CHROMIUM URL FOLDER [WAIT_FOR_TEXT]

With WAIT_FOR_TEXT it prints a line as soon as the list is shown, and another when the text has appeared in it.
"""

import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

LONGEST_MS = 30_000
HANDLERS = "[...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames()).filter((n) => /^on/.test(n))"


def facts(page: Page, name: str, cell: str, folder: Path) -> dict[str, Any]:
    """Return the content of the document, and save a picture of it."""
    page.wait_for_selector(cell)
    page.screenshot(path=str(folder / f"{name}.png"), full_page=name != "list")
    return {
        "page": name,
        "cells": page.locator(cell).count(),
        "hurt": page.evaluate("window.hurt ?? null"),
        "scripts": page.evaluate("[...document.scripts].map((s) => s.src)"),
        "images": page.locator("img, iframe, object, embed").count(),
        "handlers": page.evaluate(HANDLERS),
        "links": page.evaluate("[...document.links].map((a) => a.protocol)"),
        "text": page.inner_text("main"),
        "beyond": page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"),
        "state": page.inner_text("#link"),
    }


def print_line(seen: dict[str, Any]) -> None:
    """Print one line."""
    print(json.dumps(seen), flush=True)


def look(page: Page, url: str, folder: Path) -> None:
    """Visit the list, a job of many ranks (and a rank under the pointer), and a hostile one."""
    page.goto(url)
    print_line(facts(page, "list", "#jobs tr", folder))
    page.goto(f"{url}#/team/large")
    page.wait_for_selector("#map .cell")
    page.hover("#map .cell:nth-child(30)")
    print_line({**facts(page, "job", "#map .cell", folder), "pointed": page.inner_text("#rank")})
    page.select_option("#colour", "memory")
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    print_line({**facts(page, "memory", "#map .cell", folder), "pointed": page.inner_text("#rank")})
    page.goto(f"{url}#/team/hostile")
    page.wait_for_selector("#tail")
    print_line(facts(page, "hostile", "#map .cell", folder))
    page.goto(f"{url}#/team/nobody")
    page.wait_for_selector("text=There is no job")
    print_line(facts(page, "nobody", "main p", folder))


def watch(page: Page, url: str, text: str) -> None:
    """Show the list until `text` is in it, without a reload."""
    page.goto(url)
    page.wait_for_selector("#jobs tr")
    page.evaluate("window.sameDocument = true")
    print_line({"page": "list"})
    page.wait_for_selector(f"#jobs >> text={text}")
    print_line({"page": "list", "same": page.evaluate("window.sameDocument ?? false")})


def main() -> None:
    """Visit the pages, or wait for a text."""
    chromium, url, folder, *text = sys.argv[1:]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(LONGEST_MS)
        asked: list[str] = []
        said: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        if text:
            watch(page, url, text[0])
        else:
            look(page, url, Path(folder))
        browser.close()
    print_line({"page": "all", "asked": asked, "said": said})


if __name__ == "__main__":
    main()
