# SPDX-License-Identifier: Apache-2.0
"""Random operators: shapes and contents of their constants, and which operands they get.

``decide(m, monkeypatch, 0.4)`` makes exactly those random events happen that have the probability 0.4 in
``random_operators.py``, such as the exchange of the first two operands.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import DType, boolean, f32, i32
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Value
from circlekit.testing.model_builder import ModelBuilder, Rejected
from circlekit.testing.random_operators import (
    PARAMETERS,
    broadcast_shape,
    is_parameter,
    make_operator,
    proposal,
    random_operator,
)
from tests.testing.draws import DRAWS, SHAPE, decide, drawn

GROUPED_FILTERS: set[Any] = {*product((2, 4, 6, 8), (1, 2, 3), (1, 2, 3), (3,))}
"""Shapes of the filters of rare convolutions in 2 groups: each filter reads half of the 6 channels."""


def test_shapes_that_broadcast(m: ModelBuilder) -> None:
    found: set[Any] = drawn(lambda: broadcast_shape(m, (2, 1, 3)))
    lower = {(3,), (), (1,), (1, 1), (1, 3)}
    assert lower | {(1, 1, 3), (1, 1, 1), (2, 1, 3), (2, 1, 1), (2, 2, 1, 3), (1, 2, 1)} <= found
    for shape in found:
        assert np.broadcast_shapes(shape, (2, 1, 3))[-3:] in ((2, 1, 3), (2, 2, 3))


@pytest.mark.parametrize(
    ("code", "name", "shapes"),
    [
        ("CONV_2D", "filter", {*product((1, 2, 3, 4), (1, 2, 3), (1, 2, 3), (6,))}),
        ("DEPTHWISE_CONV_2D", "filter", {*product((1,), (1, 2, 3), (1, 2, 3), (6, 12))}),
        ("FULLY_CONNECTED", "weights", {(o, 6) for o in (1, 2, 3, 4)}),
        ("CONV_2D", "bias", {(6,)}),
        ("RMS_NORM", "gamma", {(6,)}),
    ],
)
def test_shapes_of_weights(code: str, name: str, shapes: set[tuple[int, ...]], m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    found = drawn(lambda: np.shape(proposal(m, REGISTRY[code], name, x, {}, f32)))
    in_groups = found & GROUPED_FILTERS if code == "CONV_2D" else set()
    assert found - in_groups == shapes
    assert bool(in_groups) == (code == "CONV_2D" and name == "filter")


def test_an_integer_bias_has_numbers_from_minus_100_to_100(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    vectors: set[Any] = drawn(lambda: proposal(m, REGISTRY["FULLY_CONNECTED"], "bias", x, {}, DType.INT8))
    assert {number for vector in vectors for number in vector} == set(range(-100, 101))


def test_a_bias_has_an_element_per_filter(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    w, other = (Value.constant("w", np.zeros(shape, np.float32)) for shape in ((5, 1, 1, 6), (9,)))
    chosen: dict[str, Value | None] = {"filter": w, "input": x, "absent": None, "other": other}
    assert np.shape(proposal(m, REGISTRY["CONV_2D"], "bias", x, chosen, f32)) == (5,)


def test_parameters_are_the_operands_that_are_no_data() -> None:
    def parameters(code: str) -> set[str]:
        return {spec.name for spec in REGISTRY[code].operands if is_parameter(spec)}

    assert parameters("CONV_2D") == {"filter", "bias"}
    assert parameters("RESHAPE") == {"shape"}
    assert parameters("ADD") == set()
    assert parameters("TRANSPOSE_CONV") == {"output_shape", "filter", "bias"}


@pytest.mark.parametrize("chance", [False, True])
def test_each_kind_of_broadcast_shape(chance: bool, m: ModelBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """``broadcast_shape`` draws one of 10 kinds, then a number of axes: here always rank - 1 = 2."""
    monkeypatch.setattr(m, "chance", lambda probability: chance)
    found = []
    for kind in range(10):
        monkeypatch.setattr(m, "below", lambda n, kind=kind: kind if n == 10 else n - 2)
        found.append(broadcast_shape(m, (2, 1, 3)))
    last = [(2, 1, 3), (2, 2, 1, 3)] if chance else [(1, 1, 1), (1, 1, 1)]
    assert found == [(3,)] * 4 + [(1, 1, 3)] * 2 + [(1, 1), (3,), *last]


def test_operands_of_a_scalar(m: ModelBuilder) -> None:
    x = m.new_input(Value("s", f32, ()), np.zeros((), np.float32))
    filters = drawn(lambda: np.shape(proposal(m, REGISTRY["CONV_2D"], "filter", x, {}, f32))[-1])
    assert filters == {1}
    for name, shapes in (("weights", {(o, 1) for o in (1, 2, 3, 4)}), ("bias", {(1,)})):
        assert (
            drawn(
                lambda name=name: np.shape(  # type: ignore[misc]
                    proposal(m, REGISTRY["FULLY_CONNECTED"], name, x, {}, f32)
                )
            )
            == shapes
        )
    assert drawn(lambda: PARAMETERS["dim"](m, ())) == {0, -1, (0,), (-1,)}
    assert drawn(lambda: PARAMETERS["axis"](m, ())) == {0, -1, (0,), (-1,)}
    assert {len(PARAMETERS["dims"](m, ())) for _ in range(DRAWS)} == set(range(8))
    assert drawn(lambda: PARAMETERS["perm"](m, (2, 3))) == {(0, 1), (1, 0)}


def test_contents_of_constants(m: ModelBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    (x,) = m.graph.inputs

    def numbers(dtype: DType) -> list[float]:
        return [
            float(n)
            for _ in range(DRAWS)
            for n in np.ravel(proposal(m, REGISTRY["ADD"], "rhs", x, {}, dtype))
        ]

    assert set(numbers(i32)) == set(range(-3, 4))
    assert set(numbers(DType.UINT8)) == set(range(4))
    decide(m, monkeypatch)
    floats = np.abs(numbers(f32))
    assert 0.2 <= floats.min() < 0.3
    assert 1.9 < floats.max() <= 2
    decide(m, monkeypatch, 0.15)
    assert set(numbers(f32)) == {0.0, 1.0, -1.0, 0.5, 3.0, 6.0, 1.0000001}
    decide(m, monkeypatch, 0.3)
    assert np.isfinite(numbers(f32)).all()
    m.allow_extremes = True
    assert not np.isfinite(numbers(f32)).all()
    filters = [proposal(m, REGISTRY["CONV_2D"], "filter", x, {}, f32) for _ in range(9)]
    assert abs(np.mean([array.mean() for array in filters])) < 0.5
    without_data = drawn(lambda: np.shape(proposal(m, REGISTRY["ADD"], "rhs", None, {}, f32))[-1:])
    assert without_data == {(4,), (1,), ()}


def test_operands_of_whole_operators(m: ModelBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    (x,) = m.graph.inputs
    m.new_input(Value("small", f32, (6,)), np.zeros(6, np.float32))
    m.pool.append(m.graph.inputs[-1])

    def made(code: str, *probabilities: float, count: int = 40) -> list[Op]:
        decide(m, monkeypatch, *probabilities)
        found = []
        for _ in range(count):
            with suppress(ShapeError):  # for windows larger than the data
                found.append(make_operator(m, REGISTRY[code]))
        assert len(found) > count / 3
        return found

    assert {len(op.inputs) for op in made("CONCATENATION")} == {1, 2, 3}
    for op in made("PACK"):
        assert op.attribute_values["values_count"] == len(op.inputs)
    for swap in (False, True):
        for op in made("ADD", *[0.4] * swap):
            assert [v is not None and v.is_const for v in op.inputs] == [swap, not swap]
    for op in made("ADD", 0.5):
        assert not any(v is None or v.is_const for v in op.inputs)
        assert op.inputs[0].shape == op.inputs[1].shape  # type: ignore[union-attr]
    assert {len({v.shape for v in op.inputs if v is not None}) for op in made("ADD", 0.5, 0.1)} == {1, 2}
    m.pool = [x]
    for op in made("CONV_2D", 0.4):
        assert [v is not None and v.is_const for v in op.inputs] == [False, True, True]
    assert {len(op.inputs) for op in made("CONV_2D", 0.5)} == {2}
    assert {op.inputs[0] for op in made("NEG", 0.4)} == {x}
    assert {op.attribute_values["stride_w"] for op in made("CONV_2D")} == {1}
    m.pool.pop()
    with pytest.raises(Rejected):
        make_operator(m, REGISTRY["NEG"])


def test_quantized_operators(m: ModelBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    decide(m, monkeypatch)
    quantized = [make_operator(m, REGISTRY["QUANTIZE"]).output for _ in range(40)]
    assert {v.dtype for v in quantized} == {DType.INT8, DType.UINT8, DType.INT16}
    assert all(v.quantization is not None and v.shape == SHAPE for v in quantized)
    data = m.add(next(v for v in quantized if v.dtype is DType.INT8).producer)  # type: ignore[arg-type]
    m.pool = [data]

    def made(code: str, *probabilities: float) -> Op:
        decide(m, monkeypatch, *probabilities)
        return make_operator(m, REGISTRY[code])

    assert made("QUANTIZE").output.dtype is DType.INT8
    assert {made("QUANTIZE", 0.3).output.dtype for _ in range(40)} == {DType.INT8, DType.UINT8, DType.INT16}
    assert made("RELU", 0.8).output.quantization is data.quantization
    assert made("RELU").output.quantization not in (None, data.quantization)
    assert made("DEQUANTIZE").output.quantization is None
    added = made("ADD").inputs[1]
    assert added is not None
    assert added.quantization not in (None, data.quantization)
    answers = iter([False, True])  # not from the pool; with the quantization of the data
    monkeypatch.setattr(m, "below", lambda n: 0)
    monkeypatch.setattr(m, "chance", lambda probability: probability == 0.5 and next(answers, False))
    shared = make_operator(m, REGISTRY["ADD"]).inputs[1]
    assert shared is not None
    assert shared.quantization is data.quantization
    compared = made("EQUAL").output
    assert (compared.dtype, compared.quantization) == (boolean, None)


def test_random_operators_are_pure_and_have_operands(m: ModelBuilder) -> None:
    for _ in range(20):
        with suppress(Rejected):
            op = random_operator(m).producer
            assert op is not None
            assert op.pure
            assert op.operands
    assert len({op.code for op in m.graph}) > 5
