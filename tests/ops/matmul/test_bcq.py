# SPDX-License-Identifier: Apache-2.0
"""Binary-coded weights, against a plain reading of the codes: bit by bit, with Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.enums import Activation
from circlekit.ir.value import Value
from circlekit.ops.matmul.circle_layers import BcqFullyConnected, BcqGather, decoded, hidden_size
from tests.ops.litert import const, var
from tests.ops.matmul.bcq_codes import codes, read_plainly

CLUSTERS = [
    ([[1, 4]], 32),
    ([[3, 5]], 64),
    ([[3, 2], [1, 4], [2, 3]], 40),
]
"""Clusters [bits, rows], and the hidden size: the number of columns."""


@pytest.mark.parametrize(("clusters", "hidden"), CLUSTERS)
def test_decoded(clusters: list[list[int]], hidden: int) -> None:
    scales, words = codes(clusters, hidden)
    wanted = read_plainly(scales, words, clusters, hidden)
    np.testing.assert_allclose(decoded(scales, words, np.array(clusters), hidden), wanted, 0, 1e-6)
    rows = np.array([len(wanted) - 1, 0, 0])
    found = decoded(scales, words, np.array(clusters), hidden, rows)
    np.testing.assert_allclose(found, wanted[rows], 0, 1e-6)


def test_the_signs_of_one_word() -> None:
    """0b1101: columns 0, 2 and 3 are +1, all others -1."""
    row = decoded(np.array([0.5], np.float32), np.array([[0b1101]], np.int32), np.array([[1, 1]]), 32)
    assert row[0, :5].tolist() == [0.5, -0.5, 0.5, 0.5, -0.5]
    assert (row[0, 4:] == -0.5).all()


@pytest.mark.parametrize(("clusters", "hidden"), CLUSTERS)
@pytest.mark.parametrize("act", [Activation.NONE, Activation.RELU])
def test_fully_connected(clusters: list[list[int]], hidden: int, act: Activation) -> None:
    scales, words = codes(clusters, hidden)
    weights = read_plainly(scales, words, clusters, hidden)
    rng = np.random.default_rng(5)
    x = rng.standard_normal((hidden, 3)).astype(np.float32)
    bias = rng.standard_normal(len(weights)).astype(np.float32)
    op = BcqFullyConnected(
        Value("x", f32, (hidden, 3)),
        const(scales, np.float32),
        const(words, np.int32),
        const(bias, np.float32),
        const(clusters, np.int32),
        weights_hidden_size=hidden,
        act=act,
    )
    assert op.output.shape == (len(weights), 3)
    assert op.macs() == weights.size * 3
    (found,) = evaluate(op, [x, scales, words, bias, np.array(clusters, np.int32)])
    wanted = weights @ x.astype(np.float64) + bias[:, None]
    wanted = np.maximum(wanted, 0) if act is Activation.RELU else wanted
    np.testing.assert_allclose(found, wanted, 0, 1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(("clusters", "hidden"), CLUSTERS)
@pytest.mark.parametrize("axis", [0, 1])
def test_gather(clusters: list[list[int]], hidden: int, axis: int) -> None:
    scales, words = codes(clusters, hidden)
    table = read_plainly(scales, words, clusters, hidden)
    indices = np.array([[1, 0, 3], [2, 2, 1]], np.int32)
    op = BcqGather(
        const(scales, np.float32),
        const(words, np.int32),
        Value("i", i32, (2, 3)),
        const(clusters, np.int32),
        input_hidden_size=hidden,
        axis=axis,
    )
    assert op.output.shape == ((2, 3, hidden) if axis == 0 else (len(table), 2, 3))
    operands = [scales, words, indices, np.array(clusters, np.int32)]
    (found,) = evaluate(op, operands)
    np.testing.assert_allclose(found, np.take(table, indices, axis), 0, 1e-6)
    with pytest.raises(ModelError, match="index 99 is out of range"):
        evaluate(op, [scales, words, np.array([99], np.int32), np.array(clusters, np.int32)])


def test_columns_that_are_not_stated_are_those_of_the_words() -> None:
    words = Value("b", i32, (60, 3))
    assert [hidden_size(declared, words) for declared in (0, 70)] == [96, 70]
    assert hidden_size(0, Value("b", i32, (60, None))) is None
    assert hidden_size(0, Value("b", i32, (60,))) is hidden_size(0, Value("b", i32, None)) is None
    assert hidden_size(70, Value("b", i32, None)) == 70


def test_kernels_take_the_columns_of_the_codes_if_none_are_stated() -> None:
    """The rank of the codes may be unknown before the run."""
    rng = np.random.default_rng(5)
    scales, clusters = rng.normal(size=6).astype(np.float32), np.array([[3, 2]], np.int32)
    words = rng.integers(-(1 << 31), 1 << 31, (6, 2)).astype(np.int32)
    weights, x = decoded(scales, words, clusters, 64), rng.normal(size=(64, 3)).astype(np.float32)
    stored = const(scales), Value("b", i32, None)
    dense = BcqFullyConnected(var(x), *stored, None, const(clusters))
    np.testing.assert_allclose(dense.kernel(x, scales, words, None, clusters), weights @ x, rtol=1e-6)
    for axis in (0, 1):
        rows = np.array([1, 0], np.int32)
        table = BcqGather(*stored, var(rows), const(clusters), axis=axis)
        found = table.kernel(scales, words, rows, clusters)
        np.testing.assert_array_equal(found, np.take(weights, rows, axis))


def test_operands_that_do_not_fit_are_refused() -> None:
    clusters = np.array([[3, 2]])  # 3 bits for each of 2 rows: 6 codes
    with pytest.raises(ShapeError, match="expected 6 scales and code rows, as the clusters say, got 5"):
        decoded(np.ones(5, np.float32), np.zeros((6, 1), np.int32), clusters, 32)
    with pytest.raises(
        ShapeError, match="hidden size: expected from 1 to 32, the columns of the codes, got 40"
    ):
        decoded(np.ones(6, np.float32), np.zeros((6, 1), np.int32), clusters, 40)
    odd, table = const([3, 20, 1], np.int32), Value("b", i32, (60, 2))
    with pytest.raises(ShapeError, match="clusters have 3 numbers, expected pairs of bits and rows"):
        BcqGather(Value("a", f32, (60,)), table, Value("i", i32, (7,)), odd)
    for numbers in ([-1, 2, 1, 6], [1, -2, 1, 6]):
        with pytest.raises(ShapeError, match="clusters: expected bits and rows of 0 or more, got -"):
            decoded(np.ones(4, np.float32), np.zeros((4, 1), np.int32), np.array(numbers), 32)
    with pytest.raises(ShapeError, match="input has 5 rows, expected the hidden size 64"):
        BcqFullyConnected(
            Value("x", f32, (5, 2)),
            Value("a", f32, (60,)),
            table,
            None,
            const([[3, 20]], np.int32),
            weights_hidden_size=64,
        )
