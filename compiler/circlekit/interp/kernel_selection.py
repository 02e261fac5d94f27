# SPDX-License-Identifier: Apache-2.0
"""Choice of the LiteRT kernel set whose integer results a model is computed with."""

from __future__ import annotations

from circlekit.errors import CirclekitError
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ops.numerics.output_stage import Kernels


def select_kernels(model: Model, requested: Kernels | str | None = None) -> Kernels:
    """Return ``requested``, or by default the kernel set that LiteRT can run the whole model with.

    LiteRT takes all kernels from one set: its reference kernels, unless they lack the version of any
    operator of the model; then its optimized kernels.  ValueError for an unknown name.
    """
    if requested is not None:
        return Kernels(requested)
    lacking = any(_exceeds_reference(op) for graph in model.graphs for op in graph)
    return Kernels.OPTIMIZED if lacking else Kernels.REFERENCE


def _exceeds_reference(op: Op) -> bool:
    """Whether the operator's version is newer than LiteRT's reference kernel for it."""
    last = op.reference_version
    if last is None:
        return False
    try:
        return (op.version or op.required_version()) > last
    except CirclekitError:  # a malformed operator: the error is raised where the operator runs
        return False
