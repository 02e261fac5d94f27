# SPDX-License-Identifier: Apache-2.0
"""Which kernels of LiteRT's the numbers of a model are those of."""

from __future__ import annotations

from circlekit.errors import CirclekitError
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ops.numerics.kernel_flavor import Kernels


def kernels_of(model: Model, wanted: Kernels | str | None = None) -> Kernels:
    """``wanted``, or what LiteRT would take: the reference ones unless they refuse an operator of ``model``.

    LiteRT takes all kernels of a model from one set: what is missing in one place is missing everywhere.
    ValueError for a word that is none of ``Kernels``.
    """
    if wanted is not None:
        return Kernels(wanted)
    behind = any(_is_beyond_reference(op) for graph in model.graphs for op in graph)
    return Kernels.OPTIMIZED if behind else Kernels.REFERENCE


def _is_beyond_reference(op: Op) -> bool:
    last = op.reference_version
    if last is None:
        return False
    try:
        return (op.version or op.required_version()) > last
    except CirclekitError:  # too broken to tell; so it will be said where it runs
        return False
