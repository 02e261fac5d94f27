# SPDX-License-Identifier: Apache-2.0
"""Passes of other packages, which say by an entry point where they are."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from circlekit.errors import RewriteError

GROUP = "circlekit.passes"
"""The group of entry points.  Each names a module whose import defines passes."""


@cache
def load_plugins() -> None:
    """Import the modules of all installed packages that have such an entry point, once.

    RewriteError, with the name of the package, for one that cannot be imported.
    """
    if not any(map(_may_have_some, sys.path)):
        return
    metadata: Any = import_module("importlib.metadata")  # slow to import, and mostly not wanted
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
        _load(point)


def _may_have_some(place: str) -> bool:
    """Whether a package in this place of ``sys.path`` may have such an entry point.

    True for what only ``importlib.metadata`` can look into: archives.
    """
    folder = Path(place)
    if not folder.is_dir():
        return folder.exists()
    return any(GROUP.encode() in text for text in _entry_points(folder))


def _entry_points(folder: Path) -> Iterator[bytes]:
    """What the packages that are installed in ``folder`` say of theirs."""
    with contextlib.suppress(OSError):  # a folder that may not be read has no packages for Python, too
        for path in folder.iterdir():
            if path.name.endswith((".dist-info", ".egg-info", ".egg")):
                for inside in ("entry_points.txt", "EGG-INFO/entry_points.txt"):
                    with contextlib.suppress(OSError):
                        yield (path / inside).read_bytes()


def _load(point: Any) -> None:
    try:
        point.load()
    except Exception as error:  # the code of others may go wrong in any way
        package = point.dist.name if point.dist is not None else "an unknown package"
        what = f"{type(error).__name__}: {error}"
        raise RewriteError(f"the passes of {package} ({point.value}) cannot be loaded: {what}") from error
