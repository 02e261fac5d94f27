# SPDX-License-Identifier: Apache-2.0
"""Constant folding of one kind of operator: the general pass, told which."""

from __future__ import annotations

from circlekit.passes.fold.constants import FoldConstants
from circlekit.rewrite.base import MAX_FOLDED_BYTES


class FoldAddV2(FoldConstants):
    """The custom operator AddV2, a sum, of constants becomes a constant."""

    name = "fold_add_v2"
    codes = frozenset({"AddV2"})


class FoldCast(FoldConstants):
    """CAST of a constant becomes a constant."""

    name = "fold_cast"
    codes = frozenset({"CAST"})


class FoldDensify(FoldConstants):
    """DENSIFY of a sparse constant becomes a dense constant, however much larger that is."""

    name = "fold_densify"
    codes = frozenset({"DENSIFY"})
    growth = MAX_FOLDED_BYTES


class FoldDepthwiseConv(FoldConstants):
    """DEPTHWISE_CONV_2D of constants becomes a constant."""

    name = "fold_dwconv"
    codes = frozenset({"DEPTHWISE_CONV_2D"})


class FoldFullyConnected(FoldConstants):
    """FULLY_CONNECTED of constants becomes a constant."""

    name = "fold_fully_connected"
    codes = frozenset({"FULLY_CONNECTED"})


class FoldGather(FoldConstants):
    """GATHER of constants becomes a constant."""

    name = "fold_gather"
    codes = frozenset({"GATHER"})


class FoldMul(FoldConstants):
    """MUL of constants becomes a constant."""

    name = "fold_mul"
    codes = frozenset({"MUL"})


class FoldReshape(FoldConstants):
    """RESHAPE of a constant becomes a constant."""

    name = "fold_reshape"
    codes = frozenset({"RESHAPE"})


class FoldShape(FoldConstants):
    """SHAPE of a tensor of known shape becomes a constant."""

    name = "fold_shape"
    codes = frozenset({"SHAPE"})


class FoldSparseToDense(FoldConstants):
    """SPARSE_TO_DENSE of constants, or of no values at all, becomes a constant."""

    name = "fold_sparse_to_dense"
    codes = frozenset({"SPARSE_TO_DENSE"})


class FoldSqueeze(FoldConstants):
    """SQUEEZE of a constant becomes a constant."""

    name = "fold_squeeze"
    codes = frozenset({"SQUEEZE"})
