# SPDX-License-Identifier: Apache-2.0
"""Constant folding of single kinds of operators, by the passes that ONE has for them."""

from __future__ import annotations

from circlekit.passes.fold.fold_constants import FoldConstants
from circlekit.rewrite.base import MAX_FOLDED_BYTES


class FoldDensify(FoldConstants):
    """DENSIFY of a sparse constant becomes a dense constant, even if that is much larger."""

    name = "fold_densify"
    codes = frozenset({"DENSIFY"})
    max_growth = MAX_FOLDED_BYTES  # no limit in effect: ``max_folded_bytes`` of the context is reached first


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
"""{name of a pass: the code of the operator that it folds; for a custom operator, its custom code}."""

for _name, _code in OPERATORS.items():
    _doc = f"Replace {_code} by its result where fold_constants would do so."
    _body = {"name": _name, "codes": frozenset({_code}), "__doc__": _doc, "__module__": __name__}
    type(f"FoldConstants_{_code}", (FoldConstants,), _body)  # defining the class registers the pass
