# SPDX-License-Identifier: Apache-2.0
"""Passes of other packages, which say by an entry point where they are."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from circlekit.errors import RewriteError
from circlekit.ir.entry_points import PASSES, may_exist


@cache
def load_plugins() -> None:
    """Import the modules of all installed packages that have such an entry point, once.

    RewriteError, with the name of the package, for one that cannot be imported.
    """
    if not may_exist(PASSES):
        return
    metadata: Any = import_module("importlib.metadata")  # slow to import, and mostly not wanted
    for point in sorted(metadata.entry_points(group=PASSES), key=lambda p: (p.name, p.value)):
        _load(point)


def _load(point: Any) -> None:
    try:
        point.load()
    except Exception as error:  # the code of others may go wrong in any way
        package = point.dist.name if point.dist is not None else "an unknown package"
        what = f"{type(error).__name__}: {error}"
        raise RewriteError(f"the passes of {package} ({point.value}) cannot be loaded: {what}") from error
