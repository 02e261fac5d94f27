# SPDX-License-Identifier: Apache-2.0
"""Every operator, one file per family.  Importing this package declares them all."""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
