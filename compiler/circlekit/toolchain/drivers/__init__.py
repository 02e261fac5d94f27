# SPDX-License-Identifier: Apache-2.0
"""The drivers: commands of ONE, such as one-optimize.  Each module in this folder defines one or more."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from circlekit.toolchain.driver import Driver


@cache
def all_drivers() -> dict[str, Driver]:
    """Return {name of the command: driver} of all drivers in the modules of this folder."""
    modules = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found = [item for module in modules for item in vars(module).values() if isinstance(item, Driver)]
    return {driver.name: driver for driver in sorted(found, key=lambda driver: driver.name)}
