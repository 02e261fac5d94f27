# SPDX-License-Identifier: Apache-2.0
"""PADV2 before max pools, and fully connected layers with computed weights."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.passes.engine.registry import all_passes
from circlekit.passes.replace.replace_non_const_fc_with_batch_matmul import growth
from circlekit.rewrite.base import Context
from tests.passes.kit import check_pass, check_refusal

PAD = "substitute_padv2_to_pad"


def pooled(
    source: str = "Relu(%x)",
    paddings: str = "[[0,0],[1,1],[1,0],[0,0]]",
    value: str = "-5.0",
    pool: str = "MaxPool2D(%p) {padding: VALID, filter_width: 2, filter_height: 3, stride_w: 2}",
    outputs: str = "%y",
) -> str:
    return f"""graph main(%x: f32[1,5,4,2]) -> {outputs} {{
      %r = {source}
      %p = PadV2(%r, {paddings}, {value})
      %y = {pool}
    }}"""


@pytest.mark.parametrize(
    "source", ["Relu(%x)", "Relu6(%x)", "Logistic(%x)", "Square(%x)", "Add(%x, 1.0) {act: RELU}"]
)
def test_padv2_before_a_max_pool_becomes_pad(source: str) -> None:
    kind = source.split("(")[0]
    check_pass(pooled(source), PAD, [kind, "Pad", "MaxPool2D"])


def test_padv2_by_zeros_before_a_max_pool_becomes_pad() -> None:
    check_pass(pooled(value="0.0"), PAD, ["Relu", "Pad", "MaxPool2D"])


def test_padv2_before_transposes_and_a_max_pool_becomes_pad() -> None:
    text = """graph main(%x: f32[1,5,4,2]) -> %z {
      %r = Relu(%x)
      %s = Transpose(%r, [0,2,1,3])
      %t = Transpose(%s, [0,2,1,3])
      %p = PadV2(%t, [[0,0],[1,1],[1,0],[0,0]], -5.0)
      %y = Transpose(%p, [0,2,1,3])
      %z = MaxPool2D(%y) {padding: VALID, filter_width: 3, filter_height: 2}
    }"""
    check_pass(text, PAD, ["Relu", "Transpose", "Transpose", "Pad", "Transpose", "MaxPool2D"])
    narrow = text.replace("filter_width: 3", "filter_width: 1")
    check_pass(narrow, PAD, refused="windows of %z may be inside the padding of axis 2")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (pooled("Neg(%x)"), "%r: may be negative, so a padding of 0 may exceed it"),
        (pooled("Add(%x, 1.0)"), "%r: may be negative, so a padding of 0 may exceed it"),
        (pooled(value="5.0"), "expected 0 or less, got 5"),
        (pooled(value="0.5"), "expected 0 or less, got 0.5"),
        (pooled(paddings="[[1,0],[1,1],[1,0],[0,0]]"), "windows of %y may be inside the padding of axis 0"),
        (pooled(paddings="[[0,0],[1,1],[1,0],[0,1]]"), "windows of %y may be inside the padding of axis 3"),
        (pooled(paddings="[[0,0],[3,1],[1,0],[0,0]]"), "windows of %y may be inside the padding of axis 1"),
        (pooled(paddings="[[0,0],[1,1],[0,2],[0,0]]"), "windows of %y may be inside the padding of axis 2"),
        (
            pooled(pool="MaxPool2D(%p) {filter_width: 2, filter_height: 3}"),
            "%y: padding is SAME, expected VALID",
        ),
        (
            pooled(pool="AveragePool2D(%p) {padding: VALID, filter_width: 2, filter_height: 3}"),
            "%p: is read by AveragePool2D %y, expected MaxPool2D",
        ),
        (pooled(outputs="%y, %p"), "%p: is an output of the graph"),
    ],
)
def test_padv2_near_misses(text: str, sentence: str) -> None:
    check_pass(text, PAD, refused=sentence)


def test_padv2_of_no_elements_stays() -> None:
    """The operand has no rows, so a window of two rows holds only padding: one row before, one after."""
    call = "MaxPool2D(%p) {padding: VALID, filter_height: 2}"
    text = pooled(paddings="[[0,0],[1,1],[0,0],[0,0]]", pool=call).replace("f32[1,5,4,2]", "f32[1,0,4,2]")
    for shape in ("f32[1,0,4,2]", "f32[1,?,4,2]"):
        sentence = "%p: windows of %y may be inside the padding of axis 1"
        check_refusal(text.replace("f32[1,0,4,2]", shape), PAD, sentence)
    check_pass(text.replace("filter_height: 2", "filter_height: 3"), PAD, ["Relu", "Pad", "MaxPool2D"])


# -- products ------------------------------------------------------------------------------------

FC = "replace_non_const_fc_with_batch_matmul"
PLAIN = "FullyConnected(%x, %w)"


def layer(
    call: str = PLAIN, x: str = "[2,3]", w: str = "[4,3]", before: str = "", outputs: str = "%y"
) -> str:
    return f"graph main(%x: f32{x}, %w: f32{w}, %b: f32[4]) -> {outputs} {{\n{before}\n%y = {call}\n}}"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (layer(), ["BatchMatMul"]),
        (layer("FullyConnected(%x, %w, none)"), ["BatchMatMul"]),
        (layer("FullyConnected(%x, %w, %b)"), ["BatchMatMul", "Add"]),
        (layer("FullyConnected(%x, %w, [1.0, 2, 3, 4]) {act: RELU}"), ["BatchMatMul", "Add"]),
        (layer("FullyConnected(%x, %w, [[[1.0, 2, 3, 4]]])"), ["BatchMatMul", "Add"]),
        (layer("FullyConnected(%x, %w, [[1.0], [2], [3], [4]])", "[4,3]"), ["BatchMatMul", "Add"]),
        (layer("FullyConnected(%x, %w) {act: RELU6}"), ["BatchMatMul", "Relu6"]),
        (layer(x="[2,5,3]"), ["BatchMatMul", "Reshape"]),
        (layer(x="[2,5,6]"), ["Reshape", "BatchMatMul"]),
        (layer(x="[?,5,3]"), ["BatchMatMul", "Reshape"]),
        (layer(x="[?,5,6]", w="[?,3]"), ["Reshape", "BatchMatMul"]),
        (layer("FullyConnected(%x, %w, %b) {keep_num_dims: true}", "[2,5,3]"), ["BatchMatMul", "Add"]),
        (layer("FullyConnected(%x, %w) {keep_num_dims: true}", "[3]"), ["Reshape", "BatchMatMul", "Reshape"]),
        (layer(x="[4,6]"), ["Reshape", "BatchMatMul"]),
        (layer("FullyConnected(%t, %t)", "[3,3]", before="%t = Transpose(%x, [1, 0])"), ["BatchMatMul"]),
        (
            layer("FullyConnected(%t, %w)", "[6,4]", before="%t = Transpose(%x, [1, 0])"),
            ["Transpose", "Reshape", "BatchMatMul"],
        ),
        (layer("FullyConnected(%x, %t)", w="[3,4]", before="%t = Transpose(%w, [1, 0])"), ["BatchMatMul"]),
        (
            layer("FullyConnected(%x, %t)", w="[4,3]", before="%t = Transpose(%w, [0, 1])"),
            ["Transpose", "BatchMatMul"],
        ),
        (layer("FullyConnected(%t, %w)", "[3,2]", before="%t = Transpose(%x, [-1, 0])"), ["BatchMatMul"]),
        (
            layer("FullyConnected(%t, %w)", "[5,3,2]", before="%t = Transpose(%x, [0, 2, 1])"),
            ["BatchMatMul", "Reshape"],
        ),
        (
            layer("FullyConnected(%t, %w)", "[5,2,3]", before="%t = Transpose(%x, [1, 0, 2])"),
            ["Transpose", "BatchMatMul", "Reshape"],
        ),
        (
            layer("FullyConnected(%x, %t)", w="[3,4]", before="%t = Transpose(%w, [1, 0])", outputs="%y, %t"),
            ["Transpose", "BatchMatMul"],
        ),
    ],
)
def test_a_layer_with_computed_weights_becomes_a_batch_matmul(text: str, kinds: list[str]) -> None:
    check_pass(text, FC, kinds)
    graph = parse_model(text).main
    assert growth(graph, next(op for op in graph if isinstance(op, FullyConnected))) == len(kinds) - len(
        graph
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (layer("FullyConnected(%x, %w) {act: SIGN_BIT}"), "act is SIGN_BIT, for which there is no operator"),
        (
            layer("FullyConnected(%x, %w) {weights_format: SHUFFLED4x16INT8}"),
            "expected weights of format DEFAULT, got SHUFFLED4x16INT8",
        ),
        (layer("FullyConnected(%x, %w)", "[2,3,4]", w="[5,?]"), "%w: has an unknown number of columns"),
        (
            layer("FullyConnected(%x, %w, %c)", "[4,3]", before="%c = Reshape(%b, [4, 1])"),
            "%c: expected a bias of rank 1 or a plain constant, got f32[4,1]",
        ),
    ],
)
def test_computed_weights_near_misses(text: str, sentence: str) -> None:
    check_refusal(text, FC, sentence)


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (layer(), 1),
        (layer("FullyConnected(%x, %w, %b)"), 0),
        (layer("FullyConnected(%x, %w) {act: RELU6}"), 0),
        (layer(x="[2,5,3]"), 0),
        (layer("FullyConnected(%x, %w) {keep_num_dims: true}", "[2,5,3]"), 1),
        (layer("FullyConnected(%x, %w)", "[3]"), 0),
        (layer("FullyConnected(%x, %t, %b)", w="[3,4]", before="%t = Transpose(%w, [1, 0])"), 1),
    ],
)
def test_rewrites_that_add_operators_are_omitted_in_a_pipeline(text: str, changes: int) -> None:
    """Pipelines run passes with ``exact=True``."""
    assert all_passes()[FC]().run(parse_model(text), Context(exact=True)) == changes


def test_a_pipeline_says_how_many_operators_a_rewrite_would_add() -> None:
    """BATCH_MATMUL, ADD and Reshape would replace the layer and its Transpose."""
    text = layer("FullyConnected(%x, %t, %b)", "[2,5,3]", "[3,4]", "%t = Transpose(%w, [1, 0])")
    context = Context(exact=True, refusals=[])
    assert all_passes()[FC]().run(parse_model(text), context) == 0
    assert [r.sentence for r in context.refusals or ()] == ["%y: would add 1 operator"]


def test_constant_weights_stay() -> None:
    check_pass(layer("FullyConnected(%x, [[1.0, 2, 3]])"), FC, ["FullyConnected"])


FUSE_TRANSPOSE = "fuse_transpose_with_fullyconnected"
TURNED = "%t = Transpose(%w, [1, 0])"


def test_transpose_of_weights_is_removed() -> None:
    check_pass(layer("FullyConnected(%x, %t)", w="[3,4]", before=TURNED), FUSE_TRANSPOSE, ["BatchMatMul"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (layer(), "expected an operand from a Transpose that swaps the last two axes"),
        (
            layer("FullyConnected(%x, %t, %b)", w="[3,4]", before=TURNED),
            "would need an ADD or a Reshape, so nothing is gained",
        ),
        (
            layer("FullyConnected(%x, %t)", "[2,5,3]", "[3,4]", TURNED),
            "would need an ADD or a Reshape, so nothing is gained",
        ),
        (layer("FullyConnected(%x, %t)", "[2,6]", "[3,4]", TURNED), "%x: would need a Reshape"),
        (
            layer("FullyConnected(%x, %t) {keep_num_dims: true}", "[3]", "[3,4]", TURNED),
            "%x: would need a Reshape",
        ),
        (
            layer("FullyConnected(%t, %w)", "[6,2]", before="%t = Transpose(%x, [1, 0])"),
            "%t: would need a Reshape",
        ),
        (
            layer("FullyConnected(%x, %t) {act: RELU}", w="[3,4]", before=TURNED),
            "act is RELU, which would need another operator",
        ),
        (
            layer("FullyConnected(%x, %t)", before="%t = Transpose(%w, [0, 1])"),
            "expected an operand from a Transpose that swaps the last two axes",
        ),
    ],
)
def test_transpose_stays_if_nothing_is_gained(text: str, sentence: str) -> None:
    check_pass(text, FUSE_TRANSPOSE, refused=sentence)
