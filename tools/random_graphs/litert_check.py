# SPDX-License-Identifier: Apache-2.0
"""Compare a model before and after a pass in LiteRT."""

from __future__ import annotations

from circlekit.equivalence.litert import run_litert_forked, tflite_of
from circlekit.errors import CirclekitError
from circlekit.ir.graph import Model
from circlekit.ops.numerics.output_stage import Kernels
from tools.random_graphs.checks import Fault, Original
from tools.random_graphs.litert_undefined import undefined


def check_litert(original: Original, model: Model) -> bool:
    """Return whether LiteRT runs the original; Fault where ``model`` has other values or none.

    A difference counts only if the optimized kernels show it too: the reference set lacks operators, so
    different kernels may have run the two models, and its int8 and int16 sums start from unset memory.
    """
    if undefined(original.model) is not None:
        return False
    try:
        return _check(original, model, Kernels.REFERENCE)
    except Fault:
        return _check(original, model, Kernels.OPTIMIZED)


def _check(original: Original, model: Model, kernels: Kernels) -> bool:
    try:
        wanted = run_litert_forked(tflite_of(original.model), original.inputs, kernels)
    except CirclekitError:
        return False
    try:
        found = run_litert_forked(tflite_of(model), original.inputs, kernels)
    except CirclekitError as error:
        raise Fault(f"LiteRT {type(error).__name__}", str(error)) from error
    for inputs, a, b, has_nan in zip(original.inputs, found, wanted, original.has_nan, strict=True):
        if not has_nan:
            original.check_close(inputs, a, b)
    return True
