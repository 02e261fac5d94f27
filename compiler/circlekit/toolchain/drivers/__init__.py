# SPDX-License-Identifier: Apache-2.0
"""The drivers: ONE's one-* commands.  The modules in this folder define them; ``all_drivers`` finds them."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from circlekit.toolchain.driver import Driver


@cache
def all_drivers() -> dict[str, Driver]:
    """Return {name: driver} of all drivers."""
    modules = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found = [item for module in modules for item in vars(module).values() if isinstance(item, Driver)]
    return {driver.name: driver for driver in sorted(found, key=lambda driver: driver.name)}
