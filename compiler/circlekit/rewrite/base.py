# SPDX-License-Identifier: Apache-2.0
"""What a pass is, and what it is told and may tell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from circlekit.errors import RewriteError
from circlekit.ir.text.lines import print_op

if TYPE_CHECKING:
    from circlekit.ir.graph import Graph, Model
    from circlekit.ir.op import Op

FOLD_LIMIT = 64 << 20


@dataclass
class Refusal:
    """Why a pass left something alone.

    ``progress``: how far it got, to tell a near miss from a far one.  ``far``: whether it is a far one.
    """

    pass_name: str
    graph: str
    op: Op
    sentence: str
    progress: int = 0
    far: bool = False


@dataclass
class Budget:
    """Counts rewrites, and ends them: whoever looks for a wrong one lets fewer and fewer be made.

    ``left``: how many more may be made, None for any number.  ``made``: how many were.  ``last``: the
    operator where the latest one was, as text, from before it.
    """

    left: int | None = None
    made: int = 0
    last: str = ""


@dataclass
class Folded:
    """What computing constants took: ``bytes`` made of ``most`` (0 as long as nobody knows), and products."""

    bytes: int = 0
    most: int = 0
    macs: int = 0
    most_macs: int = 0


@dataclass
class Context:
    """What all passes of one optimization share.

    ``format``: what the model will be written as; a pass creates no operator that this lacks.
    ``fold_limit``: the largest constant, in bytes, that a pass may create by computing it.
    ``refusals``: where near misses are noted, or None when nobody asks.
    ``far``: whether far ones are noted as well.
    ``budget``: counts and limits single rewrites, or None when nobody does.
    ``settings``: values for the options of passes, by their names.
    ``exact``: leave out rewrites that are right only approximately, and those that cost more than they gain;
    a pipeline does, a pass that is asked for by name does them too.
    ``folded``: what constants took that were computed, by all passes together.
    """

    format: str = "circle"
    fold_limit: int = FOLD_LIMIT
    refusals: list[Refusal] | None = None
    far: bool = False
    budget: Budget | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = False
    folded: Folded = field(default_factory=Folded)

    @property
    def may_rewrite(self) -> bool:
        """Asked right before each single rewrite."""
        return self.budget is None or self.budget.left != 0

    def rewrites(self, op: Op | str | None) -> None:
        """Count a rewrite of ``op`` (or of the operator with that text); free when nobody counts."""
        if self.budget is not None:
            self.budget.made += 1
            self.budget.last = op if isinstance(op, str) else "" if op is None else print_op(op)
            if self.budget.left is not None:
                self.budget.left -= 1

    def refuse(self, pass_name: str, op: Op, sentence: str, progress: int = 0) -> None:
        """Note a near miss; free when nobody asks.  A sentence that names no value gets that of ``op``."""
        if self.refusals is not None:
            if "%" not in sentence and op.results:
                sentence = f"%{op.output.name}: {sentence}"
            graph = op.graph.name if op.graph is not None else ""
            self.refusals.append(Refusal(pass_name, graph, op, sentence, progress, self.far))


class Option(NamedTuple):
    """A setting of a pass: ``--name METAVAR`` on the command line, or ``--name`` for a switch (no metavar).

    One that is called as its pass belongs to the pass's own flag.  ``parse``: from the text of a command
    line; a ValueError's text is what is told.  ``default``: the value where none is given.
    ``records``: the value is the path of an HDF5 file of input records; the pass gets the records.
    """

    name: str
    help: str
    metavar: str = ""
    parse: Callable[[str], Any] = str
    default: Any = None
    records: bool = False


PASSES: dict[str, type[Pass]] = {}
"""Every pass that has been defined, by name."""


class Pass(ABC):
    """A named change of a model that keeps its values and its interface (design, section 6).

    A subclass with a ``name`` enters PASSES by being defined.  ``formats``: the target formats for which
    the pass makes sense: one that creates operators of circle alone is skipped for TFLite.  ``undoes``:
    passes whose work this one takes back: a pipeline leaves it out where one of them is asked for.
    ``changes_values``, ``changes_interface``: it is meant to, and its docstring says how; what is verified
    begins anew behind it.  ``options``: what a user may set.
    """

    name: ClassVar[str] = ""
    formats: ClassVar[frozenset[str]] = frozenset({"circle", "tflite"})
    undoes: ClassVar[frozenset[str]] = frozenset()
    changes_values: ClassVar[bool] = False
    changes_interface: ClassVar[bool] = False
    options: ClassVar[tuple[Option, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__dict__.get("name"):
            known = PASSES.setdefault(cls.name, cls)
            if known.__qualname__ != cls.__qualname__ or known.__module__ != cls.__module__:
                raise RewriteError(f"{cls.__module__}: the pass {cls.name} is defined in {known.__module__}")
            PASSES[cls.name] = cls  # defined anew, as in a notebook

    @classmethod
    def notes(cls, model: Model, context: Context, changes: int | None) -> Iterable[str]:
        """Sentences for the user about the optimized ``model``.

        Called once after the last pass, for every known pass.  ``changes``: how many this one made, None if
        it was not asked for.
        """
        return ()

    def setting(self, context: Context, name: str) -> Any:
        """What the user set option ``name`` of this pass to, or its default."""
        defaults = {option.name: option.default for option in self.options}
        return context.settings.get(name, defaults[name])

    @abstractmethod
    def run(self, model: Model, context: Context) -> int:
        """Change ``model`` as far as this pass can; returns how many changes were made, 0 for none."""


class GraphPass(Pass):
    """A pass that looks at one graph at a time."""

    def run(self, model: Model, context: Context) -> int:
        return sum(self.run_graph(graph, context) for graph in model.graphs)

    @abstractmethod
    def run_graph(self, graph: Graph, context: Context) -> int:
        """Like ``run``, for one graph."""
