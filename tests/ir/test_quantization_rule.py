# SPDX-License-Identifier: Apache-2.0
"""Fixed parameters of results: 8-bit integers cover exactly the interval, int16 always covers [-1, 1)."""

from __future__ import annotations

import pytest

from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ir.quantization_rule import InnerTensor, from_minus_one_to_one, from_zero_to_one


@pytest.mark.parametrize("dtype", [i8, u8, i16])
@pytest.mark.parametrize("start", [0, -1])
def test_fixed_parameters_cover_their_interval(dtype: DType, start: int) -> None:
    """int16 always has the zero point 0: only half of its integers cover [0, 1)."""
    scale, zero_point = (from_minus_one_to_one() if start else from_zero_to_one())[dtype]
    low, high = dtype.limits
    assert scale * (high + 1 - zero_point) == 1
    assert scale * (low - zero_point) == (-1 if dtype is i16 else start)


def test_an_inner_tensor_with_a_fixed_scale_or_the_scale_of_the_result_has_no_range() -> None:
    assert InnerTensor("a").has_range
    assert not InnerTensor("a", fixed_scale=0.5).has_range
    assert not InnerTensor("a", follows_result=True).has_range
