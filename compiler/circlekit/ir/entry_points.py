# SPDX-License-Identifier: Apache-2.0
"""Whether an installed package may have entry points of a group, which costs a tenth of asking
``importlib.metadata``.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

PASSES = "circlekit.passes"
"""The group of those that name modules whose import defines passes."""


def may_exist(group: str) -> bool:
    """False where no place of ``sys.path`` has a package that mentions ``group`` among its entry points.

    True for what only ``importlib.metadata`` can look into: archives.
    """
    return any(_may_have(place, group.encode()) for place in sys.path)


def _may_have(place: str, group: bytes) -> bool:
    folder = Path(place)
    if not folder.is_dir():
        return folder.exists()
    return any(group in text for text in _entry_points(folder))


def _entry_points(folder: Path) -> Iterator[bytes]:
    """What the packages that are installed in ``folder`` say of theirs."""
    with contextlib.suppress(OSError):  # a folder that may not be read has no packages for Python, too
        for path in folder.iterdir():
            if path.name.endswith((".dist-info", ".egg-info", ".egg")):
                for inside in ("entry_points.txt", "EGG-INFO/entry_points.txt"):
                    with contextlib.suppress(OSError):
                        yield (path / inside).read_bytes()
