# SPDX-License-Identifier: Apache-2.0
"""Transposes and Reshapes around BATCH_MATMUL, and constant matrices."""

from __future__ import annotations

import pytest

from circlekit.equivalence.litert import run_model
from circlekit.ir.text import parse_model
from circlekit.ops.matmul.dense import BatchMatMul
from circlekit.ops.movement.shape import Reshape
from circlekit.passes.pipelines import pipeline_passes
from tests.passes.kit import assert_close, check_pass, make_input

FLIP, BATCH = "fuse_transpose_with_batch_matmul", "remove_reshape_around_batch_matmul"


def product(x: str, y: str, *lines: str, outputs: str = "%z") -> str:
    """Return a model of ``lines`` with inputs %x and %y of shapes ``x`` and ``y``."""
    body = "\n".join(lines)
    return f"graph main(%x: f32{x}, %y: f32{y}) -> {outputs} {{\n{body}\n}}"


# -- Transposes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "lines", "flags"),
    [
        ("[2,4,3]", "[2,4,5]", ["%t = Transpose(%x, [0, 2, 1])", "%z = BatchMatMul(%t, %y)"], (1, 0)),
        ("[2,3,4]", "[2,5,4]", ["%t = Transpose(%y, [0, 2, 1])", "%z = BatchMatMul(%x, %t)"], (0, 1)),
        ("[4,3]", "[2,4,5]", ["%t = Transpose(%x, [-1, 0])", "%z = BatchMatMul(%t, %y)"], (1, 0)),
        (
            "[2,3,4]", "[2,4,5]",
            ["%t = Transpose(%x, [0, 2, 1])", "%z = BatchMatMul(%t, %y) {adj_x: true}"], (0, 0),
        ),
        (
            "[1,2,3,4]", "[1,2,4,5]",
            ["%t = Transpose(%y, [0, 1, 3, 2])", "%z = BatchMatMul(%x, %t) {adj_y: true}"], (0, 0),
        ),
        (
            "[2,4,3]", "[2,5,4]",
            ["%t = Transpose(%x, [0, 2, 1])", "%u = Transpose(%y, [0, 2, 1])", "%z = BatchMatMul(%t, %u)"],
            (1, 1),
        ),
    ],
)  # fmt: skip
def test_transpose_becomes_the_flag(x: str, y: str, lines: list[str], flags: tuple[int, int]) -> None:
    (op,) = check_pass(product(x, y, *lines), FLIP, ["BatchMatMul"]).main.ops
    assert isinstance(op, BatchMatMul)
    assert (op.adj_x, op.adj_y) == flags


def test_square_of_a_transposed_matrix() -> None:
    lines = ["%t = Transpose(%x, [0, 2, 1])", "%z = BatchMatMul(%t, %t)", "%w = Neg(%y)"]
    check_pass(product("[2,3,3]", "[1]", *lines, outputs="%z, %w"), FLIP, ["BatchMatMul", "Neg"])


@pytest.mark.parametrize(
    ("lines", "outputs", "sentence"),
    [
        (["%t = Transpose(%x, [1, 0, 2])", "%z = BatchMatMul(%t, %y)"], "%z", "the last two axes alone"),
        (["%t = Transpose(%x, [2, 0, 1])", "%z = BatchMatMul(%t, %y)"], "%z", "the last two axes alone"),
        (["%t = Transpose(%x, [0, 2, 1])", "%z = BatchMatMul(%t, %y)"], "%z, %t", "%t: is an output"),
        (
            ["%t = Transpose(%x, [0, 2, 1])", "%z = BatchMatMul(%t, %y)", "%w = Neg(%t)"],
            "%z, %w",
            "%t: is also read by Neg",
        ),
    ],
)
def test_transpose_near_misses(lines: list[str], outputs: str, sentence: str) -> None:
    check_pass(product("[3,3,3]", "[3,3,3]", *lines, outputs=outputs), FLIP, refused=sentence)


# -- Reshapes ----------------------------------------------------------------------------------

MERGE = ["%u = Reshape(%x, [8, 3, 5])", "%v = Reshape(%y, [8, 5, 7])"]


def test_merged_batches() -> None:
    lines = [*MERGE, "%z = BatchMatMul(%u, %v)"]
    check_pass(product("[2,4,3,5]", "[2,4,5,7]", *lines), BATCH, ["BatchMatMul", "Reshape"])


