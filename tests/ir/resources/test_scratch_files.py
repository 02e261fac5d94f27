# SPDX-License-Identifier: Apache-2.0
"""Large new constants: whether they are in memory or in a file, and that numpy computes the same numbers."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlekit.ir.resources import scratch_files
from circlekit.ir.resources.scratch_files import (
    HUGE_BYTES,
    LARGE_BYTES,
    moved_to_file,
    new_array,
    new_in_file,
    with_results_in_files,
)
from circlekit.ir.value import Array

F32 = np.dtype(np.float32)
ROWS = LARGE_BYTES // 4 // 1024


def is_in_file(array: Array) -> bool:
    owner: Any = array
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return isinstance(owner, mmap.mmap)


def weights(rows: int = ROWS, dtype: type = np.float32) -> Array:
    return np.arange(rows * 1024).reshape(rows, 1024).astype(dtype) - 7


needs_files = pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no posix_fallocate")
COLUMN = np.linspace(-2, 3, ROWS, dtype=np.float32)[:, None]
COMPUTED: dict[str, Callable[[Array], Any]] = {
    "product": lambda w: w * COLUMN,
    "reflected": lambda w: 3.5 - w,
    "of an array without dimensions": lambda w: w / np.array(3, np.float64),
    "other dtype": lambda w: w * COLUMN.astype(np.float64),
    "said dtype": lambda w: np.multiply(w, 2, dtype=np.float64),
    "of a list": lambda w: w.reshape(-1, 2) * [0.5, 2.0],
    "of itself": lambda w: (w + w) * w,
    "function": np.sqrt,
    "comparison": lambda w: w > 3,
    "broadcast": lambda w: w[None] + np.ones((2, 1, 1), np.float32),
    "transposed": lambda w: w.T * np.float32(2),
    "part": lambda w: w[:4] * 2,
    "sum": lambda w: w.sum(axis=0),
    "largest": lambda w: np.maximum.reduce(w, axis=None),
    "outer": lambda w: np.multiply.outer(w[0, :4], w[:4, 0]),
    "two results": lambda w: np.modf(w)[0],
    "where": lambda w: np.where(w > 3, w, 0),
    "matrix product": lambda w: w[:4] @ np.ones((1024, 2), np.float32),
    "in place": lambda w: np.add(w, 1, out=w.copy()),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_the_numbers_are_those_of_numpy(name: str) -> None:
    with np.errstate(all="ignore"):
        made, wanted = COMPUTED[name](with_results_in_files(weights())), COMPUTED[name](weights())
    assert made.dtype == wanted.dtype
    np.testing.assert_array_equal(made, wanted)


@needs_files
@pytest.mark.parametrize(
    "name", ["product", "reflected", "other dtype", "said dtype", "of itself", "broadcast", "transposed"]
)
def test_large_results_are_in_a_file(name: str) -> None:
    made = COMPUTED[name](with_results_in_files(weights()))
    assert is_in_file(made)
    plain = np.asarray(made, order="C")
    assert type(moved_to_file(plain)) is np.ndarray
    assert is_in_file(moved_to_file(plain))


def test_small_arrays_stay_as_they_are() -> None:
    small = weights(ROWS - 1)
    assert with_results_in_files(small) is small
    assert moved_to_file(small) is small
    assert not is_in_file(COMPUTED["part"](with_results_in_files(weights())))


@needs_files
def test_only_large_arrays_that_own_memory_are_moved_to_a_file() -> None:
    held = weights()
    made = moved_to_file(held)
    assert is_in_file(made)
    np.testing.assert_array_equal(made, held)
    assert moved_to_file(made) is made
    turned = made.T
    assert moved_to_file(turned) is turned
    number = np.broadcast_to(np.float32(1), (ROWS, 1024))
    assert moved_to_file(number) is number


def test_numpy_still_reports_underflow() -> None:
    told: list[str] = []
    with np.errstate(all="ignore", under="call", call=lambda kind, flag: told.append(kind)):
        made = with_results_in_files(np.full((ROWS, 1024), 1e-30, np.float32)) * np.float32(1e-30)
    assert told == ["underflow"]
    assert not made.any()


def refuse(*args: int) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("cause", ["full disk", "no posix_fallocate", "no descriptor left"])
def test_without_a_file_the_array_is_in_memory(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if cause == "full disk":
        monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    elif cause == "no posix_fallocate":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    else:
        monkeypatch.setattr(scratch_files, "MAX_DESCRIPTOR", 0)
    array = new_in_file((ROWS, 1024), F32)
    assert not is_in_file(array)
    array[...] = 1
    assert array.sum(dtype=np.float64) == ROWS * 1024


@needs_files
@pytest.mark.parametrize(("size", "share"), [(HUGE_BYTES, 1), (HUGE_BYTES - 1, 2), (16, 2)])
def test_the_largest_descriptor_is_still_used(size: int, share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays below HUGE_BYTES may use descriptors up to half of MAX_DESCRIPTOR; other arrays may use all."""
    with tempfile.TemporaryFile() as file:  # the next file gets the same descriptor
        descriptor = file.fileno()
    for largest, is_file in ((share * descriptor, True), (share * descriptor - 1, False)):
        monkeypatch.setattr(scratch_files, "MAX_DESCRIPTOR", largest)
        assert is_in_file(new_in_file((size,), np.dtype(np.uint8))) is is_file


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@needs_files
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not list open files")
def test_a_file_is_closed_with_its_array() -> None:
    before = open_files()
    arrays = [new_in_file((ROWS, 1024), F32) for _ in range(3)]
    assert open_files() == before + 3
    arrays.clear()
    assert open_files() == before


@needs_files
def test_joined_weights_of_a_transformer_block_are_in_a_file() -> None:
    """In memory, the weights of queries, keys and values of 24 such blocks would take 170 MB."""
    assert is_in_file(new_array((3 * 768, 768), F32))
