# SPDX-License-Identifier: Apache-2.0
"""Weights with exact binary codes (BCQ): values stay equal for all variants of the operators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from circle_schema.v0_10 import circle

import circlekit
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import DType, f32, i32, i64
from circlekit.ir.enums import Activation, WeightsFormat
from circlekit.ir.graph import Graph, Model, Signature
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ir.verifier import check
from circlekit.ops.arithmetic.unary import Neg
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.gather import Gather
from circlekit.passes.fuse.fuse_bcq import FuseBcq
from circlekit.rewrite.base import Context
from tests.ops.matmul.bcq_codes import codes, read_plainly

CLUSTERS = [[3, 2], [1, 4], [2, 3]]
ROWS, HIDDEN = 9, 40


def normal(x: Value) -> list[Array]:
    """Normally distributed numbers for the input ``x``."""
    return [np.random.default_rng(11).standard_normal(x.static_shape).astype(np.float32)]


def weights_and_bundle(flipped: bool = False, padded: bool = False) -> tuple[Array, list[Value]]:
    """Return weights [ROWS, HIDDEN], and the outputs that carry their codes.

    ``flipped``: the bundle has the weights as they were before a converter transposed them.
    ``padded``: the constants about clusters have a further number without a meaning, as ONE may add it.
    """
    scales, words = codes(CLUSTERS, HIDDEN)
    weights = read_plainly(scales, words, CLUSTERS, HIDDEN).astype(np.float32)
    more = [-1500000001] if padded else []
    arrays = {
        "do_w_x": np.array([not flipped]),
        "alpha": scales,
        "packed_binary_code": words,
        "number_of_clusters": np.array([len(CLUSTERS), *more], np.int32),
        "size_of_clusters": np.array([rows for _, rows in CLUSTERS] + more, np.int32),
        "qbits_of_clusters": np.array([bits for bits, _ in CLUSTERS] + more, np.int32),
        "weights": np.ascontiguousarray(weights.T) if flipped else weights,
        "dequant_weight": weights,
    }
    return weights, [Value.constant(f"w/bcqinfo_{name}", array) for name, array in arrays.items()]


def model_of(op: Op, inputs: Sequence[Value], bundle: Sequence[Value]) -> Model:
    # ONE's metadata: start, version, number of outputs, number of constants of each weight, end
    mark = np.array([-(10**9) * 2 + 27, 1, 1, len(bundle), 2 * 10**9 - 27], np.int32)
    graph = Graph("main", inputs)
    graph.append(op)
    op.output.name = "y"
    outputs = [Value.constant("mark", mark), op.output, *bundle]
    graph.outputs = outputs
    named = {value.name: value for value in outputs}
    return Model([graph], signatures=[Signature("serve", graph, {v.name: v for v in inputs}, named)])


def fused(model: Model, arrays: Sequence[Array], tmp_path: Path) -> list[str]:
    """Return the operators after the pass; values must stay equal."""
    wanted = circlekit.run(clone(model), arrays)[1]
    changes = circlekit.optimize(model, ["fuse_bcq"]).changes
    assert changes == {"fuse_bcq": 2}  # the operator, and the removed outputs
    check(model)
    assert [value.name for value in model.main.outputs] == ["y"]
    assert list(model.signatures[0].outputs) == ["y"]
    path = tmp_path / "net.circle"
    circlekit.save(model, path)
    (found,) = circlekit.run(circlekit.load(path), arrays)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, 0, 1e-5 * np.abs(wanted).max())
    return [op.code for op in model.main]


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_a_layer_with_coded_weights_is_fused(flipped: bool, padded: bool, tmp_path: Path) -> None:
    weights, bundle = weights_and_bundle(flipped, padded)
    x = Value("x", f32, (3, HIDDEN))
    bias = Value.constant("b", np.random.default_rng(11).standard_normal(ROWS).astype(np.float32))
    op = FullyConnected(x, Value.constant("w", weights), bias, act=Activation.RELU)
    found = fused(model_of(op, [x], bundle), normal(x), tmp_path)
    assert found == ["TRANSPOSE", "BCQ_FULLY_CONNECTED", "TRANSPOSE"]


@pytest.mark.parametrize("keep", [False, True])
def test_an_input_of_rank_3_is_reshaped(keep: bool, tmp_path: Path) -> None:
    weights, bundle = weights_and_bundle()
    x = Value("x", f32, (2, 3, HIDDEN))
    op = FullyConnected(x, Value.constant("w", weights), keep_num_dims=keep)
    found = fused(model_of(op, [x], bundle), normal(x), tmp_path)
    inner = ["RESHAPE", "TRANSPOSE", "BCQ_FULLY_CONNECTED", "TRANSPOSE"]
    assert found == ([*inner, "RESHAPE"] if keep else inner)


def test_coded_weights_on_the_left_need_no_transpose_after(tmp_path: Path) -> None:
    weights, bundle = weights_and_bundle()
    x = Value("x", f32, (5, HIDDEN))
    op = FullyConnected(Value.constant("w", weights), x)
    found = fused(model_of(op, [x], bundle), normal(x), tmp_path)
    assert found == ["TRANSPOSE", "BCQ_FULLY_CONNECTED"]


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(4,), (2, 3), ()])
def test_a_gather_from_a_coded_table_is_fused(
    columns: bool, axis: int, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """``columns``: the codes are those of the table's transpose."""
    weights, bundle = weights_and_bundle()
    table = np.ascontiguousarray(weights.T) if columns else weights
    indices = Value("i", i32, shape)
    op = Gather(Value.constant("w", table), indices, axis=axis)
    drawn = np.random.default_rng(11).integers(0, min(table.shape), shape, np.int32)
    found = fused(model_of(op, [indices], bundle), [np.asarray(drawn)], tmp_path)
    assert found == (["BCQ_GATHER", "TRANSPOSE"] if columns and shape else ["BCQ_GATHER"])


