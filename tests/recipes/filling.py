# SPDX-License-Identifier: Apache-2.0
"""Fill constants as recipes do, and make fillers of constants."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.recipes.prototext.filler_data import filled, filler_of

INTEGERS = (DType.UINT8, DType.INT8, DType.INT16, DType.INT32, DType.INT64)
FLOATS = (DType.FLOAT32, DType.FLOAT16)


def no_files(name: str) -> bytes:
    raise AssertionError(name)


def fill(tag: str, args: list[str], dtype: DType, count: int, seed: int = 1) -> bytes:
    return filled(tag, args, dtype, count, seed, no_files)


def written(data: bytes, dtype: DType, count: int | None, resample: bool = False) -> Any:
    """Return the filler that a recipe gets for the bytes ``data`` of ``count`` elements."""
    return filler_of(np.frombuffer(data, np.uint8), dtype, count, None, resample)


def npy(array: np.typing.NDArray[np.generic]) -> bytes:
    """Return the bytes of an ``.npy`` file."""
    stream = BytesIO()
    np.save(stream, array)
    return stream.getvalue()
