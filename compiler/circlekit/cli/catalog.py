# SPDX-License-Identifier: Apache-2.0
"""The flags of the passes, for a command line that is read, or a page of help, before any pass is imported.

``catalog.json`` is written by ``python tools/gen_passes.py`` from the classes; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("catalog.json")


class Setting(NamedTuple):
    """An option of a pass; a switch has no ``metavar``."""

    name: str
    metavar: str
    help: str


class Flags(NamedTuple):
    """One pass: ``summary`` is the first line of what its class tells."""

    name: str
    summary: str
    settings: tuple[Setting, ...]


class Catalog(NamedTuple):
    """``pipelines``: their names.  ``passes``: in the order in which they are listed."""

    pipelines: tuple[str, ...]
    passes: tuple[Flags, ...]


def catalog() -> Catalog:
    """What the passes of this package are, without a look at them."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    passes = (Flags(n, text, tuple(Setting(*x) for x in settings)) for n, text, settings in stored["passes"])
    return Catalog(tuple(stored["pipelines"]), tuple(passes))


def catalog_of_classes() -> Catalog:
    """The same from the classes, with those of other modules that have been imported."""
    from circlekit.passes import all_passes
    from circlekit.passes.pipelines import PIPELINES

    known = all_passes()
    return Catalog(tuple(PIPELINES), tuple(flags_of(known.values())))


def flags_of(passes: Iterable[Any]) -> list[Flags]:
    """The flags of classes of passes, in the order in which they are listed."""
    from circlekit.passes.describe import summary
    from circlekit.passes.pipelines import in_order

    known = {item.name: item for item in passes}
    return [
        Flags(
            name,
            summary(known[name]),
            tuple(Setting(o.name, o.metavar, o.help) for o in known[name].options),
        )
        for name in in_order(known)
    ]


def as_json(content: Catalog) -> str:
    """The text of ``catalog.json``: a line for each pass."""
    lines = ",\n".join(f"  {json.dumps(item, ensure_ascii=False)}" for item in content.passes)
    return f'{{"pipelines": {json.dumps(content.pipelines)}, "passes": [\n{lines}\n]}}\n'
