# SPDX-License-Identifier: Apache-2.0
"""The difference of an integer kernel from the float one."""

from __future__ import annotations

import pytest

import circlekit as ck
from circlekit.ir.dtypes import i8
from circlekit.quant.forms.kernel_trial import kernel_errors
from circlekit.quant.plan import TensorForm


@pytest.mark.parametrize("lowest", [0.5, -4.0])
def test_numbers_without_a_real_result_hide_no_difference(lowest: float) -> None:
    """The logarithms of 0.5 to 4, rounded to integers, differ by up to 0.5; those below 0 are NaN."""
    op = next(iter(ck.parse("graph main(%x: f32[1000]) -> %y { %y = Log(%x) }").main))
    operand, result = TensorForm(i8, (1 / 32,), (0,)), TensorForm(i8, (1.0,), (0,))
    (error,) = kernel_errors(op, {0: operand}, {0: result}, {}, {}, {"x": (lowest, 3.9)})
    assert 0.4 < error <= 0.5
