# SPDX-License-Identifier: Apache-2.0
"""Constants of ``test.recipe``: what a filler makes of its arguments, as the bytes of the file.

``constant``, ``explicit`` and ``gaussian`` are the peer's; a gaussian is seeded by the names of graph and
operand, so that a recipe is the same bytes on every machine.  Two more keep what those cannot say: ``base64``
holds the bytes themselves, ``file`` names an ``.npy`` file beside the recipe.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import pairwise
from math import prod
from tokenize import TokenError

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType
from circlekit.ir.resource_limits import hold_memory, need_memory
from circlekit.ir.text.fillers import fill
from circlekit.ir.value import Array
from circlekit.recipes.prototext.prototext_parser import float_of

Files = Callable[[str], bytes]
"""The bytes of a file that a recipe names."""

PACKED = {DType.INT4: np.dtype("i1"), DType.UINT4: np.dtype("u1")}
_LIMITS = {DType.INT4: (-8, 7), DType.UINT4: (0, 15)}
SCRATCH = 8
"""Bytes that making one element takes besides itself."""

BROKEN = (ValueError, EOFError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError)
"""What numpy raises for a header, which is a literal of Python, that is none."""

STRING_BYTES = 64
"""Of an empty string while a tensor of them is made."""

TRUE = frozenset({"t", "true", "1"})
FALSE = frozenset({"f", "false", "0"})


def filled(tag: str, args: Sequence[str], dtype: DType, count: int, seed: int, files: Files) -> bytes:
    """The data of ``count`` elements; ModelError for arguments that do not fit."""
    if tag not in FILLERS:
        raise ModelError(f"there is no filler {tag}")
    if tag == "base64":
        return _base64(args)
    if tag == "file":
        return _from_file(args, dtype, count, files)
    if dtype is DType.STRING:
        return _strings(tag, args, count)
    kind = PACKED.get(dtype, dtype.numpy)
    if kind is None or kind.kind == "c":
        raise ModelError(f"{tag} cannot make {dtype.name}")
    if tag != "gaussian":  # which asks for itself
        need_memory(count * (SCRATCH + kind.itemsize), f"{count} elements of {tag}")
        hold_memory(count * kind.itemsize)
    array = FILLERS[tag](args, dtype, kind, count, seed)
    return packed(array) if dtype in PACKED else array.tobytes()


def packed(array: Array) -> bytes:
    """Elements of four bits, two in a byte, the first in its lower half."""
    low = array.reshape(-1).astype(np.uint8) & 15
    low = np.append(low, np.zeros(low.size % 2, np.uint8))
    return (low[0::2] | low[1::2] << 4).tobytes()


def string_data(texts: Sequence[bytes]) -> bytes:
    """The buffer of a tensor of strings: their number, where each starts and the last ends, the bytes."""
    ends = np.cumsum([4 * (len(texts) + 2), *map(len, texts)])
    return struct.pack(f"<{len(texts) + 2}i", len(texts), *ends.tolist()) + b"".join(texts)


def strings_of(data: bytes) -> list[bytes] | None:
    """The strings of a buffer that ``string_data`` would make; None for any other."""
    if len(data) < 8:
        return None
    (count,) = struct.unpack_from("<i", data)
    if not 0 <= count <= len(data) // 4 - 2:
        return None
    places = struct.unpack_from(f"<{count + 1}i", data, 4)
    texts = [data[max(a, 0) : max(b, 0)] for a, b in pairwise(places)]
    return texts if string_data(texts) == data else None


# -- the fillers -------------------------------------------------------------------------------


def _base64(args: Sequence[str]) -> bytes:
    try:
        return base64.b64decode("".join(args), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ModelError(f"no valid base64: {error}") from None


def _from_file(args: Sequence[str], dtype: DType, count: int, files: Files) -> bytes:
    if len(args) != 1:
        raise ModelError(f"file takes one name, found {len(args)} arguments")
    array = array_in_file(files(args[0]), args[0])
    if dtype.numpy is None:
        return array.tobytes()
    if array.dtype.newbyteorder("<") != dtype.numpy or array.size != count:
        raise ModelError(
            f"{args[0]} holds {array.size} elements of {array.dtype}, {count} of {dtype.short} are wanted"
        )
    return array.astype(dtype.numpy, copy=False).tobytes()


def array_in_file(data: bytes, name: str) -> Array:
    """The array of an ``.npy`` file in C order, without its header; ModelError for any other file."""
    header, stream = np.lib.format, BytesIO(data)
    try:
        version = header.read_magic(stream)
        read = header.read_array_header_1_0 if version == (1, 0) else header.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except BROKEN as error:
        raise ModelError(f"{name} is no .npy file: {str(error).partition(chr(10))[0][:200]}") from None
    is_plain = dtype.kind in "fiubc" and not fortran and min(shape, default=0) >= 0
    if not is_plain or prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ModelError(f"{name} is no .npy file of {list(shape)} plain numbers in C order")
    return np.frombuffer(data, dtype, offset=stream.tell())


def _strings(tag: str, args: Sequence[str], count: int) -> bytes:
    if tag != "explicit":
        raise ModelError(f"{tag} cannot make STRING")
    _check_count(args, count)
    need_memory(count * STRING_BYTES, f"{count} strings")
    hold_memory(4 * count)
    texts = [text.encode("utf-8", "surrogateescape") for text in args]
    return string_data(texts + [b""] * (count - len(texts)))


def _check_count(args: Sequence[str], count: int) -> None:
    if len(args) > count:
        raise ModelError(f"the shape has room for {count} elements, {len(args)} are given")


def _numbers(args: Sequence[str], dtype: DType, kind: np.dtype[np.generic]) -> Array:
    """The arguments as an array; what cannot be held is refused."""
    if kind.kind == "b":
        words = [text.strip().lower() for text in args]
        wrong = [w for w in words if w not in TRUE | FALSE and not w.lstrip("-").isdigit()]
        if wrong:
            raise ModelError(f"expected true or false, found {wrong[0]!r}")
        return np.array([w in TRUE or (w not in FALSE and int(w) != 0) for w in words], kind)
    if kind.kind == "f":
        with np.errstate(over="ignore"):
            return np.array([_float(text) for text in args], np.float64).astype(kind)
    values = [_whole(text) for text in args]
    info = np.iinfo(kind)  # type: ignore[type-var]  # the kind is i or u
    low, high = _LIMITS.get(dtype, (info.min, info.max))
    for value in values:
        if not low <= value <= high:
            raise ModelError(f"{dtype.name} is from {low} to {high}, {value} is given")
    return np.array(values, kind)


def _float(text: str) -> float:
    try:
        return float_of(text)
    except ValueError as error:
        raise ModelError(str(error)) from None


def _whole(text: str) -> int:
    """A whole number; one with a point loses what is behind it, as the peer has it."""
    body = text.strip()
    if len(body) <= 40 and body.lstrip("+-").isdigit():
        return int(body)
    number = _float(text)
    if number != number or abs(number) > 2**64:
        raise ModelError(f"expected a whole number, found {text[:40]!r}")
    return int(number)


def _constant(args: Sequence[str], dtype: DType, kind: np.dtype[np.generic], count: int, seed: int) -> Array:
    """The first argument in all elements; the peer's recipes hold more than that one."""
    if not args:
        raise ModelError("constant takes an argument")
    return np.full(count, _numbers(args[:1], dtype, kind)[0], kind)


