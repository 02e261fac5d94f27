# SPDX-License-Identifier: Apache-2.0
"""Passes in folders by kind, the order in which pipelines run them, and the engine that runs them.

``circlekit.passes()`` returns the classes of all passes by name.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """The class of the module ``circlekit.passes``, which can be called: see ``__call__``."""

    def __call__(self) -> dict[str, Any]:
        """Return the class of every pass by name, including the passes of installed packages."""
        from circlekit.passes.engine.registry import every_pass  # slow: it imports the files of all passes

        return every_pass()


sys.modules[__name__].__class__ = _CallablePackage
