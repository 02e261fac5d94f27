# SPDX-License-Identifier: Apache-2.0
"""The bytes of an array in chunks: they equal those of numpy's copy, but no copy of the whole is made."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from circlekit.ir import array_bytes
from circlekit.ir.array_bytes import SAMPLE_BYTES, chunks, digest, sample
from circlekit.ir.value import Array

KINDS = ["<f4", ">f4", "<i2", ">i8", "u1", "?", "<c16"]


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Draw an array, contiguous or not: its axes may be permuted, reversed, strided or broadcast."""
    shape = draw(st_numpy.array_shapes(min_dims=0, max_dims=4, max_side=9))
    kind = np.dtype(draw(st.sampled_from(KINDS)))
    count = int(np.prod(shape)) * kind.itemsize
    seed = draw(st.integers(0, 9))
    raw = np.random.default_rng(seed).bytes(count)
    array: Array = np.frombuffer(raw if kind != np.bool_ else bytes(b & 1 for b in raw), kind).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    for axis in range(array.ndim):
        step = draw(st.sampled_from([1, 1, 2, -1, -3]))
        array = np.flip(array, axis) if step < 0 else array
        array = array[(slice(None),) * axis + (slice(None, None, abs(step)),)]
    return np.broadcast_to(array, (2, *array.shape)) if draw(st.booleans()) else array


@given(arrays(), st.sampled_from([16, 32, 100, 1 << 22]))
@settings(derandomize=True, max_examples=100, deadline=None)
def test_chunks_are_what_numpy_copies(array: Array, limit: int) -> None:
    little = array.dtype.newbyteorder("<")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array_bytes, "CHUNK_BYTES", limit)
        parts = list(chunks(array, little))
        hashed = digest(array, little)
    assert b"".join(parts) == np.ascontiguousarray(array, little).tobytes()
    needs_no_copy = array.flags.c_contiguous and array.dtype == little
    assert needs_no_copy or all(len(part) <= limit for part in parts)
    assert hashed == digest(np.ascontiguousarray(array, little))
    assert sample(array, little) == sample(np.ascontiguousarray(array, little))


def test_a_sample_has_the_first_and_the_last_bytes() -> None:
    array = np.arange(3 * SAMPLE_BYTES, dtype=np.uint8)
    assert sample(array) == array[:SAMPLE_BYTES].tobytes() + array[-SAMPLE_BYTES:].tobytes()
    assert sample(array.reshape(3, -1).T.copy().T) == sample(array)
    assert sample(array.view(np.int64)) == sample(array)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.broadcast_to(np.float32(1), (1 << 12, 1 << 13)),
        lambda: np.broadcast_to(np.arange(1 << 13, dtype=np.float32), (1 << 12, 1 << 13)).T,
        lambda: np.broadcast_to(np.arange(1 << 13, dtype=">f4"), (1 << 12, 1 << 13)),
        lambda: np.broadcast_to(np.arange(1 << 13, dtype=np.float32), (1, 1, 1 << 12, 1 << 13))[..., ::-1],
    ],
)
def test_large_arrays_are_never_copied_as_a_whole(make: Callable[[], np.ndarray[Any, Any]]) -> None:
    """The array has 128 MiB; less than three chunks of it are in memory at a time."""
    array = make()
    tracemalloc.start()
    try:
        size = sum(len(chunk) for chunk in chunks(array, np.dtype("<f4")))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == 1 << 27
    assert peak < 3 * array_bytes.CHUNK_BYTES


def test_chunks_are_as_large_as_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_bytes, "CHUNK_BYTES", 64)
    rows = np.zeros((10, 4), ">f4")  # 16 bytes per row: 4 rows in a chunk of 64 bytes
    assert [len(part) for part in chunks(rows, np.dtype("<f4"))] == [64, 64, 32]
    wide = np.zeros((2, 20), ">f4")  # 80 bytes per row: more than a chunk
    assert [len(part) for part in chunks(wide, np.dtype("<f4"))] == [64, 16, 64, 16]
