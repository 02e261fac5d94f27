# SPDX-License-Identifier: Apache-2.0
"""The base classes of passes, and the context that passes share during one optimization.

A pass is a named change of a model.  Many passes are rewrites: they replace operators that match a picture, a
small graph as text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from circlekit.errors import RewriteError
from circlekit.ir.text.lines import print_op
from circlekit.rewrite.target_rules import TargetRules

if TYPE_CHECKING:
    from circlekit.ir.graph import Graph, Model
    from circlekit.ir.op import Op

MAX_FOLDED_BYTES = 64 << 20
"""Default size of the largest constant that a pass may compute."""


@dataclass
class Refusal:
    """Why a pass did not rewrite an operator.

    ``op``: the operator, in the graph named ``graph``.  ``sentence``: the reason.
    ``progress``: how much of the picture matched; 0 if the pass does not say.  An operator of the right class
    counts 2, or 1 if it has too many operands, too few results or another custom code.  If only a condition
    refuses, the progress is 1 higher.
    ``missing``: the progress that a full match would have in addition.
    ``is_partial``: whether too little of the picture is in the graph for a near miss.
    ``ops``: the operators that matched; () if the pass does not say.
    ``text``: ``op`` as text at the time of the refusal; "" for a partial match.
    """

    pass_name: str
    graph: str
    op: Op
    sentence: str
    progress: int = 0
    is_partial: bool = False
    missing: int = 0
    ops: tuple[Op, ...] = ()
    text: str = field(default="", compare=False)

    @property
    def distance(self) -> tuple[bool, int, int]:
        """A key that sorts the refusals of all passes, so that the nearest to a full match comes first.

        Partial matches come last.  Of the others, a lower ``missing - progress`` comes first, then a higher
        ``progress``.  A progress of 0 counts as DEFAULT_PROGRESS.
        """
        progress = self.progress or DEFAULT_PROGRESS
        return self.is_partial, self.missing - progress, -progress


DEFAULT_PROGRESS = 3
"""The progress of a refusal that states none.

