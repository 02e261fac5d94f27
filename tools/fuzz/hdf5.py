# SPDX-License-Identifier: Apache-2.0
"""HDF5 files that are not what they say: links, dtypes, sizes, filters, attributes, and broken bytes."""

from __future__ import annotations

import random
from collections.abc import Callable

import h5py
import numpy as np

from circlekit.equivalence import hdf5
from tools.fuzz import hdf5_datasets as datasets
from tools.fuzz.blind import mutate_bytes

INPUTS = (("x", "<f4", (2, 3)), ("y", "<i4", (2,)), ("z", "<f4", (4,)))
"""Of the model that reads these files: name, dtype, shape."""

SECRET, SECRET_FILE = 4242.5, "secret"
"""A number that no file made here holds; ``secret`` (elements) and ``secret.h5`` beside it do."""

MOST = 4
KEYS = (
    "0",
    "1",
    "2",
    "-1",
    "01",
    "1e3",
    "x",
    "value",
    "²",
    "9" * 4000,
    "a/b",
    "../0",
    "\x1b[2J",
    " ",
    "é",
    "\u202e",
)
LINKS = ("/value", "/value/0", "/", "/name", "/nowhere", ".", "0", "/loop", "../x", "secret")

Mutation = Callable[[h5py.File, random.Random], None]


def make_hdf5(rng: random.Random) -> tuple[bytes, list[str]]:
    """A file, and what was done to it: structures, bytes, or both."""
    kind = rng.choices(("structures", "bytes", "both"), (5, 4, 2))[0]
    done: list[str] = []
    data = _file(rng, done, 0 if kind == "bytes" else rng.choice((1, 1, 2, MOST)))
    if kind != "structures":
        data, more = mutate_bytes(data, _file(rng, [], 1) if rng.random() < 0.2 else data[::-1], rng)
        done += more
    return data, done


def _file(rng: random.Random, done: list[str], count: int) -> bytes:
    """A sound file in one of the layouts, or one to which ``count`` things were done."""
    version = rng.choice(("earliest", "earliest", "latest", "v110"))
    space = (
        {"fs_strategy": rng.choice(("page", "none"))} if version != "earliest" and rng.random() < 0.2 else {}
    )
    with h5py.File("memory", "w", driver="core", backing_store=False, libver=version, **space) as file:
        _LAYOUTS[rng.choice(list(_LAYOUTS))](file, rng)
        for _ in range(count):
            name = rng.choices(list(_KINDS), [weight for weight, _ in _KINDS.values()])[0]
            done.append(name)
            try:
                _KINDS[name][1](file, rng)
            except (ValueError, OSError, RuntimeError, TypeError, LookupError, AttributeError):
                done[-1] += "?"  # HDF5 refused to write it
        file.flush()
        return bytes(file.id.get_file_image())


# -- layouts -----------------------------------------------------------------------------------


