# SPDX-License-Identifier: Apache-2.0
"""What an optimization did: the passes that changed the model, and its size before and after."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from circlekit.ir.graph import Model
from circlekit.ir.text.columns import format_columns
from circlekit.ir.value import Value
from circlekit.passes.engine.driver import PassRecord
from circlekit.rewrite.base import Refusal

Row = tuple[str, str, str]
"""What is counted, before, after."""


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
    """Return the size of ``model``, and of its file if it is given."""
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
