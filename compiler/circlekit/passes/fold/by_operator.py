# SPDX-License-Identifier: Apache-2.0
"""Constant folding of single kinds of operators, which ONE has as passes of their own."""

from __future__ import annotations

from circlekit.passes.fold.fold_constants import FoldConstants
from circlekit.rewrite.base import MAX_FOLDED_BYTES


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
