# SPDX-License-Identifier: Apache-2.0
"""The steps of ``circlekit reduce``, one by one: functions that return a smaller copy of a model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import circlekit.ops  # noqa: F401  # declares the operators of the texts
from circlekit.equivalence import reduction_steps
from circlekit.errors import ShapeError
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.verifier import verify

NET = """
signature "serve" @main (x: %x) -> (y: %y)
metadata "made by" "hand"
graph main(%x: f32[4,6], %k: f32[6]) -> %y, %r {
  %w = const f32[5,6] gaussian(0, 1)
  %f = FullyConnected(%x, %w, none) {act: RELU}
  %r = Reshape(%f, [2,10])
  %n = Neg(%r)
  %a = Abs(%n)
  %y = Add(%a, 1.5)
}
"""

CALLS = """
graph main(%x: f32[4]) -> %z {
  %c = Less(1.0, 2.0)
  %y = If(%c, %x) {then_graph: @plus, else_graph: @minus}
  %z = Abs(%y)
}
graph plus(%a: f32[4]) -> %b { %b = Exp(%a) }
graph minus(%d: f32[4]) -> %e { %t = Neg(%d) %e = Sin(%t) }
graph alone(%g: f32[1]) -> %h { %h = Cos(%g) }
"""


def kinds(model: Model, graph: int = 0) -> list[str]:
    return [type(op).__name__ for op in model.graphs[graph]]


def names(model: Model) -> tuple[list[str], list[str]]:
    return [v.name for v in model.main.inputs], [v.name for v in model.main.outputs]


STEPS: dict[str, Callable[[Model], Model]] = {
    "bare": reduction_steps.bare,
    "with_ops": lambda m: reduction_steps.with_ops(m, [1, 3]),
    "with_outputs": lambda m: reduction_steps.with_outputs(m, [1]),
    "without_op": lambda m: reduction_steps.without_op(m, 0, 2),
    "with_default": lambda m: reduction_steps.with_default(m, 0, 0, "act"),
    "with_size": lambda m: reduction_steps.with_size(m, 6, 1, numbers=False),
    "with_constant": lambda m: reduction_steps.with_constant(m, 0, "w", np.zeros((5, 6), np.float32)),
}


@pytest.mark.parametrize("step", STEPS)
def test_the_model_itself_stays_as_it_is(step: str) -> None:
    model = parse_model(NET)
    before = print_model(model)
    changed = STEPS[step](model)
    assert print_model(model) == before
    assert print_model(changed) != before


def test_bare_drops_what_a_run_of_the_main_graph_does_not_need() -> None:
    model = parse_model(NET + "graph unused(%q: f32[1]) -> %q { table extra {unused: [%q]} }")
    model.description = "a net"
    model.main.table = list(model.main.values())
    bare = reduction_steps.bare(model)
    assert (bare.signatures, bare.metadata, bare.description, len(bare.graphs)) == ([], [], None, 1)
    assert bare.main.table == []
    assert len(bare.main) == 5


def test_with_main_drops_graphs_that_the_new_main_graph_does_not_call() -> None:
    model = parse_model(CALLS)
    assert [g.name for g in reduction_steps.with_main(model, 2).graphs] == ["minus"]
    assert [g.name for g in reduction_steps.with_main(model, 3).graphs] == ["alone"]


@pytest.mark.parametrize(
    ("callee", "expected"),
    [(0, ["Less", "Exp", "Abs"]), (1, ["Less", "Neg", "Sin", "Abs"])],
)
def test_inlined_puts_a_called_graph_in_the_place_of_its_caller(callee: int, expected: list[str]) -> None:
    model = reduction_steps.inlined(parse_model(CALLS), 0, 1, callee)
    assert kinds(model) == expected
    assert model.main.ops[1].inputs[0] is model.main.inputs[0], "the condition is no argument"
    assert len(model.graphs) == 1
    assert not verify(model)


def test_without_op_takes_an_operand_of_the_same_type() -> None:
    model = reduction_steps.without_op(parse_model(NET), 0, 2)
    assert kinds(model) == ["FullyConnected", "Reshape", "Abs", "Add"]
    assert model.main.ops[2].inputs[0] is model.main.ops[1].output
    assert not verify(model)


def test_without_op_takes_an_input_or_zeros() -> None:
    same = reduction_steps.without_op(
        parse_model("graph main(%x: f32[2,3], %k: f32[6]) -> %y { %a = Reshape(%x, [6]) %y = Neg(%a) }"), 0, 0
    )
    assert same.main.ops[0].inputs[0] is same.main.inputs[1]
    zeros = reduction_steps.without_op(parse_model(NET), 0, 0)
    constant = zeros.main.ops[0].inputs[0]
    assert constant is not None
    assert constant.array().shape == (4, 5)
    assert not constant.array().any()
    assert not verify(zeros)


def test_without_op_wants_no_value_for_an_unused_result() -> None:
    text = "graph main(%x: f32[?,8], %k: f32[2]) -> %y { %a = Cast(%x) : i32[?,8] %y = Exp(%k) }"
    model = reduction_steps.without_op(parse_model(text), 0, 0)
    assert kinds(model) == ["Exp"]
    assert not verify(model)


def test_with_ops_finds_the_inputs_and_outputs_of_the_kept_operators() -> None:
    """%f and %n are used but not produced; %r was an output; %a has no use any more."""
    model = reduction_steps.with_ops(reduction_steps.bare(parse_model(NET)), [1, 3])
    assert kinds(model) == ["Reshape", "Abs"]
    assert names(model) == (["f", "n"], ["r", "a"])
    assert not verify(model)


def test_with_ops_keeps_used_inputs_only() -> None:
    assert names(reduction_steps.with_ops(parse_model(NET), [0])) == (["x"], ["f"])


def test_with_outputs_keeps_all_operators() -> None:
    model = reduction_steps.with_outputs(parse_model(NET), [1])
    assert names(model)[1] == ["r"]
    assert len(model.main) == 5


def test_with_default_resets_and_infers_again() -> None:
    model = reduction_steps.with_default(parse_model(NET), 0, 0, "act")
    assert "act" not in model.main.ops[0].attribute_values
    model = parse_model("graph main(%x: f32[2,3]) -> %y { %y = Concatenation(%x, %x) {axis: 1} }")
    assert reduction_steps.with_default(model, 0, 0, "axis").main.outputs[0].shape == (4, 3)


def test_constants_and_sizes() -> None:
    model = parse_model(NET)
    assert [v.name for v in reduction_steps.constants(model.main)] == ["w", "r/shape", "y/rhs"]
    # the shapes are [4,6], [6] and [5,6]; the constant [2,10] has the shape [2]
    assert reduction_steps.sizes(model) == [6, 5, 4, 2]
    ones = parse_model("graph main(%x: f32[1,3], %z: f32[?]) -> %y { %y = Mul(%x, [[[[2.0]]]]) }")
    assert reduction_steps.sizes(ones) == [3]


def test_with_size_cuts_data_and_numbers() -> None:
    text = """graph main(%x: f32[4,6]) -> %y {
      %a = Add(%x, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
      %y = Reshape(%a, [6,4])
    }"""
    with_numbers = reduction_steps.with_size(parse_model(text), 6, 2, numbers=True)
    assert with_numbers.main.inputs[0].shape == (4, 2)
    addend, shape = (with_numbers.main.ops[i].inputs[1] for i in (0, 1))
    assert addend is not None
    assert shape is not None
    assert addend.array().tolist() == [1.0, 2.0]
    assert shape.array().tolist() == [2, 4]
    assert with_numbers.main.outputs[0].shape == (2, 4)
    with pytest.raises(ShapeError):
        reduction_steps.with_size(parse_model(text), 6, 2, numbers=False)


def test_with_size_cuts_scales_if_there_is_one_for_each_index() -> None:
    model = parse_model(
        """
        graph main(%x: i8[3] quant(scale: [1.0, 2.0, 4.0], zero_point: [5, 6, 7]), %u: f32[4]) -> %y, %z {
          %y = Neg(%x)
          %z = Opaque(%u) {code: "X"} : f32[4]
        }
    """
    )
    cut = reduction_steps.with_size(model, 3, 2, numbers=False).main.inputs[0]
    assert cut.shape == (2,)
    assert cut.quantization is not None
    assert cut.quantization.scale.tolist() == [1.0, 2.0]
    assert cut.quantization.zero_point.tolist() == [5, 6]
    other = reduction_steps.with_size(model, 4, 2, numbers=False).main.inputs[0]
    assert other.quantization == model.main.inputs[0].quantization


def test_with_constant() -> None:
    model = reduction_steps.with_constant(parse_model(NET), 0, "w", np.ones((5, 6), np.float32))
    weights = model.main.ops[0].inputs[1]
    assert weights is not None
    assert weights.array().min() == 1


def test_integers_of_rank_two_are_cut_and_vectors_keep_their_length() -> None:
    model = parse_model("""
        graph main(%x: i32[3,3], %d: f32[3,2]) -> %y, %r {
          %m = const i32[3,3] constant(3)
          %y = Add(%x, %m)
          %r = Reshape(%d, [2,3]) {new_shape: [2,3]}
        }
    """)
    (add, reshape) = reduction_steps.with_size(model, 3, 1, numbers=True).main.ops
    matrix, shape = add.inputs[1], reshape.inputs[1]
    assert matrix is not None
    assert matrix.array().tolist() == [[3]]
    assert shape is not None
    assert shape.array().tolist() == [2, 1]
    assert reshape.attribute_values["new_shape"] == [2, 1]
    (_, reshape) = reduction_steps.with_size(model, 2, 1, numbers=True).main.ops
    assert reshape.attribute_values["new_shape"] == [1, 3]
