# SPDX-License-Identifier: Apache-2.0
"""Common subexpressions and duplicate constants: merged values and near misses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlekit.api.models import load, save
from circlekit.ir.array_bytes import SAMPLE_BYTES
from circlekit.ir.text import parse_model
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.unary import Exp
from circlekit.passes.fold.remove_duplicates import CommonSubexpressionElimination, RemoveDuplicateConst
from circlekit.passes.support.equality import equal_constants, frozen
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass

CSE = "common_subexpression_elimination"


def test_chains_merge_in_one_run() -> None:
    check_pass(
        """graph main(%x: f32[2,3]) -> %y {
             %a = Mul(%x, [1.0, 2.0, 3.0])
             %b = Mul(%x, [1.0, 2.0, 3.0])
             %c = Transpose(%a, [1, 0])
             %d = Transpose(%b, [1, 0])
             %e = Relu(%c)
             %f = Relu(%d)
             %y = Sub(%e, %f)
           }""",
        CSE,
        ["Mul", "Transpose", "Relu", "Sub"],
    )


def test_each_merged_operator_is_one_change() -> None:
    body = "%a = Exp(%x) %b = Exp(%x) %c = Exp(%x) %d = Add(%a, %b) %y = Sub(%d, %c)"
    text = f"graph main(%x: f32[2]) -> %y {{ {body} }}"
    assert CommonSubexpressionElimination().run(parse_model(text), Context()) == 2


def test_operators_with_several_results_merge() -> None:
    check_pass(
        """graph main(%x: f32[2,2]) -> %y {
             %a, %b = Split(0, %x) {num_splits: 2}
             %c, %d = Split(0, %x) {num_splits: 2}
             %e = Add(%a, %d)
             %y = Mul(%e, %c)
           }""",
        CSE,
        ["Split", "Add", "Mul"],
    )


@pytest.mark.parametrize(
    ("kind", "left"), [("Add", ["Add", "Pow"]), ("Mul", ["Mul", "Pow"]), ("Sub", ["Sub", "Sub", "Pow"])]
)
def test_commutative_operands_merge_in_any_order(kind: str, left: list[str]) -> None:
    text = f"""graph main(%x: f32[2], %z: f32[2]) -> %y {{
                 %a = {kind}(%x, %z)
                 %b = {kind}(%z, %x)
                 %y = Pow(%a, %b)
               }}"""
    check_pass(text, CSE, left)


@pytest.mark.parametrize(
    "second",
    [
        "Add(%x, [1.0, 2.0]) {act: RELU}",
        "Add(%x, [1.0, 2.5])",
        "Add(%x, [[1.0, 2.0]])",
        "Add(%z, [1.0, 2.0])",
        "Sub(%x, [1.0, 2.0])",
        "Add(%x, [1.0, 2.0]) : f32[2,2] quant(min: -1.0, max: 1.0)",
    ],
    ids=["attribute", "bits", "shape", "operand", "operator", "quantization"],
)
def test_near_misses_stay(second: str) -> None:
    text = f"""graph main(%x: f32[2,2], %z: f32[2,2]) -> %y {{
                 %a = Add(%x, [1.0, 2.0])
                 %b = {second}
                 %y = Mul(%a, %b)
               }}"""
    assert CommonSubexpressionElimination().run(parse_model(text), Context()) == 0


def test_negative_zero_differs_from_zero() -> None:
    text = """graph main(%x: f32[2]) -> %y {
                %a = Div(%x, [0.0])
                %b = Div(%x, [-0.0])
                %y = Maximum(%a, %b)
              }"""
    check_pass(text, CSE, ["Div", "Div", "Maximum"])


def test_an_output_keeps_its_name() -> None:
    check_pass(
        """graph main(%x: f32[2]) -> %y {
             %a = Neg(%x)
             %z = Exp(%a)
             %y = Neg(%x)
           }""",
        [CSE, "remove_dead"],
        ["Neg"],
    )


def test_users_of_the_first_read_the_output() -> None:
    check_pass(
        """graph main(%x: f32[2]) -> %y, %u, %v {
             %a = Neg(%x)
             %u = Exp(%a)
             %y = Neg(%x)
             %b = Neg(%x)
             %v = Abs(%b)
           }""",
        CSE,
        ["Neg", "Exp", "Abs"],
    )


def test_two_outputs_stay_two_but_are_computed_once() -> None:
    text = "graph main(%x: f32[2]) -> %y, %z { %y = Neg(%x) %z = Neg(%x) }"
    model = check_pass(text, CSE, ["Neg", "Reshape"])
    assert [v.name for v in model.main.outputs] == ["y", "z"]


def test_two_outputs_of_unknown_size_stay() -> None:
    text = "graph main(%x: f32[?]) -> %y, %z { %y = Neg(%x) %z = Neg(%x) }"
    check_pass(text, CSE, refused="both are outputs of the graph")


def test_two_outputs_that_are_reshapes_stay() -> None:
    text = "graph main(%x: f32[2]) -> %y, %z { %y = Reshape(%x, [1,2]) %z = Reshape(%x, [1,2]) }"
    check_pass(text, CSE, refused="both are outputs of the graph")


def test_the_refusal_names_the_two_outputs() -> None:
    text = """graph main(%x: f32[4]) -> %b, %d, %e {
                %a, %b = Split(0, %x) {num_splits: 2}
                %c, %d = Split(0, %x) {num_splits: 2}
                %e = Add(%a, %c)
              }"""
    check_pass(text, CSE, refused="%d and %b are equal, but both are outputs")


def test_users_of_two_equal_outputs_merge() -> None:
    text = """graph main(%x: f32[2]) -> %y, %z, %w {
                %y = Neg(%x)
                %z = Neg(%x)
                %a = Exp(%y)
                %b = Exp(%z)
                %w = Add(%a, %b)
              }"""
    check_pass(text, CSE, ["Neg", "Reshape", "Exp", "Add"])


def test_operators_that_move_the_same_elements_merge() -> None:
    text = """graph main(%x: f32[2,3]) -> %y {
                %a = ExpandDims(%x, 1)
                %b = Pack(%x) {values_count: 1, axis: 1}
                %c = Reshape(%x, [2,1,-1]) {new_shape: [2,1,3]}
                %d = Add(%a, %b)
                %y = Add(%d, %c)
              }"""
    check_pass(text, CSE, ["ExpandDims", "Add", "Add"])


def test_an_operator_of_a_file_merges_with_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "net.circle"
    save(parse_model("graph main(%x: f32[2]) -> %y { %a = Exp(%x) %y = Mul(%a, 2.0) }"), path)
    model = load(path)
    first, last = model.main.ops
    first.extra["no_options"] = True  # TensorFlow's converter omits the options of some operators
    last.set_input(1, model.main.insert_before(last, Exp(model.main.inputs[0])).output)
    assert CommonSubexpressionElimination().run(model, Context()) == 1
    assert last.inputs == [first.output, first.output]


def test_operators_that_are_not_pure_stay() -> None:
    text = """graph main(%x: f32[2]) -> %y {
                %a = While(%x) {cond: @c, body: @b} : f32[2]
                %b = While(%x) {cond: @c, body: @b} : f32[2]
                %y = Add(%a, %b)
              }
              graph c(%p: f32[2]) -> %q { %q = Less(1.0, 0.0) : bool[] }
              graph b(%r: f32[2]) -> %s { %s = Neg(%r) }"""
    check_pass(text, CSE, ["While", "While", "Add"])
    model = parse_model(
        "graph main() -> %y { %a = RandomUniform([2]) %b = RandomUniform([2]) %y = Add(%a, %b) }"
    )
    assert CommonSubexpressionElimination().run(model, Context()) == 0


def test_reads_of_a_variable_do_not_merge() -> None:
    text = """graph main(%x: f32[2]) -> %y {
                %v = const f32[2] [1.0, 2.0]
                %a = Neg(%v)
                %b = Neg(%v)
                %y = Add(%a, %b)
              }"""
    model = parse_model(text)
    state = model.main.ops[0].inputs[0]
    assert state is not None
    state.is_variable = True
    assert CommonSubexpressionElimination().run(model, Context()) == 0


# -- constants ---------------------------------------------------------------------------------


def test_equal_constants_merge() -> None:
    model = check_pass(
        """graph main(%x: f32[2]) -> %y {
             %a = Mul(%x, [1.0, 2.0])
             %b = Add(%a, [1.0, 2.0])
             %c = Sub(%b, [1.0, 2.5])
             %y = Div(%c, [[1.0, 2.0]]) : f32[1,2]
           }""",
        ["remove_duplicate_const"],
        ["Mul", "Add", "Sub", "Div"],
    )
    first, second, third, fourth = (op.inputs[1] for op in model.main)
    assert first is second
    assert len({first, third, fourth}) == 3


@pytest.mark.parametrize("size", [64, SAMPLE_BYTES])
@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_different_constants_stay(size: int, place: float) -> None:
    """``other`` differs from ``big`` in one element: the first, the middle or the last."""
    big = np.arange(size, dtype=np.float32)
    other = big.copy()
    other[int(place * (size - 1))] += 1
    quantization = Quantization.per_tensor(1.0)
    values = [
        Value.constant("big", big),
        Value.constant("other", other),
        Value.constant("same", big.copy()),
        Value.constant("shaped", big.reshape(2, -1)),
        Value.constant("typed", big.view(np.int32)),
        Value.constant("quantized", big, quantization),
        Value.constant("strided", np.stack([big, other], axis=1)[:, 0]),
    ]
    groups = [[v.name for v in group] for group in equal_constants(values)]
    assert groups == [["big", "same", "strided"], ["other"], ["shaped"], ["typed"], ["quantized"]]


def test_variables_do_not_merge_and_outputs_keep_their_names() -> None:
    text = """graph main(%x: f32[1]) -> %y, %k {
                %k = const f32[1] [1.0]
                %s = const f32[1] [1.0]
                %c = const f32[1] [1.0]
                %a = Mul(%x, %c)
                %b = Add(%a, %k)
                %y = Sub(%b, %s)
              }"""
    model = parse_model(text)
    mul, add, sub = model.main
    state = sub.inputs[1]
    assert state is not None
    state.is_variable = True
    assert RemoveDuplicateConst().run(model, Context()) == 1
    assert RemoveDuplicateConst().run(model, Context()) == 0
    assert mul.inputs[1] is add.inputs[1]
    assert sub.inputs[1] is state
    assert [v.name for v in model.main.outputs] == ["y", "k"]


def test_attributes_of_different_types_differ() -> None:
    things = [1, True, 1.0, "1", [1], (1.0,), {"a": 1}, np.ones(1), 0.0, -0.0, None]
    assert len({frozen(t) for t in things}) == len(things)
    assert frozen(float("nan")) == frozen(float("nan"))
