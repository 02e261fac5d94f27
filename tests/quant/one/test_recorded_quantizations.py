# SPDX-License-Identifier: Apache-2.0
"""Recorded results of ONE's quantizer: ours are equal in operators, names, types and data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from circlekit.api.models import load
from circlekit.ir.dtypes import i8, u8
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.ops.quantized_values import is_quantized
from circlekit.quant.one.fake_quantized import fake_quantize
from circlekit.quant.one.given_parameters import requantize_int8_to_uint8
from circlekit.quant.one.weights_only import quantize_dequantize_weights
from circlekit.quant.one.with_minmax import quantize_with_minmax
from tests.quant.one.oracle import Row, differences, rows

ABSENT = [pytest.param(None, marks=pytest.mark.skip(reason="no quant.tsv in the shared folder"), id="absent")]


def cases(*kinds: str) -> Sequence[object]:
    return [pytest.param(row, id=row.name) for row in rows(*kinds)] or ABSENT


@pytest.mark.parametrize("row", cases("Add", "AddSkipQDQW"))
def test_quantize_with_minmax(row: Row) -> None:
    model = row.model("recorded")
    quantize_with_minmax(model, row.settings())
    assert not list(differences(model, row.model("q")))


@pytest.mark.parametrize("row", cases("Add"))
def test_quantize_dequantize_weights(row: Row) -> None:
    """Quantize the recipe.  If it is absent or has random constants, quantize ONE's result again."""
    recipe, expected = row.file("test.recipe"), row.model("fq")
    is_random = recipe is None or 'tag: "gaussian"' in recipe.read_text()
    model = row.model("fq") if recipe is None or is_random else load(recipe)
    quantize_dequantize_weights(model, row.settings())
    if is_random:  # weights that are rounded already keep their integers
        assert integers_of_weights(model) == integers_of_weights(expected)
    else:
        give_shape_operand(model, expected)
        assert not list(differences(model, expected))


def give_shape_operand(model: Model, expected: Model) -> None:
    """Give each RESHAPE that lacks a shape operand the one that it has in ``expected``.

    ONE writes the new shape as an operand, even if only an attribute had it.
    """
    for op, other in zip(model.main, expected.main, strict=True):
        if op.code == "RESHAPE" and len(op.inputs) == 1:
            op.set_input(1, other.inputs[1])


def integers_of_weights(model: Model) -> dict[str, list[int]]:
    """Return {name of weights: the steps of their elements above the recorded minimum}."""
    found = {}
    for value in model.main.values():
        old = value.quantization
        if value.data is not None and old is not None and old.min is not None:
            shape = [-1 if axis == old.quantized_dimension else 1 for axis in range(value.data.ndim)]
            shape = shape if old.scale.size > 1 else [1] * value.data.ndim
            steps = (value.data - old.min.reshape(shape)) / old.scale.reshape(shape)
            found[value.name] = np.rint(steps).astype(int).reshape(-1).tolist()
    return found


@pytest.mark.parametrize("row", cases("AddFakeQuant"))
def test_fake_quantize(row: Row) -> None:
    recipe = row.file("test.recipe")
    if recipe is None:
        pytest.skip("its recipe is not in the shared folder")
    model = load(recipe)
    fake_quantize(model)
    assert not list(differences(model, row.model("q")))


@pytest.mark.parametrize("row", cases("AddReQuant"))
def test_requantize(row: Row) -> None:
    """Requantize the recipe; if it is absent, requantize ONE's result after ``lower_to_int8``."""
    recipe, expected = row.file("test.recipe"), row.model("q")
    model = row.model("q") if recipe is None else load(recipe)
    if recipe is None:
        lower_to_int8(model)
    requantize_int8_to_uint8(model)
    assert not list(differences(model, expected))


def lower_to_int8(model: Model) -> None:
    """Subtract 128 from zero points and data of quantized uint8 values, and make them int8."""
    for value in model.main.values():
        if value.dtype is u8 and is_quantized(value):
            value.dtype = i8
            old = value.quantization
            assert old is not None  # is_quantized
            value.quantization = replace(old, zero_point=old.zero_point - 128)
            value.data = None if value.data is None else (value.data.astype(np.int16) - 128).astype(np.int8)


@pytest.mark.parametrize(("shape", "axis", "expected"), [("2", 1, 0), ("3,2", 1, 1), ("2,3", 0, 0)])
def test_requantize_corrects_the_axis_of_vectors_only(shape: str, axis: int, expected: int) -> None:
    elements = math.prod(map(int, shape.split(",")))
    model = parse_model(
        f"""graph main(%x: i8[{shape}] quant(scale: 0.5)) -> %y {{
          %w = const i8[{shape}] quant(scale: [0.5, 0.25], zero_point: [0, 0], axis: {axis}) {[1] * elements}
          %y = Maximum(%x, %w) : i8[{shape}] quant(scale: 0.5)
        }}"""
    )
    requantize_int8_to_uint8(model)
    weights = model.main.ops[0].inputs[1]
    assert weights is not None
    assert weights.quantization is not None
    assert weights.quantization.quantized_dimension == expected
