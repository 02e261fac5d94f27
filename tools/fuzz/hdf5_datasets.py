# SPDX-License-Identifier: Apache-2.0
"""Datasets of all kinds that HDF5 has: other dtypes, numbers elsewhere, sizes that only a header has."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

COMPOUND = np.dtype([("a", "<f4"), ("b", "S3")])
NUMBERS = ("<f4", ">f4", "<f8", "<f2", "i1", "u1", "<i4", ">i8", "<u8", "?", "<c8")
PACKINGS: tuple[dict[str, Any], ...] = (
    {}, {"compression": "gzip"}, {"compression": "lzf"}, {"shuffle": True, "compression": "gzip"},
    {"fletcher32": True}, {"scaleoffset": 2}, {"fillvalue": 3}, {"maxshape": None},
)  # fmt: skip
SHAPES = (
    (1 << 20,), (1 << 24,), (1 << 28,), (1 << 32,), (1 << 40,), (1 << 61,), (1 << 31, 1 << 31), (65536,) * 3,
    (2,) * 32, (1 << 40, 0), (0, 1 << 62), (1 << 62,), (3, 1 << 33), (1,) * 31 + (1 << 30,),
)  # fmt: skip
CHUNKS = (1, 2, 7, 64, 4096, 1 << 20, 1 << 28)

Kind = Callable[[h5py.File, str, random.Random], None]


def other_dtype(file: h5py.File, path: str, rng: random.Random) -> None:
    """No numbers, or numbers that numpy has not."""
    kinds: list[Any] = [
        COMPOUND, "S5", "V3", h5py.string_dtype(), h5py.string_dtype("ascii"), h5py.vlen_dtype("<i4"),
        h5py.ref_dtype,
        h5py.regionref_dtype, h5py.enum_dtype({"a": 1, "b": 2}), h5py.opaque_dtype("<M8[s]"),
        np.dtype(("<f4", (2, 3))),
        h5py.vlen_dtype(h5py.string_dtype()), np.longdouble, np.clongdouble,
        h5py.vlen_dtype(h5py.vlen_dtype("f")),
        np.dtype([("r", "<f4"), ("i", "<f4")]), np.dtype([("r", "<f8"), ("i", "<i4")]), np.dtype([]),
    ]  # fmt: skip
    file.create_dataset(path, rng.choice(((), (2,), (0,), (2, 3))), rng.choice(kinds), track_times=False)


def odd_number(file: h5py.File, path: str, rng: random.Random) -> None:
    """Numbers of odd precision: HDF5 can describe any bits."""
    kind = (
        rng.choice((h5py.h5t.IEEE_F32LE, h5py.h5t.IEEE_F64BE, h5py.h5t.STD_I32LE, h5py.h5t.STD_U16BE))
    ).copy()
    if rng.random() < 0.5:
        kind.set_precision(rng.choice((1, 3, 8, 16)))
    if rng.random() < 0.5:
        kind.set_size(rng.choice((3, 8, 16, 100, 4096)))
    if rng.random() < 0.3:
        kind = rng.choice((h5py.h5t.STD_B8LE, h5py.h5t.UNIX_D32LE, h5py.h5t.array_create(kind, (3,))))
    _create(file, path, kind, rng.choice(((), (2, 3), (4,))))


def empty(file: h5py.File, path: str, rng: random.Random) -> None:
    file[path] = h5py.Empty(rng.choice(("f", "S3", "i8")))


def named_type(file: h5py.File, path: str, rng: random.Random) -> None:
    file[path] = np.dtype(rng.choice(NUMBERS))


def claims(file: h5py.File, path: str, rng: random.Random) -> None:
    """A size without the numbers: chunks that are not there, or a fill value in the place of all."""
    shape = rng.choice(SHAPES)
    options: dict[str, Any] = dict(rng.choice(PACKINGS))
    if rng.random() < 0.7:
        size = rng.choice(CHUNKS)
        options["chunks"] = tuple(max(1, min(size, dim)) for dim in shape[:1]) + (1,) * (len(shape) - 1)
    else:
        options = {}
    dtype = rng.choice(NUMBERS)
    made = file.create_dataset(path, shape, dtype, track_times=False, **options)
    is_safe = options and max(made.chunks) <= 4096 and made.size <= 1 << 20  # else HDF5 dies of its own index
    if is_safe and rng.random() < 0.5:
        made[(0,) * len(shape)] = 1


def virtual(file: h5py.File, path: str, rng: random.Random) -> None:
    source = rng.choice((".", "secret.h5", "memory", "/etc/passwd", "%b"))
    shape = rng.choice(((8,), (1 << 30,)))
    layout = h5py.VirtualLayout(shape, "<f4")
    layout[:8] = h5py.VirtualSource(source, rng.choice(("/value/0", path)), (8,))
    file.create_virtual_dataset(path, layout, fillvalue=1)


def external(file: h5py.File, path: str, rng: random.Random) -> None:
    name = rng.choice(("secret", "./secret", "/etc/passwd", "/dev/zero", "/proc/self/mem", ""))
    file.create_dataset(path, (8,), "<f4", external=[(name, 0, rng.choice((32, h5py.h5f.UNLIMITED)))])


def odd_filter(file: h5py.File, path: str, rng: random.Random) -> None:
    """A filter that nobody has, or one that says that it may fail."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((4,))
    code = rng.choice((1, 2, 3, 4, 5, 6, 32000, 32001, 32015, 307, 65535, 255))
    properties.set_filter(code, rng.choice((0, 1)), tuple(rng.choice(((), (9,), (0,) * 4, (1 << 31,)))))
    _create(file, path, h5py.h5t.IEEE_F32LE, (8,), properties)


def compact(file: h5py.File, path: str, rng: random.Random) -> None:
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.COMPACT)
    _create(file, path, h5py.h5t.IEEE_F32LE, rng.choice(((4,), (2, 3), (15000,))), properties)


def reference(file: h5py.File, path: str, rng: random.Random) -> None:
    file.create_dataset(path, data=file.ref, dtype=h5py.ref_dtype)


def _create(file: h5py.File, path: str, kind: Any, shape: tuple[int, ...], properties: Any = None) -> None:
    group, _, name = path.rpartition("/")
    properties = properties or h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)  # a case is the same whenever it is made
    h5py.h5d.create(
        file.require_group(group or "/").id, name.encode(), kind, h5py.h5s.create_simple(shape), properties
    )


KINDS: dict[str, Kind] = {
    kind.__name__: kind
    for kind in (
        other_dtype, odd_number, empty, named_type, claims, virtual, external, odd_filter, compact, reference,
    )
}  # fmt: skip