A picture of one operator has this progress if the operator matches (2) and only a condition refuses it (1).
"""


@dataclass
class Budget:
    """Counts rewrites and limits them, so that a wrong rewrite can be found by bisection.

    ``left``: how many more rewrites are allowed; None: any number.  ``made``: how many were made.  ``last``:
    the text of the operator at which the latest rewrite started, as it was before the rewrite.
    """

    left: int | None = None
    made: int = 0
    last: str = ""


@dataclass
class FoldedWork:
    """How much constant folding has computed, and how much it may compute.

    ``bytes``: size of the results so far.  ``macs``: multiply-accumulates so far.  The limits ``max_bytes``
    and ``max_macs`` are 0 until the first folding pass sets them for the model.
    """

    bytes: int = 0
    max_bytes: int = 0
    macs: int = 0
    max_macs: int = 0


@dataclass
class Context:
    """What all passes of one optimization share.

    ``format``: the format in which the model will be written; passes create only operators that it has.
    ``max_folded_bytes``: size of the largest constant that a pass may compute.
    ``refusals``: the list of recorded near misses; None: none are recorded.
    ``partial_matches``: whether to record also operators that match too little of a picture for a near miss.
    In such a run, all refusals are marked as partial.
    ``budget``: counts and limits single rewrites; None: they are neither counted nor limited.
    ``settings``: {name of a pass option: the user's value}.
    ``exact``: whether to omit rewrites that are only approximately right, or cost more than they gain.
    ``named``: the names that the user gave.  Passes among them run without ``exact``.
    ``folded``: the work of constant folding in all passes together.
    ``target``: what the target allows; None: there is no restriction.
    ``default_rules``: the rules of the format's default target, for passes that need rules even if ``target``
    is None; made when the first such pass asks for them.
    ``nhwc``: names of inputs and outputs that were NHWC before a pass changed the layout of other ones, and
    with it perhaps removed the Transpose that showed this.
    """

    format: str = "circle"
    max_folded_bytes: int = MAX_FOLDED_BYTES
    refusals: list[Refusal] | None = None
    partial_matches: bool = False
    budget: Budget | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = False
    named: Collection[str] = ()
    folded: FoldedWork = field(default_factory=FoldedWork)
    target: TargetRules | None = None
    default_rules: TargetRules | None = None
    nhwc: set[str] = field(default_factory=set)

    @property
    def may_rewrite(self) -> bool:
        """Whether the budget allows one more rewrite; passes check this right before each rewrite."""
        return self.budget is None or self.budget.left != 0

    def count_rewrite(self, op: Op | str | None) -> None:
        """Count a rewrite that started at ``op``; do nothing without a budget.

        ``op``: an operator, its text, or None if neither is at hand.
        """
        if self.budget is not None:
            self.budget.made += 1
            text = op if op is None or isinstance(op, str) else print_op(op)
            self.budget.last = text or ""
            if self.budget.left is not None:
                self.budget.left -= 1

    def accepts(self, pass_name: str, op: Op, sentence: str | None, progress: int = 0) -> bool:
        """Return whether the pass may rewrite ``op``; if so, count the rewrite.

        ``sentence``: why the pass itself refuses; None if it does not refuse.  If it does not, the target may
        still forbid the rewrite (``TargetRules.barred``), or the budget may be used up.  A refusal by the
        pass or by the target is recorded as a near miss, with ``progress``.
        """
        result = op.results[0].name if op.results else ""
        if sentence is None and result and self.target is not None:
            sentence = self.target.barred.get((pass_name, result))
        if sentence is not None:
            self.refuse(pass_name, op, sentence, progress)
        if sentence is not None or not self.may_rewrite:
            return False
        if self.target is not None:
            self.target.accepted.append(result)
        self.count_rewrite(op)
        return True

    def refuse(
        self,
        pass_name: str,
        op: Op,
        sentence: str,
        progress: int = 0,
        missing: int = 0,
        ops: tuple[Op, ...] = (),
    ) -> None:
        """Record a refusal if ``refusals`` are recorded.  Arguments: see Refusal.

        If ``sentence`` names no value (``%name``), the name of the result of ``op`` is put before it.
        """
        if self.refusals is not None:
            if "%" not in sentence and op.results:
                sentence = f"%{op.output.name}: {sentence}"
            graph = op.graph.name if op.graph is not None else ""
            partial = self.partial_matches
            # partial matches are many: ``explain`` makes the text later, and only for those that it needs
            text = "" if partial else print_op(op)
            refusal = Refusal(pass_name, graph, op, sentence, progress, partial, missing, ops, text)
            self.refusals.append(refusal)


class Option(NamedTuple):
    """A setting of a pass: ``--name METAVAR`` on the command line, or ``--name`` for a switch (no metavar).

    An option with the name of its pass shares one flag with the pass: the flag sets it and runs the pass.
    ``parse``: converts the text of the command line; the message of a ValueError is shown to the user.  Its
    annotated return type is the type of values that are given in Python.
    ``default``: the value if the user gives none.
    ``records``: the user gives the path of an HDF5 file of input records, and the pass gets the records.
    """

    name: str
    help: str
    metavar: str = ""
    parse: Callable[[str], Any] = str
    default: Any = None
    records: bool = False


def names_of(text: str) -> list[str]:
    """Parse names separated by commas, with or without ``%``; raise ValueError if one is empty."""
    names = [name.strip().removeprefix("%") for name in text.split(",")]
    if not all(names):
        raise ValueError(f"expected names separated by commas, got {text!r}")
    return names


def check_text(owner: type, attribute: str) -> None:
    """Raise RewriteError if ``attribute`` of the class ``owner`` is not a string."""
    content = getattr(owner, attribute)
    if not isinstance(content, str):
        place = f"{owner.__module__}.{owner.__name__}.{attribute}"
        raise RewriteError(f"{place}: expected a string, got {type(content).__name__}")


def checked_changes(count: object, owner: Pass, method: str) -> int:
    """Return ``count``, the result of ``owner.method``; raise RewriteError unless it is an integer."""
    if not isinstance(count, Integral):  # True counts as 1
        place = f"{method} of the pass {owner.name or type(owner).__name__}"
        raise RewriteError(f"{place}: expected to get the number of changes, got {type(count).__name__}")
    return int(count)


PASSES: dict[str, type[Pass]] = {}
"""Every pass that has been defined, by name."""


class Pass(ABC):
    """A named change of a model that keeps the model's values and interface, as docs/design.md says.

    Defining a subclass with a ``name`` registers it in PASSES.

    ``formats``: the formats for which the pass makes sense; for other formats, pipelines skip the pass.  For
    example, a pass that creates operators that only circle has is for circle alone.
    ``undoes``: passes whose result this pass reverts.  A pipeline skips this pass if a user asks for one of
    these passes.
    ``changes_values``, ``changes_interface``: whether the pass changes values or the interface on purpose.
    Its docstring says how.  Verification then goes on with the changed model as the new reference.
    ``drops_state``: whether the pass removes, on purpose, state that is kept from one run to the next.  Only
    the first run is then compared.
    ``has_conditions``: False if the pass rewrites all that it finds, so that it needs no near miss.
    ``options``: what the user may set.
    ``makes_special_forms``: whether the pass makes, on purpose, operators that only some runtimes or later
    tools take.  Only a target that the user names restricts such a pass.
    ``obeys_target``: whether the pass itself makes only operators that the target of the context takes.  If
    not, the driver examines each run, and undoes a run that made an operator that the target does not take.
    """

    name: ClassVar[str] = ""
    formats: ClassVar[frozenset[str]] = frozenset({"circle", "tflite"})
    undoes: ClassVar[frozenset[str]] = frozenset()
    changes_values: ClassVar[bool] = False
    changes_interface: ClassVar[bool] = False
    drops_state: ClassVar[bool] = False
    has_conditions: ClassVar[bool] = True
    options: ClassVar[tuple[Option, ...]] = ()
    makes_special_forms: ClassVar[bool] = False
    obeys_target: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_text(cls, "name")
        if cls.__dict__.get("name"):
            # the class that had the name first, and this class
            places = [f"{kind.__module__}.{kind.__qualname__}" for kind in (PASSES.get(cls.name, cls), cls)]
            if places[0] != places[1]:
                raise RewriteError(f"the pass {cls.name} is declared twice: by {' and by '.join(places)}")
            PASSES[cls.name] = cls  # a notebook may define a class again

    @classmethod
    def notes(cls, model: Model, context: Context, changes: int | None) -> Iterable[str]:
        """Return sentences for the user about the optimized ``model``; called once after the last pass.

        The method is called for every class in PASSES.  ``changes``: the number of changes that this pass
        made; None if it was not run.
        """
        return ()

    def setting(self, context: Context, name: str) -> Any:
        """Return the user's value for option ``name`` of this pass, or its default."""
        defaults = {option.name: option.default for option in self.options}
        return context.settings.get(name, defaults[name])

    @abstractmethod
    def run(self, model: Model, context: Context) -> int:
        """Change ``model`` as far as this pass can; return the number of changes."""


class GraphPass(Pass):
    """A pass that looks at one graph at a time."""

    def run(self, model: Model, context: Context) -> int:
        changes = (self.run_graph(graph, context) for graph in model.graphs)
        return sum(checked_changes(count, self, "run_graph") for count in changes)

    @abstractmethod
    def run_graph(self, graph: Graph, context: Context) -> int:
        """Change ``graph`` as far as this pass can; return the number of changes."""
