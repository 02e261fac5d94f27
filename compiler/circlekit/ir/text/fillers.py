# SPDX-License-Identifier: Apache-2.0
"""Seeded generators of constants: ``gaussian(0, 0.1)``, ``zeros``.

The bytes are the same on every machine and in every version: random bits are the raw stream of PCG64, and
the operations on them are exact in integers or rounded by IEEE 754 (+ and *, no logarithm or cosine).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType
from circlekit.ir.resource_limits import hold_memory, need_memory
from circlekit.ir.value import Array


class Filler(NamedTuple):
    """``make``: from size, seed and arguments to float64 numbers.  ``parameters``: names and defaults (None:
    must be given).  ``scratch``: most bytes that making one element takes.
    """

    make: Callable[..., Array]
    parameters: Mapping[str, float | None] = MappingProxyType({})
    seeded: bool = False
    scratch: int = 24


def _gaussian(size: int, seed: int, mean: float, std: float) -> Array:
    """Irwin-Hall: the sum of twelve uniform 16-bit numbers minus its mean has variance 1 and ends at 6."""
    sums = np.zeros(size, np.int64)
    source = np.random.PCG64(seed)
    for _ in range(3):
        words = np.asarray(source.random_raw(size), np.uint64)
        for shift in (0, 16, 32, 48):
            sums += ((words >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
    return np.asarray((sums - 12 * 65535 / 2) / 65536 * std + mean)


def _uniform(size: int, seed: int, low: float, high: float) -> Array:
    """From ``low`` up to, but not including, ``high``."""
    words = np.asarray(np.random.PCG64(seed).random_raw(size), np.uint64)
    unit = (words >> np.uint64(11)).astype(np.float64) / float(1 << 53)
    return np.asarray(unit * (high - low) + low)


def _constant(size: int, seed: int, value: float) -> Array:
    return np.full(size, value, np.float64)


def _arange(size: int, seed: int, start: float, step: float) -> Array:
    return np.arange(size, dtype=np.float64) * step + start


FILLERS: dict[str, Filler] = {
    "gaussian": Filler(_gaussian, {"mean": 0.0, "std": 1.0}, seeded=True, scratch=40),
    "uniform": Filler(_uniform, {"low": 0.0, "high": 1.0}, seeded=True, scratch=32),
    "constant": Filler(_constant, {"value": None}),
    "zeros": Filler(lambda size, seed: np.zeros(size, np.float64)),
    "ones": Filler(lambda size, seed: np.ones(size, np.float64)),
    "arange": Filler(_arange, {"start": 0.0, "step": 1.0}),
}


def seed_of(*names: str) -> int:
    """Return the seed of the constant with these names (graph, value)."""
    return zlib.crc32("/".join(names).encode("utf-8", "surrogatepass"))


def fill(
    name: str,
    positional: Sequence[object],
    named: Mapping[str, object],
    dtype: DType,
    shape: Sequence[int],
    seed: int,
) -> Array:
    """Return the array of filler ``name``; ModelError for arguments that do not fit.

    Integer dtypes: rounded down for ``uniform`` (so that ``high`` is excluded), to nearest for the others,
    and clipped to the range of the dtype.  An argument ``seed: 7`` overrides ``seed``.  LimitError for an
    array above the memory limit.
    """
    filler = FILLERS[name]
    if dtype.numpy is None or dtype.numpy.kind not in "fiub":
        raise ModelError(f"a filler cannot make {dtype.short}; write raw(base64 text)")
    size = prod(shape)
    need_memory(size * (filler.scratch + dtype.numpy.itemsize), f"{size} elements of {name}")
    hold_memory(size * dtype.numpy.itemsize)
    arguments = _bind(name, filler, positional, named)
    seed = int(arguments.pop("seed", seed))
    values = filler.make(size, seed, **arguments)
    return _cast(values, dtype, floor=name == "uniform").reshape(tuple(shape))


def _bind(
    name: str, filler: Filler, positional: Sequence[object], named: Mapping[str, object]
) -> dict[str, float]:
    if len(positional) > len(filler.parameters):
        raise ModelError(f"{name} takes {len(filler.parameters)} arguments, got {len(positional)}")
    given = dict(zip(filler.parameters, positional, strict=False))
    allowed = {*filler.parameters, "seed"} if filler.seeded else {*filler.parameters}
    for key, value in named.items():
        if key not in allowed:
            known = ", ".join(sorted(allowed)) or "none"
            raise ModelError(f"{name} has no argument {key}; its arguments: {known}")
        if key in given:
            raise ModelError(f"argument {key} of {name} is given twice")
        given[key] = value
    arguments: dict[str, float] = {}
    for key, default in {**filler.parameters, **given}.items():
        value = given.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelError(f"argument {key} of {name} must be a number")
        if key == "seed" and (not isinstance(value, int) or value < 0):
            raise ModelError(f"the seed must be a whole number from 0 on, got {value}")
        try:
            arguments[key] = value if key == "seed" else float(value)
        except OverflowError:
            raise ModelError(f"argument {key} of {name} is too large") from None
    return arguments


def _cast(values: Array, dtype: DType, floor: bool) -> Array:
    assert dtype.numpy is not None  # checked by the caller
    if dtype.numpy.kind == "f":
        with np.errstate(over="ignore"):
            return values.astype(dtype.numpy)
    if np.isnan(values).any():
        raise ModelError(f"a filler of {dtype.short} cannot hold nan")
    if dtype.numpy.kind == "b":
        return values >= 0.5 if floor else values != 0
    info = np.iinfo(dtype.numpy)  # type: ignore[type-var]  # the kind is i or u
    whole = np.floor(values) if floor else np.rint(values)
    top = float(info.max) if info.bits < 64 else float(np.nextafter(float(info.max), 0))
    return np.clip(whole, float(info.min), top).astype(dtype.numpy)
