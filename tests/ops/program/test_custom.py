# SPDX-License-Identifier: Apache-2.0
"""Custom operators: those that converters keep from TensorFlow, and their options, which are FlexBuffers."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from circlekit.errors import LimitError, ModelError, ShapeError, UnsupportedError
from circlekit.interp import evaluate
from circlekit.ir.dtypes import f32
from circlekit.ir.op import OpaqueOp
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.random_ops import RandomUniform
from circlekit.ops.arithmetic.unary import Neg
from circlekit.ops.convolution.pool import MaxPool2D
from circlekit.ops.program.custom import is_pure
from circlekit.ops.program.flexbuffer import options_of, read_flexbuffer
from circlekit.ops.reduction.reduce import ReduceAll
from tests.ops.litert import assert_close, const, graph_of, run_litert, var


def custom(name: str, inputs: list[Array], shapes: list[tuple[Any, ...]], **options: Any) -> list[Array]:
    """Return the results of a custom operator; ``shapes``: (dtype, dimension, ...) of each result."""
    results = [Value(f"y{i}", var(np.zeros(1, s[0])).dtype, s[1:]) for i, s in enumerate(shapes)]
    op = OpaqueOp(*map(var, inputs), code="CUSTOM", custom_code=name, results=results)
    if options:
        op.extra["custom_options"] = np.frombuffer(bytes(flexbuffers.Dumps(options)), np.uint8)
    return evaluate(op, inputs)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)


def test_add_v2() -> None:
    x, y = np.arange(6).reshape(2, 3), np.array([[10], [20]])
    (out,) = custom("AddV2", [x, y], [("i8", 2, 3)], T=9)
    np.testing.assert_array_equal(out, [[10, 11, 12], [23, 24, 25]])


@pytest.mark.parametrize("keep", [False, True])
def test_all(keep: bool) -> None:
    x = np.random.default_rng(2).uniform(size=(3, 4, 2)) < 0.8
    axes = const([0, -1], np.int32)
    (wanted,) = run_litert(graph_of(ReduceAll(var(x), axes, keep_dims=keep)), [x])
    (out,) = custom("All", [x, np.array([0, -1], np.int32)], [("?", *wanted.shape)], keep_dims=keep)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("adj_x", [False, True])
@pytest.mark.parametrize("adj_y", [False, True])
def test_batch_matmul(adj_x: bool, adj_y: bool) -> None:
    x, y = numbers(2, 3, 4), numbers(2, 4, 5)
    given = [x.swapaxes(1, 2).copy() if adj_x else x, y.swapaxes(1, 2).copy() if adj_y else y]
    (out,) = custom("BatchMatMulV2", given, [("f4", 2, 3, 5)], adj_x=adj_x, adj_y=adj_y)
    assert_close(out, np.einsum("bij,bjk->bik", x, y))


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_matmul(a: bool, b: bool) -> None:
    x, y = numbers(3, 4), numbers(4, 5)
    (out,) = custom(
        "MatMul", [x.T if a else x, y.T if b else y], [("f4", 3, 5)], transpose_a=a, transpose_b=b
    )
    assert_close(out, np.einsum("ij,jk->ik", x, y))
    with pytest.raises(ShapeError, match="expected two matrices, got ranks 1 and 2"):
        custom("MatMul", [x[0], y], [("f4", 5)])


def test_erf() -> None:
    x = np.linspace(-4, 4, 101, dtype=np.float32)
    (out,) = custom("Erf", [x], [("f4", 101)])
    assert_close(out, np.array([math.erf(v) for v in x], np.float32))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_erf_of_small_numbers_keeps_their_digits(dtype: str) -> None:
    x = np.array([1e-20, -1e-10, 1e-6, 0.0, -0.0], dtype)
    (out,) = custom("Erf", [x], [(dtype, 5)])
    assert out.tobytes() == np.array([math.erf(v) for v in x], dtype).tobytes()  # signs of 0, too


@pytest.mark.parametrize("lower", [-1, 0, 1])
@pytest.mark.parametrize("upper", [-1, 0, 2])
def test_matrix_band_part(lower: int, upper: int) -> None:
    x = numbers(2, 4, 5)
    (out,) = custom("MatrixBandPart", [x, np.array(lower), np.array(upper)], [("f4", 2, 4, 5)])
    high = x if upper < 0 else np.stack([np.tril(m, upper) for m in x])
    np.testing.assert_array_equal(out, high if lower < 0 else np.stack([np.triu(m, -lower) for m in high]))


def test_broadcast_to() -> None:
    x = numbers(3, 1)
    (out,) = custom("BroadcastTo", [x, np.array([2, 3, 4])], [("f4", 2, 3, 4)])
    np.testing.assert_array_equal(out, np.stack([np.tile(x, (1, 4))] * 2))


def test_split_v() -> None:
    x = numbers(2, 7)
    shapes = [("f4", 2, n) for n in (2, 4, 1)]
    parts = custom("SplitV", [x, np.array([2, -1, 1]), np.array(-1)], shapes, num_split=3)
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), x)
    with pytest.raises(ShapeError, match=r"expected a sum of 7, got \[2, 4\]"):
        custom("SplitV", [x, np.array([2, 4]), np.array(1)], shapes[:2])
    with pytest.raises(ModelError, match="at most one -1"):
        custom("SplitV", [x, np.array([-1, -1]), np.array(1)], shapes[:2])
    parts = custom("SplitV", [x, np.array([3, 4, -1]), np.array(1)], [("f4", 2, n) for n in (3, 4, 0)])
    assert [p.shape for p in parts] == [(2, 3), (2, 4), (2, 0)]
    with pytest.raises(ShapeError, match=r"sum of at most 7, got \[3, 5, -1\]"):
        custom("SplitV", [x, np.array([3, 5, -1]), np.array(1)], shapes)


@pytest.mark.parametrize(
    ("x", "filter", "bias"),
    [
        ((1, 3, 3, 2), (4, 3, 3), (4,)),
        ((1, 3, 3, 2), (4, 3, 3, 3), (4,)),
        ((1, 3, 3, 2), (4, 3, 3, 2), (3,)),
        ((0, 3, 3, 2), (4, 3, 3, 2), (4,)),
    ],
)
def test_convolution_2d_transpose_bias_names_shapes_that_do_not_fit(
    x: tuple[int, ...], filter: tuple[int, ...], bias: tuple[int, ...]
) -> None:
    found = re.escape(f"got {x}, {filter} and {bias}")
    with pytest.raises(ShapeError, match=rf"a filter \[O,KH,KW,I\] and a bias \[O\], {found}"):
        custom(
            "Convolution2DTransposeBias",
            [numbers(*x), numbers(*filter), numbers(*bias)],
            [("f4", 1, 5, 5, 4)],
        )


def test_known_custom_operators_are_pure() -> None:
    x = Value("x", f32, (2,))

    def opaque(code: str, custom_code: str | None) -> OpaqueOp:
        return OpaqueOp(x, code=code, custom_code=custom_code, results=[Value("y", f32, (2,))])

    assert is_pure(opaque("CUSTOM", "Erf"))
    assert not is_pure(opaque("CUSTOM", "Unheard"))
    assert not is_pure(opaque("DELEGATE", "Erf"))
    assert is_pure(Neg(x))
    assert not is_pure(RandomUniform(const([2], np.int32)))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("strides", [(2, 1), (1, 3), (2, 2)])
def test_max_pool_with_argmax(padding: str, batched: bool, strides: tuple[int, int]) -> None:
    x = numbers(2, 7, 6, 3)
    pool = MaxPool2D(var(x), filter_height=3, filter_width=2, stride_h=strides[0], stride_w=strides[1])
    pool.padding = type(pool.padding)[padding]
    (wanted,) = run_litert(graph_of(MaxPool2D(var(x), **pool.attribute_values)), [x])
    options = {"ksize": [1, 3, 2, 1], "strides": [1, *strides, 1], "padding": padding}
    shapes = [(kind, *wanted.shape) for kind in ("f4", "i8")]
    out, where = custom("MaxPoolWithArgmax", [x], shapes, include_batch_in_index=batched, **options)
    np.testing.assert_array_equal(out, wanted)
    declared = [shapes[0], ("i4", *wanted.shape)]
    (_, narrow) = custom("MaxPoolWithArgmax", [x], declared, include_batch_in_index=batched, **options)
    assert narrow.dtype == np.int32
    np.testing.assert_array_equal(narrow, where)
    with pytest.raises(ShapeError, match="expected 1 result, got 2"):
        custom("MaxPoolWithArgmax", [x], declared[:1], include_batch_in_index=batched, **options)
    images = where if batched else where + np.arange(2).reshape(2, 1, 1, 1) * x[0].size
    assert images.min() >= 0
    np.testing.assert_array_equal(x.reshape(-1)[images], wanted)


@pytest.mark.parametrize("kind", ["i4", "i8"])
def test_positions_have_the_dtype_of_the_second_result(kind: str) -> None:
    options = {"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    shapes = [("f4", 1, 2, 3, 1), (kind, 1, 2, 3, 1)]
    _, where = custom("MaxPoolWithArgmax", [numbers(1, 2, 3, 1)], shapes, **options)
    assert where.dtype == np.dtype(kind)
    assert where.reshape(-1).tolist() == list(range(6))


def test_argmax_of_the_least_numbers_is_an_element_of_the_window() -> None:
    x = np.full((1, 3, 3, 1), -np.inf, np.float32)
    options = {"ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    for data in (x, np.full(x.shape, -128, np.int8)):
        shapes = [(data.dtype.str, *x.shape), ("i8", *x.shape)]
        out, where = custom("MaxPoolWithArgmax", [data], shapes, **options)
        np.testing.assert_array_equal(out, data)
        # the first element of each 3x3 window that is not padding
        assert where.reshape(-1).tolist() == [0, 0, 1, 0, 0, 1, 3, 3, 4]


def test_a_window_larger_than_the_image_has_no_maximum() -> None:
    options = {"ksize": [1, 4, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    shapes = [("f4", 1, 0, 2, 1), ("i4", 1, 0, 2, 1)]
    out, where = custom("MaxPoolWithArgmax", [numbers(1, 3, 3, 1)], shapes, **options)
    assert out.shape == where.shape == (1, 0, 2, 1)
    assert where.dtype == np.int32


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"ksize": [1, 2, 2]}, "ksize, strides: expected four positive integers each"),
        ({"strides": [1, 2, 2]}, "ksize, strides: expected four positive integers each"),
        ({"strides": [1, 0, 1, 1]}, "ksize, strides: expected four positive integers each"),
        ({"padding": "FULL"}, "padding: expected SAME or VALID, got 'FULL'"),
        ({"padding": 1}, "option padding: expected str, got 1"),
    ],
)
def test_wrong_options_of_max_pool_with_argmax(change: dict[str, Any], sentence: str) -> None:
    options = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME", **change}
    with pytest.raises(ModelError, match=sentence):
        custom("MaxPoolWithArgmax", [numbers(1, 3, 3, 1)], [("f4", 1, 3, 3, 1)], **options)


@pytest.mark.parametrize("change", [{"ksize": [1, 2, 2, 3]}, {"strides": [2, 1, 1, 1]}])
def test_max_pool_with_argmax_has_no_windows_across_images_or_channels(change: dict[str, Any]) -> None:
    options = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME", **change}
    with pytest.raises(UnsupportedError, match="only for sizes and strides of 1 for N and C"):
        custom("MaxPoolWithArgmax", [numbers(1, 3, 3, 1)], [("f4", 1, 3, 3, 1)], **options)


def test_windows_of_max_pool_with_argmax_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"ksize": [1, 1 << 19, 1 << 19, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    with pytest.raises(LimitError, match="the windows of MaxPoolWithArgmax"):
        custom("MaxPoolWithArgmax", [numbers(1, 3, 3, 1)], [("f4", 1, 3, 3, 1)], **options)
    sizes: list[int] = []
    monkeypatch.setattr("circlekit.ops.program.custom.need_memory", lambda size, what: sizes.append(size))
    options = {"ksize": [1, 3, 2, 1], "strides": [1, 2, 1, 1], "padding": "SAME"}
    custom("MaxPoolWithArgmax", [numbers(2, 5, 4, 3)], [("f4", 2, 3, 4, 3), ("i8", 2, 3, 4, 3)], **options)
    padded, windows = 2 * 7 * 5 * 3, 2 * (3 * 4) * 3 * (3 * 2)
    assert sizes == [(padded + windows) * (8 + 4)]  # an int64 position and a float32 element


def test_unknown_names() -> None:
    with pytest.raises(UnsupportedError, match="custom operator Nobody has no kernel"):
        custom("Nobody", [numbers(1)], [("f4", 1)])


# -- FlexBuffers -------------------------------------------------------------------------------

TREES: list[Any] = [
    {}, {"a": 1}, {"": 1, "empty": ""},
    {"flag": True, "none": None, "text": "hello", "pi": 3.5, "big": 1 << 40, "low": -7},
    {"list": [1, 2, 3], "nested": {"x": [1.5, "y", {"z": []}]}, "blob": b"\x00\x01"},
    [1, 2.5, "three"], "root", 12, -300, 0.1, list(range(300)), {f"k{i}": i for i in range(200)},
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=lambda t: str(t)[:20])
def test_flexbuffers_that_the_library_writes_are_read(tree: Any) -> None:
    assert read_flexbuffer(bytes(flexbuffers.Dumps(tree))) == tree


def test_typed_vectors() -> None:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.TypedVectorFromElements("ints", [1, -2, 300])
        builder.FixedTypedVectorFromElements("three", [1.5, 2.5, 3.5])
        builder.IndirectInt("far", 70000)
        builder.IndirectFloat("real", 2.25)
    wanted = {"ints": [1, -2, 300], "three": [1.5, 2.5, 3.5], "far": 70000, "real": 2.25}
    assert read_flexbuffer(bytes(builder.Finish())) == wanted


def test_damaged_flexbuffers_raise_only_model_errors() -> None:
    whole = bytes(flexbuffers.Dumps(TREES[3]))
    rng = np.random.default_rng(3)
    for _ in range(500):
        data = bytearray(whole[: rng.integers(0, len(whole) + 1)])
        for _ in range(2):
            if data:
                data[rng.integers(len(data))] = rng.integers(256)
        with suppress(ModelError):  # any other error fails the test
            read_flexbuffer(bytes(data))


def test_options_are_a_map() -> None:
    op = OpaqueOp(code="CUSTOM", custom_code="X", results=[])
    assert options_of(op) == {}
    op.extra["custom_options"] = np.frombuffer(bytes(flexbuffers.Dumps([1, 2])), np.uint8)
    with pytest.raises(ModelError, match="CUSTOM: expected a map of options, got list"):
        options_of(op)


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


def test_limits_of_flexbuffers() -> None:
    assert read_flexbuffer(bytes(flexbuffers.Dumps(nested(64)))) == nested(64)
    with pytest.raises(ModelError, match="expected at most 64 nested vectors and maps"):
        read_flexbuffer(bytes(flexbuffers.Dumps(nested(65))))
    assert read_flexbuffer(b"\x07\x04\x01") == 7  # an integer of one byte
    with pytest.raises(ModelError, match="expected at least 3 bytes, got 2"):
        read_flexbuffer(b"\x04\x01")
    with pytest.raises(ModelError, match="expected a slot of 1, 2, 4 or 8 bytes, got 3"):
        read_flexbuffer(b"\x00\x00\x07\x04\x03")
    with pytest.raises(ModelError, match="expected a float of 2, 4 or 8 bytes"):
        read_flexbuffer(b"\x07\x0c\x01")
    with pytest.raises(ModelError, match="expected positions in its 3 bytes, got 1 byte at -1"):
        read_flexbuffer(b"\x00\x14\x01")  # a text whose length is in front of the data
    with pytest.raises(ModelError, match="unknown type 37"):
        read_flexbuffer(b"\x01\x00\x01\x94\x01")
    with pytest.raises(ModelError, match="expected a key that ends with a zero byte"):
        read_flexbuffer(b"a\x01\x10\x01")


def test_elements_of_a_flexbuffer_are_limited_by_its_size() -> None:
    bools = bytes([200]) + bytes(1) + b"\x01\x90\x01"  # a vector of 200 bools, longer than the buffer
    with pytest.raises(ModelError, match="elements, got more"):
        read_flexbuffer(bools)


def slots_on_one_blob(starts: list[int]) -> bytes:
    """Return a FlexBuffer: a vector whose elements share the memory of one blob of 1000 bytes.

    ``starts``: for each element, 0 for the blob itself, or n for a key that begins at byte n of the blob.
    """
    text = (1000).to_bytes(4, "little") + bytes(range(1, 251)) * 4 + b"\0\0\0\0"
    count = len(starts)
    at = len(text) + 4
    slots = [at + 4 * i - (4 + start) for i, start in enumerate(starts)]
    blob, key = (25 << 2) + 2, 4 << 2
    kinds = bytes([key if start else blob for start in starts])
    body = b"".join(slot.to_bytes(4, "little") for slot in slots) + kinds
    data = text + count.to_bytes(4, "little") + body
    return data + (len(data) - at).to_bytes(4, "little") + bytes([(10 << 2) + 2, 4])


def test_texts_and_blobs_together_are_limited_by_the_size_of_the_buffer() -> None:
    read = read_flexbuffer(slots_on_one_blob([0] * 300))
    assert len(read) == 300
    assert len(read[0]) == 1000
    assert all(blob is read[0] for blob in read)  # 300 times in the buffer, once in memory
    with pytest.raises(ModelError, match="bytes of strings, keys and blobs, got more, because they overlap"):
        read_flexbuffer(slots_on_one_blob(list(range(1, 20))))


def test_typed_vectors_of_all_kinds() -> None:
    for kind, data, wanted in (
        (11, b"\x02\x05\xff\x02", [5, -1]),  # int, with a length in front
        (12, b"\x02\x05\xff\x02", [5, 255]),  # uint
        (36, b"\x02\x00\x02\x02", [False, True]),  # bool
        (16, b"\x05\xff\x02", [5, -1]),  # two int
        (17, b"\x05\xff\x02", [5, 255]),  # two uint
        (19, b"\x05\xff\x01\x03", [5, -1, 1]),  # three int
        (23, b"\x05\xff\x01\x02\x04", [5, 255, 1, 2]),  # four uint
    ):
        assert read_flexbuffer(data + bytes([kind << 2, 1])) == wanted
