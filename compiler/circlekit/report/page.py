# SPDX-License-Identifier: Apache-2.0
"""Render the report as one HTML page that needs no network.

Names in a model may contain anything, even HTML.  This is why

- the template escapes every text,
- the data for the script, which is JSON, contains none of the characters <, > and &, and
- a content security policy allows only the page's own script.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from circlekit.errors import UnsupportedError
from circlekit.report import page_tables as tables
from circlekit.report.arena_chart import arena_chart
from circlekit.report.content import Content
from circlekit.report.operator_texts import value_name
from circlekit.report.script_data import script_data

TEMPLATE = Path(__file__).parent / "template"
"""The folder with the template, the style and the script of the page."""


def require_jinja() -> None:
    """Raise UnsupportedError, which says what to install, if jinja2 is not installed."""
    try:
        import jinja2  # noqa: F401  # optional: only reports need it
    except ImportError:
        raise UnsupportedError("reports need the package jinja2: pip install 'circlekit[report]'") from None


def render(content: Content) -> bytes:
    """Return the page in UTF-8; the same content gives the same bytes.

    Raise UnsupportedError if jinja2 is not installed.
    """
    require_jinja()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # optional: only reports need it
    from markupsafe import Markup  # comes with jinja2

    # jinja2 calls ``finalize`` on everything that it inserts, and does not escape texts of the class Markup
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE), autoescape=True, undefined=StrictUndefined, finalize=visible,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    filters = (number, percent, difference, value_name)
    environment.filters.update({function.__name__: function for function in filters})
    script = (TEMPLATE / "report.js").read_text(encoding="utf-8")
    # the policy in the template allows the script with this digest, and no other
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = environment.get_template("report.html").render(
        content=content,
        max_rows=tables.MAX_ROWS,
        version=version("circlekit"),
        style=Markup((TEMPLATE / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        data=Markup(json_for_script(script_data(content))),
        summary=tables.summary_rows(content),
        kinds=tables.kind_rows(content),
        passes=tables.pass_rows(content),
        structure=tables.structure_rows(content),
        costs=tables.cost_tables(content),
        quantization=tables.quantization_tables(content),
        arena=tables.arena_tables(content),
        chart=arena_chart([side.arena.live_bytes for side in content.sides]),
    )
    return text.encode("utf-8", "backslashreplace")


def json_for_script(data: Any) -> str:
    """Return ``data`` as JSON in which escapes stand for <, > and &, which have a meaning in HTML.

    Raise ValueError for NaN and infinities, which JSON does not have.
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def visible(item: Any) -> Any:
    """Return ``item``; if it is a text, with escapes for unprintable characters other than line feeds.

    A text of jinja2's class Markup stays as it is: ``render`` gives this class only to the style, the script
    and the JSON of ``json_for_script``.
    """
    if type(item) is not str or item.isprintable():
        return item
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in item)


def number(count: int) -> str:
    """Return ``count`` with commas between groups of three digits."""
    return f"{count:,}"


def percent(percentage: float) -> str:
    """Return ``percentage``, from 0 to 100, with one digit after the decimal point and without "%"."""
    return f"{percentage:.1f}"


def difference(amount: float) -> str:
    """Return a difference of values with three significant digits."""
    return f"{amount:.3g}"
