# SPDX-License-Identifier: Apache-2.0
"""Constant folding: folded operators, limits, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.interp.interpreter import run
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.binary import Add
from circlekit.ops.arithmetic.cast import Dequantize
from circlekit.passes.fold.fold_constants import FoldConstants
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass


def test_chain_is_folded_in_one_run() -> None:
    model = check_pass(
        """graph main(%x: f32[2,3]) -> %y {
             %a = const f32[2,3] gaussian(0, 1)
             %b = Mul(%a, [2.0])
             %c = Add(%b, [1.0, -4.0, 0.5]) {act: RELU}
             %y = Add(%x, %c)
           }""",
        "fold_constants",
        ["Add"],
    )
    (add,) = model.main
    folded = add.inputs[1]
    assert folded is not None
    assert folded.name == "c"
    assert folded.is_const


@pytest.mark.parametrize(("kind", "wanted"), [("Shape", [2, 3]), ("Rank", 2)])
def test_values_that_depend_only_on_shapes_are_folded(kind: str, wanted: object) -> None:
    attributes = "{out_type: i32}" if kind == "Shape" else ""
    model = check_pass(
        f"""graph main(%x: f32[2,3], %i: i32[]) -> %y {{
              %s = {kind}(%x) {attributes}
              %y = Add(%s, %i)
            }}""",
        "fold_constants",
        ["Add"],
    )
    operand = model.main.ops[0].inputs[0]
    assert operand is not None
    np.testing.assert_array_equal(operand.array(), wanted)


def test_a_shape_with_an_unknown_dimension_stays() -> None:
    text = """graph main(%x: f32[?,3]) -> %y {
                %s = Shape(%x) {out_type: i32}
                %y = Add(%s, 1)
              }"""
    check_pass(text, "fold_constants", ["Shape", "Add"])


def test_shared_constant_is_not_modified() -> None:
    model = check_pass(
        """graph main(%x: f32[2,3]) -> %y, %z {
             %a = const f32[2,3] gaussian(0, 1)
             %b = Relu(%a)
             %y = Add(%x, %b)
             %z = Add(%x, %a)
           }""",
        "fold_constants",
        ["Add", "Add"],
    )
    relu, plain = (op.inputs[1] for op in model.main)
    assert relu is not None
    assert plain is not None
    assert (plain.array() < 0).any()
    np.testing.assert_array_equal(relu.array(), np.maximum(plain.array(), 0))


def test_float16_weights_are_dequantized() -> None:
    model = check_pass(
        """graph main(%x: f32[2]) -> %y {
             %w = const f16[2] [0.5, -2.0]
             %d = Dequantize(%w) : f32[2]
             %y = Mul(%x, %d)
           }""",
        "fold_constants",
        ["Mul"],
    )
    operand = model.main.ops[0].inputs[1]
    assert operand is not None
    assert operand.array().tolist() == [0.5, -2.0]


def test_a_quantized_result_keeps_its_quantization() -> None:
    model = parse_model(
        """graph main(%x: i8[2,2] quant(scale: 0.5, zero_point: 3)) -> %y {
             %w = const i8[4] quant(scale: 0.5, zero_point: 3) [1, -2, 3, 4]
             %r = Reshape(%w, [2, 2]) : i8[2,2] quant(scale: 0.5, zero_point: 3)
             %y = Concatenation(%x, %r) : i8[4,2] quant(scale: 0.5, zero_point: 3)
           }"""
    )
    assert FoldConstants().run(model, Context()) == 1
    folded = model.main.ops[0].inputs[1]
    assert folded is not None
    assert folded.quantization is not None
    assert folded.quantization.scale.tolist() == [0.5]
    assert folded.quantization.zero_point.tolist() == [3]


def test_a_result_much_larger_than_its_operands_stays() -> None:
    text = """graph main(%x: f32[1,1]) -> %y {
                %a = const f32[2,2] gaussian(0, 1)
                %b = Tile(%a, [400, 100])
                %y = Mul(%x, %b)
              }"""
    check_pass(text, "fold_constants", refused="the file would grow")


@pytest.mark.parametrize(
    ("call", "changes"),
    [
        ("BroadcastTo([1.0], [16384])", 1),
        ("BroadcastTo([1.0], [16385])", 0),
        ("Tile(%a, [4])", 1),
        ("Tile(%a, [5])", 0),
    ],
)
def test_results_above_64_kib_have_at_most_4_times_the_size_of_the_operands(call: str, changes: int) -> None:
    text = f"graph main(%x: f32[1]) -> %y {{ %a = const f32[20000] zeros() %b = {call} %y = Add(%x, %b) }}"
    assert FoldConstants().run(parse_model(text), Context()) == changes


def test_result_above_the_size_limit_stays() -> None:
    text = "graph main(%x: f32[8]) -> %y { %b = Relu([1, 2, 3, 4, 5, 6, 7, 8.0]) %y = Add(%x, %b) }"
    refusals: list[str] = []
    for limit, changes in ((31, 0), (32, 1)):
        context = Context(max_folded_bytes=limit, refusals=[])
        assert FoldConstants().run(parse_model(text), context) == changes
        refusals += [r.sentence for r in context.refusals or ()]
    assert refusals == ["%b: the result would have 32 bytes, the limit is 31"]


def test_operator_whose_kernel_raises_stays() -> None:
    model = parse_model("graph main(%x: f32[1]) -> %y { %b = Gather([1.0, 2.0], [7]) %y = Add(%x, %b) }")
    context = Context(refusals=[])
    assert FoldConstants().run(model, context) == 0
    assert [r.op.code for r in context.refusals or ()] == ["GATHER"]


def test_variable_is_not_folded() -> None:
    model = parse_model("graph main(%x: f32[2]) -> %y { %b = Relu([1.0, 2.0]) %y = Add(%x, %b) }")
    constant = model.main.ops[0].inputs[0]
    assert constant is not None
    constant.is_variable = True
    assert FoldConstants().run(model, Context()) == 0


def test_control_flow_is_not_folded() -> None:
    text = """graph main(%x: f32[2]) -> %y {
                %i = If(true, [1.0, 2.0]) {then_graph: @a, else_graph: @b} : f32[2]
                %y = Add(%x, %i)
              }
              graph a(%p: f32[2]) -> %q { %q = Relu(%p) }
              graph b(%r: f32[2]) -> %s { %s = Neg(%r) }"""
    check_pass(text, "fold_constants", ["If", "Add"])


def test_results_own_their_memory() -> None:
    model = parse_model(
        "graph main(%x: f32[2,2]) -> %y { %t = Transpose([[1.0, 2.0], [3.0, 4.0]], [1, 0]) %y = Add(%x, %t) }"
    )
    FoldConstants().run(model, Context())
    folded = model.main.ops[0].inputs[1]
    assert folded is not None
    assert folded.array().flags.c_contiguous
    assert folded.array().base is None
    np.testing.assert_array_equal(run(model, [np.zeros((2, 2), np.float32)])[0], [[1, 3], [2, 4]])


def test_packed_elements_are_unpacked() -> None:
    scale = Quantization.per_tensor(0.5)
    packed = Value("w", DType.INT4, (4,), np.array([0x21, 0xF3], np.uint8), scale)
    result = Value("d", DType.FLOAT32, (4,))
    x = Value("x", DType.FLOAT32, (4,))
    graph = Graph("main", [x])
    graph.append(Dequantize(packed, results=[result]))
    graph.outputs = [graph.append(Add(x, result)).output]
    assert FoldConstants().run(Model([graph]), Context()) == 1
    folded = graph.ops[0].inputs[1]
    assert folded is not None
    # the integers 1, 2, 3, -1: the low half of a byte comes first
    assert folded.array().tolist() == [0.5, 1.0, 1.5, -0.5]


def test_an_output_becomes_a_constant_and_keeps_its_name(tmp_path: Path) -> None:
    model = check_pass(
        """graph main(%x: f32[2,3]) -> %y, %s, %t {
             %s = Shape(%x) {out_type: i32}
             %t = Add(%s, %s)
             %y = Relu(%x)
           }""",
        "fold_constants",
        ["Relu"],
    )
    assert [v.is_const for v in model.main.outputs] == [False, True, True]
    path = tmp_path / "model.tflite"
    circlekit.save(model, path)
    x = np.ones((2, 3), np.float32)
    again = circlekit.run(circlekit.load(path), [x])
    for found, wanted in zip(again, [x, np.array([2, 3], np.int32), np.array([4, 6], np.int32)], strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_results_of_called_graphs_are_not_folded() -> None:
    model = parse_model(
        """graph main(%p: bool[], %x: f32[2]) -> %y {
             %y = If(%p, %x) {then_graph: @a, else_graph: @b} : f32[2]
           }
           graph a(%u: f32[2]) -> %v { %v = Relu([1.0, -1.0]) }
           graph b(%u: f32[2]) -> %v { %v = Relu(%u) }"""
    )
    context = Context(refusals=[])
    assert FoldConstants().run(model, context) == 0
    sentence = next(r.sentence for r in context.refusals or ())
    assert "an output of a graph other than the main graph" in sentence


def test_result_of_empty_operands_is_folded() -> None:
    text = """graph main(%i: i32[0,2], %v: f32[0], %x: f32[2,3]) -> %y {
                %d = SparseToDense(%i, [2, 3], %v, 4.0)
                %y = Add(%d, %x)
              }"""
    check_pass(text, "fold_sparse_to_dense", ["Add"])


def test_total_size_of_folded_results_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """One limit holds for all rounds of an optimization.

    Here it is 40 bytes, and a result has 16: the third result exceeds the limit.
    """
    monkeypatch.setattr("circlekit.passes.fold.fold_constants.MIN_TOTAL_BYTES", 40)
    monkeypatch.setattr("circlekit.passes.fold.fold_constants.MAX_TOTAL_GROWTH", 2)
    text = """graph main(%x: f32[4]) -> %p, %q, %r {
                %c = const f32[4] [1, 2, 3, 4]
                %a = Relu(%c) %b = Neg(%c) %d = Exp(%c)
                %p = Add(%x, %a) %q = Add(%x, %b) %r = Add(%x, %d)
              }"""
    model, context = parse_model(text), Context(refusals=[])
    assert FoldConstants().run(model, context) == 2
    assert FoldConstants().run(model, context) == 0
    assert [r.sentence for r in context.refusals or ()] == [
        "%d: folding would compute 48 bytes in total, the limit is 40"
    ] * 2
    assert FoldConstants().run(model, Context()) == 1


@pytest.mark.parametrize("limit", ["MAX_TOTAL_MACS", "MIN_TOTAL_MACS"])
def test_total_number_of_multiplications_is_limited(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """A product of 2x2 matrices takes 8 multiplications."""
    monkeypatch.setattr("circlekit.passes.fold.fold_constants.MACS_PER_BYTE", 0)
    monkeypatch.setattr(f"circlekit.passes.fold.fold_constants.{limit}", 12)
    text = """graph main(%x: f32[2,2]) -> %p, %q {
                %c = const f32[2,2] [1, 2, 3, 4]
                %a = BatchMatMul(%c, %c) %b = BatchMatMul(%a, %a)
                %p = Add(%x, %a) %q = Add(%x, %b)
              }"""
    model, context = parse_model(text), Context(refusals=[])
    assert FoldConstants().run(model, context) == 1
    assert FoldConstants().run(model, context) == 0
    assert {r.sentence for r in context.refusals or ()} == {
        "%b: folding would take 16 multiplications in total, the limit is 12"
    }


@pytest.mark.parametrize(("limit", "changes"), [(15, 1), (16, 2)])
def test_number_of_multiplications_may_reach_the_limit(
    monkeypatch: pytest.MonkeyPatch, limit: int, changes: int
) -> None:
    """Two products of 2x2 matrices take 16 multiplications."""
    monkeypatch.setattr("circlekit.passes.fold.fold_constants.MAX_TOTAL_MACS", limit)
    text = """graph main(%x: f32[2,2]) -> %p, %q {
                %c = const f32[2,2] [1, 2, 3, 4]
                %a = BatchMatMul(%c, %c) %b = BatchMatMul(%a, %a)
                %p = Add(%x, %a) %q = Add(%x, %b)
              }"""
    assert FoldConstants().run(parse_model(text), Context()) == changes


@pytest.mark.parametrize(
    ("size", "max_bytes", "max_macs"),
    [
        (64, 134_217_728, 1_000_065_536),
        (8_000_000, 134_217_728, 9_192_000_000),
        (9_000_000, 144_000_000, 10_216_000_000),
        (300_000_000, 4_294_967_296, 200_000_000_000),
    ],
)
def test_limits_follow_from_the_size_of_the_constants(size: int, max_bytes: int, max_macs: int) -> None:
    """Constants that share their elements count once.

    Bytes: 16 * size, from 2^27 to 2^32.  Multiplications: 1e9 + 1024 * size, at most 2e11.
    """
    model = parse_model("graph main(%x: f32[1]) -> %y { %y = Concatenation(%x, %x, %x) {axis: 0} }")
    shared = np.zeros(size - 4, np.uint8).view(np.float32)
    for name, data in (("a", shared), ("b", shared), ("c", np.zeros(1, np.float32))):
        value = Value(name, DType.FLOAT32, data.shape)
        value.data = data
        model.main.table.append(value)
    context = Context()
    FoldConstants().run(model, context)
    assert (context.folded.max_bytes, context.folded.max_macs) == (max_bytes, max_macs)


def test_result_with_mismatched_quantization_stays() -> None:
    text = """graph main(%x: f32[?]) -> %y {
                %r = Opaque([1, 2], [3, 4]) {code: "CUSTOM", custom_code: "AddV2"}  : i32[*]
                %y = Cast(%r)  : f32[*]
              }"""
    for scales, axis, changes in (
        ([1, 2], 0, 1),
        ([1, 2], 1, 0),
        ([1, 2], -1, 0),
        ([1, 2, 3], 0, 0),
        ([1], 7, 1),
    ):
        model = parse_model(text)
        op = model.main.ops[0]
        op.output.quantization = Quantization(np.array(scales, "f4"), np.zeros(len(scales), "i8"), axis)
        assert FoldConstants().run(model, Context()) >= changes
        assert (model.main.ops[0] is op) == (not changes)


@pytest.mark.parametrize(
    ("shape", "changes"),
    [
        ([0, 2147483647, 2147483647, 2147483647], 0),
        ([0, 536870912, 536870911], 0),
        ([0, 512, 511], 1),
    ],
)
def test_a_result_without_elements_is_folded_unless_its_shape_is_huge(shape: list[int], changes: int) -> None:
    """Numpy cannot represent huge shapes, or a kernel may take memory for the axes that are not 0."""
    model = parse_model(f"graph main(%x: f32{shape}) -> %y {{ %y = Relu(%x) : f32{shape} }}")
    assert FoldConstants().run(model, Context()) == changes


@pytest.mark.parametrize(
    "text",
    [
        "%a = Relu([1.0, 2.0]) %y = Add(%x, %a)",
        "%a = RandomUniform([2]) {seed: 1, seed2: 2} : f32[2] %y = Add(%x, %a)",
    ],
)
def test_results_that_are_variables_or_random_stay(text: str) -> None:
    model = parse_model(f"graph main(%x: f32[2]) -> %y {{ {text} }}")
    model.main.ops[0].output.is_variable = "Relu" in text
    assert FoldConstants().run(model, Context()) == 0
