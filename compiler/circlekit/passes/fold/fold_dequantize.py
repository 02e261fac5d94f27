# SPDX-License-Identifier: Apache-2.0
"""Dequantize constants, also those that a GATHER reads before the DEQUANTIZE."""

from __future__ import annotations

from circlekit.interp.evaluate import evaluate
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.cast import Dequantize
from circlekit.passes.fold.fold_constants import FoldConstants
from circlekit.passes.support.conditions import same_quantization
from circlekit.rewrite.base import MAX_FOLDED_BYTES, Context
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class DequantizeRows(Rewrite):
    """dequantize(gather(table, indices))  ==  gather(dequantize(table), indices) for a constant table.

    The table is f16, or has integers with one scale.  ``FoldDequantize`` runs this rewrite.
    """

    quantized = True  # quantized tensors may match; ``one_scale`` checks their scales

    before = """
        g = Gather(table: const, indices)       {axis: any, batch_dims: any}
        z = Dequantize(g)
    """
    after = """
        z = Gather(table2, indices)             {like g}
    """

    @condition
    def one_scale(self, match: Match, g: Value) -> str | None:
        table = match.value("table")
        parameters = table.quantization
        if table.dtype.is_integer and (parameters is None or parameters.scale.size != 1):
            return f"%{table.name}: expected one scale"
        return same_quantization(table, g)

    @condition
    def small_enough(self, match: Match) -> str | None:
        table = match.value("table")
        size = 4 * table.numel
        if size <= MAX_FOLDED_BYTES:
            return None
        return f"%{table.name}: would have {size} bytes in float32, the limit is {MAX_FOLDED_BYTES}"

    def constants(self, match: Match) -> dict[str, Array]:
        op = Dequantize(match.value("table"))
        dequantized = evaluate(op, [match.array("table")])[0]
        op.drop_inputs()  # else ``op``, which is in no graph, would stay a user of the table
        return {"table2": dequantized}


class FoldDequantize(FoldConstants):
    """A constant that DEQUANTIZE reads, directly or through a GATHER, becomes a float constant.

    Integers that a GATHER reads must have one scale and not be packed, as int4 is; the result of the GATHER
    must have no other use.
    The limits of ``fold_constants`` apply: for example, int4 constants whose result exceeds 64 KiB stay.
    """

    name = "fold_dequantize"
    codes = frozenset({"DEQUANTIZE"})

    def run(self, model: Model, context: Context) -> int:
        return super().run(model, context) + DequantizeRows().run(model, context)


DequantizeRows.name = FoldDequantize.name  # its refusals carry the name of the pass
