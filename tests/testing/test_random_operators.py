# SPDX-License-Identifier: Apache-2.0
"""Random operators: which operands they get.

``decide(m, monkeypatch, 0.4)`` makes exactly those random events happen that have the probability 0.4 in
``random_operators.py``, such as the exchange of the first two operands.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import DType, boolean, f32
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Value
from circlekit.testing.model_builder import ModelBuilder, Rejected
from circlekit.testing.random_operators import make_operator, random_operator
from tests.testing.draws import SHAPE, decide


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

    for exchange in (), (0.4,):
        assert {len(op.inputs) for op in made("CONCATENATION", *exchange)} == {1, 2, 3}
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
