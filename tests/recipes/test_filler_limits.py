# SPDX-License-Identifier: Apache-2.0
"""Fillers of constants at their limits: numbers as texts, integers, lengths of lists."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import LimitError, ModelError
from circlekit.ir.dtypes import DType
from circlekit.ir.resources.resource_limits import counted_memory, limited
from circlekit.recipes.prototext.filler_data import MAX_LISTED, Folder, filler_of
from tests.recipes.filling import INTEGERS, fill, npy, written


@pytest.mark.parametrize(
    ("text", "number"),
    [("-.5e3", -500.0), ("0.25f", 0.25), ("2F", 2.0), ("0x1f", 31.0), ("-0x10", -16.0),
     ("0X" + "f" * 16, 2.0**64), ("inf", np.inf), ("-INF", -np.inf), (" 7 ", 7.0), ("0xff", 255.0)],
)  # fmt: skip
def test_numbers_are_written_as_in_cpp(text: str, number: float) -> None:
    assert fill("explicit", [text], DType.FLOAT64, 1) == np.array([number]).tobytes()


@pytest.mark.parametrize("text", ["", "f", "1_0", "0x", "0x" + "1" * 17, "1ff", "none", "0x1g", "\u0661"])
def test_other_texts_are_no_numbers(text: str) -> None:
    with pytest.raises(ModelError, match="expected a number"):
        fill("explicit", [text], DType.FLOAT64, 1)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1.9", 1), ("-1.9", -1), ("+3", 3), ("0x10", 16), ("9" * 18, 10**18 - 1), (str(2**63 - 1), 2**63 - 1),
     (str(-(2**63)), -(2**63)), ("0" * 39 + "5", 5), ("1e3", 1000),
     (str(2**63 - 1).zfill(40), 2**63 - 1), (hex(2**63 - 1), 2**63 - 1), (hex(-(2**63)), -(2**63))],
)  # fmt: skip
def test_integers_are_exact_or_truncated(text: str, number: int) -> None:
    assert fill("explicit", [text], DType.INT64, 1) == np.array([number], np.int64).tobytes()


def test_the_limits_of_integers() -> None:
    for dtype in INTEGERS:
        low, high = dtype.limits
        assert (
            fill("explicit", [str(low), str(high)], dtype, 2) == np.array([low, high], dtype.numpy).tobytes()
        )
        for beyond in (low - 1, high + 1):
            with pytest.raises(ModelError, match=f"numbers from {low} to {high}, got {beyond}"):
                fill("explicit", [str(beyond)], dtype, 1)
    for text in ("4e19", "1e999", "9" * 40):
        with pytest.raises(ModelError, match=f"UINT64: expected numbers from 0 to {2**64 - 1}, got {text}"):
            fill("explicit", [text], DType.UINT64, 1)
    for text in ("inf", "-Infinity", "nan"):
        with pytest.raises(ModelError, match=f"expected an integer, got '{text}'"):
            fill("explicit", [text], DType.UINT64, 1)
    with pytest.raises(ModelError, match="numbers from 0 to"):
        fill("explicit", [str(2**64) + ".0"], DType.UINT64, 1)


def test_explicit_lists_no_more_than_the_shape() -> None:
    assert fill("explicit", ["1", "2"], DType.INT8, 2) == b"\1\2"
    for dtype in (DType.INT8, DType.STRING):
        with pytest.raises(ModelError, match="expected at most 1 element, as the shape has, got 2"):
            fill("explicit", ["1", "2"], dtype, 1)
    assert fill("constant", ["1", "2"], DType.INT8, 1) == b"\1"


def test_the_files_are_those_of_numpy() -> None:
    folder = Folder("r")
    for array in (np.arange(6, dtype=np.int16).reshape(2, 3), np.ones(4, np.float32)):
        assert folder.files[folder.add(array)] == npy(array)


@pytest.mark.parametrize(("size", "is_constant"), [(1, False), (4, False), (5, True), (64, True), (65, True)])
def test_equal_elements_are_one_constant(size: int, is_constant: bool) -> None:
    found = written(np.full(size, 3, np.int8).tobytes(), DType.INT8, size)
    assert found == (
        {"tag": "constant", "arg": ["3"]} if is_constant else {"tag": "explicit", "arg": ["3"] * size}
    )


@pytest.mark.parametrize("size", [MAX_LISTED - 1, MAX_LISTED, MAX_LISTED + 1])
def test_long_constants_are_not_listed(size: int) -> None:
    """The elements are 0, 1, 2, 0, ...; a gaussian filler has their mean and standard deviation."""
    data = (np.arange(size) % 3).astype(np.float32)
    for resample, tag in ((False, "base64"), (True, "gaussian")):
        found = written(data.tobytes(), DType.FLOAT32, size, resample)
        assert found["tag"] == ("explicit" if size <= MAX_LISTED else tag)
        if found["tag"] == "gaussian":
            assert [float(x) for x in found["arg"]] == pytest.approx([data.mean(), data.std()], rel=1e-6)
    data[0] = np.nan
    assert written(data.tobytes(), DType.FLOAT32, size, True)["tag"] in ("explicit", "base64")


@pytest.mark.parametrize("largest", [1e39, 1e300, np.finfo(np.float64).max])
def test_no_gaussian_filler_has_a_mean_or_deviation_beyond_float32(largest: float) -> None:
    data = np.linspace(0.5, 1.0, MAX_LISTED + 1) * largest
    assert written(data.tobytes(), DType.FLOAT64, data.size, True)["tag"] == "base64"


@pytest.mark.parametrize("size", [MAX_LISTED - 1, MAX_LISTED, MAX_LISTED + 1])
def test_data_that_cannot_be_listed_are_in_files_if_long(size: int) -> None:
    folder = Folder("r")
    found = filler_of(np.arange(size, dtype=np.uint8), DType.INT8, None, folder, resample=False)
    assert found["tag"] == ("base64" if size <= MAX_LISTED else "file")


@pytest.mark.parametrize(("data", "is_listed"), [([0, 1, 1], True), ([0, 2, 1], False)])
def test_other_bytes_than_0_and_1_are_no_truth_values(data: list[int], is_listed: bool) -> None:
    assert (written(bytes(data), DType.BOOL, 3)["tag"] == "explicit") is is_listed


@pytest.mark.parametrize("tag", ["constant", "explicit"])
def test_a_filler_beyond_the_memory_limit_is_refused(tag: str) -> None:
    with limited("3M"), pytest.raises(LimitError, match=f"elements of {tag}"):
        fill(tag, ["1"], DType.FLOAT32, 1 << 20)


def test_the_memory_of_strings_is_limited() -> None:
    """The memory includes the empty strings that the filler does not list.

    In a ``counted_memory`` block, the offsets of each filler stay counted; its empty strings do not.
    """
    with limited("3M"):
        # the count, 2**15 offsets and the end in int32, and the text "a"
        assert len(fill("explicit", ["a"], DType.STRING, 1 << 15)) == 4 * ((1 << 15) + 2) + 1
        with pytest.raises(LimitError, match="65536 strings"):
            fill("explicit", ["a"], DType.STRING, 1 << 16)
    with limited("3M"), counted_memory():
        for _ in range(9):
            fill("explicit", ["a"], DType.STRING, 1 << 15)
        with pytest.raises(LimitError, match="32768 strings"):
            fill("explicit", ["a"], DType.STRING, 1 << 15)


def test_further_arguments_of_a_constant_are_not_read() -> None:
    assert fill("constant", ["1", "nonsense"], DType.INT8, 3) == b"\1\1\1"


@pytest.mark.parametrize(("dtype", "highest"), [(DType.INT32, 2**31 - 1), (DType.INT64, 2**63 - 1024)])
def test_random_integers_are_clipped(dtype: DType, highest: int) -> None:
    """2**63 - 1024 is the largest float64 below 2**63."""
    data = fill("gaussian", ["1e30", "0"], dtype, 2)
    assert np.frombuffer(data, dtype.numpy).tolist() == [highest] * 2