def test_split_batches() -> None:
    lines = [
        "%u = Reshape(%x, [2, 4, 3, 5])",
        "%v = Reshape(%y, [2, 4, 7, 5])",
        "%z = BatchMatMul(%u, %v) {adj_y: true}",
    ]
    check_pass(product("[8,3,5]", "[8,7,5]", *lines), BATCH, ["BatchMatMul", "Reshape"])


def test_reshape_after_the_product_cancels() -> None:
    lines = [*MERGE, "%p = BatchMatMul(%u, %v)", "%z = Reshape(%p, [2, 4, 3, 7])"]
    passes = [BATCH, "remove_redundant_reshape", "remove_unnecessary_reshape"]
    check_pass(product("[2,4,3,5]", "[2,4,5,7]", *lines), passes, ["BatchMatMul"])
    text = product("[2,4,3,5]", "[2,4,5,7]", *lines, "%w = Neg(%z)", outputs="%w")
    check_pass(text, passes, ["BatchMatMul", "Neg"])


@pytest.mark.parametrize("constant", ["f32[8,5,7]", "f32[1,5,7]", "f32[5,7]"])
def test_constant_on_the_right(constant: str) -> None:
    lines = [
        f"%w = const {constant} gaussian(0, 1)",
        "%u = Reshape(%x, [8, 3, 5])",
        "%z = BatchMatMul(%u, %w)",
        "%n = Neg(%y)",
    ]
    model = check_pass(
        product("[2,4,3,5]", "[1]", *lines, outputs="%z, %n"), BATCH, ["BatchMatMul", "Reshape", "Neg"]
    )
    assert model.main.ops[0].inputs[0] is model.main.inputs[0]


def test_constant_on_the_left() -> None:
    lines = [
        "%w = const f32[8,3,5] gaussian(0, 1)",
        "%v = Reshape(%y, [8, 5, 7])",
        "%z = BatchMatMul(%w, %v)",
        "%n = Neg(%x)",
    ]
    text = product("[1]", "[2,4,5,7]", *lines, outputs="%z, %n")
    check_pass(text, BATCH, ["BatchMatMul", "Reshape", "Neg"])


@pytest.mark.parametrize(
    ("x", "y", "lines", "sentence"),
    [
        (
            "[2,4,15]", "[2,4,5,7]",
            ["%u = Reshape(%x, [8, 3, 5])", "%v = Reshape(%y, [8, 5, 7])"], "expected the matrices of",
        ),
        (
            "[2,4,3,5]", "[2,4,7,5]",
            ["%u = Reshape(%x, [8, 3, 5])", "%v = Reshape(%y, [8, 5, 7])"],
            "expected the matrices of [2,4,7,5], got shape [8,5,7]",
        ),
        ("[2,4,3,5]", "[4,2,5,7]", MERGE, "%y: expected the batch dimensions of %x, [2,4], got [4,2]"),
        (
            "[2,4,3,5]", "[1,1,5,7]",
            ["%u = Reshape(%x, [8, 3, 5])", "%v = Reshape(%y, [1, 5, 7])"], "%y: expected the batch",
        ),
        (
            "[2,2,2,3,5]", "[2,2,2,5,7]", MERGE, "%x: expected rank 2 to 4, got 5",
        ),
        (
            "[?,4,3,5]", "[?,4,5,7]",
            ["%u = Reshape(%x, [-1, 3, 5])", "%v = Reshape(%y, [-1, 5, 7])"], "expected a static shape",
        ),
    ],
)  # fmt: skip
def test_reshape_near_misses(x: str, y: str, lines: list[str], sentence: str) -> None:
    check_pass(product(x, y, *lines, "%z = BatchMatMul(%u, %v)"), BATCH, refused=sentence)


def test_shared_reshape_stays() -> None:
    lines = [*MERGE, "%z = BatchMatMul(%u, %v)", "%w = Neg(%v)"]
    text = product("[2,4,3,5]", "[2,4,5,7]", *lines, outputs="%z, %w")
    check_pass(text, BATCH, refused="%v: is also read by Neg %w")
    text = product("[2,4,3,5]", "[2,4,5,7]", *lines[:-1], outputs="%z, %u")
    check_pass(text, BATCH, refused="%u: is an output of the graph")


def test_shared_constant_stays() -> None:
    lines = [
        "%w = const f32[8,5,7] gaussian(0, 1)",
        "%u = Reshape(%x, [8, 3, 5])",
        "%z = BatchMatMul(%u, %w)",
        "%n = BatchMatMul(%y, %w)",
    ]
    text = product("[2,4,3,5]", "[8,3,5]", *lines, outputs="%z, %n")
    check_pass(text, BATCH, refused="%w: has 2 uses, so the model would contain the constant twice")


