# SPDX-License-Identifier: Apache-2.0
"""Functions that most runs of a command do without: their modules are imported when they are called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def deferred(module: str, name: str) -> Callable[..., Any]:
    """A function that calls ``module.name``.

        if TYPE_CHECKING:
            from circlekit.equivalence.bisect import find_culprit
        else:
            find_culprit = deferred("circlekit.equivalence.bisect", "find_culprit")

    A test holds this against the layers, like any import.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    return call
