# SPDX-License-Identifier: Apache-2.0
"""Read and write the fillers of ``test.recipe``.  A filler defines a constant by a tag and arguments (texts).

- ``constant``: all elements are equal to the first argument.
- ``explicit``: the arguments are the elements; zeros or empty strings stand for missing elements.
- ``gaussian``: normally distributed numbers; the arguments are mean and standard deviation.  The seed is made
  from the names of graph and operand, so a recipe gives the same bytes on every machine.
- ``base64``: the argument is the bytes in base64; ONE does not have this tag.
- ``file``: the argument is the name of an ``.npy`` file beside the recipe; ONE does not have this tag.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Sequence
from io import BytesIO
from tokenize import TokenError

import numpy as np

from circlekit.errors import ModelError, counted, did_you_mean, shown
from circlekit.io.schema import Tree
from circlekit.ir.dtypes import DType
from circlekit.ir.resources.resource_limits import count_memory, need_memory
from circlekit.ir.text.fillers import fill
from circlekit.ir.text.literal_printing import elements
from circlekit.ir.value import Array
from circlekit.ops.constant_operands import decode_strings, encode_strings, packed, unpacked

Files = Callable[[str], bytes]
"""A function that returns the content of a file that a recipe names."""

SCRATCH_BYTES_PER_ELEMENT = 8
"""The temporary memory for each element while a constant is made, in addition to the constant itself."""

INVALID_NPY = (ValueError, EOFError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError)
"""The errors that numpy raises for an invalid .npy file, whose header is a Python literal."""

EMPTY_STRING_BYTES = 64
"""The memory of an empty string while a tensor of strings is made."""

MAX_LISTED = 64
"""In a recipe that is written, a constant of at most this many elements is a list of its elements.

