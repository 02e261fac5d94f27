# SPDX-License-Identifier: Apache-2.0
"""How the operators of one family get operands: a function each, found by the operators' names."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from tools.kit.families.base import FAMILIES, Family, draw_case

__all__ = ["FAMILIES", "Family", "draw_case"]

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
