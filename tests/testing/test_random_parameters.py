# SPDX-License-Identifier: Apache-2.0
"""What can be drawn for operands that say shapes, axes, sizes and indices: exactly the described values.

The data of the fixture ``m`` has the shape SHAPE, [2,3,4,6].
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from circlekit.ir.dtypes import i32
from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Value
from circlekit.ops.movement.space import BatchToSpaceND, SpaceToBatchND
from circlekit.testing.model_builder import ModelBuilder
from circlekit.testing.random_operators import PARAMETERS, proposal
from tests.testing.draws import SHAPE, decide, drawn, parameter


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
    """Data of 3 x 4, a filter of 3 x 2, strides s from 1 to 3: SAME 3 s, 4 s; VALID 2 s + 3, 3 s + 2."""
    (x,) = m.graph.inputs
    w = Value.constant("w", np.zeros((5, 3, 2, 6), np.float32))
    chosen: dict[str, Value | None] = {"filter": w, "input": x, "bias": None}
    found = drawn(lambda: proposal(m, REGISTRY["TRANSPOSE_CONV"], "output_shape", x, chosen, i32))
    same, valid = product((3, 6, 9), (4, 8, 12)), product((5, 7, 9), (5, 8, 11))
    assert found == {(2, *size, 5) for size in (*same, *valid)}
    sizes: set[Any] = drawn(lambda: proposal(m, REGISTRY["RESIZE_BILINEAR"], "size", x, {}, i32))
    assert {size for pair in sizes for size in pair} == set(range(1, 9))


def test_sizes_of_results_without_a_filter(m: ModelBuilder) -> None:
    """As with a filter of 1 x 1: SAME 3 s, 4 s; VALID 2 s + 1, 3 s + 1."""
    (x,) = m.graph.inputs
    found = drawn(lambda: proposal(m, REGISTRY["TRANSPOSE_CONV"], "output_shape", x, {}, i32))
    same, valid = product((3, 6, 9), (4, 8, 12)), product((3, 5, 7), (4, 7, 10))
    assert found == {(2, *size, 1) for size in (*same, *valid)}


def test_shapes_of_operators_without_data(m: ModelBuilder) -> None:
    found = drawn(lambda: proposal(m, REGISTRY["FILL"], "dims", None, {}, i32))
    assert found == {(2, 3, 4, 4), (3, 4, 4), (4, 4)}
