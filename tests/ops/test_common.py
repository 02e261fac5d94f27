# SPDX-License-Identifier: Apache-2.0
"""What the operator families share."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import i32
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.value import Shape, Value
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.dimensions import broadcast_shapes, merge_dims, normalized_axis, product
from circlekit.ops.fused_activation import apply_activation, apply_fused_activation
from circlekit.ops.windows import conv_padding, window_size
from tests.ops.litert import const


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ((2, 3), (3,), (2, 3)),
        ((2, 1), (5,), (2, 5)),
        ((), (4,), (4,)),
        ((None, 3), (1, 3), (None, 3)),
        ((None,), (4,), (4,)),
        ((None,), (None,), (None,)),
        ((0,), (1,), (0,)),
        ((None,), (0,), (0,)),
        (None, (2,), None),
    ],
)
def test_broadcast_shapes(a: Shape | None, b: Shape | None, result: Shape | None) -> None:
    assert broadcast_shapes(a, b) == result
    assert broadcast_shapes(b, a) == result


def test_broadcast_shapes_refuses() -> None:
    with pytest.raises(ShapeError, match=r"shapes \[2,3\] and \[4\] do not broadcast: dimensions 3 and 4"):
        broadcast_shapes((2, 3), (4,))


def test_dimensions() -> None:
    assert product((2, None)) is None
    assert product((2, None, 0)) == 0
    assert product(()) == 1
    assert merge_dims(None, 3) == 3
    with pytest.raises(ShapeError, match="dimensions 2 and 3 differ"):
        merge_dims(2, 3)
    assert normalized_axis(-1, 4) == 3
    with pytest.raises(ShapeError, match="axis 4 is out of range for rank 4"):
        normalized_axis(4, 4)


def test_static_int_vector() -> None:
    assert static_int_vector(const([1, -1], np.int64)) == [1, -1]
    assert static_int_vector(const(3, np.int32)) == [3]
    assert static_int_vector(Value("", i32, (2,))) is None
    assert static_int_vector(const([1.0], np.float32)) is None
    assert static_int_vector(None) is None


def test_windows() -> None:
    assert conv_padding(5, 2, 1, 1, Padding.SAME) == (5, 0, 1)  # the odd element goes after
    assert conv_padding(5, 3, 2, 2, Padding.SAME) == (3, 2, 2)
    assert conv_padding(2, 1, 3, 1, Padding.SAME) == (1, 0, 0)
    assert conv_padding(5, 2, 2, 1, Padding.VALID) == (2, 0, 0)
    assert window_size(None, 3, 1, 1, Padding.SAME) is None
    assert window_size(5, None, 2, 1, Padding.SAME) == 3
    assert window_size(5, None, 2, 1, Padding.VALID) is None


def test_activations() -> None:
    x = np.array([-2, 0.5, 7, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(apply_activation(x, Activation.RELU6), [0, 0.5, 6, 6, np.nan])
    np.testing.assert_array_equal(apply_activation(x, Activation.RELU), [0, 0.5, 7, np.inf, np.nan])
    assert apply_activation(x, Activation.NONE) is x
    np.testing.assert_array_equal(x[:3], np.array([-2, 0.5, 7], np.float32))
    largest = np.finfo(np.float32).max
    np.testing.assert_array_equal(
        apply_fused_activation(x.copy(), Activation.NONE), [-2, 0.5, 7, largest, np.nan]
    )
    np.testing.assert_array_equal(
        apply_fused_activation(x.copy(), Activation.RELU), [0, 0.5, 7, largest, np.nan]
    )
    with pytest.raises(UnsupportedError, match="SIGN_BIT"):
        apply_activation(x, Activation.SIGN_BIT)