def _explicit(args: Sequence[str], dtype: DType, kind: np.dtype[np.generic], count: int, seed: int) -> Array:
    """The arguments, and zeros for those that are missing."""
    _check_count(args, count)
    array = np.zeros(count, kind)
    array[: len(args)] = _numbers(args, dtype, kind)
    return array


def _gaussian(args: Sequence[str], dtype: DType, kind: np.dtype[np.generic], count: int, seed: int) -> Array:
    """Normal numbers of a mean and a deviation; integers lose what is behind the point."""
    if len(args) != 2:
        raise ModelError(f"gaussian takes a mean and a deviation, found {len(args)} arguments")
    if kind.kind == "b":
        raise ModelError("gaussian cannot make BOOL")
    values = fill("gaussian", [_float(a) for a in args], {}, DType.FLOAT64, [count], seed)
    if kind.kind == "f":
        with np.errstate(over="ignore"):
            return values.astype(kind)
    if np.isnan(values).any():
        raise ModelError(f"gaussian cannot make {dtype.name} of nan")
    info = np.iinfo(kind)  # type: ignore[type-var]  # the kind is i or u
    low, high = _LIMITS.get(dtype, (info.min, info.max))
    top = float(high) if info.bits < 64 else float(np.nextafter(float(high), 0))
    return np.clip(np.trunc(values), float(low), top).astype(kind)


def _none(args: Sequence[str], dtype: DType, kind: np.dtype[np.generic], count: int, seed: int) -> Array:
    raise AssertionError("these are no arrays of numbers")


FILLERS: dict[str, Callable[[Sequence[str], DType, np.dtype[np.generic], int, int], Array]] = {
    "constant": _constant, "explicit": _explicit, "gaussian": _gaussian, "base64": _none, "file": _none,
}  # fmt: skip
