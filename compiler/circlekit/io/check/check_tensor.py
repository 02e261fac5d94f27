# SPDX-License-Identifier: Apache-2.0
"""Check one tensor of a decoded file: type, shape, data, quantization, sparsity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from circlekit.io.check.findings import Findings
from circlekit.io.schema import Tree
from circlekit.io.tensor_fields import TENSOR_FIELDS
from circlekit.ir.dtypes import DType
from circlekit.ir.sparsity import sparsity_fault
from circlekit.ir.value import MAX_RANK, Array

MAX_TENSOR_BYTES = 1 << 63
"""A tensor has fewer bytes than this."""


class TensorChecker:
    """Checks the tensors of one file.

    buffers: The data of each buffer, None for those without data.
    external: Ids of the buffers in other files.
    """

    def __init__(self, findings: Findings, buffers: Sequence[Array | None], external: set[int]) -> None:
        self.add = findings.add
        self.buffers = buffers
        self.external = external

    def check(self, tree: Tree, path: str, tensors: int) -> None:
        """Check one tensor.  ``tensors``: how many the graph has."""
        kind = tree.get("type", "FLOAT32")
        dtype = DType[kind] if isinstance(kind, str) else None
        if dtype is None:
            self.add("dtype", f"{path}.type", f"the schema has no type {kind}")
        shape = self._shape(tree, path)
        data = self._data(tree, path)
        if shape is not None and dtype is not None:
            self._size(tree, dtype, shape, data, path)
        if data is not None and tree.get("is_variable"):
            self.add("variable", path, f"expected no data of a variable, got {len(data)} bytes")
        identifier = tree.get("external_buffer", 0)
        if identifier and identifier not in self.external:
            message = f"expected the id of an external buffer, got {identifier}"
            self.add("external-buffer", f"{path}.external_buffer", message)
        if "quantization" in tree:
            self._quantization(tree["quantization"], dtype, shape, f"{path}.quantization", tensors)

    # -- shape -------------------------------------------------------------------------------------

    def _shape(self, tree: Tree, path: str) -> list[int] | None:
        """Return the dimensions; None if they are invalid."""
        shape: list[int] = _numbers(tree.get("shape"))
        signature = _numbers(tree.get("shape_signature"))
        if len(shape) > MAX_RANK:
            message = f"expected at most {MAX_RANK} dimensions, got {len(shape)}"
            self.add("shape", f"{path}.shape", message)
            return None
        if min(shape, default=0) < -1:
            self.add("shape", f"{path}.shape", f"expected dimensions from -1 (unknown) on, got {shape}")
            return None
        if signature and len(signature) != len(shape):
            message = f"expected {len(shape)} dimensions, as the shape has, got {len(signature)}"
            self.add("shape-signature", f"{path}.shape_signature", message)
        elif any(s not in (d, -1) for s, d in zip(signature, shape, strict=False)):
            message = f"expected -1 or the dimensions of shape {shape}, got {signature}"
            self.add("shape-signature", f"{path}.shape_signature", message)
        return shape

    def _size(self, tree: Tree, dtype: DType, shape: list[int], data: Array | None, path: str) -> None:
        """Check the number of bytes of the data against the shape."""
        count = prod(d for d in shape if d >= 0) if 0 not in shape else 0
        if count * max(dtype.bits, 1) >= MAX_TENSOR_BYTES * 8:
            self.add("shape-size", f"{path}.shape", f"expected fewer than 2^63 bytes, got {count} elements")
        if data is None or tree.get("compression_type", "NONE") != "NONE":
            return
        if "sparsity" in tree:
            self._sparse(tree["sparsity"], dtype, shape, data, path)
        elif min(shape, default=0) < 0 and dtype.numpy is not None:
            self.add("data-size", path, f"expected a known shape of a constant, got {shape}")
        elif dtype is DType.STRING:
            self._strings(data, count, path)
        elif dtype.bits and len(data) != -(-count * dtype.bits // 8):
            rule = "data-size" if dtype.numpy is not None else "packed-size"
            size = -(-count * dtype.bits // 8)
            self.add(rule, path, f"expected {size} bytes for {dtype.short}{shape}, got {len(data)}")

    # -- data --------------------------------------------------------------------------------------

    def _data(self, tree: Tree, path: str) -> Array | None:
        index = tree.get("buffer", 0)
        if index >= len(self.buffers):
            self.add(
                "buffer-index", f"{path}.buffer", f"index {index}, there are {len(self.buffers)} buffers"
            )
            return None
        data = self.buffers[index]
        return data if data is not None and len(data) else None

    def _sparse(self, sparsity: Tree, dtype: DType, shape: list[int], data: Array, path: str) -> None:
        if not dtype.bits or min(shape, default=0) < 0:
            message = f"expected numbers of a known shape in a sparse constant, got {dtype.short}{shape}"
            self.add("sparsity", f"{path}.sparsity", message)
            return
        fault = sparsity_fault(sparsity, shape, len(data) * 8 // dtype.bits)
        if fault is not None:
            self.add("sparsity", f"{path}.sparsity", fault)

    def _strings(self, data: Array, count: int, path: str) -> None:
        """Check a constant of strings: their count, count + 1 offsets (all int32), and the bytes."""
        words = np.frombuffer(data[: len(data) & ~3].tobytes(), "<i4").astype(np.int64)
        found = int(words[0]) if len(words) else 0
        if not 0 <= found <= len(words) - 2 and found:
            self.add("strings", path, f"{len(data)} bytes cannot hold {found} strings")
            return
        ends = words[1 : found + 2]
        if found and (np.any(ends[1:] < ends[:-1]) or ends[0] < 0 or ends[-1] > len(data)):
            self.add("strings", path, "expected rising offsets of strings inside the data")
        elif found != count:
            self.add("strings", path, f"expected {count} strings, as the shape has elements, got {found}")

    # -- quantization ------------------------------------------------------------------------------

    def _quantization(
        self, tree: Tree, dtype: DType | None, shape: list[int] | None, path: str, tensors: int
    ) -> None:
        scale, zero_point, low, high = (
            np.asarray(tree.get(name, ())) for name in ("scale", "zero_point", "min", "max")
        )
        if len(zero_point) not in (0, 1, len(scale)):
            self.add("quantization", path, f"{len(scale)} scales and {len(zero_point)} zero points")
        if len(scale) > 1 and shape is not None:
            self._axis(tree.get("quantized_dimension", 0), len(scale), shape, path)
        if len(low) != len(high) or len(low) not in (0, 1, len(scale) or len(low)):
            message = f"{len(low)} minima, {len(high)} maxima, {len(scale)} scales"
            self.add("min-max", path, message)
        self._values(scale, zero_point, dtype, path)
        self._details(tree.get("details"), path, tensors)

    def _axis(self, axis: int, scales: int, shape: list[int], path: str) -> None:
        if not 0 <= axis < len(shape):
            message = f"axis {axis}, the shape is {shape}"
            self.add("quantization", f"{path}.quantized_dimension", message)
        elif shape[axis] not in (-1, scales):
            message = f"{scales} scales, axis {axis} of {shape} has {shape[axis]} elements"
            self.add("quantization", f"{path}.scale", message)

    def _values(self, scale: Array, zero_point: Array, dtype: DType | None, path: str) -> None:
        bad = np.flatnonzero(~(np.isfinite(scale) & (scale > 0)))
        if len(bad):
            message = f"expected a finite scale above 0, got {scale[bad[0]]}"
            self.add("quantization-values", f"{path}.scale[{bad[0]}]", message)
        if dtype is None or not dtype.is_integer:
            return
        low, high = _range(dtype)
        bad = np.flatnonzero((zero_point < low) | (zero_point > high))
        if len(bad):
            message = f"expected a number of type {dtype.short}, got {zero_point[bad[0]]}"
            self.add("quantization-values", f"{path}.zero_point[{bad[0]}]", message)

    def _details(self, details: Any, path: str, tensors: int) -> None:
        """Check quantizations whose scales are tensors."""
        if not isinstance(details, Mapping):
            return
        for name in sorted(TENSOR_FIELDS):
            index = details.get(name, 0)
            if name in details and index >= tensors:
                message = f"index {index}, there are {tensors} tensors"
                self.add("tensor-index", f"{path}.details.{name}", message)


def _numbers(vector: Any) -> list[int]:
    return [] if vector is None else [int(x) for x in vector]


def _range(dtype: DType) -> tuple[int, int]:
    """Return the least and the greatest number of an integer type."""
    if dtype.short.startswith("u"):
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
