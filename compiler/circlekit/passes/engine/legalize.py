# SPDX-License-Identifier: Apache-2.0
"""Legalize a model: replace operators and forms that its format or its runtimes lack.

A delegate, such as XNNPACK in LiteRT, is a part of a runtime that takes over some operators of a graph.  The
operators that it takes form partitions: parts of the graph that it runs at once.
"""

from __future__ import annotations

import pkgutil
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from importlib import import_module
from typing import ClassVar, Generic, TypeVar

import circlekit.passes.legal as legal_passes
from circlekit.errors import ModelError
from circlekit.ir.clone import clone
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import fits, settle_ranks
from circlekit.ir.value import Value
from circlekit.passes.support.insertion import Inserter
from circlekit.passes.support.lone_model import can_stand_alone, lone_model
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.rewrite import Rewrite
from circlekit.targets.delegation import CutFinder
from circlekit.targets.target import DEFAULT_TARGETS, Target

K = TypeVar("K", bound=Op)  # the operators of the ``kinds`` of a Replacement

LEGALIZATIONS: list[type[Legalization]] = []
"""Every legalization that has been defined, in the order of definition."""

LITERT = frozenset({"litert", "litert-xnnpack"})
"""Names of the targets that are LiteRT."""

MAX_ROUNDS = 30
"""The limit for the rounds of ``legalize_in_place``; in each round, every legalization runs once.

A later round replaces operators that legalizations made in an earlier round.
"""

MAX_DEPTH = 2
"""Largest ``depth`` of a legalization: how often the operators that it makes may be replaced again."""


