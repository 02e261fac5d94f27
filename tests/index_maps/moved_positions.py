# SPDX-License-Identifier: Apache-2.0
"""Run data movements on an array whose elements are their own positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from circlekit.index_maps.steps import Plan
from circlekit.ir.dtypes import i32
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value


def vector(_: str, numbers: Any) -> Value:
    """Return an int32 constant; the first argument, its role, is ignored."""
    return Value.constant("", np.array(numbers, np.int32))


def positions(shape: tuple[int, ...]) -> Array:
    """Return an array whose elements are their own positions, 0, 1, 2, ... in memory order."""
    return np.arange(math.prod(shape), dtype=np.int32).reshape(shape)


def results_of(op: Op, array: Array) -> list[Array]:
    """Run the kernel of ``op`` with ``array`` in place of the moved operand, which has no data."""
    found = op.kernel(*(array if v is not None and v.data is None else v and v.data for v in op.inputs))
    return list(found) if isinstance(found, tuple) else [found]


def result_of(plan: Plan, array: Array) -> Array:
    """Return what ``plan`` makes of ``array``; all alternative operators of a step must do the same."""
    for step in plan:
        forms = [results_of(op, array)[0] for op in step.ops(Value("x", i32, array.shape), vector)]
        array = forms[0]
        assert array.shape == step.shape
        assert all(np.array_equal(form, array) for form in forms)
    return array
