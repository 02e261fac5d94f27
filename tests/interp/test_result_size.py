# SPDX-License-Identifier: Apache-2.0
"""Bytes of an operator's results, before they are computed."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import LimitError, ShapeError
from circlekit.interp.execution_plan import ResultMemory, with_operands
from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.op import Op, OpaqueOp, operand
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.text import parse_model
from circlekit.ir.value import Shape, TensorType, Value
from circlekit.ops.movement.repeat import Fill
from circlekit.ops.movement.slice import Slice
from circlekit.ops.program.state import AssignVariable


class Result(Op):
    """An operator with a result of the type of its operand."""

    code = "TEST_RESULT"
    input = operand()

    def infer(self) -> TensorType:
        return TensorType(self.input.dtype, self.input.shape)


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        (f32, (3, 5), 60),
        (DType.COMPLEX128, (2,), 32),
        (f32, (), 4),
        (f32, (0, 5), 20),  # a dimension of 0 counts as 1
        (f32, (None, 5), None),
        (f32, None, None),
        (DType.INT4, (3,), 3),  # arrays of int8
        (DType.BFLOAT16, (3,), 12),  # arrays of float32
        (DType.STRING, (3,), 24),  # arrays of pointers
    ],
)
def test_static_bytes(dtype: DType, shape: Shape | None, size: int | None) -> None:
    assert ResultMemory(Result(Value("x", dtype, shape))).static_bytes == size


def test_the_sizes_of_several_results_are_added_and_without_results_the_size_is_unknown() -> None:
    text = "graph main(%x: f32[4,6]) -> %a, %b { %a, %b = Split([1], %x) {num_splits: 2} }"
    assert ResultMemory(parse_model(text).main.ops[0]).static_bytes == 96
    assert ResultMemory(AssignVariable(Value("r", i32, (1,)), Value("v", f32, (3,)))).static_bytes is None


def test_an_opaque_operator_counts_with_its_declared_results() -> None:
    results = [Value("y", f32, (3,)), Value("z", f32, (2,))]
    op = OpaqueOp(Value("x", f32, (3,)), code="CUSTOM", custom_code="Unheard", results=results)
    assert ResultMemory(op).static_bytes == 20
    with limited(19), pytest.raises(LimitError, match=r"%y: f32\[3\], %z: f32\[2\] of CUSTOM would take 20"):
        ResultMemory(op).check([np.zeros(3, np.float32)])
    results[0].shape = (None,)
    with limited(1):
        ResultMemory(op).check([np.zeros(3, np.float32)])


def fill() -> Op:
    return Fill(Value("d", i32, (2,)), Value.constant("v", np.ones((), np.float32)))


def test_sizes_that_depend_on_operands() -> None:
    op, operands = fill(), [np.array([4, 5], np.int32), np.ones((), np.float32)]
    assert ResultMemory(op).static_bytes is None
    with limited(100):
        ResultMemory(op).check(operands, held_bytes=20)
        with pytest.raises(LimitError, match=r"f32\[4,5\] of FILL \(in addition to 21 bytes held by this"):
            ResultMemory(op).check(operands, held_bytes=21)
    with limited(79), pytest.raises(LimitError, match=r"f32\[4,5\] of FILL would take 80 bytes"):
        ResultMemory(op).check(operands)


def test_operands_that_the_shape_rule_rejects_are_rejected() -> None:
    """The kernel of FILL takes a value of shape [1]; the shape rule refuses it before the limit counts."""
    x = Value("x", f32, (3,))
    op = Slice(x, Value("b", i32, (1,)), Value("s", i32, (1,)))
    with limited(1), pytest.raises(ShapeError, match="a slice of size 7 at 7 exceeds a dimension of 3"):
        ResultMemory(op).check([np.ones(3, np.float32), *[np.array([7], np.int32)] * 2])
    with limited(1), pytest.raises(ShapeError, match="scalar"):
        ResultMemory(fill()).check([np.array([4, 5], np.int32), np.ones(1, np.float32)])


def test_absent_operands_stay_absent_and_no_uses_are_added() -> None:
    op = fill()
    value = op.inputs[0]
    assert value is not None
    copy = with_operands(op, [np.array([2, 3], np.int32), None, None], constant=True)
    assert [v is None or v.is_const for v in copy.inputs] == [True, True, True]
    assert copy.inputs[2] is None
    assert copy.inferred()[0].shape == (2, 3)
    assert (value.use_count, value.data, op.inputs[0]) == (1, None, value)


def test_sizes_that_depend_on_shapes_are_inferred_when_shapes_change(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred: list[Shape | None] = []
    rule = Result.infer

    def infer(self: Result) -> TensorType:
        inferred.append(self.input.shape)
        return rule(self)

    memory = ResultMemory(Result(Value("x", f32, (None, 2))))
    monkeypatch.setattr(Result, "infer", infer)
    with limited(100):
        for rows in (3, 3, 5, 5):
            memory.check([np.ones((rows, 2), np.float32)])
        assert inferred == [(3, 2), (5, 2)]
        with pytest.raises(LimitError, match=r"f32\[13,2\] of TEST_RESULT would take 104 bytes"):
            memory.check([np.ones((13, 2), np.float32)])


def test_a_dimension_of_0_from_operands_counts_as_1() -> None:
    with limited(79), pytest.raises(LimitError, match=r"f32\[0,20\] of FILL would take 80 bytes"):
        ResultMemory(fill()).check([np.array([0, 20], np.int32), np.ones((), np.float32)])
