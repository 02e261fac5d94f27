# SPDX-License-Identifier: Apache-2.0
"""Operators with the trait ``data_movement`` only copy elements; the model is that of their recipe."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import pytest

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.interp.evaluate import evaluate
from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Array
from circlekit.ops.constant_operands import constant_elements
from circlekit.recipes.load import load_recipe

RECIPES = Path(__file__).parents[2] / "recipes" / "ops"

MOVEMENTS = sorted(code for code, op in REGISTRY.items() if op.data_movement)

LOWEST = 1000
"""The elements of operands that are not constant are different numbers from this one on."""


@pytest.mark.parametrize("code", MOVEMENTS)
def test_each_element_of_a_result_is_one_of_an_operand(code: str) -> None:
    op = next(op for op in load_recipe(RECIPES / f"{code.lower()}.ck").main if op.code == code)
    operands: list[Array | None] = []
    size = 0
    for value in op.inputs:
        if value is None or value.is_const:
            operands.append(None if value is None else constant_elements(value))
            continue
        shape = [2 if dim is None else dim for dim in value.known_shape]
        data = np.arange(LOWEST + size, LOWEST + size + prod(shape)).astype(value.dtype.numpy)
        operands.append(data.reshape(shape))
        size += prod(shape)
    moved = np.arange(LOWEST, LOWEST + size)
    if code == "DENSIFY":  # it moves a constant
        (constant,) = operands
        assert constant is not None
        moved = constant
    for result in evaluate(op, operands):
        assert np.isin(result, moved).all()
