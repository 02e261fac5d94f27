# SPDX-License-Identifier: Apache-2.0
"""All operators, in one folder for each family.

An operator class registers itself when it is defined.  So importing this package, which imports all modules
below it, makes every operator known.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in pkgutil.walk_packages(__path__, __name__ + "."):
    import_module(_module.name)
