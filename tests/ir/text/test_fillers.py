# SPDX-License-Identifier: Apache-2.0
"""Fillers give the same bytes on every machine and for ever, and the numbers that their names promise."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType
from circlekit.ir.text.fillers import FILLERS, fill, seed_of

COUNT = 100_000


def filled(name: str, *arguments: float, dtype: DType = DType.FLOAT32, count: int = COUNT) -> np.ndarray:
    return fill(name, arguments, {}, dtype, (count,), 1)


def test_gaussian_from_the_raw_stream_by_hand() -> None:
    """The definition, in integers of Python: the sum of twelve 16-bit pieces of three words."""
    words = [int(w) for w in np.random.PCG64(1).random_raw(12)]
    wanted = []
    for i in range(4):
        pieces = [words[row * 4 + i] >> shift & 0xFFFF for row in range(3) for shift in (0, 16, 32, 48)]
        # 393210 = 12 * 65535 / 2, the mean of the sum
        wanted.append(np.float32((sum(pieces) - 393210) / 65536 * 0.5 + 3))
    assert filled("gaussian", 3, 0.5, count=4).tolist() == [float(x) for x in wanted]


@pytest.mark.parametrize(
    ("name", "dtype", "crc"),
    [
        ("gaussian", DType.FLOAT32, 2988981363),
        ("gaussian", DType.INT8, 841169931),
        ("uniform", DType.FLOAT32, 4283946547),
        ("uniform", DType.FLOAT64, 785513678),
    ],
)
def test_bytes_for_ever(name: str, dtype: DType, crc: int) -> None:
    """The checksums were recorded once: other bytes would change the constants of existing recipes."""
    assert zlib.crc32(filled(name, 0, 2, dtype=dtype).tobytes()) == crc


def test_gaussian_has_mean_and_deviation() -> None:
    values = filled("gaussian", 3, 0.5).astype(np.float64)
    assert values.mean() == pytest.approx(3, abs=0.01)
    assert values.std() == pytest.approx(0.5, rel=0.01)
    assert np.percentile(values, 97.725) == pytest.approx(4, abs=0.02)  # two deviations


def test_uniform_covers_its_range() -> None:
    values = filled("uniform", -2, 3)
    assert values.min() >= -2
    assert values.max() <= 3
    assert np.histogram(values, 10)[0].min() > COUNT / 10 * 0.95


def test_whole_numbers_reach_every_value_below_high() -> None:
    assert np.unique(filled("uniform", -2, 3, dtype=DType.INT32)).tolist() == [-2, -1, 0, 1, 2]
    assert np.unique(filled("uniform", dtype=DType.BOOL)).tolist() == [False, True]


def test_whole_numbers_are_clipped() -> None:
    assert filled("constant", 1e30, dtype=DType.INT64, count=1)[0] > 2**62
    assert filled("constant", -5, dtype=DType.UINT8, count=1)[0] == 0


def test_another_seed_gives_other_bytes() -> None:
    one, two = (fill("uniform", (), {"seed": s}, DType.FLOAT32, (8,), 0) for s in (1, 2))
    assert one.tolist() != two.tolist()
    assert fill("uniform", (), {"seed": 1}, DType.FLOAT32, (8,), 5).tolist() == one.tolist()


def test_the_seed_is_made_of_names() -> None:
    assert seed_of("main", "w") == zlib.crc32(b"main/w")


@pytest.mark.parametrize("name", FILLERS)
def test_every_filler_makes_an_array_without_elements(name: str) -> None:
    arguments = (1.0,) if name == "constant" else ()
    assert fill(name, arguments, {}, DType.FLOAT32, (0, 3), 0).shape == (0, 3)


@pytest.mark.parametrize(
    ("name", "positional", "named", "message"),
    [
        ("gaussian", (1, 2, 3), {}, "too many positional arguments"),
        ("gaussian", (1,), {"mean": 1}, "multiple values for argument 'mean'"),
        ("gaussian", (), {"seed": -1}, "the seed must be an integer"),
        ("gaussian", (), {"seed": 1.5}, "the seed must be an integer"),
        ("zeros", (), {"seed": 1}, "got an unexpected keyword argument 'seed'"),
        ("constant", ("a",), {}, "argument value of constant must be a number"),
        ("constant", (), {}, "missing a required argument: 'value'"),
        ("constant", (True,), {}, "argument value of constant must be a number"),
        ("constant", (2**1023,), {}, "argument value of constant is too large"),
    ],
)
def test_arguments_that_do_not_fit(
    name: str, positional: tuple[object, ...], named: dict[str, object], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        fill(name, positional, named, DType.FLOAT32, (1,), 0)


def test_types_that_do_not_fit() -> None:
    with pytest.raises(ModelError, match="cannot make i4; use raw"):
        fill("zeros", (), {}, DType.INT4, (1,), 0)
    with pytest.raises(ModelError, match="cannot make c64; use base64"):
        fill("zeros", (), {}, DType.COMPLEX64, (1,), 0)
    with pytest.raises(ModelError, match="cannot hold nan"):
        fill("constant", (float("nan"),), {}, DType.INT8, (1,), 0)


def test_fillers_of_booleans() -> None:
    """A uniform number is true from 0.5 on; a number of any other filler is true if it is not 0."""
    assert filled("uniform", 0, 1, dtype=DType.BOOL).mean() == pytest.approx(0.5, abs=0.01)
    for number in (0.0, 0.25, 1.0, -1.0):
        assert filled("constant", number, dtype=DType.BOOL, count=1).tolist() == [number != 0]
        assert filled("uniform", number, number, dtype=DType.BOOL, count=1).tolist() == [number >= 0.5]
    assert filled("uniform", 0.5, 0.5, dtype=DType.BOOL, count=1).tolist() == [True]


def test_numbers_beyond_the_largest_float_are_infinite_without_a_warning() -> None:
    for name in ("gaussian", "arange", "uniform"):
        assert np.isinf(filled(name, 1e308, 1e308, dtype=DType.FLOAT32, count=5)).any()
        assert not np.isnan(filled(name, 1e308, 1e308, dtype=DType.FLOAT64, count=5)).any()
