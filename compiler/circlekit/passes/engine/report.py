# SPDX-License-Identifier: Apache-2.0
"""What an optimization did: the size of the model before and after, the passes that changed it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from circlekit.ir.graph import Model
from circlekit.ir.value import Value
from circlekit.passes.engine.driver import PassRecord
from circlekit.rewrite.base import Refusal

Row = tuple[str, str, str]
"""What is counted, before, after."""


@dataclass
class Summary:
    """Sizes of a model.

    ``ops``: operators by the schema's name of their kind, in all graphs.  ``parameters``: elements of
    float and quantized constants (shapes, axes and indices are none).  ``macs``: multiply-accumulates of
    one run of every graph, with unknown dimensions (a batch, mostly) taken as 1.  ``file_size``: bytes,
    where there is a file.
    """

    ops: dict[str, int]
    parameters: int
    macs: int
    file_size: int | None = None

    @property
    def op_count(self) -> int:
        return sum(self.ops.values())


@dataclass
class Report:
    """What happened to a model.

    ``passes``: what each did, in order.  ``refusals``: near misses of the pass that was to be explained.
    ``notes``: what a verification could not prove.  ``verified``: whether there was one.
    """

    before: Summary
    after: Summary
    passes: list[PassRecord] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    verified: bool = False

    def rows(self) -> tuple[list[Row], list[Row]]:
        """The table of the model before and after: operators by kind, and the sums."""
        before, after = self.before, self.after
        kinds = sorted({*before.ops, *after.ops})
        sums = {
            "operators": (before.op_count, after.op_count),
            "file size, bytes": (before.file_size, after.file_size),
            "parameters": (before.parameters, after.parameters),
            "MACs": (before.macs, after.macs),
        }
        return (
            [(kind, _number(before.ops.get(kind, 0)), _number(after.ops.get(kind, 0))) for kind in kinds],
            [(name, _number(a), _number(b)) for name, (a, b) in sums.items() if (a, b) != (None, None)],
        )

    def __str__(self) -> str:
        """The table in plain columns."""
        kinds, sums = self.rows()
        rows = [("", "before", "after"), *kinds, *sums]
        first, second, third = (max(len(row[i]) for row in rows) for i in range(3))
        return "\n".join(f"{name:{first}}  {a:>{second}}  {b:>{third}}" for name, a, b in rows)

    @property
    def changes(self) -> dict[str, int]:
        """Changes by pass, of those that made any."""
        return {record.name: record.changes for record in self.passes if record.changes}


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def summarize(model: Model, file_size: int | None = None) -> Summary:
    ops = Counter(op.code for op in model.ops())
    constants: dict[int, Value] = {
        id(value): value for op in model.ops() for value in op.inputs if value is not None and value.is_const
    }
    return Summary(
        ops=dict(sorted(ops.items())),
        parameters=sum(v.numel for v in constants.values() if _is_parameter(v)),
        macs=sum(op.macs() for op in model.ops() if op.results),
        file_size=file_size,
    )


def _is_parameter(value: Value) -> bool:
    return value.is_static and (value.dtype.is_float or value.quantization is not None)
