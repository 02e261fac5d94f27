# SPDX-License-Identifier: Apache-2.0
"""Decoding of packed integers, strings and constants, against bytes written by hand."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, i32
from circlekit.ir.value import Value
from circlekit.ops.constant_operands import (
    constant_elements,
    decode_strings,
    encode_strings,
    packed,
    unpacked,
)


@pytest.mark.parametrize(
    ("dtype", "data", "numbers"),
    [
        (DType.INT4, [0x7F, 0x81], [-1, 7, 1, -8]),
        (DType.UINT4, [0x7F, 0x81], [15, 7, 1, 8]),
        (DType.INT2, [0b11100100], [0, 1, -2, -1]),
    ],
)
def test_packed_integers(dtype: DType, data: list[int], numbers: list[int]) -> None:
    """The first element has the lowest bits of a byte: 0x7F holds 0xF, then 0x7."""
    found = unpacked(np.array(data, np.uint8), dtype)
    assert found.tolist() == numbers
    assert found.dtype == (np.uint8 if dtype is DType.UINT4 else np.int8)
    assert packed(found, dtype).tolist() == data
    part = packed(found[:1], dtype)  # the rest of the byte is 0
    assert unpacked(part, dtype).tolist() == [numbers[0], *([0] * (8 // dtype.bits - 1))]


def test_elements_of_whole_bytes() -> None:
    assert unpacked(np.array([0x80, 0x3F], np.uint8), DType.BFLOAT16).tolist() == [1.0]
    assert unpacked(np.array([1, 0, 0, 0], np.uint8), i32).tolist() == [1]
    with pytest.raises(ModelError, match="expected whole i32 numbers in a constant, got 3 bytes"):
        unpacked(np.zeros(3, np.uint8), i32)
    with pytest.raises(UnsupportedError, match="packed mxfp4 constant, which no kernel reads"):
        unpacked(np.zeros(2, np.uint8), DType.MXFP4)


def string_bytes(*numbers: int, texts: bytes = b"") -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return ``numbers`` as int32, least significant byte first, followed by ``texts``."""
    return np.frombuffer(struct.pack(f"<{len(numbers)}i", *numbers) + texts, np.uint8)


def test_strings() -> None:
    # the count, then 3 offsets and the end; these 5 numbers take 20 bytes
    data = string_bytes(3, 20, 22, 22, 23, texts=b"abc")
    assert decode_strings(data).tolist() == [b"ab", b"", b"c"]
    assert encode_strings([b"ab", b"", b"c"]).tolist() == data.tolist()
    assert decode_strings(string_bytes()).tolist() == decode_strings(string_bytes(0, 8)).tolist() == []
    assert encode_strings([]).tolist() == string_bytes(0, 8).tolist()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (string_bytes(-1), "^expected 0 or more strings in a string tensor, got -1$"),
        (string_bytes(-5, 8), "^expected 0 or more strings in a string tensor, got -5$"),
        (string_bytes(1), "^expected at least 12 bytes for 1 string in a string tensor, got 4$"),
        (string_bytes(2, 12), "^expected at least 16 bytes for 2 strings in a string tensor, got 8$"),
        (string_bytes(1, 12, 13), "^expected ascending offsets inside the bytes of a string tensor$"),
        (string_bytes(1, 12, 11), "expected ascending offsets"),
        (string_bytes(1, -1, 12), "expected ascending offsets"),
    ],
)
def test_damaged_strings(data: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        decode_strings(data)


def test_constant_elements() -> None:
    value = Value("w", DType.INT4, (3,), np.array([0x21, 0x03], np.uint8))
    assert constant_elements(value).tolist() == [1, 2, 3]
    short = Value("w", DType.INT4, (5,), np.array([0x21, 0x03], np.uint8))
    with pytest.raises(ModelError, match="expected 5 elements in %w, got 4"):
        constant_elements(short)
    texts = Value("t", DType.STRING, (1, 2), encode_strings([b"a", b"b"]))
    assert constant_elements(texts).tolist() == [[b"a", b"b"]]
    with pytest.raises(ModelError, match="expected 3 strings in %t, got 2"):
        constant_elements(Value("t", DType.STRING, (3,), encode_strings([b"a", b"b"])))


def test_errors_name_a_damaged_constant() -> None:
    with pytest.raises(ModelError, match="expected 0 or more strings in %t, got -5"):
        constant_elements(Value("t", DType.STRING, (3,), string_bytes(-5, 8)))
    sparse = Value("w", DType.FLOAT32, (4,), np.zeros(1, np.uint8).repeat(4))
    sparse.extra["sparsity"] = {"traversal_order": [3]}
    with pytest.raises(ModelError, match=r"^%w: the sparsity has traversal order \[3\]"):
        constant_elements(sparse)


@pytest.mark.parametrize(("dtype", "count"), [(DType.INT4, 3), (DType.UINT8, 2)])
def test_compressed_bytes_are_not_taken_for_elements(dtype: DType, count: int) -> None:
    compressed = Value("w", dtype, (count,), np.zeros(2, np.uint8))
    compressed.extra["compression_type"] = "HUFFMAN"
    with pytest.raises(UnsupportedError, match="%w is a compressed constant"):
        constant_elements(compressed)


def test_sparse_bytes_are_not_taken_for_elements() -> None:
    """All elements are stored: first the first element of each pair, then the second."""
    value = Value("w", DType.UINT8, (4,), np.array([1, 3, 2, 4], np.uint8))
    levels = [{"format": "DENSE", "dense_size": 2}] * 2
    value.extra["sparsity"] = {"traversal_order": [1, 0], "block_map": [0], "dim_metadata": levels}
    assert constant_elements(value).tolist() == [1, 2, 3, 4]