def _array(rng: random.Random, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    random_bytes = np.random.Generator(np.random.PCG64(rng.randrange(1 << 30)))
    return random_bytes.integers(-2, 3, shape).astype(dtype)


def _named(file: h5py.File, rng: random.Random) -> None:
    """As circlekit writes it."""
    for name, dtype, shape in INPUTS:
        put(file, f"value/{INPUTS.index((name, dtype, shape))}", rng, dtype, shape)
        file.require_group("name").attrs[str(INPUTS.index((name, dtype, shape)))] = name


def _records(file: h5py.File, rng: random.Random) -> None:
    """As ONE's data sets have it, a group for each record."""
    for record in range(rng.choice((1, 2, 5))):
        for number, (_, dtype, shape) in enumerate(INPUTS):
            put(file, f"value/{record}/{number}", rng, dtype, shape)


def _packed(file: h5py.File, rng: random.Random) -> None:
    """Chunks and compression."""
    for number, (name, dtype, shape) in enumerate(INPUTS):
        options = rng.choice(datasets.PACKINGS)
        put(file, f"value/{number}", rng, dtype, shape, chunks=True, **options)
        file.require_group("name").attrs.create(str(number), np.array(name.encode()), dtype="S9")


_LAYOUTS: dict[str, Mutation] = {"named": _named, "records": _records, "packed": _packed}


def put(
    file: h5py.File, key: str, rng: random.Random, dtype: str, shape: tuple[int, ...], **options: object
) -> None:
    data = _array(rng, dtype, shape)
    file.create_dataset(key, data=data, track_times=False, **options)


# -- what is done to them ----------------------------------------------------------------------


def place(file: h5py.File, rng: random.Random) -> str:
    """Where something new goes; what was there is gone."""
    groups = ["/value", "/value", "/value", "/name", "/", "/value/0"]
    group = rng.choice([name for name in groups if isinstance(file.get(name), h5py.Group)] or ["/"])
    key = rng.choice((*KEYS[:3], *KEYS))
    path = rng.choice(("/value", "/value/0", f"{group}/{key}", f"{group}/{key}"))
    if path in file:
        del file[path]
    return path


def soft_link(file: h5py.File, rng: random.Random) -> None:
    path = place(file, rng)
    file[path] = h5py.SoftLink(rng.choice((*LINKS, path)))


def external_link(file: h5py.File, rng: random.Random) -> None:
    target = rng.choice(
        (f"{SECRET_FILE}.h5", f"./{SECRET_FILE}.h5", "memory", "/etc/passwd", "/dev/zero", "")
    )
    file[place(file, rng)] = h5py.ExternalLink(target, rng.choice(("/value", "/value/0", "/name", "/")))


def hard_link(file: h5py.File, rng: random.Random) -> None:
    target = file[rng.choice([name for name in ("/", "/value", "/value/0", "/name") if name in file])]
    file[place(file, rng)] = target


def drop(file: h5py.File, rng: random.Random) -> None:
    path = rng.choice(("/value", "/name", "/value/0", "/value/1", "/value/0/0"))
    if path in file:
        del file[path]


def rename(file: h5py.File, rng: random.Random) -> None:
    group = file["value"]
    if not isinstance(group, h5py.Group):
        return
    file.move(f"/value/{rng.choice(list(group))}", f"/value/{rng.choice(KEYS)}")


def attribute(file: h5py.File, rng: random.Random) -> None:
    """A name that is no text, or odd."""
    attributes = file.require_group("name").attrs
    key = rng.choice(("0", "0", "1", "2", "7"))
    kind = rng.randrange(8)
    if kind == 0:
        attributes[key] = rng.choice((1, 1.5, [1, 2], True, np.nan, 2**63 - 1, 1j))
    elif kind == 1:
        attributes[key] = rng.choice(("\x1b[31m", "x" * 60000, "a\nb", "", "é", "\u202e", "x", "y"))
    elif kind == 2:
        attributes.create(key, np.array(rng.choice((b"\xff\xfe", b"x\0y", b"z")), "S4"))
    elif kind == 3:
        attributes.create(key, ["a", "b"] * rng.choice((1, 500)), dtype=h5py.string_dtype())
    elif kind == 4:
        attributes.create(key, file.ref, dtype=h5py.ref_dtype)
    elif kind == 5:
        attributes[key] = h5py.Empty(rng.choice(("f", "S3")))
    elif kind == 6:
        attributes.create(key, np.zeros(2, datasets.COMPOUND))
    elif key in attributes:
        del attributes[key]


def values(file: h5py.File, rng: random.Random) -> None:
    """A sound dataset of another shape or other numbers."""
    shape = rng.choice(((), (0,), (1,), (2, 3), (3, 2), (2,), (1, 2, 3), (0, 3), (7,) * 5, (1,) * 32))
    odd = rng.choice((0, -1, np.nan, np.inf, 1e308, 2**31, 65536))
    with np.errstate(all="ignore"):
        data = np.full(shape, odd).astype(rng.choice(datasets.NUMBERS))
    file.create_dataset(place(file, rng), data=data, track_times=False)


def many(file: h5py.File, rng: random.Random) -> None:
    """Many members, or groups in groups."""
    if rng.random() < 0.5:
        file.require_group("/".join(["value", "0", *["0"] * rng.choice((3, 300))]))
        return
    group = file.require_group("value")
    for number in range(rng.choice((20, 400))):
        group.require_group(f"{number + 10}")


def dataset(file: h5py.File, rng: random.Random) -> None:
    """One of another kind, or one that claims what it has not."""
    datasets.KINDS[rng.choice(list(datasets.KINDS))](file, place(file, rng), rng)


_KINDS: dict[str, tuple[float, Mutation]] = {
    "dataset": (8, dataset),
    "soft_link": (2, soft_link),
    "external_link": (2, external_link),
    "hard_link": (2, hard_link),
    "drop": (2, drop),
    "rename": (2, rename),
    "attribute": (4, attribute),
    "values": (3, values),
    "many": (0.3, many),
}


def secret_files() -> dict[str, bytes]:
    """What lies beside a file that is read, and must not be in what is read."""
    number = np.full(8, SECRET, np.float32)
    return {
        SECRET_FILE: number.tobytes(),
        f"{SECRET_FILE}.h5": hdf5.encode([(str(i), number) for i in range(2)]),
    }


def sound_hdf5() -> bytes:
    """A file as circlekit writes it."""
    return hdf5.encode([(name, np.zeros(shape, dtype)) for name, dtype, shape in INPUTS])