def test_constant_of_other_batches_stays() -> None:
    lines = [
        "%w = const f32[2,1,5,7] gaussian(0, 1)",
        "%u = Reshape(%x, [8, 3, 5])",
        "%z = BatchMatMul(%u, %w)",
        "%n = Neg(%y)",
    ]
    text = product("[2,4,3,5]", "[1]", *lines, outputs="%z, %n")
    check_pass(text, BATCH, refused="%w: expected the batch dimensions of %u, [8], got [2,1]")


# -- constant matrices -------------------------------------------------------------------------


MATRICES = (("[4,5]", "false"), ("[5,4]", "true"), ("[1,4,5]", "false"), ("[1,1,5,4]", "true"))
"""Constant matrices and their adj_y."""


@pytest.mark.parametrize(
    ("x", "w", "flag"),
    [
        (x, w, flag)
        for x in ("[3,4]", "[2,3,4]", "[2,1,3,4]", "[?,?,4]")
        for w, flag in MATRICES
        if w.count(",") <= x.count(",")  # with more, the product has a higher rank than the result of a layer
    ],
)
def test_constant_matrix_becomes_a_layer(x: str, w: str, flag: str) -> None:
    """LiteRT has the same results; bias and activation join the layer."""
    text = f"""graph main(%x: f32{x}) -> %z {{
      %w = const f32{w} gaussian(0, 1)
      %b = const f32[5] gaussian(0, 1)
      %p = BatchMatMul(%x, %w) {{adj_y: {flag}}}
      %s = Add(%p, %b)
      %z = Relu(%s)
    }}"""
    after = check_pass(text, pipeline_passes("O1"), ["FullyConnected"])
    before = parse_model(text)
    if before.main.inputs[0].is_static:
        inputs = [make_input(before.main.inputs[0], "normal")]
        assert_close(run_model(after, inputs), run_model(before, inputs))


def test_weights_of_an_embedding_stay_single() -> None:
    """The last layer of a language model reads the rows of the embedding; it needs no second copy."""
    text = """graph main(%x: f32[2,3,4]) -> %z, %e {
      %w = const f32[7,4] gaussian(0, 1)
      %e = Gather(%w, [1, 6, 0])
      %z = BatchMatMul(%x, %w) {adj_y: true}
    }"""
    gather, layer = check_pass(text, "replace_const_batch_matmul_with_fc", ["Gather", "FullyConnected"]).main
    assert gather.inputs[0] is layer.inputs[1]


# -- grouped-query attention -------------------------------------------------------------------

DECODING = """
    graph main(%x: f32[1,1,16], %keys: f32[1,2,7,4], %values: f32[1,2,7,4]) -> %y {
      %wq = const f32[16,16] gaussian(0, 0.3)
      %f = FullyConnected(%x, %wq) {keep_num_dims: true}
      %q = Reshape(%f, [1, 4, 1, 4])
      %k1 = Reshape(%keys, [1, 2, 1, 7, 4])
      %k2 = BroadcastTo(%k1, [1, 2, 2, 7, 4])
      %k3 = Reshape(%k2, [1, 4, 7, 4])
      %v1 = Reshape(%values, [1, 2, 1, 7, 4])
      %v2 = BroadcastTo(%v1, [1, 2, 2, 7, 4])
      %v3 = Reshape(%v2, [4, 7, 4])
      %q1 = Mul(%q, 0.7071)
      %k4 = Mul(%k3, 0.7071)
      %k5 = Transpose(%k4, [0, 1, 3, 2])
      %q2 = Reshape(%q1, [4, 1, 4])
      %k6 = Reshape(%k5, [4, 4, 7])
      %m = BatchMatMul(%q2, %k6)
      %s = Softmax(%m) {beta: 1.0}
      %o = BatchMatMul(%s, %v3)
      %y = Reshape(%o, [1, 1, 16])
    }
"""
"""One step of decoding, as PyTorch exports it: two heads of keys and values in a cache, four of queries."""


@pytest.mark.parametrize("format", ["circle", "tflite"])
def test_decoding_neither_copies_nor_scales_the_cache(format: str) -> None:
    model = check_pass(DECODING, pipeline_passes("O1"), format=format)
    work = [op for op in model.main if not isinstance(op, Reshape)]
    assert [type(op).__name__ for op in work] == ["FullyConnected", "BatchMatMul", "Softmax", "BatchMatMul"]
