# SPDX-License-Identifier: Apache-2.0
"""The passes, one file each; they are found, not listed."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from circlekit.rewrite.base import PASSES, Pass


def all_passes() -> dict[str, type[Pass]]:
    """Every pass of this package by name, in alphabetical order."""
    _import_all()
    return dict(sorted(PASSES.items()))


@cache
def _import_all() -> None:
    """Define the passes of this package; once, for every pass of a pipeline is looked up by its name."""
    for module in pkgutil.walk_packages(__path__, __name__ + "."):
        import_module(module.name)
