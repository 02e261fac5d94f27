# SPDX-License-Identifier: Apache-2.0
"""Making operators."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import f32
from circlekit.ir.value import Value
from circlekit.ops.matmul.dense import FullyConnected


def test_an_operator_that_does_not_fit_reads_nothing() -> None:
    x, w = Value("x", f32, (2, 4)), Value.constant("w", np.zeros((3, 5), np.float32))
    with pytest.raises(ShapeError):
        FullyConnected(x, w)
    assert not x.uses
    assert not w.uses
