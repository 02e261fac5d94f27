# SPDX-License-Identifier: Apache-2.0
"""Names that users of TensorFlow's graph transforms know, for what passes here do together."""

from __future__ import annotations

from typing import ClassVar

from circlekit.ir.graph import Model
from circlekit.passes.fold.constants import FoldConstants
from circlekit.passes.fold.dead import RemoveDead
from circlekit.passes.fuse.batchnorm.forward_batchnorm import ForwardBatchNorm
from circlekit.passes.fuse.batchnorm.forward_batchnorm_over_add import ForwardBatchNormOverAdd
from circlekit.passes.fuse.batchnorm.forward_batchnorm_over_concat import ForwardBatchNormOverConcat
from circlekit.passes.fuse.batchnorm.forward_number import ForwardNumber
from circlekit.passes.fuse.batchnorm.normalize_batchnorm import NormalizeBatchNorm
from circlekit.passes.fuse.convolution.fuse_space_to_batch_with_conv import FuseSpaceToBatchWithConv
from circlekit.passes.fuse.convolution.fuse_space_to_batch_with_conv1d import FuseSpaceToBatchWithConv1D
from circlekit.passes.fuse.linear.fuse_after_linear import (
    FuseAddWithConv2D,
    FuseAddWithDepthwiseConv2D,
    FuseAddWithFullyConnected,
    FuseAddWithTransposeConv,
    FuseMulWithConv2D,
    FuseMulWithDepthwiseConv2D,
    FuseMulWithFullyConnected,
    FuseMulWithTransposeConv,
)
from circlekit.passes.remove.movement.remove_unnecessary_reshape import RemoveUnnecessaryReshape
from circlekit.passes.remove.remove_identity import RemoveIdentity
from circlekit.passes.remove.remove_unnecessary_cast import RemoveUnnecessaryCast
from circlekit.rewrite.base import Context, Pass


class Verb(Pass):
    """Passes one after the other, until none of them finds anything."""

    members: ClassVar[tuple[type[Pass], ...]] = ()

    def run(self, model: Model, context: Context) -> int:
        total = 0
        while found := sum(member().run(model, context) for member in self.members):
            total += found
        return total


class StripUnusedNodes(Verb):
    """Operators and constants that nothing reads are removed (remove_dead)."""

    name = "strip_unused_nodes"
    members = (RemoveDead,)


class RemoveNodes(Verb):
    """Operators that do nothing are removed: identities, casts and reshapes to what is there."""

    name = "remove_nodes"
    members = (RemoveIdentity, RemoveUnnecessaryCast, RemoveUnnecessaryReshape)


class FoldBatchNorms(Verb):
    """Batch norms, in one operator or several, are folded into what computes their input."""

    name = "fold_batch_norms"
    members = (
        FoldConstants,
        RemoveIdentity,
        RemoveUnnecessaryCast,
        FuseSpaceToBatchWithConv,
        FuseSpaceToBatchWithConv1D,
        NormalizeBatchNorm,
        ForwardBatchNorm,
        ForwardBatchNormOverAdd,
        ForwardBatchNormOverConcat,
        ForwardNumber,
        FuseMulWithConv2D,
        FuseMulWithDepthwiseConv2D,
        FuseMulWithTransposeConv,
        FuseMulWithFullyConnected,
        FuseAddWithConv2D,
        FuseAddWithDepthwiseConv2D,
        FuseAddWithTransposeConv,
        FuseAddWithFullyConnected,
    )
