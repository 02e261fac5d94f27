# SPDX-License-Identifier: Apache-2.0
"""Writes docs/passes.md, cli/catalog.json and passes/manifest.json from the classes of passes:

python tools/gen_passes.py
"""

from __future__ import annotations

from pathlib import Path

from circlekit.cli.catalog import FILE, as_json, catalog_of_classes
from circlekit.passes import all_passes, manifest
from circlekit.passes.describe import page

PAGE = Path(__file__).parents[1] / "docs" / "passes.md"


def main() -> None:
    PAGE.write_text(page(all_passes()))
    FILE.write_text(as_json(catalog_of_classes()), encoding="utf-8")
    entries = {name: manifest.entry_of(item) for name, item in all_passes().items()}
    manifest.FILE.write_text(manifest.as_json(entries), encoding="utf-8")


if __name__ == "__main__":
    main()
