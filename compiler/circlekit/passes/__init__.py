# SPDX-License-Identifier: Apache-2.0
"""The passes, in one folder for each kind; ``pipelines``, their order; ``engine``, the code that runs them.

``circlekit.passes()`` returns the classes of all passes by name.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """The class of the module ``circlekit.passes``, which can be called: see ``__call__``."""

    def __call__(self) -> dict[str, Any]:
        """Return the class of every pass by name, including the passes of other installed packages."""
        from circlekit.passes.engine.registry import every_pass  # slow: it imports the files of all passes

        return every_pass()


# Python looks up ``__call__`` in the class of an object, so the module needs a class of its own
sys.modules[__name__].__class__ = _CallablePackage