class Legalization(GraphPass):
    """A pass that replaces operators that the format or a runtime refuses.

    The format and all runtimes accept the new operators, or those that replace them in turn (see ``depth``).
    If only the delegate of a runtime refuses an operator, the pass may also replace it by operators that the
    delegate accepts (see ``is_cut``).  The pass has no ``name``, so users and pipelines cannot run it: it
    would remove operators that later passes look for.

    ``targets``: names of runtimes for which the pass replaces even operators that their tables accept,
    because a table cannot express what is wrong with them.  The new operators are then not examined.
    ``lowers``: a word for what the pass replaces, such as "fused_activations".  The pass does not run if the
    argument ``keep`` of ``legalize_in_place`` has this word.  With "" it always runs.
    ``depth``: how often the operators that it makes may be replaced again until they run.
    ``changes_more``: whether the pass changes more of the model than other legalizations.  If so, it runs
    after the others.

    The arguments of the constructor: ``format`` and ``is_excerpt``, see ``legalize_in_place``; ``runtimes``,
    the targets that the user named; ``names``, their names, or the name of the default target.
    """

    targets: ClassVar[frozenset[str]] = frozenset()
    lowers: ClassVar[str] = ""
    changes_more: ClassVar[bool] = False

    def __init__(
        self,
        format: str = "",
        runtimes: Sequence[Target] = (),
        names: Collection[str] = (),
        is_excerpt: bool = False,
    ) -> None:
        self.format, self.runtimes, self.is_excerpt = format, runtimes, is_excerpt
        self.depth = 0
        self.cuts = CutFinder(self.delegate_obstacle)
        self.is_forced = bool(self.targets.intersection(names))

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if getattr(cls, "before", "") or getattr(cls, "kinds", ()):  # else ``cls`` is a base class
            LEGALIZATIONS.append(cls)

    @property
    def title(self) -> str:
        """The name of the class in the form of the names of passes, such as ``split_grouped_conv``."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    def wants(self, op: Op) -> bool:
        """Return whether ``op`` has to be replaced."""
        return self.is_forced or self.obstacle(op) is not None or self.is_cut([op])

    def obstacle(self, op: Op) -> str | None:
        """Return why the format or a runtime does not have ``op``, as a sentence; None if all have it."""
        if op.formats and self.format not in op.formats:
            return f".{self.format} has no {op.code}"
        return next(filter(None, (runtime.refusal(op) for runtime in self.runtimes)), None)

    def delegate_obstacle(self, op: Op) -> str | None:
        """Return why the delegate of a runtime does not take ``op``, as a sentence; None if all do."""
        return next(filter(None, (runtime.delegate_refusal(op) for runtime in self.runtimes)), None)

    def is_cut(self, ops: Collection[Op]) -> bool:
        """Return whether the delegate refuses some of ``ops``, and taking them would add no partition.

        This holds if ``ops`` divide a partition into two, and also at the edge of a partition.  Between
        partitions the runtime calls its own kernels, so a legalization must not add partitions.  If
        ``is_excerpt``, the partitions are unknown, and a refusal is enough.
        """
        if self.is_excerpt:
            return any(self.delegate_obstacle(op) is not None for op in ops)
        return self.cuts.is_cut(ops)

    def result_obstacle(self, old: Collection[Op], new: Sequence[Op]) -> str | None:
        """Return why the operators ``new`` must not replace ``old``; None if there is no obstacle.

        If the runtimes run all of ``old``, the reason to replace them is a delegate, so the delegate has to
        take ``new``.  If ``targets`` forces the replacement, ``new`` is not examined.
        """
        if self.is_forced:
            return None
        runs = all(self.obstacle(op) is None for op in old)
        checks = (self.obstacle, self.delegate_obstacle) if runs else (self.lasting_obstacle,)
        return next((sentence for check in checks for sentence in map(check, new) if sentence), None)

    def lasting_obstacle(self, op: Op) -> str | None:
        """Return why ``op`` runs neither as it is nor after it is legalized again; None if it runs."""
        sentence = self.obstacle(op)
        if sentence is None or not self.depth or not can_stand_alone(op):
            return sentence
        model = lone_model(op)
        legalize_in_place(model, self.format, (), self.runtimes, is_excerpt=True, depth=self.depth - 1)
        return sentence if any(map(self.obstacle, model.ops())) else None


class Lowering(Legalization, Rewrite):
    """A legalization that is declared by a picture.

    The root of a picture is the operator that computes its result.  The legalization applies if the format or
    a runtime refuses the root.  It also applies if the delegate of a runtime refuses the root, and one of
    these holds:

    - ``is_cut`` holds for the matched operators.
    - The format or a runtime refuses another matched operator.
    """

    def wants(self, op: Op) -> bool:
        return self.is_forced or self.obstacle(op) is not None or self.delegate_obstacle(op) is not None

    def result_obstacle(self, old: Collection[Op], new: Sequence[Op]) -> str | None:
        sentence = super().result_obstacle(old, new)
        is_required = self.is_forced or any(self.obstacle(op) is not None for op in old)
        if sentence is not None or is_required or self.is_cut(old):
            return sentence
        return "the delegate would have more partitions"


class Replacement(Legalization, Generic[K]):
    """A legalization of single operators of the classes ``kinds``; ``results`` inserts the new operators.

    An operator that breaks its shape rule stays.
    """

    kinds: tuple[type[K], ...] = ()

    def run_graph(self, graph: Graph, context: Context) -> int:
        ops = [op for op in graph.ops if isinstance(op, self.kinds) and op.results and self.wants(op)]
        return sum(self._replace(graph, op) for op in ops if fits(op))

    def _replace(self, graph: Graph, op: K) -> bool:
        """Replace ``op`` and return True; if that is not possible, change nothing and return False."""
        insert = Inserter(graph, op)
        try:
            values = self.results(op, insert)
        except ModelError:  # a new operator cannot take its operands, because the model is invalid
            values = None
        if values is not None and self.result_obstacle([op], insert.ops) is None:
            insert.finish(*values)
            return True
        for made in reversed(insert.ops):
            graph.remove(made)
        return False

    @abstractmethod
    def results(self, op: K, insert: Inserter) -> Sequence[Value] | None:
        """Insert the operators that replace ``op``, and return the values that replace its results, in order.

        ``insert`` puts new operators before ``op``.  Return None if ``op`` cannot be replaced.
        """


def legalize(
    model: Model, format: str, targets: Sequence[Target] | None = None, is_excerpt: bool = False
) -> Model:
    """Return a legalized copy of ``model`` with the same constant arrays; see ``legalize_in_place``."""
    copy = clone(model)
    legalize_in_place(copy, format, targets=targets, is_excerpt=is_excerpt)
    return copy


def legalize_in_place(
    model: Model,
    format: str,
    keep: Collection[str] = (),
    targets: Sequence[Target] | None = None,
    is_excerpt: bool = False,
    depth: int = MAX_DEPTH,
) -> dict[str, int]:
    """Replace operators that ``format`` or one of the runtimes ``targets`` lacks.

    Return how often each legalization was applied, by its ``title``.  An operator stays if no legalization
    replaces it by operators that the format and all runtimes have.  If any was applied, shapes of [] that
    stand for an unknown rank are settled (``settle_ranks``).

    ``keep``: the ``lowers`` of the legalizations to leave out.
    ``targets``: the runtimes; None if the user named none.  With None, only operators that the format lacks
    are replaced, and no table of a runtime is read: ONE's compiler may take operators that its interpreter
    lacks.  There is one exception: if the class attribute ``targets`` of a legalization has the default
    target of the format, this legalization replaces every operator that it can replace.
    ``is_excerpt``: whether ``model`` is a part of another model, whose partitions are unknown.
    ``depth``: the highest ``depth`` of a legalization.
    """
    _import_all()
    names = [DEFAULT_TARGETS[format]] if targets is None else [target.name for target in targets]
    runtimes = targets or ()
    kinds = sorted(LEGALIZATIONS, key=lambda kind: kind.changes_more)
    members = [kind(format, runtimes, names, is_excerpt) for kind in kinds if kind.lowers not in keep]
    unsettled = [v for graph in model.graphs for v in graph.values() if v.shape == () and v.data is None]
    settle_ranks(model, strict=False)
    made: Counter[str] = Counter()
    # the depth in this round; at 0 new operators must run as they are, above 0 they may be replaced again
    level = 0
    for _ in range(MAX_ROUNDS):
        for member in members:
            member.depth = level
        changes = {member.title: member.run(model, Context(format=format)) for member in members}
        made.update(changes)
        if any(changes.values()):
            level = 0
        elif level < depth and any(runtime.refusal(op) for runtime in runtimes for op in model.ops()):
            level += 1
        else:
            break
    if not any(made.values()):  # the model stays as it was, with its shapes
        for value in unsettled:
            value.shape = ()
    return dict(+made)  # without the legalizations that were applied 0 times


@cache
def _import_all() -> None:
    """Import all modules of ``passes.legal``, which defines the legalizations."""
    for module in pkgutil.iter_modules(legal_passes.__path__, legal_passes.__name__ + "."):
        import_module(module.name)
