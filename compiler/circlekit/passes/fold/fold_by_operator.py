# SPDX-License-Identifier: Apache-2.0
"""Constant folding of single kinds of operators, which ONE has as passes of their own."""

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


class FoldDensify(FoldConstants):
    """DENSIFY of a sparse constant becomes a dense constant, however much larger that is."""

    name = "fold_densify"
    codes = frozenset({"DENSIFY"})
    max_growth = MAX_FOLDED_BYTES


OPERATORS = {
    "fold_add_v2": "AddV2",
    "fold_cast": "CAST",
    "fold_dwconv": "DEPTHWISE_CONV_2D",
    "fold_fully_connected": "FULLY_CONNECTED",
    "fold_gather": "GATHER",
    "fold_mul": "MUL",
    "fold_reshape": "RESHAPE",
    "fold_shape": "SHAPE",
    "fold_sparse_to_dense": "SPARSE_TO_DENSE",
    "fold_squeeze": "SQUEEZE",
}
"""The operator, or the custom code, that each pass folds."""

PASSES = [
    type(
        f"FoldConstants_{code}",
        (FoldConstants,),
        {
            "name": name,
            "codes": frozenset({code}),
            "__doc__": f"{code} of constants becomes a constant, as fold_constants does for all operators.",
            "__module__": __name__,
        },
    )
    for name, code in OPERATORS.items()
]


class DequantizeRows(Rewrite):
    """dequantize(gather(table, indices))  ==  gather(dequantize(table), indices), with the table computed."""

    quantized = True

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
        return f"%{table.name}: would have {size} bytes, the limit is {MAX_FOLDED_BYTES}"

    def constants(self, match: Match) -> dict[str, Array]:
        op = Dequantize(match.value("table"))
        made = evaluate(op, [match.array("table")])[0]
        op.drop_inputs()
        return {"table2": made}


class FoldDequantize(FoldConstants):
    """DEQUANTIZE of a constant, or of rows that GATHER reads from one, becomes a float constant."""

    name = "fold_dequantize"
    codes = frozenset({"DEQUANTIZE"})

    def run(self, model: Model, context: Context) -> int:
        return super().run(model, context) + DequantizeRows().run(model, context)


DequantizeRows.name = FoldDequantize.name  # its refusals carry the name of the pass
