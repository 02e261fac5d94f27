# SPDX-License-Identifier: Apache-2.0
"""Fillers of ``test.recipe``: make the bytes of a constant from a tag and arguments; and sparse constants.

- ``constant``: all elements are equal to the first argument.
- ``explicit``: the arguments are the elements.
- ``gaussian``: normal numbers; arguments are mean and standard deviation.  The seed follows from the names of
  graph and operand, so a recipe gives the same bytes on every machine.
- ``base64``: the argument is the bytes; not in ONE.
- ``file``: the argument is the name of an ``.npy`` file beside the recipe; not in ONE.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import pairwise
from math import prod
from tokenize import TokenError

import numpy as np

from circlekit.errors import ModelError
from circlekit.io.schema import Tree
from circlekit.ir.dtypes import DType
from circlekit.ir.resource_limits import hold_memory, need_memory
from circlekit.ir.text.fillers import fill
from circlekit.ir.value import Array

Files = Callable[[str], bytes]
"""Returns the content of a file that a recipe names."""

PACKED = {DType.INT4: np.dtype("i1"), DType.UINT4: np.dtype("u1")}
_LIMITS = {DType.INT4: (-8, 7), DType.UINT4: (0, 15)}
SCRATCH_BYTES = 8
"""Scratch memory per element while a constant is made."""

INVALID_HEADER = (ValueError, EOFError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError)
"""What numpy raises for an invalid header of an .npy file, which is a Python literal."""

EMPTY_STRING_BYTES = 64
"""Memory of an empty string while a tensor of strings is made."""

FILLERS = ("constant", "explicit", "gaussian", "base64", "file")

TRUE = frozenset({"t", "true", "1"})
FALSE = frozenset({"f", "false", "0"})


def filled(tag: str, args: Sequence[str], dtype: DType, count: int, seed: int, files: Files) -> bytes:
    """Return the data of ``count`` elements; ModelError for invalid arguments."""
    if tag not in FILLERS:
        raise ModelError(f"no filler is named {tag}")
    if tag == "base64":
        try:
            return base64.b64decode("".join(args), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ModelError(f"expected base64: {error}") from None
    if tag == "file":
        return _from_file(args, dtype, count, files)
    if dtype is DType.STRING:
        return _strings(tag, args, count)
    kind = PACKED.get(dtype, dtype.numpy)
    if kind is None or kind.kind == "c":
        raise ModelError(f"{tag} cannot make {dtype.name}")
    if tag != "gaussian":  # fill() checks the memory of gaussian
        need_memory(count * (SCRATCH_BYTES + kind.itemsize), f"{count} elements of {tag}")
        hold_memory(count * kind.itemsize)
    if tag == "gaussian":
        array = _gaussian(args, dtype, kind, count, seed)
    elif tag == "explicit":  # zeros for missing arguments
        _check_count(args, count)
        array = np.zeros(count, kind)
        array[: len(args)] = _numbers(args, dtype, kind)
    elif args:  # ONE's recipes may have more arguments than the one of constant
        array = np.full(count, _numbers(args[:1], dtype, kind)[0], kind)
    else:
        raise ModelError("constant: expected an argument, got none")
    return packed(array) if dtype in PACKED else array.tobytes()


def packed(array: Array) -> bytes:
    """Pack elements of four bits, two to a byte, the first in the lower half."""
    low = array.reshape(-1).astype(np.uint8) & 15
    low = np.append(low, np.zeros(low.size % 2, np.uint8))
    return (low[0::2] | low[1::2] << 4).tobytes()


def string_data(texts: Sequence[bytes]) -> bytes:
    """Return the buffer of a tensor of strings: count, start of each, end of the last (int32), bytes."""
    ends = np.cumsum([4 * (len(texts) + 2), *map(len, texts)])
    return struct.pack(f"<{len(texts) + 2}i", len(texts), *ends.tolist()) + b"".join(texts)


def strings_of(data: bytes) -> list[bytes] | None:
    """Return the strings of a buffer that ``string_data`` would make; None for any other buffer."""
    if len(data) < 8:
        return None
    (count,) = struct.unpack_from("<i", data)
    if not 0 <= count <= len(data) // 4 - 2:
        return None
    places = struct.unpack_from(f"<{count + 1}i", data, 4)
    texts = [data[max(a, 0) : max(b, 0)] for a, b in pairwise(places)]
    return texts if string_data(texts) == data else None


# -- the fillers -------------------------------------------------------------------------------


def _from_file(args: Sequence[str], dtype: DType, count: int, files: Files) -> bytes:
    if len(args) != 1:
        raise ModelError(f"file: expected one name, got {len(args)} arguments")
    array = array_in_file(files(args[0]), args[0])
    if dtype.numpy is None:
        return array.tobytes()
    if array.dtype.newbyteorder("<") != dtype.numpy or array.size != count:
        found = f"{array.size} of {array.dtype}"
        raise ModelError(f"{args[0]}: expected {count} elements of {dtype.short}, got {found}")
    return array.astype(dtype.numpy, copy=False).tobytes()


def array_in_file(data: bytes, name: str) -> Array:
    """Return the array of an ``.npy`` file in C order as a view; ModelError for any other file."""
    header, stream = np.lib.format, BytesIO(data)
    try:
        version = header.read_magic(stream)
        read = header.read_array_header_1_0 if version == (1, 0) else header.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except INVALID_HEADER as error:
        reason = str(error).partition("\n")[0][:200]
        raise ModelError(f"{name}: expected an .npy file: {reason}") from None
    is_plain = dtype.kind in "fiubc" and not fortran and min(shape, default=0) >= 0
    if not is_plain or prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ModelError(f"{name}: expected an .npy file of {list(shape)} numbers in C order")
    return np.frombuffer(data, dtype, offset=stream.tell())


def _strings(tag: str, args: Sequence[str], count: int) -> bytes:
    if tag != "explicit":
        raise ModelError(f"{tag} cannot make STRING")
    _check_count(args, count)
    need_memory(count * EMPTY_STRING_BYTES, f"{count} strings")
    hold_memory(4 * count)
    texts = [text.encode("utf-8", "surrogateescape") for text in args]
    return string_data(texts + [b""] * (count - len(texts)))


def _check_count(args: Sequence[str], count: int) -> None:
    if len(args) > count:
        raise ModelError(f"expected at most {count} elements, as the shape has, got {len(args)}")


def _numbers(args: Sequence[str], dtype: DType, kind: np.dtype[np.generic]) -> Array:
    """Return the arguments as an array; ModelError for numbers that the type cannot represent."""
    if kind.kind == "b":
        words = [text.strip().lower() for text in args]
        wrong = [w for w in words if w not in TRUE | FALSE and not w.lstrip("-").isdigit()]
        if wrong:
            raise ModelError(f"expected true or false, got {wrong[0]!r}")
        return np.array([w in TRUE or (w not in FALSE and int(w) != 0) for w in words], kind)
    if kind.kind == "f":
        with np.errstate(over="ignore"):
            return np.array([_float(text) for text in args], np.float64).astype(kind)
    values = [_whole(text) for text in args]
    info = np.iinfo(kind)  # type: ignore[type-var]  # the kind is i or u
    low, high = _LIMITS.get(dtype, (info.min, info.max))
    for value in values:
        if not low <= value <= high:
            raise ModelError(f"{dtype.name}: expected numbers from {low} to {high}, got {value}")
    return np.array(values, kind)


def _float(text: str) -> float:
    """Return a number as C++ reads it: ``1``, ``-.5e3``, ``0.1f``, ``inf``, ``nan``, ``0x1f``."""
    body = text.strip()
    if re.fullmatch(r"[-+]?0[xX][0-9a-fA-F]{1,16}", body):
        return float(int(body, 16))
    if body[-1:] in "fF" and body[-3:].lower() != "inf":
        body = body[:-1]
    try:
        return float(body if "_" not in body else "")
    except ValueError:
        raise ModelError(f"expected a number, got {text[:40]!r}") from None


def _whole(text: str) -> int:
    """Return an integer; a fraction is truncated, as in ONE."""
    body = text.strip()
    if len(body) <= 40 and body.lstrip("+-").isdigit():
        return int(body)
    number = _float(text)
    if number != number or abs(number) > 2**64:
        raise ModelError(f"expected an integer, got {text[:40]!r}")
    return int(number)


def _gaussian(args: Sequence[str], dtype: DType, kind: np.dtype[np.generic], count: int, seed: int) -> Array:
    """Return normal numbers of given mean and standard deviation; integers are truncated and clipped."""
    if len(args) != 2:
        raise ModelError(f"gaussian: expected a mean and a standard deviation, got {len(args)} arguments")
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


def sparse_tree(dense: Array) -> tuple[Tree, bytes]:
    """Return the table SparsityParameters and the data of ``dense``, an array of rank 1 or more.

    Elements whose bits are all zero are left out; -0.0 is stored.
    """
    bits = dense.view(f"u{dense.dtype.itemsize}")
    kept = bits != 0
    columns = dense.shape[-1]
    rows = kept.reshape(-1, columns) if columns else np.zeros((dense.size, 0), bool)
    segments = np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(np.int32)
    indices = np.nonzero(rows)[1].astype(np.int32)
    dimensions: list[Tree] = [{"format": "DENSE", "dense_size": size} for size in dense.shape[:-1]]
    dimensions.append(
        {
            "format": "SPARSE_CSR",
            "array_segments": {"": "Int32Vector", "values": segments},
            "array_indices": {"": "Int32Vector", "values": indices},
        }
    )
    tree = {"traversal_order": list(range(dense.ndim)), "block_map": [], "dim_metadata": dimensions}
    return tree, dense[kept].tobytes()


def stored_count(sparsity: Tree) -> int:
    """Return the number of elements that a file stores for a constant with these parameters."""
    count = 1
    for dimension in sparsity["dim_metadata"]:
        if dimension["format"] == "DENSE":
            count *= dimension["dense_size"]
        else:
            count = len(dimension.get("array_indices", {}).get("values", ()))
    return count
