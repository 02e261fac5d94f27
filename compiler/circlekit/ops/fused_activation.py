# SPDX-License-Identifier: Apache-2.0
"""Apply the activation of an operator (its attribute ``act``) to floats and plain integers."""

from __future__ import annotations

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.enums import Activation
from circlekit.ir.value import Array

ACTIVATION_BOUNDS: dict[Activation, tuple[float, float | None]] = {
    Activation.RELU: (0, None),
    Activation.RELU6: (0, 6),
    Activation.RELU_N1_TO_1: (-1, 1),
}
"""The lower and upper bounds of the activations that clamp; None stands for no upper bound."""


def apply_activation(array: Array, act: Activation, out: Array | None = None) -> Array:
    """Return ``act`` of every element; the activation NONE returns ``array`` itself.

    The numbers are those of LiteRT's recurrent layers.  For NaN, an activation with bounds gives its lower
    bound.  SIGN_BIT gives 1 for floats whose sign bit is set (numbers below 0, and -0.0), else 0.

    ``out``: an array for the result, or None to make a new one.  Raise UnsupportedError if ``act`` has no
    kernel for the dtype.
    """
    if act is Activation.NONE:
        return array
    if act in ACTIVATION_BOUNDS:
        low, high = ACTIVATION_BOUNDS[act]
        if array.dtype.kind != "f":
            # unlike np.fmax, np.clip accepts the bound -1 for unsigned integers
            return np.clip(array, low, high, out=out)
        result = np.fmax(array, low, out=out)
        return np.asarray(result if high is None else np.minimum(result, high, out=out))
    if act is Activation.TANH and array.dtype.kind == "f":
        return np.asarray(np.tanh(array, out=out))
    if act is Activation.SIGN_BIT and array.dtype.kind == "f":
        bits = np.empty_like(array) if out is None else out
        bits[...] = np.signbit(array)
        return bits
    raise UnsupportedError(f"the fused activation {act!r} has no kernel on {array.dtype}")


def apply_fused_activation(out: Array, act: Activation) -> Array:
    """Apply ``act`` in place to ``out``, the new result of a kernel, and return it.

    Unless ``act`` is TANH, floats are also clamped to the finite numbers, as in TFLite's
    CalculateActivationRange; NaN stays.  Raise UnsupportedError for an activation without a kernel, and for
    SIGN_BIT, which only recurrent layers compute.
    """
    out = np.asarray(out)  # a kernel may give a numpy scalar
    if act is Activation.SIGN_BIT:
        raise UnsupportedError("the fused activation SIGN_BIT has a kernel in recurrent layers only")
    if out.dtype.kind == "f" and (act is Activation.NONE or act in ACTIVATION_BOUNDS):
        largest = np.finfo(out.dtype).max
        low, high = ACTIVATION_BOUNDS.get(act, (None, None))
        return out.clip(-largest if low is None else low, largest if high is None else high, out)
    return apply_activation(out, act, out)
