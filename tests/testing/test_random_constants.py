# SPDX-License-Identifier: Apache-2.0
"""The shapes, axes, sizes, indices and weights that can be drawn for constant operands, and no others.

The data of the fixture ``m`` has the shape SHAPE, [2,3,4,6].  ``decide(m, monkeypatch, 0.2)`` makes exactly
those random events happen that have the probability 0.2 in ``random_constants.py``.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, f32, i32
from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Value
from circlekit.ops.movement.space import BatchToSpaceND, SpaceToBatchND
from circlekit.testing.model_builder import ModelBuilder
from circlekit.testing.random_constants import PARAMETERS, broadcast_shape, is_parameter, proposal
from tests.testing.draws import DRAWS, SHAPE, decide, drawn, parameter

GROUPED_FILTERS: set[Any] = {*product((2, 4, 6, 8), (1, 2, 3), (1, 2, 3), (3,))}
"""Shapes of the filters of rare convolutions in 2 groups: each filter reads half of the 6 channels."""


def test_axes(m: ModelBuilder) -> None:
    axes = set(range(-4, 4))
    for name in ("dim", "dimension", "split_dim"):
        assert parameter(m, name) == axes | {(axis,) for axis in axes}
    found = parameter(m, "axis")
    assert {axis for axis in found if isinstance(axis, int)} == axes
    lists = {axis for axis in found if isinstance(axis, tuple)}
    assert {(0,), (1,), (2,), (3,), (-1,), (1, 2), (2, 3)} <= lists
    assert {len(axis) for axis in lists} == {1, 2, 3, 4}
    assert all(list(axis) == sorted(set(axis)) for axis in lists)


def test_permutations(m: ModelBuilder) -> None:
    found = parameter(m, "perm")
    assert {(0, 2, 3, 1), (0, 3, 1, 2)} < found
    assert all(sorted(perm) == [0, 1, 2, 3] for perm in found)


def test_new_shapes_have_as_many_elements(m: ModelBuilder) -> None:
    shape = (4, 1, 6)
    found: set[Any] = drawn(lambda: PARAMETERS["shape"](m, shape))
    for new in found:
        known = [d for d in new if d != -1]
        assert new.count(-1) <= 1
        assert prod(known) == 24 if -1 not in new else 24 % prod(known) == 0
    assert {(4, 6), (4, 1, 2, 3), (4, 1, 3, 2), (2, 2, 1, 6), (1, 4, 1, 6), (4, 1, 6, 1), (6, 1, 4)} <= found


def test_new_shapes_of_vectors_and_scalars(m: ModelBuilder) -> None:
    assert drawn(lambda: PARAMETERS["shape"](m, ())) == {(), (1,), (-1,)}
    found = drawn(lambda: PARAMETERS["shape"](m, (4,)))
    assert found == {
        (4,),
        (-1,),
        (1, 4),
        (4, 1),
        (-1, 4),
        (1, -1),
        (-1, 1),
        (4, -1),
        (2, 2),
        (-1, 2),
        (2, -1),
    }
    assert drawn(lambda: PARAMETERS["shape"](m, (3, 2))) >= {(6,), (-1,), (2, 3), (3, 2)}


@pytest.mark.parametrize(
    ("name", "elements"),
    [("strides", {-1, 1, 2}), ("size", {-1, *SHAPE}), ("end", {*SHAPE}), ("multiples", {1, 2}),
     ("dims", {*SHAPE}), ("dilations", {1, 2}), ("start_indices", {0, 1}), ("begin", {0, 1, 2, 3, 4, 5}),
     ("seq_lengths", {1, 2}), ("block_shape", {1, 2})],
)  # fmt: skip
def test_elements_of_vectors(name: str, elements: set[int], m: ModelBuilder) -> None:
    found = parameter(m, name)
    assert {element for vector in found for element in vector} == elements
    lengths = {"seq_lengths": {2}, "block_shape": {1, 2, 3}}
    assert {len(vector) for vector in found} == lengths.get(name, {4})


@pytest.mark.parametrize("name", ["crops", "paddings"])
def test_a_pair_of_numbers_for_each_block_size(name: str, m: ModelBuilder) -> None:
    kind = BatchToSpaceND if name == "crops" else SpaceToBatchND
    for count in (1, 2, 3):
        blocks = {"block_shape": m.ints([1] * count)}
        found: set[Any] = drawn(lambda: proposal(m, kind, name, m.pool[0], blocks, i32))  # noqa: B023
        assert {np.shape(pairs) for pairs in found} == {(count, 2)}
        assert {side for pairs in found for pair in pairs for side in pair} == {0, 1, 2}


def test_block_shapes_have_a_size_for_each_inner_axis(
    m: ModelBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inner axis is neither the first nor the last; rarely (0.2) there are fewer or more sizes."""
    for rare in (False, True):
        decide(m, monkeypatch, *[0.2] * rare)
        for rank, usual, all_counts in (
            (1, 1, {1}),
            (2, 1, {1}),
            (3, 1, {1, 2}),
            (4, 2, {1, 2, 3}),
            (5, 3, {1, 2, 3, 4}),
        ):
            found = {len(PARAMETERS["block_shape"](m, (2,) * rank)) for _ in range(80)}
            assert found == (all_counts if rare else {usual})


