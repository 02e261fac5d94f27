# SPDX-License-Identifier: Apache-2.0
"""Fillers of constants in ``test.recipe``."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO

import numpy as np
import pytest

from circlekit.errors import LimitError, ModelError
from circlekit.ir.dtypes import DType
from circlekit.recipes.prototext.filler_data import Folder, filled, filler_of
from tests.recipes.filling import FLOATS, INTEGERS, fill, no_files, npy, written


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_constant_and_explicit(dtype: DType) -> None:
    assert dtype.numpy is not None
    assert fill("constant", ["7"], dtype, 3) == np.full(3, 7, dtype.numpy).tobytes()
    assert fill("explicit", ["1", "2"], dtype, 3) == np.array([1, 2, 0], dtype.numpy).tobytes()


def test_bool() -> None:
    assert fill("explicit", ["1", "0", "T", "true", "f", "-3"], DType.BOOL, 7) == bytes([1, 0, 1, 1, 0, 1, 0])
    assert fill("constant", ["T"], DType.BOOL, 2) == bytes([1, 1])
    with pytest.raises(ModelError, match="expected true or false, got 'maybe'"):
        fill("explicit", ["maybe"], DType.BOOL, 1)


def test_integers_of_any_length_are_bools() -> None:
    assert fill("explicit", ["9" * 5000, "0" * 5000, "+10", "-00"], DType.BOOL, 4) == bytes([1, 0, 1, 0])


def test_floats_are_rounded_once() -> None:
    assert fill("explicit", ["0.1f", "1e39", "-0.0"], DType.FLOAT32, 3) == np.array(
        [0.1, np.inf, -0.0], np.float32
    ).tobytes()  # fmt: skip


def test_four_bit_elements_are_packed_low_nibble_first() -> None:
    assert fill("explicit", ["1", "2", "15"], DType.UINT4, 3) == bytes([0x21, 0x0F])
    assert fill("explicit", ["-1", "7", "-8", "0"], DType.INT4, 4) == bytes([0x7F, 0x08])
    with pytest.raises(ModelError, match="INT4: expected numbers from -8 to 7, got 8"):
        fill("explicit", ["8"], DType.INT4, 1)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_gaussian(dtype: DType) -> None:
    assert dtype.numpy is not None
    values = np.frombuffer(fill("gaussian", ["40", "10"], dtype, 4000), dtype.numpy).astype(np.float64)
    assert abs(values.mean() - 40) < 1
    assert abs(values.std() - 10) < 1
    assert fill("gaussian", ["40", "10"], dtype, 4000) == fill("gaussian", ["40", "10"], dtype, 4000)
    assert fill("gaussian", ["40", "10"], dtype, 4000) != fill("gaussian", ["40", "10"], dtype, 4000, seed=2)


def test_gaussian_integers_stay_in_their_range() -> None:
    for dtype, low, high in ((DType.UINT8, 0, 255), (DType.INT8, -128, 127)):
        values = np.frombuffer(fill("gaussian", ["0", "1000"], dtype, 1000), dtype.numpy)
        assert (values.min(), values.max()) == (low, high)
    for dtype, top in ((DType.INT32, 2**31 - 1), (DType.INT64, 2**63 - 1024)):  # the next float64 is 2**63
        values = np.frombuffer(fill("gaussian", ["0", "1e300"], dtype, 100), dtype.numpy)
        assert (values.max(), values.min()) == (top, -(2 ** (dtype.bits - 1)))
    nibbles = np.frombuffer(fill("gaussian", ["0", "30"], DType.UINT4, 100), np.uint8)
    assert {0, 15} <= {*(nibbles & 15).tolist()}


@pytest.mark.parametrize(
    ("tag", "args", "dtype", "message"),
    [
        ("gaussian", ["0"], DType.FLOAT32, "expected a mean and a standard deviation, got 1 argument"),
        ("gaussian", ["0", "1"], DType.BOOL, "gaussian: expected a type of integers or floats, got BOOL"),
        ("gaussian", ["0", "1"], DType.STRING, "FLOAT64, got STRING"),
        ("gaussian", ["nan", "1"], DType.INT32, "expected numbers for INT32, got nan"),
        ("constant", [], DType.FLOAT32, "constant: expected an argument"),
        ("explicit", ["300"], DType.UINT8, "UINT8: expected numbers from 0 to 255, got 300"),
        ("explicit", ["nan"], DType.INT32, "expected an integer, got 'nan'"),
        ("explicit", ["+-5"], DType.INT32, r"expected a number, got '\+-5'"),
        ("explicit", ["²"], DType.INT32, "expected a number, got '²'"),
        ("explicit", ["--1"], DType.BOOL, "expected true or false, got '--1'"),
        ("explicit", ["²"], DType.BOOL, "expected true or false, got '²'"),
        ("explicit", ["1"], DType.MXINT8, "BOOL, got MXINT8"),
        ("uniform", ["1"], DType.FLOAT32, "no filler is named uniform"),
        ("", ["1"], DType.FLOAT32, "no filler is named ''; expected one of"),
        ("base64", ["A"], DType.FLOAT32, "expected base64"),
        ("constant", ["0"], DType.FLOAT32, "1099511627776 elements of constant would take"),
    ],
)
def test_invalid_fillers_are_refused(tag: str, args: list[str], dtype: DType, message: str) -> None:
    count = 2**40 if "would take" in message else 2  # the last case has too many elements
    with pytest.raises((LimitError, ModelError), match=message):
        fill(tag, args, dtype, count)


def test_strings() -> None:
    data = fill("explicit", ["Hello", "é"], DType.STRING, 3)
    # the count, then 3 offsets and the end; 5 int32 take 20 bytes, "é" takes 2
    assert np.frombuffer(data, "<i4", 5).tolist() == [3, 20, 25, 27, 27]
    assert data[20:] == "Helloé".encode()


@pytest.mark.parametrize(
    ("data", "count", "found"),
    [
        (fill("explicit", ["a", "é"], DType.STRING, 2), 2, {"tag": "explicit", "arg": ["a", "é"]}),
        (fill("explicit", [], DType.STRING, 64), 64, {"tag": "explicit", "arg": [""] * 64}),
        (fill("explicit", [], DType.STRING, 65), 65, None),
        (fill("explicit", ["a"], DType.STRING, 1), 2, None),
        (fill("explicit", ["a"], DType.STRING, 1) + b"x", 1, None),
        (b"ab", 1, None),
    ],
)
def test_strings_are_listed_if_the_list_gives_the_same_bytes(
    data: bytes, count: int, found: dict[str, object] | None
) -> None:
    encoded = {"tag": "base64", "arg": [b64encode(data).decode()]}
    assert written(data, DType.STRING, count) == (found or encoded)


def test_files() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for stored in (array, np.asfortranarray(array), array.astype(">f4")):
        files = {"w.npy": npy(stored)}
        assert filled("file", ["w.npy"], DType.FLOAT32, 6, 0, files.__getitem__) == array.tobytes()
    raw = np.arange(3, dtype=np.uint8)
    assert filled("file", ["w.npy"], DType.INT4, 6, 0, lambda _: npy(raw)) == raw.tobytes()
    with pytest.raises(ModelError, match="expected one name, got 2 arguments"):
        filled("file", ["w.npy", "v.npy"], DType.FLOAT32, 6, 0, no_files)
    for wrong, message in (
        (npy(array.astype(np.float64)), "expected 6 elements of f32, got 6 of float64"),
        (npy(array[:1]), "got 3 of float32"),
        (npy(array)[:-1], "w.npy: expected an .npy file"),
        (b"nonsense", "w.npy: expected an .npy file"),
        (np.array([{}], object).tobytes(), "w.npy: expected an .npy file"),
    ):
        with pytest.raises(ModelError, match=message):
            filled("file", ["w.npy"], DType.FLOAT32, 6, 0, lambda _, wrong=wrong: wrong)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("array", "tag"),
    [
        (np.zeros(5, np.float32), "constant"),
        (np.array([0.1, -0.0, np.inf, np.nan], np.float32), "explicit"),
        (np.array([1.5, 65504], np.float16), "explicit"),
        (np.array([True, False]), "explicit"),
        (np.arange(1000, dtype=np.int64), "file"),
        (np.array([0x7FC00001], np.uint32).view(np.float32), "base64"),  # a NaN that text cannot express
        (np.full(100, 0x7FC00001, np.uint32).view(np.float32), "file"),
        (np.ones(1000, np.int8), "constant"),
    ],
)
def test_constants_survive_a_round_trip_through_fillers(
    array: np.typing.NDArray[np.generic], tag: str
) -> None:
    folder, dtype = Folder("r"), DType.of(array.dtype)
    data = np.frombuffer(array.tobytes(), np.uint8)
    found = filler_of(data, dtype, array.size, folder, resample=False)
    assert found["tag"] == tag
    files = folder.files.__getitem__
    assert filled(found["tag"], found["arg"], dtype, array.size, 0, files) == array.tobytes()
    assert written(array.tobytes(), dtype, array.size)["tag"] == ("base64" if tag == "file" else tag)


def test_folder_numbers_its_files_and_knows_where_their_elements_are() -> None:
    folder = Folder("r")
    array = np.arange(70, dtype=np.int16)
    for number in range(2):
        found = filler_of(array.view(np.uint8), DType.INT16, 70, folder, resample=False)
        assert found == {"tag": "file", "arg": [f"r.{number}.npy"]}
        content = folder.files[f"r.{number}.npy"]
        assert np.load(BytesIO(content)).tolist() == array.tolist()
        assert content[folder.offsets[f"r.{number}.npy"] :] == array.tobytes()


@pytest.mark.parametrize(
    ("array", "count", "tag"),
    [
        (np.arange(64, dtype=np.uint8), 64, "explicit"),
        (np.arange(65, dtype=np.uint8), 65, "base64"),
        (np.full(4, 7, np.uint8), 4, "explicit"),
        (np.full(5, 7, np.uint8), 5, "constant"),
        (np.full(5, 7, np.uint8), 4, "base64"),  # not the size that the shape says
        (np.full(5, 7, np.uint8), None, "base64"),
    ],
)
def test_fillers_of_short_long_and_repeated_elements(
    array: np.typing.NDArray[np.uint8], count: int | None, tag: str
) -> None:
    assert written(array.tobytes(), DType.UINT8, count)["tag"] == tag


def test_truth_values_are_written_as_numbers() -> None:
    assert written(bytes([1, 0]), DType.BOOL, 2) == {"tag": "explicit", "arg": ["1", "0"]}
    assert written(bytes([1, 2]), DType.BOOL, 2)["tag"] == "base64"


@pytest.mark.parametrize("dtype", [DType.INT4, DType.UINT4, DType.INT2])
def test_packed_constants_survive_a_round_trip(dtype: DType) -> None:
    for data in (bytes([0x21, 0x0F]), bytes([0x21, 0xFF])):  # in the second, unused bits at the end are set
        count = 3 if dtype.bits == 4 else 6
        found = written(data, dtype, count)
        assert fill(found["tag"], found["arg"], dtype, count) == data
    assert written(bytes([0x21, 0x0F]), dtype, count)["tag"] == "explicit"


def test_large_constants_are_resampled_as_gaussian() -> None:
    """Not resampled: equal elements, at most 64 elements, elements that are not finite, BOOL."""
    array = np.random.default_rng(0).normal(3, 2, 4000).astype(np.float32)
    found = written(array.tobytes(), DType.FLOAT32, 4000, resample=True)
    assert found["tag"] == "gaussian"
    assert [round(float(x), 1) for x in found["arg"]] == [3.0, 2.0]
    for plain in (np.zeros(100, np.float32), array[:64], np.append(array, np.float32(np.inf))):
        assert written(plain.tobytes(), DType.FLOAT32, plain.size, resample=True)["tag"] != "gaussian"
    assert written(bytes([1, 0] * 50), DType.BOOL, 100, resample=True)["tag"] == "base64"


KEYS = "'fortran_order': False, 'shape'"


@pytest.mark.parametrize(
    "header",
    [
        f"{{'descr': '|O', {KEYS}: (0,)}}",
        f"{{'descr': [('a', '<f4')], {KEYS}: (4,)}}",
        f"{{'descr': ['<f4'], {KEYS}: (4,)}}",
        f"{{'descr': '<f4', {KEYS}: (-4,)}}",
        f"{{'descr': '<f4', {KEYS}: ({'9' * 4400},)}}",
        "{[]: 1}",
        "x\n  y\n z",
        "'''",
        "(" * 300,
        "-" * 5000 + "1",
    ],
)
def test_malformed_npy_headers_are_refused(header: str) -> None:
    """Headers are read by Python's parser, which raises its own errors."""
    data = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode()
    with pytest.raises(ModelError, match=r"^w.npy: expected an .npy file") as caught:
        filled("file", ["w.npy"], DType.FLOAT32, 0, 0, lambda _: data)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 400
