# SPDX-License-Identifier: Apache-2.0
"""How a rewrite replaces a match, and the conditions under which it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.rewrite import Context, Rewrite
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import condition


def rewrite(before: str, after: str, **members: Any) -> type[Rewrite]:
    return type("Made", (Rewrite,), {"before": before, "after": after, "__module__": __name__, **members})


def run(kind: type[Rewrite], text: str) -> tuple[Model, int, list[str]]:
    """Return the model, the number of changes, and the messages of refusals."""
    model, context = parse_model(text), Context(refusals=[])
    changes = kind().run(model, context)
    return model, changes, [refusal.sentence for refusal in context.refusals or ()]


def graph(body: str, inputs: str = "%x: f32[2,3]", outputs: str = "%z") -> str:
    return f"graph g({inputs}) -> {outputs} {{ {body} }}"


def test_like_copies_the_attributes_and_the_kind() -> None:
    kind = rewrite(
        "y = Relu(x)\nz = MaxPool2D|AveragePool2D(y)",
        "y2 = MaxPool2D|AveragePool2D(x) {like z}\nz = Relu(y2)",
    )
    attributes = "{filter_height: 2, filter_width: 3, stride_w: 3, padding: VALID}"
    body = f"%y = Relu(%x) %z = AveragePool2D(%y) {attributes}"
    model, changes, _ = run(kind, graph(body, "%x: f32[1,4,6,2]"))
    assert changes == 1
    pool, relu = model.main.ops
    assert (pool.code, relu.code) == ("AVERAGE_POOL_2D", "RELU")
    items = pool.attribute_items()
    assert (items["filter_height"], items["filter_width"], items["stride_w"]) == (2, 3, 3)
    assert [value.name for value in model.main.outputs] == ["z"]
    assert pool.output.name == "z/AveragePool2D"


def test_like_copies_only_attributes_that_the_new_operator_has() -> None:
    kind = rewrite("z = Add(x, c: const) {act: any}", "z = Sub(x, c) {like z}")
    model, changes, _ = run(kind, graph("%z = Add(%x, 1.0) {act: RELU}"))
    assert (changes, model.main.ops[0].attribute_items()["act"].name) == (1, "RELU")


def test_like_declares_the_type_that_cannot_be_inferred() -> None:
    """``like`` gives the dtype of the result of QUANTIZE, which no attribute says; the shape is inferred."""
    kind = rewrite("y = Neg(x)\nz = Quantize(y)", "q = Quantize(x) {like z}\nz = Neg(q)", quantized=True)
    grid = "quant(scale: 0.5, zero_point: 3)"
    model, changes, _ = run(kind, graph(f"%y = Neg(%x) %z = Quantize(%y) : i8[2,3] {grid}"))
    assert changes == 1
    quantize = model.main.ops[0]
    assert type(quantize).__name__ == "Quantize"
    assert quantize.output.quantization == model.main.outputs[0].quantization
    assert str(quantize.output.type).startswith("i8[2,3]")


def test_like_infers_the_shape_of_the_new_operands() -> None:
    kind = rewrite(
        "y = Reshape(x, s)  {new_shape: any}\nz = Neg(y)", "n = Neg(x) {like z}\nz = Reshape(n, s)"
    )
    model, changes, _ = run(kind, graph("%y = Reshape(%x, [6]) %z = Neg(%y)"))
    assert changes == 1
    assert [op.output.shape for op in model.main] == [(2, 3), (6,)]


def test_one_picture_of_operators_with_different_operands() -> None:
    kind = rewrite(
        "y = Squeeze|Reshape(x, p?)\nz = Neg(y)", "m = Neg(x)\nz = Squeeze|Reshape(m, p?)  {like y}"
    )
    squeezed = graph("%y = Squeeze(%x) {squeeze_dims: [0]} %z = Neg(%y)", "%x: f32[1,2,1]")
    reshaped = graph("%y = Reshape(%x, [6]) {new_shape: [6]} %z = Neg(%y)")
    for text, name, shape in ((squeezed, "Squeeze", (2, 1)), (reshaped, "Reshape", (6,))):
        model, changes, _ = run(kind, text)
        assert changes == 1
        assert [type(op).__name__ for op in model.main] == ["Neg", name]
        assert model.main.outputs[0].shape == shape


def test_constants_are_named_after_the_result_and_the_operand() -> None:
    def constants(self: Rewrite, c: np.ndarray[Any, Any]) -> dict[str, Any]:
        return {"d": c * 2}

    kind = rewrite("z = Add(x, c: const)", "z = Mul(x, d)", constants=constants)
    model, _, _ = run(kind, graph("%z = Add(%x, [1.0, 2.0, 3.0])"))
    value = model.main.ops[0].inputs[1]
    assert value is not None
    assert (value.name, value.array().tolist()) == ("z/rhs_1", [2, 4, 6])


@pytest.mark.parametrize("name", ["x", None])
def test_constants_may_give_a_value_or_no_operand(name: str | None) -> None:
    def constants(self: Rewrite, match: Match) -> dict[str, Any]:
        return {"b": None if name is None else match.value(name)}

    text = "y = FullyConnected(x, w: const)\nz = Neg(y)"
    kind = rewrite(text, "z = FullyConnected(x, w, b) {like y}", constants=constants)
    body = "%w = const f32[3,3] gaussian(0, 1) %y = FullyConnected(%x, %w, none) %z = Neg(%y)"
    model, changes, _ = run(kind, graph(body, "%x: f32[3]"))
    assert changes == 1
    (layer,) = model.main
    assert [v and v.name for v in layer.inputs[2:]] in ([name], [] if name is None else [name])


@pytest.mark.parametrize(
    ("factor", "sentence"),
    [
        (1e38, "%z: d would not be finite"),
        (1e-38, "%z: d would be too small for its dtype"),
    ],
)
def test_constants_that_overflow_or_underflow_are_refused(factor: float, sentence: str) -> None:
    def constants(self: Rewrite, c: np.ndarray[Any, Any]) -> dict[str, Any]:
        return {"d": c * np.float32(factor)}

    kind = rewrite("z = Add(x, c: const)", "z = Mul(x, d)", constants=constants)
    model, changes, sentences = run(kind, graph(f"%z = Add(%x, [{factor}, 0.0, {factor}])"))
    assert (changes, sentences, model.main.ops[0].code) == (0, [sentence], "ADD")


def test_underflow_next_to_a_normal_number_is_accepted() -> None:
    def constants(self: Rewrite, c: np.ndarray[Any, Any]) -> dict[str, Any]:
        return {"d": c * np.float32(1e-38)}

    kind = rewrite("z = Add(x, c: const)", "z = Mul(x, d)", constants=constants)
    assert run(kind, graph("%z = Add(%x, [1e-38, 1.0, 5.0])"))[1] == 1


@pytest.mark.parametrize(
    ("body", "outputs", "sentence"),
    [
        ("%y = Abs(%x) %z = Relu(%y) %o = Neg(%y)", "%z, %o", "%y: is also read by Neg %o"),
        ("%y = Abs(%x) %z = Relu(%y)", "%z, %y", "%y: is an output of the graph, the picture would lose it"),
    ],
)
def test_interior_values_with_other_users(body: str, outputs: str, sentence: str) -> None:
    kind = rewrite("y = Abs(x)\nz = Relu(y)", "z = Abs(x)")
    _, changes, sentences = run(kind, graph(body, outputs=outputs))
    assert (changes, sentences) == (0, [sentence])
    shared = rewrite("y = Abs(x)\nz = Relu(y)", "z = Abs(x)", shared=("y",))
    model, changes, _ = run(shared, graph(body, outputs=outputs))
    assert changes == 1
    assert [op.code for op in model.main].count("ABS") == 2


def test_spread_needs_all_users_to_be_rewritten() -> None:
    kind = rewrite("y = Abs(x)\nz = Relu(y)", "z = Abs(x)", spread=("y",))
    body = "%y = Abs(%x) %z = Relu(%y) %o = {}(%y)"
    model, changes, _ = run(kind, graph(body.format("Relu"), outputs="%z, %o"))
    assert (changes, [op.code for op in model.main]) == (2, ["ABS", "ABS"])
    _, changes, sentences = run(kind, graph(body.format("Neg"), outputs="%z, %o"))
    assert (changes, sentences) == (0, ["%y: is also read by Neg %o"])


def test_value_of_another_type_cannot_replace_the_result() -> None:
    kind = rewrite("z = Add(x, u: f32[_, _])", "x")
    _, changes, sentences = run(kind, graph("%z = Add(%x, %u)", "%x: f32[3], %u: f32[2,3]"))
    assert (changes, sentences) == (0, ["%z: is f32[2,3], %x is f32[3]"])
    _, changes, sentences = run(
        rewrite("z = Relu(x)", "x"), graph("%z = Relu(%x) %o = Neg(%z)", "%x: f32[*]", "%o")
    )
    assert (changes, sentences) == (0, ["%z: has an unknown rank, which may differ from that of %x"])


def test_an_output_is_not_replaced_by_an_input() -> None:
    _, changes, sentences = run(rewrite("z = Relu(x)", "x"), graph("%z = Relu(%x)"))
    assert changes == 0
    assert sentences == ["%z: is an output of the graph, and %x is an input or an output, too"]
    _, changes, sentences = run(
        rewrite("z = Maximum(x, c: const)", "c"), graph("%z = Maximum(%x, [1.0])", "%x: f32[1]")
    )
    assert (changes, sentences) == (0, ["%z: is an output of the graph, and %z/rhs is a constant"])


def test_a_result_of_another_type_is_refused() -> None:
    kind = rewrite("z = Abs(x)", "z = Sum(x, [0])")
    _, changes, sentences = run(kind, graph("%z = Abs(%x)"))
    assert (changes, sentences) == (0, ["%z: has shape [2,3], the rewrite gives [3]"])
    kind = rewrite("z = Abs(x)", "z = Cast(x) {in_data_type: f32, out_data_type: i32}")
    _, changes, sentences = run(kind, graph("%z = Abs(%x)"))
    assert (changes, sentences) == (0, ["%z: is f32, the rewrite gives i32"])


def test_invalid_new_operators_leave_the_model_unchanged() -> None:
    kind = rewrite("z = Abs(x)", "z = Add(x, [1, 2, 3, 4, 5])")
    model, changes, (sentence,) = run(kind, graph("%z = Abs(%x)"))
    assert (changes, len(model.main), model.main.inputs[0].use_count) == (0, 1, 1)
    assert sentence.startswith("%z: ")


def test_quantized_values_are_refused_unless_the_rewrite_handles_them() -> None:
    kind = "i8[2] quant(scale: 0.5, zero_point: 1)"
    text = f"graph g(%x: {kind}) -> %z {{ %z = Relu(%x) : {kind} }}"
    _, changes, sentences = run(rewrite("z = Relu(x)", "z = Relu6(x)"), text)
    assert (changes, sentences) == (0, ["%z: is quantized, this pass does not keep quantization parameters"])
    assert run(rewrite("z = Relu(x)", "z = Relu6(x)", quantized=True), text)[1] == 1


def test_a_condition_refuses_with_its_sentence() -> None:
    @condition
    def small(self: Rewrite, x: Any, A: int) -> str | None:  # noqa: N803  # sizes are capital letters
        return None if A < 3 else f"%{x.name}: has {A} columns"

    kind = rewrite("z = Relu(x: [_, A])", "z = Relu6(x)", small=small)
    assert run(kind, graph("%z = Relu(%x)"))[1:] == (0, ["%x: has 3 columns"])
    assert run(kind, graph("%z = Relu(%x)", "%x: f32[3,2]"))[1] == 1


def test_approximate_rewrite_is_in_no_pipeline() -> None:
    """Pipelines run with ``exact``."""
    kind = rewrite("z = Relu(x)", "z = Relu6(x)", approximate=True)
    assert kind().run(parse_model(graph("%z = Relu(%x)")), Context(exact=True)) == 0
    assert kind().run(parse_model(graph("%z = Relu(%x)")), Context()) == 1
