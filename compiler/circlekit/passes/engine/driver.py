# SPDX-License-Identifier: Apache-2.0
"""Run passes over a model until none of them changes it, and report what they did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from circlekit.errors import RewriteError
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import settle_ranks
from circlekit.ir.text.columns import format_columns
from circlekit.ir.value import Value
from circlekit.passes.engine.registry import find_pass
from circlekit.passes.pipelines import Phase
from circlekit.rewrite.base import Context, Pass, Refusal

MAX_ROUNDS = 100

BeforePass = Callable[[str], None]
AfterPass = Callable[[str, int], None]
Epochs = tuple[int, ...]
"""A number for each graph that increases with every change."""


@dataclass
class PassRecord:
    """The number of changes that one pass made, and how often it ran."""

    name: str
    changes: int = 0
    runs: int = 0


def run_passes(
    model: Model,
    passes: Sequence[Phase | type[Pass] | str],
    context: Context,
    after: AfterPass | None = None,
    before: BeforePass | None = None,
) -> list[PassRecord]:
    """Run ``passes`` in this order, again and again, until none of them changes the model.

    The passes of a phase, and consecutive passes outside of phases, form a group.  Each group runs until it
    changes nothing before the next group runs; then all groups run again.  ``before`` is called with the name
    of a pass before it runs, ``after`` with its name and its number of changes after it has run.

    Return a record for each pass.  Raise RewriteError for an unknown name, or if passes still change the
    model after MAX_ROUNDS rounds.
    """
    groups: list[list[_Step]] = []
    is_open = False
    for item in passes:
        is_phase = isinstance(item, Phase)
        if is_phase or not is_open:
            groups.append([])
        is_open = not is_phase
        members = item.passes if isinstance(item, Phase) else (item,)
        groups[-1] += [_Step(member, before, after) for member in members]
    if groups:
        settle_ranks(model, strict=False)
    for _ in range(MAX_ROUNDS):
        changing = [name for group in groups for name in _fixed_point(group, model, context)]
        if not changing:
            if context.format == "circle":
                _raise_versions(model)
            return [step.record for group in groups for step in group]
    raise _no_fixed_point(changing)


class _Step:
    """A pass at its place in the order.  ``idle_at``: the epochs when it last changed nothing."""

    def __init__(self, item: type[Pass] | str, before: BeforePass | None, after: AfterPass | None) -> None:
        self.item = (find_pass(item) if isinstance(item, str) else item)()
        self.record = PassRecord(self.item.name)
        self.before = before
        self.after = after
        self.idle_at: Epochs | None = None

    def run(self, model: Model, context: Context) -> int:
        """Run the pass, unless the model is the same as when it last changed nothing; return its changes."""
        if self.idle_at == _epochs(model):
            return 0
        if self.before is not None:
            self.before(self.record.name)
        changes = self.item.run(model, context)
        self.record.changes += changes
        self.record.runs += 1
        self.idle_at = None if changes else _epochs(model)
        if self.after is not None:
            self.after(self.record.name, changes)
        return changes


def _fixed_point(steps: Sequence[_Step], model: Model, context: Context) -> list[str]:
    """Run ``steps`` until a round changes nothing; return the names of those that changed something."""
    changed: dict[str, None] = {}
    for _ in range(MAX_ROUNDS):
        changing = [step.record.name for step in steps if step.run(model, context)]
        if not changing:
            return list(changed)
        changed.update(dict.fromkeys(changing))
    raise _no_fixed_point(changing)


def _no_fixed_point(names: Sequence[str]) -> RewriteError:
    return RewriteError(f"after {MAX_ROUNDS} rounds these passes still change the model: {', '.join(names)}")


def _raise_versions(model: Model) -> None:
    """Clear operator versions that are too low for the features in use; saving derives new ones.

    Exporters to circle write version 1 for every operator.  The versions in TFLite files come from a
    converter that computes them.
    """
    for op in model.ops():
        if op.version is not None and op.version < op.required_version():
            op.version = None


def _epochs(model: Model) -> Epochs:
    return tuple(graph.epoch for graph in model.graphs)


Row = tuple[str, str, str]
"""A row of a table: name of the count, count before, count after."""


@dataclass
class Summary:
    """The size of a model.

    ``ops``: number of operators in all graphs, by the name of their kind in the schema.
    ``parameters``: elements of float and quantized constants; shapes, axes and indices do not count.
    ``macs``: multiply-accumulates of one run of every graph; unknown dimensions, mostly a batch, count as 1.
    ``file_size``: bytes, None if there is no file.
    """

    ops: dict[str, int]
    parameters: int
    macs: int
    file_size: int | None = None

    @property
    def op_count(self) -> int:
        return sum(self.ops.values())


@dataclass(repr=False)
class Report:
    """The result of ``optimize`` and ``convert``; ``print`` shows it as a table.

    ``passes``: what each pass did, in order.  ``refusals``: near misses of the pass to be explained.
    ``notes``: remarks for the user, for example what could not be verified.  ``verified``: whether outputs
    were compared.
    """

    before: Summary
    after: Summary
    passes: list[PassRecord] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    verified: bool = False

    @property
    def changes(self) -> dict[str, int]:
        """The number of changes of each pass that made any."""
        return {record.name: record.changes for record in self.passes if record.changes}

    def rows(self) -> tuple[list[Row], list[Row]]:
        """Return the rows of the table: operators by kind, and totals."""
        before, after = self.before, self.after
        kinds = sorted({*before.ops, *after.ops})
        totals = {
            "operators": (before.op_count, after.op_count),
            "file size, bytes": (before.file_size, after.file_size),
            "parameters": (before.parameters, after.parameters),
            "MACs": (before.macs, after.macs),
        }
        return (
            [(kind, _number(before.ops.get(kind, 0)), _number(after.ops.get(kind, 0))) for kind in kinds],
            [(name, _number(a), _number(b)) for name, (a, b) in totals.items() if (a, b) != (None, None)],
        )

    def __repr__(self) -> str:
        changes = ", ".join(f"{name} x{count}" for name, count in self.changes.items()) or "no changes"
        verified = ", verified" if self.verified else ""
        return f"<Report: {self.before.op_count} -> {self.after.op_count} operators{verified}: {changes}>"

    def __str__(self) -> str:
        """Return the table in plain columns."""
        kinds, totals = self.rows()
        return format_columns([("", "before", "after"), *kinds, *totals])

    def _repr_html_(self) -> str:
        """Return the table, the passes that changed something and the notes, for notebooks."""
        from html import escape  # slow to import, and only notebooks need it

        kinds, totals = self.rows()
        head = "<tr><th></th><th>before</th><th>after</th></tr>"
        table = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in [*kinds, *totals])
        rows = "".join(f"<tr>{cells}</tr>" for cells in table)
        lines = [f"{name}: {count}" for name, count in self.changes.items()] or ["no changes"]
        lines += ["verified"] if self.verified else []
        items = "".join(f"<li>{escape(line)}</li>" for line in [*lines, *self.notes])
        return f"<table>{head}{rows}</table><ul>{items}</ul>"


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def summarize(model: Model, file_size: int | None = None) -> Summary:
    """Return the size of ``model``; ``file_size``: that of its file in bytes."""
    ops = Counter(op.code for op in model.ops())
    constants: dict[int, Value] = {
        id(value): value for op in model.ops() for value in op.inputs if value is not None and value.is_const
    }
    return Summary(
        ops=dict(sorted(ops.items())),
        parameters=sum(
            value.numel
            for value in constants.values()
            if value.is_static and (value.dtype.is_float or value.quantization is not None)
        ),
        macs=sum(op.macs() for op in model.ops() if op.results),
        file_size=file_size,
    )
