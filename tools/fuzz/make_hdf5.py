# SPDX-License-Identifier: Apache-2.0
"""Make HDF5 files that are not what they claim: links, dtypes, sizes, filters, names, damaged bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from circlekit.equivalence.data_files import hdf5
from tools.fuzz.mutate_bytes import mutate_bytes

INPUTS = (("x", "<f4", (2, 3)), ("y", "<i4", (2,)), ("z", "<f4", (4,)))
"""Inputs of the model that reads these files: name, dtype, shape."""

SECRET, SECRET_FILE = 4242.5, "secret"
"""A number that occurs in no generated file, only in ``secret`` and ``secret.h5`` beside it."""

COMPOUND = np.dtype([("a", "<f4"), ("b", "S3")])
KEYS = ("0", "1", "2", "-1", "01", "x", "value", "²", "9" * 4000, "a/b", "../0", "\x1b[2J", " ", "\u202e")
LINKS = ("/value", "/value/0", "/", "/name", "/nowhere", ".", "0", "/loop", "../x", "secret")
NUMBERS = ("<f4", ">f4", "<f8", "<f2", "i1", "u1", "<i4", ">i8", "<u8", "?", "<c8")
HUGE_SHAPES = (
    (1 << 20,), (1 << 28,), (1 << 32,), (1 << 40,), (1 << 61,), (1 << 31, 1 << 31), (65536,) * 3, (2,) * 32,
    (1 << 40, 0), (0, 1 << 62), (3, 1 << 33), (1,) * 31 + (1 << 30,),
)  # fmt: skip
FILTERS: tuple[dict[str, Any], ...] = (
    {}, {"compression": "gzip"}, {"compression": "lzf"}, {"shuffle": True}, {"fletcher32": True},
    {"scaleoffset": 2}, {"fillvalue": 3},
)  # fmt: skip

Mutation = Callable[[h5py.File, random.Random], None]


def make_hdf5(rng: random.Random) -> tuple[bytes, list[str]]:
    """Return a file with odd structures, damaged bytes, or both; and what was done."""
    kind = rng.choices(("structures", "bytes", "both"), (5, 4, 2))[0]
    done: list[str] = []
    data = _file(rng, done, 0 if kind == "bytes" else rng.choice((1, 1, 2, 4)))
    if kind != "structures":
        data, more = mutate_bytes(data, data[::-1], rng)
        done += more
    return data, done


def valid_hdf5() -> bytes:
    """Return a file as circlekit writes it."""
    return hdf5.encode([(name, np.zeros(shape, dtype)) for name, dtype, shape in INPUTS])


def secret_files() -> dict[str, bytes]:
    """Return the files that lie beside a generated one and must not be read through it."""
    number = np.full(8, SECRET, np.float32)
    content = hdf5.encode([(str(i), number) for i in range(2)])
    return {SECRET_FILE: number.tobytes(), f"{SECRET_FILE}.h5": content}


def _file(rng: random.Random, done: list[str], count: int) -> bytes:
    """Return a valid file in one of the two layouts, after ``count`` mutations."""
    version = rng.choice(("earliest", "earliest", "latest", "v110"))
    with h5py.File("memory", "w", driver="core", backing_store=False, libver=version) as file:
        records = rng.choice((None, None, 1, 3))
        for number, (name, dtype, shape) in enumerate(INPUTS):
            data = np.ones(shape, dtype)
            if records is None:  # the layout that circlekit writes
                options = {} if rng.random() < 0.7 else {"chunks": True, **rng.choice(FILTERS)}
                file.create_dataset(f"value/{number}", data=data, track_times=False, **options)
                file.require_group("name").attrs[str(number)] = name
            for record in range(records or 0):  # the layout of ONE's data sets
                file.create_dataset(f"value/{record}/{number}", data=data, track_times=False)
        for mutate in rng.choices(list(MUTATIONS), list(MUTATIONS.values()), k=count):
            done.append(mutate.__name__)
            try:
                mutate(file, rng)
            except (ValueError, OSError, RuntimeError, TypeError, LookupError, AttributeError):
                done[-1] += "?"  # HDF5 refused to write it
        file.flush()
        return bytes(file.id.get_file_image())


def _free_path(file: h5py.File, rng: random.Random) -> str:
    """Return a path for something new; what was there is removed."""
    groups = [name for name in ("/value", "/name", "/", "/value/0") if isinstance(file.get(name), h5py.Group)]
    key = rng.choice((*KEYS[:3], *KEYS))
    path = rng.choice(("/value", "/value/0", *[f"{rng.choice(groups or ['/'])}/{key}"] * 2))
    if path in file:
        del file[path]
    return path


def link(file: h5py.File, rng: random.Random) -> None:
    """Add a soft, external or hard link."""
    path = _free_path(file, rng)
    kind = rng.randrange(3)
    if kind == 0:
        file[path] = h5py.SoftLink(rng.choice((*LINKS, path)))
    elif kind == 1:
        target = rng.choice(
            (f"{SECRET_FILE}.h5", f"./{SECRET_FILE}.h5", "memory", "/etc/passwd", "/dev/zero")
        )
        file[path] = h5py.ExternalLink(target, rng.choice(("/value", "/value/0", "/name", "/")))
    else:
        file[path] = file[rng.choice([name for name in ("/", "/value", "/value/0") if name in file])]


def drop_or_rename(file: h5py.File, rng: random.Random) -> None:
    path = rng.choice(("/value", "/name", "/value/0", "/value/1", "/value/0/0"))
    if path in file and rng.random() < 0.5:
        del file[path]
    elif path in file:
        file.move(path, f"/value/{rng.choice(KEYS)}")


def attribute(file: h5py.File, rng: random.Random) -> None:
    """Set a name that is not a string, or an odd one."""
    attributes = file.require_group("name").attrs
    key = rng.choice(("0", "0", "1", "2", "7"))
    numbers = (1, 1.5, [1, 2], True, np.nan, 2**63 - 1, 1j, h5py.Empty("f"), h5py.Empty("S3"), file.ref)
    texts = ("\x1b[31m", "x" * 60000, "a\nb", "", "é", "\u202e", "y", np.array(b"\xff\xfe", "S4"))
    attributes[key] = rng.choice((*numbers, *texts, np.zeros(2, COMPOUND), ["a", "b"] * 500))


def other_dtype(file: h5py.File, rng: random.Random) -> None:
    """Add a dataset of another shape or dtype, also of dtypes that numpy cannot hold as numbers."""
    kinds: list[Any] = [
        COMPOUND, "S5", "V3", h5py.string_dtype(), h5py.vlen_dtype("<i4"), h5py.ref_dtype,
        h5py.regionref_dtype, h5py.enum_dtype({"a": 1, "b": 2}), h5py.opaque_dtype("<M8[s]"),
        np.dtype(("<f4", (2, 3))), np.longdouble, h5py.vlen_dtype(h5py.vlen_dtype("f")),
        np.dtype([("r", "<f4"), ("i", "<f4")]), np.dtype([]),
    ]  # fmt: skip
    shape = rng.choice(((), (2,), (0,), (2, 3), (7,) * 5, (1,) * 32))
    file.create_dataset(_free_path(file, rng), shape, rng.choice((*kinds, *NUMBERS)), track_times=False)


def huge_dataset(file: h5py.File, rng: random.Random) -> None:
    """Add a dataset whose header claims a huge shape, without data, chunked, or in another file."""
    shape = rng.choice(HUGE_SHAPES)
    options: dict[str, Any] = {}
    if rng.random() < 0.6:
        options = {"chunks": tuple(min(d or 1, rng.choice((1, 7, 4096, 1 << 20))) for d in shape)}
        options |= rng.choice(FILTERS)
    elif rng.random() < 0.5:
        shape, options = (4,), {"external": [(rng.choice((SECRET_FILE, "/etc/passwd")), 0, 1 << 20)]}
    file.create_dataset(_free_path(file, rng), shape, rng.choice(NUMBERS), track_times=False, **options)


MUTATIONS: dict[Mutation, float] = {link: 6, drop_or_rename: 4, attribute: 4, other_dtype: 6, huge_dataset: 4}
