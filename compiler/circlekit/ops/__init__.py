# SPDX-License-Identifier: Apache-2.0
"""Every operator, in folders of families.  Importing this package declares them all."""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in pkgutil.walk_packages(__path__, __name__ + "."):
    import_module(_module.name)
