# SPDX-License-Identifier: Apache-2.0
"""What can be drawn for operands and attributes: exactly the values that the descriptions say."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.declaration import Attribute
from circlekit.ir.dtypes import DType, boolean, f32, i32
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.graph import Graph
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Value
from circlekit.ops.movement.space import BatchToSpaceND, SpaceToBatchND
from circlekit.testing.model_builder import ModelBuilder, Rejected
from circlekit.testing.random_operators import (
    PARAMETERS,
    broadcast_shape,
    derived_attributes,
    is_parameter,
    make_operator,
    proposal,
    random_attribute,
    random_operator,
    random_quantization,
)

SHAPE = (2, 3, 4, 6)
DRAWS = 600


@pytest.fixture
def m() -> ModelBuilder:
    x = Value("x", f32, SHAPE)
    return ModelBuilder(Graph("main", [x]), [np.zeros(SHAPE, np.float32)], np.random.default_rng(5))


def drawn(draw: Callable[[], Any]) -> set[Any]:
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


def test_shapes_that_broadcast(m: ModelBuilder) -> None:
    found: set[Any] = drawn(lambda: broadcast_shape(m, (2, 1, 3)))
    lower = {(3,), (), (1,), (1, 1), (1, 3)}
    assert lower | {(1, 1, 3), (1, 1, 1), (2, 1, 3), (2, 1, 1), (2, 2, 1, 3), (1, 2, 1)} <= found
    for shape in found:
        assert np.broadcast_shapes(shape, (2, 1, 3))[-3:] in ((2, 1, 3), (2, 2, 3))


GROUPED_FILTERS: set[Any] = {*product((2, 4, 6, 8), (1, 2, 3), (1, 2, 3), (3,))}
"""Shapes of rare filters, which read half of the 6 channels."""


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
    whole: set[Any] = drawn(lambda: proposal(m, REGISTRY["FULLY_CONNECTED"], "bias", x, {}, DType.INT8))
    assert {number for vector in whole for number in vector} == set(range(-100, 101))


def test_a_bias_has_an_element_per_filter(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    w, other = (Value.constant("w", np.zeros(shape, np.float32)) for shape in ((5, 1, 1, 6), (9,)))
    chosen: dict[str, Value | None] = {"filter": w, "input": x, "absent": None, "other": other}
    assert np.shape(proposal(m, REGISTRY["CONV_2D"], "bias", x, chosen, f32)) == (5,)


def test_sizes_of_results(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    w = Value.constant("w", np.zeros((5, 3, 2, 6), np.float32))
    chosen: dict[str, Value | None] = {"filter": w, "input": x, "bias": None}
    found = drawn(lambda: proposal(m, REGISTRY["TRANSPOSE_CONV"], "output_shape", x, chosen, i32))
    same, valid = product((3, 6, 9), (4, 8, 12)), product((5, 7, 9), (5, 8, 11))
    assert found == {(2, *size, 5) for size in (*same, *valid)}
    sizes: set[Any] = drawn(lambda: proposal(m, REGISTRY["RESIZE_BILINEAR"], "size", x, {}, i32))
    assert {size for pair in sizes for size in pair} == set(range(1, 9))


@pytest.mark.parametrize(
    ("name", "default", "values"),
    [
        ("act", Activation.NONE, {"NONE", "RELU", "RELU6", "RELU_N1_TO_1"}),
        ("flag", False, {False, True}),
        ("stride_w", 1, {1, 2, 3}),
        ("depth_multiplier", 1, {1, 2, 3}),
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
    spec = Attribute(default, name, is_graph=False)
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


# -- whole operators ---------------------------------------------------------------------------


def decide(m: ModelBuilder, monkeypatch: pytest.MonkeyPatch, *probabilities: float) -> None:
    """Make exactly the events of these probabilities happen."""
    monkeypatch.setattr(m, "chance", lambda probability: probability in probabilities)


@pytest.mark.parametrize("chance", [False, True])
def test_each_kind_of_broadcast_shape(chance: bool, m: ModelBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(m, "chance", lambda probability: chance)
    found = []
    for kind in range(10):
        monkeypatch.setattr(m, "below", lambda n, kind=kind: kind if n == 10 else n - 2)
        found.append(broadcast_shape(m, (2, 1, 3)))
    last = [(2, 1, 3), (2, 2, 1, 3)] if chance else [(1, 1, 1), (1, 1, 1)]
    assert found == [(3,)] * 4 + [(1, 1, 3)] * 2 + [(1, 1), (3,), *last]


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
    decide(m, monkeypatch)
    floats = np.abs(numbers(f32))
    assert 0.2 <= floats.min() < 0.3
    assert 1.9 < floats.max() <= 2
    decide(m, monkeypatch, 0.15)
    assert set(numbers(f32)) == {0.0, 1.0, -1.0, 0.5, 3.0, 6.0, 1.0000001}
    decide(m, monkeypatch, 0.3)
    assert np.isfinite(numbers(f32)).all()
    m.allow_extremes = True
    assert not np.isfinite(numbers(f32)).all()
    filters = proposal(m, REGISTRY["CONV_2D"], "filter", x, {}, f32)
    assert abs(np.mean([filters.mean() for _ in range(9)])) < 0.5
    without_data = drawn(lambda: np.shape(proposal(m, REGISTRY["ADD"], "rhs", None, {}, f32))[-1:])
    assert without_data == {(4,), (1,), ()}


def test_operands_of_whole_operators(m: ModelBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    (x,) = m.graph.inputs
    m.new_input(Value("small", f32, (6,)), np.zeros(6, np.float32))
    m.pool.append(m.graph.inputs[-1])

    def made(code: str, *probabilities: float, count: int = 40) -> list[Op]:
        decide(m, monkeypatch, *probabilities)
        found = []
        for _ in range(count):
            with suppress(ShapeError):  # of windows larger than the data
                found.append(make_operator(m, REGISTRY[code]))
        assert len(found) > count / 3
        return found

    assert {len(op.inputs) for op in made("CONCATENATION")} == {1, 2, 3}
    for op in made("PACK"):
        assert op.attribute_values["values_count"] == len(op.inputs)
    for swap in (False, True):
        for op in made("ADD", *[0.4] * swap):
            assert [v is not None and v.is_const for v in op.inputs] == [swap, not swap]
    for op in made("ADD", 0.5):
        assert not any(v is None or v.is_const for v in op.inputs)
        assert op.inputs[0].shape == op.inputs[1].shape  # type: ignore[union-attr]
    assert {len({v.shape for v in op.inputs if v is not None}) for op in made("ADD", 0.5, 0.1)} == {1, 2}
    m.pool = [x]
    for op in made("CONV_2D", 0.4):
        assert [v is not None and v.is_const for v in op.inputs] == [False, True, True]
    assert {len(op.inputs) for op in made("CONV_2D", 0.5)} == {2}
    assert {op.inputs[0] for op in made("NEG", 0.4)} == {x}
    assert {op.attribute_values["stride_w"] for op in made("CONV_2D")} == {1}
    m.pool.pop()
    with pytest.raises(Rejected):
        make_operator(m, REGISTRY["NEG"])


def test_quantized_operators(m: ModelBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    decide(m, monkeypatch)
    quantized = [make_operator(m, REGISTRY["QUANTIZE"]).output for _ in range(40)]
    assert {v.dtype for v in quantized} == {DType.INT8, DType.UINT8, DType.INT16}
    assert all(v.quantization is not None and v.shape == SHAPE for v in quantized)
    data = m.add(next(v for v in quantized if v.dtype is DType.INT8).producer)  # type: ignore[arg-type]
    m.pool = [data]

    def made(code: str, *probabilities: float) -> Op:
        decide(m, monkeypatch, *probabilities)
        return make_operator(m, REGISTRY[code])

    assert made("QUANTIZE").output.dtype is DType.INT8
    assert {made("QUANTIZE", 0.3).output.dtype for _ in range(40)} == {DType.INT8, DType.UINT8, DType.INT16}
    assert made("RELU", 0.8).output.quantization is data.quantization
    assert made("RELU").output.quantization not in (None, data.quantization)
    assert made("DEQUANTIZE").output.quantization is None
    added = made("ADD").inputs[1]
    assert added is not None
    assert added.quantization not in (None, data.quantization)
    answers = iter([False, True])  # not from the pool; with the quantization of the data
    monkeypatch.setattr(m, "below", lambda n: 0)
    monkeypatch.setattr(m, "chance", lambda probability: probability == 0.5 and next(answers, False))
    shared = make_operator(m, REGISTRY["ADD"]).inputs[1]
    assert shared is not None
    assert shared.quantization is data.quantization
    compared = made("EQUAL").output
    assert (compared.dtype, compared.quantization) == (boolean, None)


def test_fake_quantization(m: ModelBuilder) -> None:
    found = [derived_attributes(m, REGISTRY["FAKE_QUANT"], m.graph.inputs) for _ in range(60)]
    assert {item["num_bits"] for item in found} == {8}
    assert ({item["min"] for item in found}, {item["max"] for item in found}) == ({-6, -1, 0}, {6, 1, 2.55})
    assert derived_attributes(m, REGISTRY["UNPACK"], [None]) == {}


def test_random_operators_are_pure_and_have_operands(m: ModelBuilder) -> None:
    for _ in range(20):
        with suppress(Rejected):
            op = random_operator(m).producer
            assert op is not None
            assert op.pure
            assert op.operands
    assert len({op.code for op in m.graph}) > 5


def test_indices_of_small_shapes(m: ModelBuilder) -> None:
    for shape in ((), (1,), (5, 1)):
        indices = drawn(lambda shape=shape: np.ravel(PARAMETERS["indices"](m, shape)))  # type: ignore[misc]
        assert {index for vector in indices for index in vector} == {0}
        assert {len(vector) for vector in indices} >= {1, 2, 3, 4, 6, 9}


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


def test_depth_multipliers_follow_from_the_filter(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    for channels, multiplier in ((6, 1), (12, 2), (18, 3), (1, 1)):
        w = Value.constant("w", np.zeros((1, 3, 3, channels), np.float32))
        found = derived_attributes(m, REGISTRY["DEPTHWISE_CONV_2D"], [x, w])
        assert found["depth_multiplier"] == multiplier
    w = Value.constant("w", np.zeros((1, 3, 3, 4), np.float32))
    scalar = m.new_input(Value("scalar", f32, ()), np.zeros((), np.float32))
    assert derived_attributes(m, REGISTRY["DEPTHWISE_CONV_2D"], [scalar, w])["depth_multiplier"] == 4
    assert derived_attributes(m, REGISTRY["DEPTHWISE_CONV_2D"], [x, None])["depth_multiplier"] == 1


@pytest.mark.parametrize("padding", [Padding.SAME, Padding.VALID])
@pytest.mark.parametrize("strides", [*product((1, 2, 3), repeat=2)])
def test_windows_of_transposed_convolutions(
    padding: Padding, strides: tuple[int, int], m: ModelBuilder
) -> None:
    """The sizes of the result are those of LiteRT; a size that no window has gives no attributes."""
    (x,) = m.graph.inputs  # of 3 rows and 4 columns
    w = Value.constant("w", np.zeros((5, 6, 7, 6), np.float32))
    bias = Value.constant("b", np.zeros(5, np.float32))
    taps = (0, 0) if padding is Padding.SAME else (6 - strides[0], 7 - strides[1])
    size = [3 * strides[0] + taps[0], 4 * strides[1] + taps[1]]
    for more in ([], [bias]):
        found = derived_attributes(m, REGISTRY["TRANSPOSE_CONV"], [m.ints([2, *size, 5]), w, x, *more])
        assert found == {"padding": padding, "stride_h": strides[0], "stride_w": strides[1]}
    assert derived_attributes(m, REGISTRY["TRANSPOSE_CONV"], [m.ints([2, 40, size[1], 5]), w, x]) == {}
    assert derived_attributes(m, REGISTRY["TRANSPOSE_CONV"], [m.ints([2, *size, 5]), None, x]) == {}


def test_sizes_of_results_without_a_filter(m: ModelBuilder) -> None:
    (x,) = m.graph.inputs
    found = drawn(lambda: proposal(m, REGISTRY["TRANSPOSE_CONV"], "output_shape", x, {}, i32))
    same, valid = product((3, 6, 9), (4, 8, 12)), product((3, 5, 7), (4, 7, 10))
    assert found == {(2, *size, 1) for size in (*same, *valid)}


def test_block_shapes_have_a_size_for_each_inner_axis(
    m: ModelBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_shapes_of_operators_without_data(m: ModelBuilder) -> None:
    found = drawn(lambda: proposal(m, REGISTRY["FILL"], "dims", None, {}, i32))
    assert found == {(2, 3, 4, 4), (3, 4, 4), (4, 4)}
