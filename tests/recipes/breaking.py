# SPDX-License-Identifier: Apache-2.0
"""Faulty passes, for tests that check that the fault is detected."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from circlekit.ir.graph import Model
from circlekit.rewrite.base import PASSES, Context, Pass

Change = Callable[[Model], None]


@contextmanager
def breaking_pass(name: str, change: Change) -> Iterator[None]:
    """Register a pass ``name`` that applies ``change`` once to each model; unregister it at the end."""

    def run(self: Pass, model: Model, context: Context) -> int:
        if model.extra.get(name):
            return 0
        model.extra[name] = object()  # not plain data, so it is not written
        change(model)
        return 1

    members: dict[str, Any] = {"name": name, "run": run}
    type("Breaking", (Pass,), members)
    try:
        yield
    finally:
        del PASSES[name]


def die(*_: object) -> NoReturn:
    """Kill the process, as a crash in a library does."""
    os.abort()
