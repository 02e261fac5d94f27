# SPDX-License-Identifier: Apache-2.0
"""What a target format cannot read, said with what it can (design, section 5)."""

from __future__ import annotations

import pkgutil
from abc import abstractmethod
from collections.abc import Collection
from functools import cache
from importlib import import_module
from typing import ClassVar

import circlekit.passes.legal as home
from circlekit.ir.clone import clone
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.definition import may_match
from circlekit.rewrite.rewrite import Rewrite

LEGALIZATIONS: list[type[Legalization]] = []
"""Every one that has been defined, in the order of their definition."""


class Legalization(GraphPass):
    """A change that is made only when a model is written as one of ``targets``.

    It has no ``name``, so it is no pass that a user or a pipeline can ask for: before writing it would
    only hide from the other passes what they look for.
    """

    targets: ClassVar[frozenset[str]] = frozenset()
    lowers: ClassVar[str] = ""

    @abstractmethod
    def may_change(self, graph: Graph) -> bool:
        """Whether ``graph`` may have something for this; must be cheap, and never false where it has."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__dict__.get("targets"):
            LEGALIZATIONS.append(cls)


def legalize(model: Model, format: str, keep: Collection[str] = ()) -> Model:
    """A model with the same values, as far as possible with what ``format`` has: a changed copy of ``model``,
    or ``model`` where there is nothing to change.

    Constants are shared with ``model``.  Operators that the format lacks and that no Legalization lowers
    are left as they are.  ``keep``: features, as a class names them in ``lowers``, that
    stay although the format's runtimes lack them.
    """
    _import_all()
    wanted = [kind() for kind in LEGALIZATIONS if format in kind.targets and kind.lowers not in keep]
    if not any(each.may_change(graph) for each in wanted for graph in model.graphs):
        return model
    copy = clone(model)
    for each in wanted:
        each.run(copy, Context(format=format))
    return copy


@cache
def _import_all() -> None:
    """Define the legalizations of this package, once: a look at the folder takes as long as a small model."""
    for module in pkgutil.iter_modules(home.__path__, home.__name__ + "."):
        import_module(module.name)


def has(graph: Graph, kind: type[Op]) -> bool:
    """Whether an operator of ``graph`` is of ``kind``."""
    return any(issubclass(each, kind) for each in graph.kinds)


class Lowering(Legalization, Rewrite):
    """A legalization that is a picture."""

    def may_change(self, graph: Graph) -> bool:
        return may_match(self.before, graph.kinds)
