# SPDX-License-Identifier: Apache-2.0
"""What a target format cannot read, said with what it can (design, section 5)."""

from __future__ import annotations

import pkgutil
from collections.abc import Collection
from importlib import import_module
from typing import ClassVar

import circlekit.passes.legal as home
from circlekit.ir.clone import clone
from circlekit.ir.collector import paused
from circlekit.ir.graph import Model
from circlekit.rewrite.base import Context, GraphPass

LEGALIZATIONS: list[type[Legalization]] = []
"""Every one that has been defined, in the order of their definition."""


class Legalization(GraphPass):
    """A change that is made only when a model is written as one of ``targets``.

    It has no ``name``, so it is no pass that a user or a pipeline can ask for: before writing it would
    only hide from the other passes what they look for.
    """

    targets: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__dict__.get("targets"):
            LEGALIZATIONS.append(cls)


@paused()
def legalize(model: Model, format: str, without: Collection[type[Legalization]] = ()) -> Model:
    """A copy of ``model`` with the same values, as far as possible with what ``format`` has.

    Constants are shared with ``model``.  Operators that the format lacks and that no Legalization lowers
    are left as they are.  ``without``: what not to do.
    """
    for module in pkgutil.iter_modules(home.__path__, home.__name__ + "."):
        import_module(module.name)
    copy = clone(model)
    for kind in LEGALIZATIONS:
        if format in kind.targets and kind not in without:
            kind().run(copy, Context(format=format))
    return copy
