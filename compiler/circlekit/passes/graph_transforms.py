# SPDX-License-Identifier: Apache-2.0
"""Passes named after TensorFlow's graph transforms; each runs other passes."""

from __future__ import annotations

from typing import ClassVar

from circlekit.ir.graph import Model
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.pipelines import FOLD_BATCHNORM
from circlekit.rewrite.base import Context, Pass


class PassSequence(Pass):
    """Run the passes named in ``members``, in this order, until none of them changes the model."""

    members: ClassVar[tuple[str, ...]] = ()

    def run(self, model: Model, context: Context) -> int:
        return sum(record.changes for record in run_passes(model, self.members, context))


class StripUnusedNodes(PassSequence):
    """Remove operators and constants that nothing reads: the pass remove_dead under TensorFlow's name."""

    name = "strip_unused_nodes"
    members = ("remove_dead",)


class RemoveNodes(PassSequence):
    """Remove operators without effect: identities, unnecessary casts, unnecessary Reshapes."""

    name = "remove_nodes"
    members = ("remove_identity", "remove_unnecessary_cast", "remove_unnecessary_reshape")


class FoldBatchNorms(PassSequence):
    """Fold batch norms, written as one operator or several, into the layer that computes their input."""

    name = "fold_batch_norms"
    # the first passes give constants and operators the form in which FOLD_BATCHNORM finds batch norms
    members = ("fold_constants", "remove_identity", "remove_unnecessary_cast", *FOLD_BATCHNORM)