def test_paddings_indices_and_depth(m: ModelBuilder) -> None:
    paddings = parameter(m, "paddings")
    assert {len(rows) for rows in paddings} == {2, 4}
    assert {frozenset(side for row in rows for side in row) for rows in paddings} == {
        frozenset({0}), frozenset({1}), frozenset({0, 1}),
    }  # fmt: skip
    indices = parameter(m, "indices")
    assert {index for index in indices if isinstance(index, int)} == {0, 1}
    assert {np.ndim(index) for index in indices} == {0, 1, 2, 3}
    assert parameter(m, "depth") == {1, 2, 3, 4}


def test_indices_of_small_shapes(m: ModelBuilder) -> None:
    for shape in ((), (1,), (5, 1)):
        indices = drawn(lambda shape=shape: np.ravel(PARAMETERS["indices"](m, shape)))  # type: ignore[misc]
        assert {index for vector in indices for index in vector} == {0}
        assert {len(vector) for vector in indices} >= {1, 2, 3, 4, 6, 9}


def test_sizes_of_results(m: ModelBuilder) -> None:
    """The data are 3 x 4, the filter is 3 x 2, the strides s are 1 to 3.

    With SAME, the result is 3 s x 4 s; with VALID, it is (2 s + 3) x (3 s + 2).
    """
    (x,) = m.graph.inputs
    w = Value.constant("w", np.zeros((5, 3, 2, 6), np.float32))
    chosen: dict[str, Value | None] = {"filter": w, "input": x, "bias": None}
    found = drawn(lambda: proposal(m, REGISTRY["TRANSPOSE_CONV"], "output_shape", x, chosen, i32))
    same, valid = product((3, 6, 9), (4, 8, 12)), product((5, 7, 9), (5, 8, 11))
    assert found == {(2, *size, 5) for size in (*same, *valid)}
    sizes: set[Any] = drawn(lambda: proposal(m, REGISTRY["RESIZE_BILINEAR"], "size", x, {}, i32))
    assert {size for pair in sizes for size in pair} == set(range(1, 9))


def test_sizes_of_results_without_a_filter(m: ModelBuilder) -> None:
    """The filter counts as 1 x 1.  SAME gives 3 s x 4 s; VALID gives (2 s + 1) x (3 s + 1)."""
    (x,) = m.graph.inputs
    found = drawn(lambda: proposal(m, REGISTRY["TRANSPOSE_CONV"], "output_shape", x, {}, i32))
    same, valid = product((3, 6, 9), (4, 8, 12)), product((3, 5, 7), (4, 7, 10))
    assert found == {(2, *size, 1) for size in (*same, *valid)}


def test_shapes_of_operators_without_data(m: ModelBuilder) -> None:
    found = drawn(lambda: proposal(m, REGISTRY["FILL"], "dims", None, {}, i32))
    assert found == {(2, 3, 4, 4), (3, 4, 4), (4, 4)}


def test_shapes_that_broadcast(m: ModelBuilder) -> None:
    found: set[Any] = drawn(lambda: broadcast_shape(m, (2, 1, 3)))
    lower = {(3,), (), (1,), (1, 1), (1, 3)}
    assert lower | {(1, 1, 3), (1, 1, 1), (2, 1, 3), (2, 1, 1), (2, 2, 1, 3), (1, 2, 1)} <= found
    for shape in found:
        assert np.broadcast_shapes(shape, (2, 1, 3))[-3:] in ((2, 1, 3), (2, 2, 3))