More than 4 numbers that are all equal are written as one number instead.
Other data of at most this many bytes is written in base64, larger data to a file, or in base64 if there is
no folder for files.
"""

FILLERS = ("constant", "explicit", "gaussian", "base64", "file")
"""The tags of all fillers."""

TRUE = frozenset({"t", "true", "1"})
FALSE = frozenset({"f", "false", "0"})
"""The words for the elements of a BOOL constant."""

INTEGER, HEXADECIMAL = r"[-+]?[0-9]+", r"[-+]?0[xX][0-9a-fA-F]{1,16}"
"""The regular expressions of a decimal and of a hexadecimal integer in an argument."""

# -- data from fillers -------------------------------------------------------------------------


def filled(tag: str, args: Sequence[str], dtype: DType, count: int, seed: int, files: Files) -> bytes:
    """Return the data of a constant as a model file stores it.

    ``tag``, ``args``: the filler.  ``count``: the number of elements.  It is not checked for base64, and not
    for file if numpy lacks the dtype (such as int4).
    ``seed``: the seed for gaussian.  ``files``: reads a file beside the recipe.
    Raise ModelError for invalid arguments, LimitError if the data does not fit into memory, and the errors of
    ``files``.
    """
    if tag not in FILLERS:
        near = did_you_mean(tag, FILLERS) or f"; expected one of {', '.join(FILLERS)}"
        raise ModelError(f"no filler is named {shown(tag)}{near}")
    if tag == "base64":
        try:
            return base64.b64decode("".join(args), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ModelError(f"expected base64: {error}") from None
    if tag == "file":
        return _from_file(args, dtype, count, files)
    if tag == "explicit" and len(args) > count:
        raise ModelError(f"expected at most {counted(count, 'element')}, as the shape has, got {len(args)}")
    if tag == "explicit" and dtype is DType.STRING:
        need_memory(count * EMPTY_STRING_BYTES, f"{count} strings")
        count_memory(4 * count)  # the offsets of the strings in the buffer
        texts = [text.encode("utf-8", "surrogateescape") for text in args]
        return encode_strings(texts + [b""] * (count - len(texts))).tobytes()
    if not dtype.is_integer and (dtype.numpy is None or dtype.numpy.kind not in "fb"):
        others = "FLOAT16, FLOAT32, FLOAT64" + ("" if tag == "gaussian" else ", BOOL")
        raise ModelError(f"{tag}: expected a type of integers, or one of {others}, got {dtype.name}")
    array = _gaussian(args, dtype, count, seed) if tag == "gaussian" else _listed(tag, args, dtype, count)
    # integers without a numpy dtype, as int4, were made as int8: pack several of them into a byte
    return (array if dtype.numpy is not None else packed(array, dtype)).tobytes()


def _listed(tag: str, args: Sequence[str], dtype: DType, count: int) -> Array:
    """Return the elements of the filler ``constant`` or ``explicit``; int4 and the like as int8.

    If explicit lists fewer elements than ``count``, zeros follow.
    """
    numpy_dtype = dtype.numpy if dtype.numpy is not None else np.dtype(np.int8)
    need_memory(count * (SCRATCH_BYTES_PER_ELEMENT + numpy_dtype.itemsize), f"{count} elements of {tag}")
    count_memory(count * numpy_dtype.itemsize)
    if tag == "constant" and not args:
        raise ModelError("constant: expected an argument, got none")
    arguments = args[:1] if tag == "constant" else args  # ONE ignores further arguments of constant
    if dtype is DType.BOOL:
        numbers: list[float] = [_bool(text) for text in arguments]
    else:
        numbers = [_integer(text, dtype) if dtype.is_integer else _float(text) for text in arguments]
    with np.errstate(over="ignore"):
        array = np.array(numbers, numpy_dtype)
    if tag == "constant":
        return np.full(count, array[0])
    return np.pad(array, (0, count - len(array)))


def _gaussian(args: Sequence[str], dtype: DType, count: int, seed: int) -> Array:
    """Return normally distributed numbers.

    For a ``dtype`` of integers the numbers are truncated, and clipped to its range; int4 is returned as int8.
    """
    if len(args) != 2:
        raise ModelError(
            f"gaussian: expected a mean and a standard deviation, got {counted(len(args), 'argument')}"
        )
    if dtype is DType.BOOL:
        raise ModelError("gaussian: expected a type of integers or floats, got BOOL")
    values = fill("gaussian", [_float(a) for a in args], {}, DType.FLOAT64, [count], seed)
    if not dtype.is_integer:
        with np.errstate(over="ignore"):
            return values.astype(dtype.numpy)
    if np.isnan(values).any():
        raise ModelError(f"gaussian: expected numbers for {dtype.name}, got nan")
    whole = np.clip(np.trunc(values), *dtype.float_limits)
    return whole.astype(np.int8 if dtype.numpy is None else dtype.numpy)


def _from_file(args: Sequence[str], dtype: DType, count: int, files: Files) -> bytes:
    """Return the data in an ``.npy`` file.

    Raise ModelError if the file is invalid, or if its array does not fit the constant.
    """
    if len(args) != 1:
        raise ModelError(f"file: expected one name, got {counted(len(args), 'argument')}")
    name, data = args[0], files(args[0])
    try:
        array = np.lib.format.read_array(BytesIO(data), allow_pickle=False)
    except INVALID_NPY as error:
        reason = str(error).partition("\n")[0][:200]
        raise ModelError(f"{name}: expected an .npy file: {reason}") from None
    if dtype.numpy is None:  # the array holds the bytes as a model file stores them
        return array.tobytes()
    if array.dtype.newbyteorder("<") != dtype.numpy or array.size != count:
        actual = f"{array.size} of {array.dtype}"
        raise ModelError(f"{name}: expected {counted(count, 'element')} of {dtype.short}, got {actual}")
    return array.astype(dtype.numpy, copy=False).tobytes()


def _bool(text: str) -> bool:
    """Return the truth value of an argument: of a word in TRUE or FALSE, or of an integer.

    Raise ModelError for other texts.
    """
    word = text.strip().lower()
    if word not in TRUE | FALSE and not re.fullmatch(INTEGER, word):
        raise ModelError(f"expected true or false, got {word!r}")
    return word in TRUE or (word not in FALSE and word.strip("-+0") != "")


def _float(text: str) -> float:
    """Return the number in an argument, written as in C++: ``-.5e3``, ``0.1f``, ``inf``, ``0x1f``.

    Raise ModelError for other texts, also for ``1_000`` and digits of other scripts, which Python accepts.
    """
    body = text.strip()
    if re.fullmatch(HEXADECIMAL, body):
        return float(int(body, 16))
    if body[-1:] in "fF" and body[-3:].lower() != "inf":
        body = body[:-1]
    try:
        return float(body if body.isascii() and "_" not in body else "")
    except ValueError:
        raise ModelError(f"expected a number, got {text[:40]!r}") from None


def _integer(text: str, dtype: DType) -> int:
    """Return the integer in an argument; a fraction is truncated, as in ONE.

    Raise ModelError for other texts and numbers outside of the range of ``dtype``.
    """
    body = text.strip()
    if len(body) <= 40 and re.fullmatch(INTEGER, body):  # longer texts are slow to convert exactly
        number: int | None = int(body)
    elif re.fullmatch(HEXADECIMAL, body):
        number = int(body, 16)
    else:
        value = _float(text)
        if body.lstrip("+-")[:3].lower() in ("inf", "nan"):
            raise ModelError(f"expected an integer, got {text[:40]!r}")
        number = int(value) if abs(value) <= 2**64 else None  # None: out of the range of every dtype
    low, high = dtype.limits
    if number is None or not low <= number <= high:
        got = body[:40] if number is None else number
        raise ModelError(f"{dtype.name}: expected numbers from {low} to {high}, got {got}")
    return number


# -- fillers from data -------------------------------------------------------------------------


class Folder:
    """The ``.npy`` files of one recipe, in memory.

    ``stem``: the beginning of the names of the files.  ``files``: {name: content}.  ``offsets``: {name:
    offset of the elements in the file}, which is the size of its header.
    """

    def __init__(self, stem: str) -> None:
        self.stem = stem
        self.files: dict[str, bytes] = {}
        self.offsets: dict[str, int] = {}

    def add(self, array: Array) -> str:
        """Add an array and return the name of its file."""
        file = f"{self.stem}.{len(self.files)}.npy"
        stream = BytesIO()
        np.lib.format.write_array(stream, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
        self.files[file] = stream.getvalue()
        self.offsets[file] = len(self.files[file]) - array.nbytes
        return file


def filler_of(data: Array, dtype: DType, count: int | None, folder: Folder | None, resample: bool) -> Tree:
    """Return the filler, a tree with ``tag`` and ``arg``, for a constant with the bytes ``data``.

    ``count``: the number of elements, None if it is unknown.
    ``folder``: gets large constants as files; None: they are written in base64.
    ``resample``: whether a gaussian filler with the same mean and standard deviation replaces a constant of
    more than MAX_LISTED integers or floats that numpy has.  A constant of equal elements, or with an element that is not
    finite, is not replaced, nor one whose mean or standard deviation is too large for float32.
    """
    if count is not None and dtype is DType.STRING:
        strings = _strings(data)
        if strings is not None and len(strings) == count <= MAX_LISTED:
            return {"tag": "explicit", "arg": [text.decode("utf-8", "surrogateescape") for text in strings]}
    array = None if count is None else _elements(data, dtype, count)
    if array is not None:
        listed = _listing(array)
        if listed is not None:
            return listed
        if resample and array.dtype.kind != "b" and array.size > MAX_LISTED and not _is_uniform(array):
            numbers = array.astype(np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                moments = [float(np.float32(numbers.mean())), float(np.float32(numbers.std()))]
            if np.isfinite(moments).all():
                return {"tag": "gaussian", "arg": [repr(moment) for moment in moments]}
    if folder is None or len(data) <= MAX_LISTED:
        return {"tag": "base64", "arg": [base64.b64encode(data.tobytes()).decode("ascii")]}
    return {"tag": "file", "arg": [folder.add(data if array is None or dtype.numpy is None else array)]}


def _listing(array: Array) -> Tree | None:
    """Return a filler with all elements; if there are more than 4 and all are equal, with one element.

    Return None if too many elements would be listed, or if the bits of an element, such as some NaN, cannot
    be written as text.
    """
    is_constant = array.size > 4 and _is_uniform(array)
    if not is_constant and array.size > MAX_LISTED:
        return None
    listed = array[:1] if is_constant else array
    texts = elements(listed.astype(np.uint8) if array.dtype.kind == "b" else listed)  # ONE reads numbers only
    return None if texts is None else {"tag": "constant" if is_constant else "explicit", "arg": texts}


def _strings(data: Array) -> list[bytes] | None:
    """Return the strings in a buffer; None if writing these strings again would not give the same bytes."""
    try:
        strings: list[bytes] = decode_strings(data).tolist()
    except ModelError:
        return None
    return strings if np.array_equal(encode_strings(strings), data) else None


def _elements(data: Array, dtype: DType, count: int) -> Array | None:
    """Return the elements in the bytes ``data``; None if a list of elements cannot give these bytes."""
    if dtype.is_integer and dtype.numpy is None:
        numbers = unpacked(data, dtype)[:count]
        return numbers if np.array_equal(packed(numbers, dtype), data) else None
    kind = dtype.numpy
    if kind is None or kind.kind not in "fiub" or count * kind.itemsize != len(data):
        return None
    # true is written as 1, so a byte above 1 would be lost
    return None if kind.kind == "b" and (data > 1).any() else data.view(kind)


def _is_uniform(array: Array) -> bool:
    """Return whether all elements of an array of rank 1 have the same bits."""
    bits = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind != "b" else array
    return bool((bits == bits[0]).all())


# -- sparse constants --------------------------------------------------------------------------


def sparse_tree(dense: Array) -> tuple[Tree, bytes]:
    """Return (table SparsityParameters, data) for the sparse form of ``dense``, an array of rank 1 or more.

    The last dimension is compressed: elements whose bits are all zero are not stored; -0.0 is stored.
    """
    bits = dense.view(f"u{dense.dtype.itemsize}")
    is_stored = bits != 0
    rows = is_stored.reshape(math.prod(dense.shape[:-1]), dense.shape[-1])
    segments = np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(np.int32)
    indices = np.nonzero(rows)[1].astype(np.int32)
    dimensions: list[Tree] = [{"format": "DENSE", "dense_size": size} for size in dense.shape[:-1]]
    vectors = [{"": "Int32Vector", "values": numbers} for numbers in (segments, indices)]
    dimensions.append({"format": "SPARSE_CSR", "array_segments": vectors[0], "array_indices": vectors[1]})
    tree = {"traversal_order": list(range(dense.ndim)), "block_map": [], "dim_metadata": dimensions}
    return tree, dense[is_stored].tobytes()


def stored_count(sparsity: Tree) -> int:
    """Return how many elements a file stores for a constant with the table ``sparsity``."""
    count = 1
    for dimension in sparsity["dim_metadata"]:
        if dimension["format"] == "DENSE":
            count *= dimension["dense_size"]
        else:
            # not a factor: the indices of all rows are in one list, so their number is the count so far
            count = len(dimension.get("array_indices", {}).get("values", ()))
    return count
