# SPDX-License-Identifier: Apache-2.0
"""Check one tensor of a file that can be loaded: shape, packed data, quantization, sparsity."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from circlekit.errors import counted
from circlekit.io.findings import Finding
from circlekit.io.schema import Tree
from circlekit.ir.dtypes import DType
from circlekit.ir.sparsity import sparsity_fault
from circlekit.ir.value import Array, Quantization, Value

MAX_TENSOR_BYTES = 1 << 63
"""Tensors must have fewer bytes than this, because sizes are signed 64-bit numbers."""


def tensor_findings(value: Value, tree: Tree, path: str, external: set[int]) -> Iterator[Finding]:
    """Yield the findings about a tensor.

    ``value``: the loaded tensor.  ``tree``: its table in the file.  ``path``: the path of this table.
    ``external``: the ids of all external buffers (data in other files) that the model lists.
    The field ``shape_signature`` repeats the shape, with -1 for an unknown dimension.
    """
    shape, signature = (_numbers(tree.get(name)) for name in ("shape", "shape_signature"))
    if signature and len(signature) != len(shape):
        message = f"expected {counted(len(shape), 'dimension')}, as the shape has, got {len(signature)}"
        yield Finding("shape-signature", f"{path}.shape_signature", message)
    elif any(s != d and -1 not in (s, d) for s, d in zip(signature, shape, strict=False)):
        message = f"expected -1 or the dimensions of shape {shape}, got {signature}"
        yield Finding("shape-signature", f"{path}.shape_signature", message)
    count = prod(d for d in shape if d >= 0)  # without the unknown dimensions, -1
    if count * value.dtype.bits >= MAX_TENSOR_BYTES * 8:
        yield Finding("shape-size", f"{path}.shape", f"expected fewer than 2^63 bytes, got {count} elements")
    if value.data is not None and value.data.size and tree.get("compression_type", "NONE") == "NONE":
        yield from _data_findings(value.dtype, shape, count, value.data, tree.get("sparsity"), path)
    if value.data is not None and "stored_data" in value.extra:  # ``load`` took the first bytes only
        got = len(value.extra["stored_data"])
        message = f"expected {counted(value.data.nbytes, 'byte')} for {value.dtype.short}{shape}, got {got}"
        yield Finding("surplus-data", path, message)
    if value.data is not None and value.is_variable:
        yield Finding(
            "variable", path, f"expected no data of a variable, got {counted(value.data.nbytes, 'byte')}"
        )
    identifier = tree.get("external_buffer", 0)
    if identifier and identifier not in external:
        message = f"expected the id of an external buffer, got {identifier}"
        yield Finding("external-buffer", f"{path}.external_buffer", message)
    if value.quantization is not None:
        yield from _quantization_findings(value, value.quantization, f"{path}.quantization")


def _numbers(vector: Any) -> list[int]:
    """Return the elements of a vector in a tree; [] for None, which stands for an absent vector."""
    return [] if vector is None else [int(x) for x in vector]


# -- data --------------------------------------------------------------------------------------


def _data_findings(
    dtype: DType, shape: list[int], count: int, data: Array, sparsity: Tree | None, path: str
) -> Iterator[Finding]:
    """Yield the findings about the data of a sparse, string or packed constant; ``load`` checks others.

    A packed constant has a dtype that numpy lacks, such as int4: two elements in a byte.
    ``data``: the bytes in the file.  ``count``: the number of elements in ``shape``.
    """
    is_static = all(d >= 0 for d in shape)
    if sparsity is not None:
        if not dtype.bits or not is_static:
            fault = f"expected numbers of a known shape in a sparse constant, got {dtype.short}{shape}"
        else:
            fault = sparsity_fault(sparsity, shape, len(data) * 8 // dtype.bits) or ""
        if fault:
            yield Finding("sparsity", f"{path}.sparsity", fault)
    elif not is_static and (dtype is DType.STRING or dtype.bits):
        rule = "strings" if dtype is DType.STRING else "packed-size"
        yield Finding(rule, path, f"expected a static shape for a constant, got {shape}")
    elif dtype is DType.STRING:
        if fault := _strings_fault(data, count):
            yield Finding("strings", path, fault)
    elif dtype.numpy is None and dtype.bits and len(data) != (size := -(-count * dtype.bits // 8)):
        yield Finding(
            "packed-size", path, f"expected {counted(size, 'byte')} for {dtype.short}{shape}, got {len(data)}"
        )


def _strings_fault(data: Array, count: int) -> str:
    """Return what is wrong with the data of a constant of ``count`` strings; "" if nothing is wrong.

    The data begins with int32 numbers: the number of strings, the offset of each string, and the end of the
    last string.  The bytes of the strings follow.
    """
    words = np.frombuffer(data[: len(data) & ~3].tobytes(), "<i4").astype(np.int64)  # whole words only
    number = int(words[0]) if len(words) else 0
    if number and not 0 <= number <= len(words) - 2:
        return f"{counted(len(data), 'byte')} cannot hold {counted(number, 'string')}"
    ends = words[1 : number + 2]
    if number and (np.any(ends[1:] < ends[:-1]) or ends[0] < 0 or ends[-1] > len(data)):
        return "expected rising offsets of strings inside the data"
    expected = f"expected {counted(count, 'string')}, one for each element"
    return "" if number == count else f"{expected}, got {number}"


# -- quantization ------------------------------------------------------------------------------


def _quantization_findings(value: Value, quantization: Quantization, path: str) -> Iterator[Finding]:
    """Yield the findings about a quantization.

    The numbers of scales, zero points, minima and maxima are checked, and the values of scales and of the
    zero points of integers.  ``path``: the path of the quantization's table.
    """
    scale, zero_point = quantization.scale, quantization.zero_point
    if len(zero_point) not in (0, 1, len(scale)):
        many = f"none, one, or as many as scales ({len(scale)})"
        message = f"zero points: expected {many}, got {len(zero_point)}"
        yield Finding("quantization", path, message)
    if (misfit := quantization.misfit(value.shape)) is not None:
        is_axis = 0 <= quantization.quantized_dimension < len(value.shape or ())
        yield Finding("quantization", f"{path}.{'scale' if is_axis else 'quantized_dimension'}", misfit)
    minima, maxima = (0 if ends is None else len(ends) for ends in (quantization.min, quantization.max))
    if minima != maxima or minima not in (0, 1, len(scale) or minima):  # without scales, any number
        many = f"none, one of each, or as many of each as scales ({len(scale)})"
        expected = (
            f"minima and maxima: expected {many}" if len(scale) else "expected as many maxima as minima"
        )
        message = f"{expected}, got {minima} and {maxima}"
        yield Finding("min-max", path, message)
    invalid = np.flatnonzero(~(np.isfinite(scale) & (scale > 0)))
    if len(invalid):
        message = f"expected a finite scale above 0, got {scale[invalid[0]]}"
        yield Finding("quantization-values", f"{path}.scale[{invalid[0]}]", message)
    if value.dtype.is_integer:
        lowest, highest = value.dtype.limits
        invalid = np.flatnonzero((zero_point < lowest) | (zero_point > highest))
        if len(invalid):
            message = f"expected a number of type {value.dtype.short}, got {zero_point[invalid[0]]}"
            yield Finding("quantization-values", f"{path}.zero_point[{invalid[0]}]", message)
