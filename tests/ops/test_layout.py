# SPDX-License-Identifier: Apache-2.0
"""``Op.permuted``: the changed operator on permuted data gives the permuted results.

The oracle is numpy's transpose of the results of the original operator on the original data.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from circlekit.errors import CirclekitError
from circlekit.ir.declaration import NEW_AXIS as N
from circlekit.ir.dtypes import i8, i32
from circlekit.ir.enums import MirrorPadMode
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic import activation, binary, cast
from circlekit.ops.arithmetic import comparison as compare
from circlekit.ops.matmul import dense
from circlekit.ops.movement import gather, join, pad, repeat, scatter, shape, slice
from circlekit.ops.reduction import cumsum, normalization, reduce
from tests.ops.litert import const, ints, kernel_results, var

PERMS = [(0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 2, 3), (0, 1, 2, 3), (2, 0, 3, 1)]
EXTENSIONS = [(0, 1, N, 2, 3), (N, 0, 1, 2, 3), (0, 1, 2, 3, N), (2, N, 3, 0, N, 1)]
RNG = np.random.default_rng(8)
X = RNG.normal(0, 3, (2, 3, 4, 6)).astype(np.float32)
Y = RNG.normal(1, 3, (2, 3, 4, 6)).astype(np.float32)
ROW = RNG.normal(1, 3, (1, 3, 1, 6)).astype(np.float32)
FLAGS = X > 0
UPDATE = RNG.normal(0, 1, (1, 2, 2, 3)).astype(np.float32)
MATRICES = RNG.normal(0, 1, (2, 3, 6, 5)).astype(np.float32)
GAMMA = RNG.normal(1, 1, 6).astype(np.float32)
WEIGHTS = RNG.normal(0, 1, (5, 6)).astype(np.float32)
PAIRS = [[1, 0], [0, 2], [2, 1], [0, 0]]


def cases() -> dict[str, tuple[Op, list[Array]]]:
    """Return an operator of each kind, and arrays for its operands without data."""
    x, y, row, flags = var(X), var(Y), var(ROW), var(FLAGS)
    found: dict[str, tuple[Op, list[Array]]] = {
        "leaky_relu": (activation.LeakyRelu(x, alpha=0.3), [X]),
        "prelu": (activation.PRelu(x, row), [X, ROW]),
        "add": (binary.Add(x, row), [X, ROW]),
        "add_n": (binary.AddN(x, y), [X, Y]),
        "less": (compare.Less(x, row), [X, ROW]),
        "select": (compare.Select(flags, x, y), [FLAGS, X, Y]),
        "select_v2": (compare.SelectV2(flags, row, y), [FLAGS, ROW, Y]),
        "concatenation": (join.Concatenation(x, y, axis=2), [X, Y]),
        "concatenation, negative axis": (join.Concatenation(x, y, axis=-1), [X, Y]),
        "split": (join.Split(ints(-1), x, num_splits=3), [X]),
        "split_v": (join.SplitV(x, ints([1, -1]), ints(2), num_splits=2), [X]),
        "mean": (reduce.Mean(x, ints([-1, 1]), keep_dims=True), [X]),
        "reduce_max": (reduce.ReduceMax(x, ints(2), keep_dims=True), [X]),
        "reduce_prod": (reduce.ReduceProd(x, ints([1]), keep_dims=True), [X]),
        "cumsum": (cumsum.Cumsum(x, ints(-2), exclusive=True), [X]),
        "pad": (pad.Pad(x, ints(PAIRS)), [X]),
        "padv2": (pad.PadV2(x, ints(PAIRS), const(2.5, np.float32)), [X]),
        "mirror_pad": (pad.MirrorPad(x, ints(PAIRS), mode=MirrorPadMode.SYMMETRIC), [X]),
        "slice": (slice.Slice(x, ints([0, 1, 2, 3]), ints([-1, 2, 1, -1])), [X]),
        "strided_slice": (
            slice.StridedSlice(x, ints([0, 2, 1, -1]), ints([2, 0, 9, 0]), ints([1, -1, 2, -2]), end_mask=8),
            [X],
        ),
        "strided_slice of the first axes": (
            slice.StridedSlice(x, ints([1, 0]), ints([2, 0]), ints([1, -1]), begin_mask=2),
            [X],
        ),
        "transpose": (shape.Transpose(x, ints([2, 0, -1, 1])), [X]),
        "gather": (gather.Gather(x, ints([2, 0, 0]), axis=-2), [X]),
        "reverse": (gather.ReverseV2(x, ints([1, -1])), [X]),
        "reverse_sequence": (gather.ReverseSequence(x, ints([3, 1]), seq_dim=3, batch_dim=0), [X]),
        "dynamic_update_slice": (
            scatter.DynamicUpdateSlice(x, var(UPDATE), ints([1, 0, 2, 1])),
            [X, UPDATE],
        ),
        "tile": (repeat.Tile(x, ints([1, 2, 1, 3])), [X]),
        "broadcast_to": (repeat.BroadcastTo(row, ints([2, 3, 4, 6])), [ROW]),
        "cast": (cast.Cast(x, out_data_type=i32), [X]),
        "fake_quant": (cast.FakeQuant(x, min=-1.0, max=1.0, num_bits=8), [X]),
    }
    return found


CASES = cases()


def transposed(array: Array, perm: tuple[int, ...]) -> Array:
    """Return ``array`` with permuted axes, and new ones where ``perm`` has N."""
    moved = np.transpose(array, [axis for axis in perm if axis != N])
    return np.ascontiguousarray(np.expand_dims(moved, [k for k, axis in enumerate(perm) if axis == N]))


@pytest.mark.parametrize("perm", [*PERMS, *EXTENSIONS])
@pytest.mark.parametrize("name", CASES)
def test_permuted_operator_makes_permuted_results(name: str, perm: tuple[int, ...]) -> None:
    op, inputs = CASES[name]
    changes = op.permuted(perm)
    assert changes is not None
    wanted = [transposed(r, perm) for r in kernel_results(op, [np.array(x) for x in inputs])]
    turned = rebuilt(op, changes, perm)
    data = [transposed(x, perm) for x in inputs]
    for got, right, result in zip(kernel_results(turned, data), wanted, turned.results, strict=True):
        assert got.dtype == right.dtype
        assert got.shape == result.shape
        np.testing.assert_allclose(got, right, rtol=1e-6)


def rebuilt(op: Op, changes: dict[str, Any], perm: tuple[int, ...]) -> Op:
    """Return the operator with ``changes`` on operands with permuted axes."""
    names = {a.name for a in op.attributes}
    values = []
    for name, value in op.operand_items():
        if name in changes:
            old = value.array()
            assert changes[name].dtype == old.dtype
            values.append(Value.constant("", changes[name]))
        elif name in op.layout_operands:
            assert value.shape is not None
            values.append(Value("", value.dtype, tuple(1 if a == N else value.shape[a] for a in perm)))
        else:
            values.append(value)
    assert set(changes) <= names | {n for n, _ in op.operand_items()}
    attributes = {**op.attribute_items(), **{k: v for k, v in changes.items() if k in names}}
    return type(op)(*values, **attributes)


def test_quantization_does_not_depend_on_the_layout() -> None:
    quantization = Quantization.per_tensor(0.5)
    quantized = Value("q", i8, (1, 2), None, quantization)
    assert cast.Dequantize(quantized).permuted((1, 0)) == {}
    assert cast.Quantize(Value("x", i8, (1, 2)), results=[quantized]).permuted((1, 0)) == {}


@pytest.mark.parametrize(
    "op",
    [
        reduce.Mean(var(X), ints([1])),
        slice.StridedSlice(var(X), ints([0]), ints([1]), ints([1]), shrink_axis_mask=1),
        slice.StridedSlice(var(X), ints([0]), ints([1]), ints([1]), new_axis_mask=1),
        slice.StridedSlice(var(X), ints([0, 0]), ints([1, 0]), ints([1, 1]), ellipsis_mask=2),
        pad.Pad(var(X), Value("p", i32, (4, 2))),
        slice.Slice(var(X), Value("b", i32, (4,)), ints([1, 1, 1, 1])),
        repeat.BroadcastTo(var(X), ints([1, 2, 3, 4, 6])),
        join.Split(Value("axis", i32, ()), var(X), num_splits=1),
        gather.Gather(var(X), ints([[0]]), axis=1),
        repeat.BroadcastTo(var(ROW[0]), ints([2, 3, 4, 6])),
        shape.Reshape(var(X), ints([-1])),
        join.Pack(var(X), var(X), values_count=2),
        shape.Transpose(var(X), Value("perm", i32, (4,))),
        shape.Transpose(var(ROW[0, 0]), ints([1, 0])),
    ],
    ids=repr,
)
def test_operators_that_cannot_be_permuted_return_none(op: Op) -> None:
    assert op.permuted((0, 2, 3, 1)) is None


def test_axes_out_of_range_cannot_be_permuted() -> None:
    op = join.Concatenation(var(X), var(X), axis=1)
    for axis, new_axis in ((3, 2), (-4, 0), (4, None), (-5, None)):
        op.axis = axis
        assert op.permuted((0, 2, 3, 1)) == (None if new_axis is None else {"axis": new_axis})


def test_products_of_elements_keep_the_order_of_their_factors() -> None:
    """Another order could overflow, and quantized products are rounded after each factor."""
    op = reduce.ReduceProd(var(X), ints([-1, 1]), keep_dims=True)
    for perm in itertools.permutations(range(4)):
        changes = op.permuted(perm)
        assert (changes is not None) is (perm.index(1) < perm.index(3))
        assert changes is None or changes["axis"].tolist() == [perm.index(3), perm.index(1)]


FIXED_AXES = {
    "softmax": (normalization.Softmax(var(X), beta=0.7), [X]),
    "l2": (normalization.L2Normalization(var(X)), [X]),
    "instance_norm": (normalization.InstanceNorm(var(X), const(GAMMA), const(GAMMA[::-1])), [X]),
    "instance_norm of rank 3": (
        normalization.InstanceNorm(var(X[0]), const(GAMMA[:4]), const(GAMMA[2:])),
        [X[0]],
    ),
    "rope": (normalization.RoPE(var(X), const(GAMMA), const(GAMMA)), [X]),
    "fully_connected": (dense.FullyConnected(var(X), const(WEIGHTS), keep_num_dims=True), [X]),
    "batch_matmul": (dense.BatchMatMul(var(X), var(MATRICES)), [X, MATRICES]),
}
"""Operators whose kernels give some axes a fixed meaning, such as the rows of a matrix."""


@pytest.mark.parametrize("name", FIXED_AXES)
def test_operators_with_fixed_axes_are_permuted_exactly_where_the_results_agree(name: str) -> None:
    """The same operator on permuted data must give the permuted results."""
    op, inputs = FIXED_AXES[name]
    axes = tuple(range(inputs[0].ndim))
    # ROPE has rank 4 only, and passes extend nothing beyond
    extensions = [(*axes[:k], N, *axes[k:]) for k in range(len(axes) + 1) if name != "rope"]
    for perm in (*itertools.permutations(axes), *extensions):
        wanted = transposed(kernel_results(op, [np.array(x) for x in inputs])[0], perm)
        data = [transposed(x, perm) for x in inputs]
        try:
            turned = rebuilt(op, {}, perm)
            (got,) = kernel_results(turned, data)
            fits = got.shape == wanted.shape and np.allclose(got, wanted, rtol=1e-4, atol=1e-5)
        except (CirclekitError, ValueError):
            fits = False
        assert op.permuted(perm) == ({} if fits else None), perm


def test_products_that_depend_on_the_order_of_the_batch_are_not_permuted() -> None:
    """Such products join all rows in one axis, have a second result, or multiply floats by int8 weights."""
    keep = (1, 0, 2, 3)
    flat = dense.FullyConnected(var(X), const(WEIGHTS), keep_num_dims=False)
    assert flat.permuted(keep) is None
    shuffled = dense.FullyConnected(var(X), const(WEIGHTS), keep_num_dims=True)
    shuffled.results.append(Value("workspace", i8, None))
    assert shuffled.permuted(keep) is None
    weights = Value("y", i8, MATRICES.shape, None, Quantization.per_tensor(0.5))
    assert dense.BatchMatMul(var(X), weights).permuted(keep) is None


def test_every_operator_that_can_be_permuted_is_tried() -> None:
    """Elementwise operators share one implementation; each other way to be permuted has a case above."""
    tried = {way_to_permute(type(op)) for op, _ in (*CASES.values(), *FIXED_AXES.values())}
    own = {k for k in REGISTRY.values() if k.layout_operands}
    assert sorted(k.__name__ for k in own if way_to_permute(k) not in tried) == []


def way_to_permute(kind: type[Op]) -> object:
    return kind.permuted, kind.axis_numbers, tuple(kind.per_axis_operands)