def test_the_file_has_the_operands_and_options_of_the_codes(tmp_path: Path) -> None:
    """The circle_schema package reads the file."""
    weights, bundle = weights_and_bundle()
    x = Value("x", f32, (3, HIDDEN))
    fused(
        model_of(FullyConnected(x, Value.constant("w", weights)), [x], bundle),
        [np.zeros((3, HIDDEN), np.float32)],
        tmp_path,
    )
    graph = circle.Model.Model.GetRootAs((tmp_path / "net.circle").read_bytes(), 0).Subgraphs(0)
    op = graph.Operators(1)
    names = [graph.Tensors(i).Name().decode() if i >= 0 else None for i in op.InputsAsNumpy()]
    assert names[1:] == [
        "w/bcqinfo_weights/scales",
        "w/bcqinfo_weights/binary",
        None,
        "w/bcqinfo_weights/clusters",
    ]
    options = circle.BCQFullyConnectedOptions.BCQFullyConnectedOptions()
    options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
    assert options.WeightsHiddenSize() == HIDDEN
    clusters = graph.Tensors(op.Inputs(4))
    assert clusters.ShapeAsNumpy().tolist() == [3, 2]


def test_pass_does_nothing_for_tflite() -> None:
    weights, bundle = weights_and_bundle()
    x = Value("x", f32, (3, HIDDEN))
    model = model_of(FullyConnected(x, Value.constant("w", weights)), [x], bundle)
    assert circlekit.optimize(model, ["fuse_bcq"], format="tflite").changes == {}
    assert len(model.main.outputs) == 10  # the mark, %y and the 8 constants of the bundle
    context = Context("tflite", refusals=[])
    assert FuseBcq().run(model, context) == 0
    assert [r.sentence for r in context.refusals or ()] == ["%mark: TFLite has no operators on binary codes"]


