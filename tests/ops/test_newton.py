# SPDX-License-Identifier: Apache-2.0
"""Reciprocals in fixed point: of arrays, of one number, and against the quotient itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from circlekit.ops.numerics.newton_raphson import reciprocal, reciprocal_of

NUMBERS = st.integers(1, 2**31 - 1) | st.integers(0, 30).map(lambda n: 1 << n)

ERROR = 2.0**-26
"""Of three Newton steps with 29 fraction bits."""


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_one_number_as_an_array(numbers: list[int]) -> None:
    mantissas, bits = reciprocal(np.array(numbers))
    assert [reciprocal_of(x) for x in numbers] == list(zip(mantissas.tolist(), bits.tolist(), strict=True))


@given(NUMBERS)
def test_reciprocal(x: int) -> None:
    mantissa, bits = reciprocal_of(x)
    assert abs(mantissa / 2**31 * 2.0**-bits * x - 1) < ERROR
