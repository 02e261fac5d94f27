# SPDX-License-Identifier: Apache-2.0
"""Helpers for kernels that write on a tape; they go away together with the tape."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from circlekit.ir.enums import Activation
from circlekit.ir.tape import Tape
from circlekit.ir.value import Array
from circlekit.ops.fused_activation import ACTIVATION_BOUNDS, apply_activation

clip: np.ufunc = import_module("numpy._core.umath" if hasattr(np, "_core") else "numpy.core.umath").clip
"""(data, low, high, out): the ufunc in np.clip, which itself takes some microseconds before it begins."""

_FUSED_BOUNDS = {Activation.NONE: (None, None), **ACTIVATION_BOUNDS}


def write_fused(tape: Tape, out: Array, act: Activation, reach: float = np.inf) -> None:
    """``fused`` on a tape; ``reach``: of what is in ``out`` before."""
    if out.dtype.kind == "f" and act in _FUSED_BOUNDS:
        limit = float(np.finfo(out.dtype).max)
        low, high = _FUSED_BOUNDS[act]
        if act is not Activation.NONE or not reach <= limit:
            bounds = (-limit if low is None else low, limit if high is None else high)
            tape.do(clip, out, *(np.asarray(b, out.dtype) for b in bounds), out)
        tape.limit(out, reach if high is None else min(reach, high))
    elif act is not Activation.NONE:
        tape.do(apply_activation, out, act, out)


SEVERAL = 1 << 10
"""Weights that are looked at at a time: small models have few more."""


def product_reach(tape: Tape, data: Array, weights: Array, axis: int = 0) -> float:
    """A magnitude that no sum of products with the ``weights`` of one entry of ``axis`` exceeds."""
    if not tape.reach(weights) < np.inf:
        return np.inf
    units = weights.swapaxes(0, axis)
    others, step = tuple(range(1, weights.ndim)), max(1, SEVERAL * len(units) // max(weights.size, 1))
    parts = (np.abs(units[first : first + step]) for first in range(0, len(units), step))
    return tape.reach(data) * max(
        (float(p.sum(axis=others, dtype=np.float64).max()) for p in parts), default=0.0
    )
