# SPDX-License-Identifier: Apache-2.0
"""Legalize a model for a format: replace operators that the format lacks (design, section 10)."""

from __future__ import annotations

import pkgutil
from collections.abc import Collection
from functools import cache
from importlib import import_module
from typing import ClassVar

import circlekit.passes.legal as legal_passes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.rewrite import Rewrite

LEGALIZATIONS: list[type[Legalization]] = []
"""Every legalization that has been defined, in the order of definition."""


class Legalization(GraphPass):
    """A change that is made when a model is written as one of the formats in ``targets``.

    It has no ``name``, so neither users nor pipelines can run it earlier and hide from other passes the
    operators that they look for.  ``lowers``: the name of what it replaces, by which the argument ``keep`` of
    ``legalize`` can leave it out; empty if it is always run.
    """

    targets: ClassVar[frozenset[str]] = frozenset()
    lowers: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        is_base = not cls.targets or (issubclass(cls, Rewrite) and not cls.before)  # no format or picture
        if not is_base:
            LEGALIZATIONS.append(cls)


def legalize(model: Model, format: str, keep: Collection[str] = ()) -> Model:
    """Return a copy of ``model`` without operators that ``format`` lacks.

    Constants are shared with ``model``.  Operators that no Legalization replaces are left as they are.
    ``keep``: the ``lowers`` of the legalizations to leave out.
    """
    _import_all()
    copy = clone(model)
    for legalization in LEGALIZATIONS:
        if format in legalization.targets and legalization.lowers not in keep:
            legalization().run(copy, Context(format=format))
    return copy


@cache
def _import_all() -> None:
    """Import all modules of ``passes.legal``, which defines the legalizations."""
    for module in pkgutil.iter_modules(legal_passes.__path__, legal_passes.__name__ + "."):
        import_module(module.name)


class Lowering(Legalization, Rewrite):
    """A legalization for TFLite that is declared by a picture."""

    targets = frozenset({"tflite"})
