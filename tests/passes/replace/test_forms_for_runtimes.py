# SPDX-License-Identifier: Apache-2.0
"""Passes that change constants, batches and outputs into the form that a runtime or user needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import circlekit
from circlekit.cli.circle2circle import main
from circlekit.errors import RewriteError, ShapeError
from circlekit.ir.enums import WeightsFormat
from circlekit.ir.text import parse_model, print_model
from circlekit.ops.constant_operands import constant_elements
from circlekit.passes.replace.sparsify_tensor import _vector
from tests.passes.kit import check_pass

# -- expand_broadcast_const --------------------------------------------------------------------

CONST = "graph main(%x: f32{}) -> %y {{ %c = const f32{} uniform(1, 2) %y = {} }}"


@pytest.mark.parametrize("call", ["Add(%x, %c)", "Mul(%c, %x) {act: RELU6}", "Div(%x, %c)", "Sub(%c, %x)"])
def test_broadcast_constant_is_expanded(call: str) -> None:
    model = check_pass(CONST.format("[2,3,4]", "[2,1,4]", call), "expand_broadcast_const")
    (op,) = model.main.ops
    assert (2, 3, 4) in [v.shape for v in op.inputs if v is not None and v.is_const]


@pytest.mark.parametrize(
    ("x", "c", "sentence"),
    [
        ("[2,3,4]", "[1,1,4]", "expected a constant broadcast along 1 dimension, got 2"),
        ("[2,3,4]", "[3,4]", "expected a constant of rank 3, got 2"),
        ("[2,3,4]", "[2,3,4]", "expected a constant broadcast along 1 dimension, got 0"),
        ("[?,3,4]", "[1,3,4]", "%y has shape [?,3,4], expected a static shape"),
        ("[2,1,4]", "[1,3,4]", "is broadcast too"),
    ],
)
def test_expand_broadcast_near_misses(x: str, c: str, sentence: str) -> None:
    check_pass(CONST.format(x, c, "Add(%x, %c)"), "expand_broadcast_const", refused=sentence)


# -- shuffle_weight_to_16x1float32 -------------------------------------------------------------

DENSE = """
graph main(%x: f32[2,3]) -> %y {{
  %w = const f32[{},3] uniform(-1, 1)
  %y = FullyConnected(%x, %w, none) {{act: RELU}}
}}
"""


def test_weights_are_shuffled_by_blocks_of_16_rows() -> None:
    before = parse_model(DENSE.format(32)).main.ops[0].inputs[1]
    model = check_pass(DENSE.format(32), "shuffle_weight_to_16x1float32", ["FullyConnected"])
    (op,) = model.main.ops
    assert op.attribute_items()["weights_format"] is WeightsFormat.SHUFFLED16x1FLOAT32
    assert before is not None
    assert op.inputs[1] is not None
    # 32 rows of 3 columns: a block of 16 rows has 48 elements, column by column
    flat, rows = op.inputs[1].array().reshape(-1), before.array()
    assert np.array_equal(flat[:16], rows[:16, 0])
    assert np.array_equal(flat[16:32], rows[:16, 1])
    assert np.array_equal(flat[48:64], rows[16:, 0])


def test_rows_that_are_not_a_multiple_of_16_stay() -> None:
    check_pass(
        DENSE.format(24),
        "shuffle_weight_to_16x1float32",
        refused="expected weights with a multiple of 16 rows, got 24",
    )


# -- dynamic_batch_to_single_batch -------------------------------------------------------------


@pytest.mark.parametrize("shape", ["[?]", "[?,3]", "[?,3,4]", "[?,3,4,5]", "[?,2,3,4,5]"])
def test_unknown_batch_of_any_rank(shape: str) -> None:
    model = parse_model(f"graph main(%x: f32{shape}, %k: f32[1]) -> %y {{ %a = Add(%x, %k) %y = Relu(%a) }}")
    report = circlekit.optimize(model, ["dynamic_batch_to_single_batch"], verify=True)
    assert report.changes == {"dynamic_batch_to_single_batch": 1}
    assert [v.shape for v in (model.main.inputs[0], model.main.outputs[0])] == [
        tuple(int(d.replace("?", "1")) for d in shape[1:-1].split(","))
    ] * 2
    assert not circlekit.optimize(model, ["dynamic_batch_to_single_batch"]).changes


def test_unknown_batch_of_every_graph_with_a_signature() -> None:
    model = parse_model("""
    signature "a" @main (x: %x) -> (y: %y)
    signature "b" @other (x: %u) -> (y: %v)
    graph main(%x: f32[?,2]) -> %y { %y = Neg(%x) }
    graph other(%u: f32[?,3]) -> %v { %v = Abs(%u) }
    """)
    circlekit.optimize(model, ["dynamic_batch_to_single_batch"], verify=True)
    assert [g.outputs[0].shape for g in model.graphs] == [(1, 2), (1, 3)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "graph main(%x: f32[?,4]) -> %y { %a = Relu(%x) %y = Slice(%a, [0, 0], [3, 4]) }",
            "a slice of size 3 at 0 exceeds a dimension of 1",
        ),
        (
            "graph main(%u: f32[?], %x: i8[?,4] quant(scale: [0.5, 0.25])) -> %y { %y = Dequantize(%x) }",
            r"%x cannot have the shape \[1,4\]: its quantization has 2 scales, axis 0 has 1 element",
        ),
    ],
)
def test_a_model_without_a_form_for_batch_1_stays_as_it_was(text: str, sentence: str) -> None:
    model = parse_model(text)
    before = print_model(model)
    with pytest.raises(ShapeError, match=sentence):
        circlekit.optimize(model, ["dynamic_batch_to_single_batch"])
    assert print_model(model) == before


# -- change_outputs ----------------------------------------------------------------------------

CHAIN = """
signature "s" @main (a: %x) -> (b: %y)
graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = Tanh(%a)
  %y = Relu(%b)
}
"""


def test_outputs_are_replaced() -> None:
    model = parse_model(CHAIN)
    circlekit.optimize(model, ["change_outputs"], settings={"change_outputs": ["b"]}, verify=True)
    assert [op.code for op in model.main] == ["NEG", "TANH"]
    assert [v.name for v in model.main.outputs] == ["b"]
    assert model.signatures[0].outputs["b"] is model.main.outputs[0]


def test_each_of_two_equal_outputs_is_replaced_in_the_signature() -> None:
    model = parse_model(CHAIN.replace("(b: %y)", "(b: %y, c: %y)").replace("-> %y {", "-> %y, %y {"))
    circlekit.optimize(model, ["change_outputs"], settings={"change_outputs": ["a", "b"]})
    assert {key: v.name for key, v in model.signatures[0].outputs.items()} == {"b": "a", "c": "b"}


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["a", "b"], "Change outputs failed: number of outputs should be 1, got 2"),
        (["c"], "Change outputs failed: node not found: c"),
    ],
)
def test_invalid_outputs_are_refused(names: list[str], sentence: str) -> None:
    with pytest.raises(RewriteError, match=sentence):
        circlekit.optimize(parse_model(CHAIN), ["change_outputs"], settings={"change_outputs": names})


def test_an_input_may_be_the_output() -> None:
    model = parse_model(CHAIN)
    circlekit.optimize(model, ["change_outputs"], settings={"change_outputs": ["x"]}, verify=True)
    assert not model.main.ops
    assert model.main.outputs == model.main.inputs


def test_outputs_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.ck", tmp_path / "out.circle"
    source.write_text(CHAIN)
    assert main([str(source), str(out), "--change_outputs", "a"]) == 0
    assert [v.name for v in circlekit.load(out).main.outputs] == ["a"]
    assert main([str(source), str(out), "--change-outputs", "a,"]) == 255
    assert "expected names separated by commas" in capsys.readouterr().err


# -- sparsify_tensor ---------------------------------------------------------------------------

SPARSE = """
graph main(%x: f32[2,8]) -> %y {
  %w = const f32[4,8] zeros
  %y = FullyConnected(%x, %w, none)
}
"""


def sparse_model() -> circlekit.Model:
    model = parse_model(SPARSE)
    weights = model.main.ops[0].inputs[1]
    assert weights is not None
    array = np.zeros((4, 8), np.float32)
    array[1, 2], array[3, 7], array[0, 0] = 1.5, -2.5, -0.0
    weights.data = array
    return model


@pytest.mark.parametrize(
    "settings",
    [
        {"sparsify_block_size": [2, 2]},
        {"sparsify_block_size": [4, 1], "sparsify_format": ["d", "s"]},
        {"sparsify_block_size": [1, 4], "sparsify_format": ["s", "s"]},
        {"sparsify_block_size": [4], "sparsify_block_map": [1], "sparsify_traversal_order": [0, 1, 2]},
        {"sparsify_block_size": [], "sparsify_block_map": [], "sparsify_traversal_order": [0, 1]},
    ],
)
def test_a_constant_becomes_sparse(settings: dict[str, object]) -> None:
    model = sparse_model()
    dense = model.main.ops[0].inputs[1]
    assert dense is not None
    wanted = dense.array()
    circlekit.optimize(model, ["sparsify_tensor"], settings={"sparsify_tensor": "w", **settings}, verify=True)
    value = model.main.ops[0].inputs[1]
    assert value is not None
    found = constant_elements(value)
    assert np.array_equal(found.view(np.uint32), wanted.view(np.uint32))
    assert value.array().nbytes < wanted.nbytes
    assert not circlekit.optimize(model, ["sparsify_tensor"], settings={"sparsify_tensor": "w"}).changes


def test_a_constant_of_zeros_stays_dense() -> None:
    """Its sparse form has no data, and LiteRT and our reader take a tensor without data for computed."""
    model = parse_model(SPARSE)
    settings = {"sparsify_tensor": "w", "sparsify_block_size": [2, 2]}
    with pytest.raises(RewriteError, match="%w: expected an element that is not 0, got only zeros"):
        circlekit.optimize(model, ["sparsify_tensor"], settings=settings)
    weights = model.main.ops[0].inputs[1]
    assert weights is not None
    assert weights.is_plain


def test_the_first_constant_of_a_name_becomes_sparse() -> None:
    text = SPARSE + "graph other(%x: f32[4]) -> %y { %w = const f32[4] [0, 0, 1, 0] %y = Add(%x, %w) }"
    model = parse_model(text.replace("zeros", "ones"))
    settings = {"sparsify_tensor": "w", "sparsify_block_size": [2, 2]}
    circlekit.optimize(model, ["sparsify_tensor"], settings=settings)
    values = [graph.ops[0].inputs[1] for graph in model.graphs]
    assert [value is not None and value.is_plain for value in values] == [False, True]


def test_an_axis_has_one_size_of_blocks() -> None:
    settings = {"sparsify_tensor": "w", "sparsify_block_size": [2, 2], "sparsify_block_map": [1, 1]}
    with pytest.raises(RewriteError, match=r"expected different axes in the block map, got \[1, 1\]"):
        circlekit.optimize(sparse_model(), ["sparsify_tensor"], settings=settings)


def test_only_a_named_target_restricts_passes_that_make_forms_for_other_runtimes() -> None:
    settings = {"sparsify_tensor": "w", "sparsify_block_size": [2, 2]}
    for target, changes in ((None, 1), ("none", 1), ("luci", 0)):
        report = circlekit.optimize(sparse_model(), ["sparsify_tensor"], settings=settings, target=target)
        assert report.changes.get("sparsify_tensor", 0) == changes, target


def test_litert_reads_sparse_weights(tmp_path: Path) -> None:
    model, out = sparse_model(), tmp_path / "out.tflite"
    circlekit.save(model, tmp_path / "in.tflite")
    flags = ["--sparsify_tensor", "w", "--sparsify_block_size", "4", "--sparsify_block_map", "1", "--verify"]
    flags += ["--sparsify_traversal_order", "0,1,2"]
    assert main([str(tmp_path / "in.tflite"), str(out), *flags]) == 0
    interpreter = Interpreter(str(out), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_allclose(found, circlekit.run(model, [x])[0], 1e-6)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "expected the setting sparsify_block_size"),
        ({"sparsify_block_size": [3, 1]}, r"blocks of \[3, 1\] do not fit axes \[0, 1\] of \[4, 8\]"),
        ({"sparsify_block_size": [1]}, "2 formats and 2 block sizes"),
        ({"sparsify_block_size": [2, 2], "sparsify_traversal_order": [0, 1, 2]}, "traversal order of 4"),
        ({"sparsify_block_size": [2, 2], "sparsify_format": ["d"]}, "2 formats"),
        ({"sparsify_block_size": [2, 2], "sparsify_block_map": [0, 2]}, "do not fit"),
        ({"sparsify_block_size": [2, 0]}, "do not fit"),
        ({"sparsify_block_size": [2, 2], "sparsify_tensor": "v"}, "no operator reads a constant %v"),
    ],
)
def test_invalid_blocks_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(RewriteError, match=sentence):
        circlekit.optimize(sparse_model(), ["sparsify_tensor"], settings={"sparsify_tensor": "w", **settings})


@pytest.mark.parametrize(
    ("largest", "kind"), [(0, "Uint16Vector"), (65535, "Uint16Vector"), (65536, "Int32Vector")]
)
def test_numbers_of_levels_have_16_or_32_bits(largest: int, kind: str) -> None:
    found = _vector(np.array([1, largest]))
    assert (found[""], found["values"].tolist()) == (kind, [1, largest])


def test_constants_of_other_dtypes_stay_dense() -> None:
    model = parse_model("graph main(%x: i64[4]) -> %y { %w = const i64[4] [1, 2, 3, 4] %y = Add(%x, %w) }")
    settings = {"sparsify_tensor": "w", "sparsify_block_size": [2]}
    with pytest.raises(RewriteError, match="expected f32, i32 or i8, got i64"):
        circlekit.optimize(model, ["sparsify_tensor"], settings=settings)
