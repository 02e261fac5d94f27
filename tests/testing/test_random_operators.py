# SPDX-License-Identifier: Apache-2.0
"""What can be drawn for operands and attributes: exactly the values that the descriptions say."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from circlekit.ir.declaration import Attribute
from circlekit.ir.dtypes import DType, boolean, f32, i32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Value
from circlekit.testing.model_builder import ModelBuilder
from circlekit.testing.random_operators import (
    PARAMETERS,
    broadcast_shape,
    derived_attributes,
    is_parameter,
    proposal,
    random_attribute,
    random_quantization,
)

SHAPE = (2, 3, 4, 6)
DRAWS = 600


@pytest.fixture
def m() -> ModelBuilder:
    x = Value("x", f32, SHAPE)
    return ModelBuilder(Graph("main", [x]), [np.zeros(SHAPE, np.float32)], np.random.default_rng(5))


def drawn(draw: Callable[[], Any]) -> set[Hashable]:
    """Return all results of many draws, arrays and lists as tuples."""

    def plain(result: Any) -> Hashable:
        listed = np.asarray(result).tolist()
        return tuple(map(plain, listed)) if isinstance(listed, list) else listed

    return {plain(draw()) for _ in range(DRAWS)}


def parameter(m: ModelBuilder, name: str) -> set[Any]:
    return drawn(lambda: PARAMETERS[name](m, SHAPE))


def test_axes(m: ModelBuilder) -> None:
    axes = set(range(-4, 4))
    for name in ("dim", "dimension", "split_dim"):
        assert parameter(m, name) == axes
    found = parameter(m, "axis")
    assert {axis for axis in found if isinstance(axis, int)} == axes
    lists = {axis for axis in found if isinstance(axis, tuple)}
    assert {(1, 2), (2, 3), (3,), (-1,)} <= lists
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


@pytest.mark.parametrize(
    ("name", "elements"),
    [("strides", {-1, 1, 2}), ("size", {-1, *SHAPE}), ("end", {*SHAPE}), ("multiples", {1, 2}),
     ("dims", {*SHAPE}), ("dilations", {1, 2}), ("start_indices", {0, 1}), ("begin", {0, 1, 2, 3, 4, 5}),
     ("seq_lengths", {1, 2}), ("block_shape", {1, 2})],
)  # fmt: skip
def test_elements_of_vectors(name: str, elements: set[int], m: ModelBuilder) -> None:
    found = parameter(m, name)
    assert {element for vector in found for element in vector} == elements
    assert {len(vector) for vector in found} == {2 if name in ("seq_lengths", "block_shape") else 4}


def test_paddings_crops_indices_and_depth(m: ModelBuilder) -> None:
    paddings = parameter(m, "paddings")
    assert {len(rows) for rows in paddings} == {2, 4}
    assert {side for rows in paddings for row in rows for side in row} == {0, 1}
    assert {side for rows in parameter(m, "crops") for row in rows for side in row} == {0, 1, 2}
    indices = parameter(m, "indices")
    assert {index for index in indices if isinstance(index, int)} == {0, 1}
    assert {len(index) for index in indices if isinstance(index, tuple)} == {1, 2, 3}
    assert parameter(m, "depth") == {1, 2, 3, 4}


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
    assert found == shapes
    whole: set[Any] = drawn(lambda: proposal(m, REGISTRY["FULLY_CONNECTED"], "bias", x, {}, DType.INT8))
    assert {number for vector in whole for number in vector} == set(range(-100, 101))


def test_a_bias_has_an_element_per_filter(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    chosen: dict[str, Value | None] = {"filter": Value.constant("w", np.zeros((5, 1, 1, 6), np.float32))}
    assert np.shape(proposal(m, REGISTRY["CONV_2D"], "bias", x, chosen, f32)) == (5,)


def test_sizes_of_results(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    w = Value.constant("w", np.zeros((5, 3, 2, 6), np.float32))
    found = drawn(lambda: proposal(m, REGISTRY["TRANSPOSE_CONV"], "output_shape", x, {"filter": w}, i32))
    assert found == {(2, 3, 4, 5), (2, 6, 8, 5), (2, 5, 5, 5), (2, 7, 8, 5)}
    sizes: set[Any] = drawn(lambda: proposal(m, REGISTRY["RESIZE_BILINEAR"], "size", x, {}, i32))
    assert {size for pair in sizes for size in pair} == set(range(1, 9))


@pytest.mark.parametrize(
    ("name", "default", "values"),
    [
        ("act", Activation.NONE, {"NONE", "RELU", "RELU6", "RELU_N1_TO_1"}),
        ("flag", False, {False, True}),
        ("stride_w", 1, {1, 2}),
        ("depth_multiplier", 1, {1, 2}),
        ("filter_width", 1, {1, 2, 3}),
        ("block_size", 2, {1, 2, 3}),
        ("begin_mask", 0, {0, 1, 2, 4}),
        ("axis", 0, {-2, -1, 0, 1}),
        ("other", 7, {7}),
        ("alpha", 0.5, {0.5}),
        ("output_type", DType.INT32, {"i32", "i64"}),
    ],
)
def test_attributes(name: str, default: Any, values: set[Any], m: ModelBuilder) -> None:
    spec = Attribute(default, name, graph=False)
    spec.name = name
    found = {random_attribute(m, spec) for _ in range(DRAWS)}
    assert {getattr(x, "short", getattr(x, "name", x)) for x in found} == values


def test_attributes_that_follow_from_operands(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    unpacked = [derived_attributes(m, REGISTRY["UNPACK"], [x]) for _ in range(50)]
    assert {item["axis"] for item in unpacked} == set(range(-4, 4))
    assert all(item["num"] == SHAPE[item["axis"]] for item in unpacked)
    assert derived_attributes(m, REGISTRY["PACK"], [x, x, x])["values_count"] == 3
    splits = drawn(lambda: derived_attributes(m, REGISTRY["SPLIT"], [x, x])["num_splits"])
    assert splits == {1, 2, 3}
    cast = [derived_attributes(m, REGISTRY["CAST"], [x]) for _ in range(50)]
    assert {item["in_data_type"] for item in cast} == {f32}
    assert {item["out_data_type"] for item in cast} == {f32, i32, boolean, DType.INT64}


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(DType.UINT8, 0, 199), (DType.INT8, -100, 99), (DType.INT16, 0, 0)]
)
def test_quantization(dtype: DType, low: int, high: int, m: ModelBuilder) -> None:
    found = [random_quantization(m, dtype) for _ in range(3000)]
    points = {int(item.zero_point[0]) for item in found}
    assert points == {*range(low, high + 1), 0}
    scales = {
        float(np.float32(s / (64 if dtype is DType.INT16 else 1))) for s in (0.05, 0.1, 1 / 16, 0.5, 1 / 256)
    }
    assert {float(item.scale[0]) for item in found} == scales


def test_operands_that_are_no_data() -> None:
    def parameters(code: str) -> set[str]:
        return {spec.name for spec in REGISTRY[code].operands if is_parameter(spec)}

    assert parameters("CONV_2D") == {"filter", "bias"}
    assert parameters("RESHAPE") == {"shape"}
    assert parameters("ADD") == set()
    assert parameters("TRANSPOSE_CONV") == {"output_shape", "filter", "bias"}
