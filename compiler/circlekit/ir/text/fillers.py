# SPDX-License-Identifier: Apache-2.0
"""Fillers: functions that make constants, such as ``gaussian(0, 0.1)`` (random numbers) and ``zeros``.

The same text gives the same bytes on every machine and in every version.  The random bits are the raw stream
of PCG64.  Integer arithmetic and the operations +, -, * and / of IEEE 754 make numbers from these bits.
Functions such as logarithm and cosine are not used, because their results differ between machines.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from math import prod

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType
from circlekit.ir.resources.resource_limits import count_memory, need_memory
from circlekit.ir.text.literal_parsing import bytes_hint
from circlekit.ir.value import Array


def _gaussian(size: int, mean: float = 0.0, std: float = 1.0, *, seed: int) -> Array:
    """Return sums of twelve uniform numbers (Irwin-Hall): nearly normal, and within mean +- 6 std."""
    sums = np.zeros(size, np.int64)
    source = np.random.PCG64(seed)
    for _ in range(3):  # three words of 64 bits give twelve numbers from 0 to 65535
        words = np.asarray(source.random_raw(size), np.uint64)
        for shift in (0, 16, 32, 48):
            sums += ((words >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
    # the mean of a sum is 12 * 65535 / 2, and its standard deviation is about 65536
    return np.asarray((sums - 12 * 65535 / 2) / 65536 * std + mean)


def _uniform(size: int, low: float = 0.0, high: float = 1.0, *, seed: int) -> Array:
    """Return numbers uniformly distributed in [low, high); rounding may also give ``high``."""
    words = np.asarray(np.random.PCG64(seed).random_raw(size), np.uint64)
    unit = (words >> np.uint64(11)).astype(np.float64) / float(1 << 53)  # 53 bits: in [0, 1), exact
    return np.asarray(unit * (high - low) + low)


def _constant(size: int, value: float) -> Array:
    return np.full(size, value, np.float64)


def _arange(size: int, start: float = 0.0, step: float = 1.0) -> Array:
    return np.arange(size, dtype=np.float64) * step + start


FILLERS: dict[str, Callable[..., Array]] = {
    "gaussian": _gaussian,
    "uniform": _uniform,
    "constant": _constant,
    "zeros": lambda size: np.zeros(size, np.float64),
    "ones": lambda size: np.ones(size, np.float64),
    "arange": _arange,
}
"""The fillers by name.

Each is a function of the number of elements, and of the arguments in the text, that returns a float64 vector.
A function with a parameter ``seed`` is random.
"""

SCRATCH_BYTES_PER_ELEMENT = {"gaussian": 40, "uniform": 32}
"""The temporary memory that a filler takes at most, in bytes per element; other fillers take 24."""


def seed_of(*names: str) -> int:
    """Return the seed of a constant.  ``names``: the names of its graph and of its value."""
    return zlib.crc32("/".join(names).encode("utf-8", "surrogatepass"))


def fill(
    name: str,
    positional: Sequence[object],
    named: Mapping[str, object],
    dtype: DType,
    shape: Sequence[int],
    seed: int,
) -> Array:
    """Return the array of ``dtype`` and ``shape`` that the filler ``name``, a key of FILLERS, makes.

    ``positional``, ``named``: its arguments in the text; an argument ``seed`` there overrides ``seed``.  For
    an integer dtype, numbers are rounded and clipped to the range of the dtype.  ``uniform`` rounds down, so
    that ``high`` is excluded; other fillers round to nearest.  A bool is true if the number is not 0; with
    ``uniform``, if the number is at least 0.5.  Raise ModelError for arguments or a dtype that the filler
    does not take, and for NaN in an integer or a bool; LimitError if the array and the temporary memory
    together exceed the memory limit.
    """
    if dtype.numpy is None or dtype.numpy.kind not in "fiub":
        raise ModelError(f"a filler cannot make {dtype.short}; {bytes_hint(dtype)}")
    size = prod(shape)
    scratch = SCRATCH_BYTES_PER_ELEMENT.get(name, 24)
    need_memory(size * (scratch + dtype.numpy.itemsize), f"{size} elements of {name}")
    count_memory(size * dtype.numpy.itemsize)
    parameters = signature(FILLERS[name])  # of the function: ``size``, then the arguments of the text
    keywords = {"seed": seed, **named} if "seed" in parameters.parameters else named
    try:
        arguments = parameters.bind(size, *positional, **keywords).arguments
    except TypeError as error:
        names = ", ".join([*parameters.parameters][1:])
        raise ModelError(f"expected {name}({names}): {error}") from None
    for key, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelError(f"argument {key} of {name} must be a number")
        if key == "seed" and (not isinstance(value, int) or value < 0):
            raise ModelError(f"the seed must be an integer of at least 0, got {value}")
        if isinstance(value, int) and abs(value) >= 1 << 1023:  # float() may fail
            raise ModelError(f"argument {key} of {name} is too large")
        arguments[key] = value if key in ("size", "seed") else float(value)
    with np.errstate(over="ignore", invalid="ignore"):  # too large: infinite; 0 * inf: nan
        return _cast(FILLERS[name](**arguments), dtype, floor=name == "uniform").reshape(tuple(shape))


def _cast(values: Array, dtype: DType, floor: bool) -> Array:
    """Return ``values`` as ``dtype``; for an integer dtype, they are rounded and clipped.

    ``floor``: round down, not to nearest, and make a bool true from 0.5 on.
    """
    assert dtype.numpy is not None  # checked by the caller
    if dtype.numpy.kind == "f":
        return values.astype(dtype.numpy)
    if np.isnan(values).any():
        raise ModelError(f"a filler of {dtype.short} cannot hold nan")
    if dtype.numpy.kind == "b":
        return values >= 0.5 if floor else values != 0
    whole = np.floor(values) if floor else np.rint(values)
    return np.clip(whole, *dtype.float_limits).astype(dtype.numpy)
