# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: no errors or requests; drawings, zoom, folding, keys, both color schemes.

Needs Chromium (``apt-get install chromium``) and the extra ``browser``; skipped where one is absent.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import circlekit
from circlekit.report.content import Source, collect
from circlekit.report.page import render

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install '.[browser]'")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
]

LAYER = """
  %"layer_{n}/a" = Mul(%"{last}", [2.0, 1.5, 0.5, 3.0])
  %"layer_{n}/b" = Logistic(%"layer_{n}/a")
  %"layer_{n}/c" = Neg(%"layer_{n}/b")
  %"layer_{n}/d" = Add(%"layer_{n}/c", %"{last}")
"""
NET = (
    "graph main(%x: f32[1,4]) -> %y {"
    + "".join(LAYER.format(n=n, last=f"layer_{n - 1}/d" if n else "x") for n in range(10))
    + '\n  %same = Add(%"layer_9/d", [0.0, 0.0, 0.0, 0.0])\n  %y = Relu(%same)\n}'
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        process = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield process
        process.close()


def write_page(path: Path, model: circlekit.Model) -> Path:
    path.write_bytes(render(collect(Source("model", model), passes=["O1"])))
    return path


def open_page(browser: Any, path: Path, **options: Any) -> tuple[Any, list[str]]:
    """Return the open page and the list of its events so far, to which later events are appended.

    Events are console messages, errors, requests and dialogs.  The only one of a good page is the request
    of the page itself.
    """
    page = browser.new_page(**options)
    events: list[str] = []

    def dismiss(dialog: Any) -> None:
        events.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("console", lambda message: events.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: events.append(f"error: {error}"))
    page.on("request", lambda request: events.append(f"request: {request.url}"))
    page.on("dialog", dismiss)
    page.goto(path.as_uri())
    assert events == [f"request: {path.as_uri()}"]
    return page, events


def scale(page: Any) -> float:
    transform = page.locator("#graph-view svg > g").get_attribute("transform")
    return float(transform.split("scale(")[1].rstrip(")"))


def assert_is_drawn(page: Any) -> None:
    for selector in ("#graph-view .node .box", ".bar", ".area", ".edge"):
        box = page.locator(selector).first.bounding_box()
        assert box is not None, selector
        assert max(box["width"], box["height"]) > 2, selector


def test_drawing_zooms_and_unfolds(browser: Any, tmp_path: Path) -> None:
    page, events = open_page(browser, write_page(tmp_path / "page.html", circlekit.parse(NET)))
    assert_is_drawn(page)
    nodes = page.locator("#graph-view .node")
    folded = nodes.count()
    before = scale(page)
    page.click("#zoom-in")
    assert scale(page) == pytest.approx(before * 1.25)
    page.click("#zoom-fit")

    page.locator("#graph-view .node.group").first.click()
    assert nodes.count() == folded + 4
    page.locator("#graph-view .node.op").first.hover()
    details = page.locator("#graph-details")
    assert "Mul(%x, [2.0, 1.5, 0.5, 3.0])" in details.inner_text()
    assert "16 bytes" in details.inner_text()
    page.click("#open-all")
    assert page.locator("#graph-view .node.op").count() == 42  # 10 layers of 4, %same and %y
    page.click("#fold-all")
    assert nodes.count() == folded

    page.locator("#graph-view .node.group").first.focus()
    page.keyboard.press("Enter")
    assert nodes.count() == folded + 4
    page.keyboard.press("ArrowDown")
    assert "Mul(%x" in details.inner_text()

    page.fill("#graph-find", "layer_7/b")
    page.keyboard.press("Enter")
    assert "Logistic" in details.inner_text()
    for color in ("macs", "moved", "error", "state"):
        page.select_option("#graph-color", color)
        assert page.locator("#graph-legend").inner_text()
    page.locator("#arena-chart").hover()
    assert "bytes at operator" in page.locator("#arena-details").inner_text()
    assert len(events) == 1


def test_tables_sort_and_lead_to_the_drawing(browser: Any, tmp_path: Path) -> None:
    page, events = open_page(browser, write_page(tmp_path / "page.html", circlekit.parse(NET)))
    table = page.locator("table.cost").last
    column = table.locator("tbody td:nth-child(2)")
    kinds = column.all_inner_texts()
    table.locator("thead button").nth(1).click()
    assert column.all_inner_texts() == sorted(kinds) != kinds
    table.locator("button.show").first.click()
    assert page.locator("#graph-view .node.op:focus").count() == 1
    assert page.locator("#graph-choice").input_value() == "1"  # the last table is that of the optimized model
    assert len(events) == 1


def test_hostile_names_run_nothing(browser: Any, tmp_path: Path) -> None:
    model = circlekit.parse(NET)
    for value in model.main.values():
        value.name = f"</script><script>alert(1)</script><img src=x onerror=alert(2)>{value.name}"
    page, events = open_page(browser, write_page(tmp_path / "page.html", model))
    page.click("#open-all")
    page.locator("#graph-view .node.op").first.dispatch_event("pointerenter")
    assert "<img src=x" in page.locator("#graph-details").inner_text()
    assert page.locator("img").count() == 0
    assert len(events) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_and_fits_a_phone(browser: Any, scheme: str, tmp_path: Path) -> None:
    """WCAG asks for a contrast of 4.5 between text and background."""
    path = write_page(tmp_path / "page.html", circlekit.parse(NET))
    page, _ = open_page(browser, path, color_scheme=scheme, viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "light dark"
    for selector in ("body", "td", ".muted", "a", "summary", "#graph-details", "button.show", ".count"):
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector


CONTRAST = """(selector) => {
  const element = document.querySelector(selector);
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const luminance = (color) => {
    const [r, g, b] = numbers(color).map((x) => linear(x / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (x) => getComputedStyle(x).backgroundColor;
  let back = element;
  while (back.parentElement && numbers(background(back))[3] === 0) back = back.parentElement;
  const shades = [luminance(getComputedStyle(element).color), luminance(background(back))];
  return (Math.max(...shades) + 0.05) / (Math.min(...shades) + 0.05);
}"""


def test_page_of_a_real_model(browser: Any, shared: Path, tmp_path: Path) -> None:
    path = write_page(tmp_path / "page.html", circlekit.load(shared / "models/tico/unet.circle"))
    assert path.stat().st_size < 3_000_000
    for scheme in ("light", "dark"):
        page, events = open_page(browser, path, color_scheme=scheme)
        assert_is_drawn(page)
        page.click("#open-all")
        page.select_option("#graph-choice", "1")
        assert_is_drawn(page)
        assert len(events) == 1
