# SPDX-License-Identifier: Apache-2.0
"""All operators, in one folder for each family.  Importing this package declares every operator."""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in pkgutil.walk_packages(__path__, __name__ + "."):
    import_module(_module.name)