@pytest.mark.parametrize(
    ("shape", "weights_format", "sentence"),
    [
        ((3, HIDDEN), WeightsFormat.SHUFFLED16x1FLOAT32, "expected weights of format DEFAULT"),
        (None, WeightsFormat.DEFAULT, "has operands or a result of unknown shape"),
        ((None, None, HIDDEN), WeightsFormat.DEFAULT, "has operands or a result of unknown shape"),
        ((None, 3, HIDDEN), WeightsFormat.DEFAULT, None),
    ],
)
def test_layers_whose_shape_or_weights_do_not_fit_stay(
    shape: tuple[int | None, ...] | None, weights_format: WeightsFormat, sentence: str | None
) -> None:
    """``sentence``: part of the refusal; None if the layer is fused."""
    weights, bundle = weights_and_bundle()
    x = Value("x", f32, shape)
    result = Value("y", f32, None if shape is None else (*shape[:-1], ROWS))
    op = FullyConnected(
        x, Value.constant("w", weights), weights_format=weights_format, keep_num_dims=True, results=[result]
    )
    context = Context(refusals=[])
    assert FuseBcq().run(model_of(op, [x], bundle), context) == (0 if sentence else 2)
    sentences = [r.sentence for r in context.refusals or ()]
    assert len(sentences) == bool(sentence)
    assert sentence is None or sentence in sentences[0]


def test_codes_without_users_are_removed() -> None:
    _, bundle = weights_and_bundle()
    x = Value("x", f32, (3,))
    model = model_of(Neg(x), [x], bundle)
    assert FuseBcq().run(model, Context()) == 1
    assert [value.name for value in model.main.outputs] == ["y"]


@pytest.mark.parametrize(("dtype", "shape"), [(i64, (4,)), (i32, None)])
def test_gather_with_other_indices_stays(dtype: DType, shape: tuple[int, ...] | None) -> None:
    weights, bundle = weights_and_bundle()
    indices = Value("i", dtype, shape)
    op = Gather(Value.constant("w", weights), indices, axis=0, results=[Value("y", f32, None)])
    context = Context(refusals=[])
    assert FuseBcq().run(model_of(op, [indices], bundle), context) == 0
    assert "expected indices of i32 with a known rank" in (context.refusals or [])[0].sentence


def test_coded_input_of_constant_weights_stays() -> None:
    weights, bundle = weights_and_bundle()
    x = Value("x", f32, (3,))
    other = Value.constant("v", np.random.default_rng(11).standard_normal((5, HIDDEN)).astype(np.float32))
    context = Context(refusals=[])
    model = model_of(FullyConnected(Value.constant("w", weights), other), [x], bundle)
    assert FuseBcq().run(model, context) == 0
    assert "expected computed weights of rank 2, and no bias" in (context.refusals or [])[0].sentence


@pytest.mark.parametrize("columns", [HIDDEN // 2, 3 * HIDDEN])
def test_coded_input_of_weights_with_other_rows_stays(columns: int) -> None:
    weights, bundle = weights_and_bundle()
    x = Value("x", f32, (5, columns))
    context = Context(refusals=[])
    model = model_of(FullyConnected(Value.constant("w", weights), x), [x], bundle)
    assert FuseBcq().run(model, context) == 0
    assert "expected rows as long as those of %w" in (context.refusals or [])[0].sentence


@pytest.mark.parametrize(("factor", "scale"), [(np.inf, 1), (1, np.inf), (1, np.nan), (1, 3)])
def test_codes_far_from_the_weights_or_not_finite_stay(factor: float, scale: float) -> None:
    weights, bundle = weights_and_bundle()
    weights[0, 0] *= factor
    bundle[1].array()[0] *= scale
    bundle[6].array()[0, 0] = weights[0, 0]
    x = Value("x", f32, (3, HIDDEN))
    context = Context(refusals=[])
    op = FullyConnected(x, Value.constant("w", weights))
    changes = FuseBcq().run(model_of(op, [x], bundle), context)
    assert changes == (2 if scale == 3 else 0)  # a near miss: codes that are finite
    assert [r.sentence.partition(" by ")[0] for r in context.refusals or ()] == (
        [] if changes else ["%w: the codes differ from the weights"]
    )
