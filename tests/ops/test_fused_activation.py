# SPDX-License-Identifier: Apache-2.0
"""Activations that operators apply to their results."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import UnsupportedError
from circlekit.ir.enums import Activation
from circlekit.ops.fused_activation import apply_activation, apply_fused_activation

LARGEST = np.finfo(np.float32).max


def floats() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array([-2, 0.5, 7, np.inf, -np.inf, np.nan], np.float32)


@pytest.mark.parametrize(
    ("act", "alone", "fused"),
    [
        (Activation.RELU, [0, 0.5, 7, np.inf, 0, 0], [0, 0.5, 7, LARGEST, 0, np.nan]),
        (Activation.RELU6, [0, 0.5, 6, 6, 0, 0], [0, 0.5, 6, 6, 0, np.nan]),
        (Activation.RELU_N1_TO_1, [-1, 0.5, 1, 1, -1, -1], [-1, 0.5, 1, 1, -1, np.nan]),
        (Activation.NONE, [-2, 0.5, 7, np.inf, -np.inf, np.nan], [-2, 0.5, 7, LARGEST, -LARGEST, np.nan]),
    ],
)
def test_floats(act: Activation, alone: list[float], fused: list[float]) -> None:
    """A fused activation keeps NaN.  Other results are finite: NONE of infinity is the largest float32."""
    np.testing.assert_array_equal(apply_activation(floats(), act), np.array(alone, np.float32))
    x = floats()
    assert apply_fused_activation(x, act) is x
    np.testing.assert_array_equal(x, np.array(fused, np.float32))


def test_tanh() -> None:
    x = floats()[:3]
    np.testing.assert_array_equal(apply_activation(x, Activation.TANH), np.tanh(x))
    np.testing.assert_array_equal(apply_fused_activation(x.copy(), Activation.TANH), np.tanh(x))


def test_sign_bit() -> None:
    x = np.array([-2, -0.0, 0, 7, np.inf, -np.inf], np.float32)
    out = np.empty_like(x)
    assert apply_activation(x, Activation.SIGN_BIT, out=out) is out
    assert out.tolist() == apply_activation(x, Activation.SIGN_BIT).tolist() == [1, 1, 0, 0, 0, 1]


def test_integers() -> None:
    x = np.array([-2, 5, 7], np.int32)
    assert apply_fused_activation(x.copy(), Activation.NONE).tolist() == [-2, 5, 7]
    assert apply_fused_activation(x.copy(), Activation.RELU6).tolist() == [0, 5, 6]
    unsigned = np.array([0, 1, 7], np.uint8)
    assert apply_activation(unsigned, Activation.RELU_N1_TO_1).tolist() == [0, 1, 1]


def test_activations_without_a_kernel_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"TANH.* has no kernel on int32"):
        apply_activation(np.array([-2, 5, 7], np.int32), Activation.TANH)
    with pytest.raises(UnsupportedError, match="SIGN_BIT has a kernel in recurrent layers only"):
        apply_fused_activation(floats(), Activation.SIGN_BIT)


def test_an_activation_may_write_into_its_operand() -> None:
    x = floats()
    assert apply_activation(x, Activation.NONE) is x
    apply_activation(x, Activation.RELU, out=x)
    assert x[0] == 0
