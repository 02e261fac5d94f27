# SPDX-License-Identifier: Apache-2.0
"""Writes docs/passes.md from the classes of the passes: python tools/gen_passes.py"""

from __future__ import annotations

from pathlib import Path

from circlekit.passes import all_passes
from circlekit.passes.describe import page

PAGE = Path(__file__).parents[1] / "docs" / "passes.md"


def main() -> None:
    PAGE.write_text(page(all_passes()))


if __name__ == "__main__":
    main()
