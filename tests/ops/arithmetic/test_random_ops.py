# SPDX-License-Identifier: Apache-2.0
"""Random streams against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import DType, f32, i32, i64
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.random_ops import Multinomial, RandomStandardNormal, RandomUniform
from tests.ops.litert import const, graph_of, var
from tests.ops.stateful import check_runs

SEEDS = [(1, 2), (0, 7), (-5, 1 << 40), (1 << 62, -1)]


@pytest.mark.parametrize("kind", [RandomUniform, RandomStandardNormal])
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("shape", [(2, 3), (1000,), (4, 5, 2)])
def test_streams_are_those_of_litert_and_go_on_in_the_next_run(
    kind: Any, seeds: tuple[int, int], shape: tuple[int, ...]
) -> None:
    op = kind(const(shape, np.int32), seed=seeds[0], seed2=seeds[1])
    assert op.output.shape == shape
    first, second = check_runs(op, [[], []])
    assert not np.array_equal(first[0], second[0])


@pytest.mark.parametrize("dtype", [i32, i64])
@pytest.mark.parametrize("count", [1, 6, 101])
@pytest.mark.parametrize("seeds", SEEDS[:2])
def test_multinomial(dtype: DType, count: int, seeds: tuple[int, int]) -> None:
    logits = np.random.default_rng(3).normal(0, 2, (3, 5)).astype(np.float32)
    logits[0, 1] = -np.inf
    out = Value("y", dtype, (3, count))
    op = Multinomial(var(logits), const(count, np.int32), seed=seeds[0], seed2=seeds[1], results=[out])
    check_runs(op, [[logits]] * 3)


@pytest.mark.parametrize(("shape", "is_valid"), [((2, 0), False), ((0, 2), True), ((2, 1), True)])
def test_multinomial_of_no_classes_is_refused(shape: tuple[int, int], is_valid: bool) -> None:
    """LiteRT refuses the model, too: num_classes > 0 was not true."""
    op = Multinomial(Value("x", f32, (None, None)), const(3, np.int32), results=[Value("y", i64, (None, 3))])
    interpreter, logits = Interpreter(Model([graph_of(op)])), np.zeros(shape, np.float32)
    if is_valid:
        assert interpreter.run([logits])[0].shape == (shape[0], 3)
        return
    with pytest.raises(ShapeError, match="expected logits of 1 class or more, got 0 classes"):
        interpreter.run([logits])


def test_without_seeds_the_stream_follows_the_name() -> None:
    def draw(name: str) -> Array:
        op = RandomStandardNormal(const([20000], np.int32), results=[Value(name, f32, (20000,))])
        return Interpreter(Model([graph_of(op)])).run([])[0]

    np.testing.assert_array_equal(draw("a"), draw("a"))
    assert not np.array_equal(draw("a"), draw("b"))
    np.testing.assert_allclose([draw("a").mean(), draw("a").std()], [0, 1], atol=0.02)


def test_a_random_operator_is_not_computed_alone() -> None:
    op = RandomUniform(const([2], np.int32))
    assert not op.pure
    with pytest.raises(UnsupportedError, match="RANDOM_UNIFORM keeps state and cannot be computed"):
        op.call(lambda graph, inputs: [], np.array([2], np.int32))


def test_dimensions_are_not_negative() -> None:
    op = RandomUniform(Value("shape", i32, (1,)))
    with pytest.raises(ShapeError, match=r"RANDOM_UNIFORM gives \[-1\], expected dimensions from 0 to"):
        Interpreter(Model([graph_of(op)])).run([np.array([-1], np.int32)])


@pytest.mark.parametrize("kind", [RandomUniform, RandomStandardNormal])
def test_a_dimension_may_be_0(kind: Any) -> None:
    op = kind(Value("shape", i32, (2,)), results=[Value("y", f32, (None, None))])
    (result,) = Interpreter(Model([graph_of(op)])).run([np.array([0, 3], np.int32)])
    assert result.shape == (0, 3)