@pytest.mark.parametrize(
    ("code", "name", "shapes"),
    [
        ("CONV_2D", "filter", {*product((1, 2, 3, 4), (1, 2, 3), (1, 2, 3), (6,))}),
        ("DEPTHWISE_CONV_2D", "filter", {*product((1,), (1, 2, 3), (1, 2, 3), (6, 12))}),
        ("FULLY_CONNECTED", "weights", {(o, 6) for o in (1, 2, 3, 4)}),
        ("CONV_2D", "bias", {(6,)}),
        ("RMS_NORM", "gamma", {(6,)}),
    ],
)
def test_shapes_of_weights(code: str, name: str, shapes: set[tuple[int, ...]], m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    found = drawn(lambda: np.shape(proposal(m, REGISTRY[code], name, x, {}, f32)))
    in_groups = found & GROUPED_FILTERS if code == "CONV_2D" else set()
    assert found - in_groups == shapes
    assert bool(in_groups) == (code == "CONV_2D" and name == "filter")


def test_an_integer_bias_has_numbers_from_minus_100_to_100(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    vectors: set[Any] = drawn(lambda: proposal(m, REGISTRY["FULLY_CONNECTED"], "bias", x, {}, DType.INT8))
    assert {number for vector in vectors for number in vector} == set(range(-100, 101))


def test_a_bias_has_an_element_per_filter(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    w, other = (Value.constant("w", np.zeros(shape, np.float32)) for shape in ((5, 1, 1, 6), (9,)))
    chosen: dict[str, Value | None] = {"filter": w, "input": x, "absent": None, "other": other}
    assert np.shape(proposal(m, REGISTRY["CONV_2D"], "bias", x, chosen, f32)) == (5,)


def test_parameters_are_the_operands_that_are_no_data() -> None:
    def parameters(code: str) -> set[str]:
        return {spec.name for spec in REGISTRY[code].operands if is_parameter(spec)}

    assert parameters("CONV_2D") == {"filter", "bias"}
    assert parameters("RESHAPE") == {"shape"}
    assert parameters("ADD") == set()
    assert parameters("TRANSPOSE_CONV") == {"output_shape", "filter", "bias"}


@pytest.mark.parametrize("chance", [False, True])
def test_each_kind_of_broadcast_shape(chance: bool, m: ModelBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """``broadcast_shape`` draws one of 10 kinds, then a number of axes: here always rank - 1 = 2."""
    monkeypatch.setattr(m, "chance", lambda probability: chance)
    found = []
    for kind in range(10):
        monkeypatch.setattr(m, "below", lambda n, kind=kind: kind if n == 10 else n - 2)
        found.append(broadcast_shape(m, (2, 1, 3)))
    last = [(2, 1, 3), (2, 2, 1, 3)] if chance else [(1, 1, 1), (1, 1, 1)]
    assert found == [(3,)] * 4 + [(1, 1, 3)] * 2 + [(1, 1), (3,), *last]


def test_contents_of_constants(m: ModelBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    (x,) = m.graph.inputs

    def numbers(dtype: DType) -> list[float]:
        return [
            float(n)
            for _ in range(DRAWS)
            for n in np.ravel(proposal(m, REGISTRY["ADD"], "rhs", x, {}, dtype))
        ]

    assert set(numbers(i32)) == set(range(-3, 4))
    assert set(numbers(DType.UINT8)) == set(range(4))
    decide(m, monkeypatch)  # none of the next two events
    floats = np.abs(numbers(f32))
    assert 0.2 <= floats.min() < 0.3
    assert 1.9 < floats.max() <= 2
    decide(m, monkeypatch, 0.15)  # this event: a few special numbers
    assert set(numbers(f32)) == {0.0, 1.0, -1.0, 0.5, 3.0, 6.0, 1.0000001}
    decide(m, monkeypatch, 0.3)  # this event: extreme numbers, if ``allow_extremes``
    assert np.isfinite(numbers(f32)).all()
    m.allow_extremes = True
    assert not np.isfinite(numbers(f32)).all()
    filters = [proposal(m, REGISTRY["CONV_2D"], "filter", x, {}, f32) for _ in range(9)]
    assert abs(np.mean([array.mean() for array in filters])) < 0.5
    without_data = drawn(lambda: np.shape(proposal(m, REGISTRY["ADD"], "rhs", None, {}, f32))[-1:])
    assert without_data == {(4,), (1,), ()}


def test_operands_of_a_scalar(m: ModelBuilder) -> None:
    x = m.new_input(Value("s", f32, ()), np.zeros((), np.float32))
    filters = drawn(lambda: np.shape(proposal(m, REGISTRY["CONV_2D"], "filter", x, {}, f32))[-1])
    assert filters == {1}
    for name, shapes in (("weights", {(o, 1) for o in (1, 2, 3, 4)}), ("bias", {(1,)})):
        assert (
            drawn(
                lambda name=name: np.shape(  # type: ignore[misc]
                    proposal(m, REGISTRY["FULLY_CONNECTED"], name, x, {}, f32)
                )
            )
            == shapes
        )
    assert drawn(lambda: PARAMETERS["dim"](m, ())) == {0, -1, (0,), (-1,)}
    assert drawn(lambda: PARAMETERS["axis"](m, ())) == {0, -1, (0,), (-1,)}
    assert {len(PARAMETERS["dims"](m, ())) for _ in range(DRAWS)} == set(range(8))
    assert drawn(lambda: PARAMETERS["perm"](m, (2, 3))) == {(0, 1), (1, 0)}
