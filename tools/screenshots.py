# SPDX-License-Identifier: Apache-2.0
"""Make the screenshots of docs/guide/report.md again: python -m tools.screenshots MBV2.circle UNET.circle.

Needs Chromium and the extras report and browser.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

import circlekit
from circlekit.report.content import Source, collect
from circlekit.report.page import render

IMAGES = Path(__file__).parents[1] / "docs" / "guide" / "images"


def scroll_to(page: Any, section: str) -> None:
    page.evaluate("(id) => document.getElementById(id).scrollIntoView()", section)


def operators(page: Any) -> None:
    scroll_to(page, "summary")


def opened_group(page: Any) -> None:
    scroll_to(page, "graph")
    page.locator("#graph-view .node.group").nth(3).click()
    page.locator("#graph-view .node.op").nth(4).hover()


def costs(page: Any) -> None:
    scroll_to(page, "graph")
    page.select_option("#graph-choice", "1")
    page.select_option("#graph-color", "macs")


def memory(page: Any) -> None:
    scroll_to(page, "memory")
    page.locator("#arena-chart").hover()


SHOTS: list[tuple[int, str, Callable[[Any], None]]] = [
    (0, "light", operators),
    (0, "light", opened_group),
    (1, "dark", costs),
    (1, "dark", memory),
]
"""Number of the model, color scheme, and what to do before the picture is taken."""


def main(models: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pages = []
        for path in map(Path, models):
            content = collect(Source(path.name, circlekit.load(path), path.stat().st_size), passes=["O1"])
            pages.append(Path(folder, f"{path.stem}.html"))
            pages[-1].write_bytes(render(content))
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for number, scheme, prepare in SHOTS:
            page = browser.new_page(color_scheme=scheme, viewport={"width": 1000, "height": 760})
            page.goto(pages[number].as_uri())
            prepare(page)
            page.screenshot(path=IMAGES / f"report-{prepare.__name__.replace('_', '-')}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
