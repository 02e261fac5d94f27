# SPDX-License-Identifier: Apache-2.0
"""What a file of passes must keep: short, or with the reason why not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import circlekit.passes

ROOT = Path(circlekit.passes.__file__).parent
LONG = 120
EXCUSE = "Over 120 lines because "


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_long_file_says_why(path: Path) -> None:
    """And a short one does not: the excuse goes when its reason does."""
    text = path.read_text()
    why = (ast.get_docstring(ast.parse(text)) or "").partition(EXCUSE)[2]
    if len(text.splitlines()) > LONG:
        assert len(why.split()) >= 3, f"{path.name} has more than {LONG} lines and does not say why"
    else:
        assert not why, f"{path.name} has at most {LONG} lines and excuses itself"
