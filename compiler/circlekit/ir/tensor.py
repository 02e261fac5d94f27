# SPDX-License-Identifier: Apache-2.0
"""The description of a tensor: element type, shape, quantization parameters and constant data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circlekit.errors import ModelError, counted
from circlekit.ir.dtypes import DType

Array = NDArray[Any]
Shape = tuple[int | None, ...]
"""One dimension per axis; None for an unknown dimension."""

MAX_RANK = 32
"""The largest supported rank: arrays of numpy 1 have at most 32 axes."""

BLOCKWISE = "BlockwiseQuantization"
"""The schema's name of the table that describes a quantization with a scale for each block of elements."""

LARGEST_DIMENSION = int(np.iinfo(np.int32).max)
"""The largest dimension: model files store dimensions as int32."""


@dataclass(frozen=True, repr=False)
class TensorType:
    """Element type, shape and quantization of a tensor.  The shape is None if the rank is unknown."""

    dtype: DType
    shape: Shape | None
    quantization: Quantization | None = None

    def __repr__(self) -> str:
        return self.dtype.short + format_shape(self.shape)


@dataclass(frozen=True, eq=False)
class Quantization:
    """Quantization parameters: real = scale * (stored - zero_point).

    ``scale`` (float32) and ``zero_point`` (int64) are vectors with one element for the tensor, or one for
    each index of the axis ``quantized_dimension``.  With several scales, a file may also have one zero point
    or none.  Both vectors are empty if the file only has ``details``, or only ``min`` and ``max``, the
    float32 range that a calibration recorded.  ``details``: the schema's table of another kind of
    quantization (custom, blockwise, MX), with a Value in place of each tensor index.
    """

    scale: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    zero_point: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    quantized_dimension: int = 0
    min: Array | None = None
    max: Array | None = None
    details: Mapping[str, Any] | None = None

    @classmethod
    def per_tensor(cls, scale: float, zero_point: int = 0) -> Quantization:
        """Return the quantization with one scale and one zero point for the whole tensor."""
        return cls(np.array([scale], np.float32), np.array([zero_point], np.int64))

    @property
    def is_per_channel(self) -> bool:
        """Whether there are several scales, one for each index of the quantized dimension."""
        return self.scale.size > 1

    @property
    def is_blockwise(self) -> bool:
        """Whether each block of neighboring elements has a scale; ``details`` holds the scales."""
        # the key "" holds the name of the table
        return self.details is not None and self.details.get("") == BLOCKWISE

    def misfit(self, shape: Shape | None) -> str | None:
        """Return why a tensor of ``shape`` cannot have these scales; None if it can."""
        if self.scale.size <= 1 or shape is None:
            return None
        axis = self.quantized_dimension
        if not 0 <= axis < len(shape):
            return f"it is quantized along axis {axis}, its shape is {format_shape(shape)}"
        if shape[axis] not in (None, self.scale.size):
            scales, elements = counted(self.scale.size, "scale"), counted(shape[axis], "element")
            return f"its quantization has {scales}, axis {axis} has {elements}"
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantization):
            return NotImplemented
        arrays = ("scale", "zero_point", "min", "max")
        return (
            self.quantized_dimension == other.quantized_dimension
            and self.details == other.details
            and all(same_array(getattr(self, name), getattr(other, name)) for name in arrays)
        )

    def __hash__(self) -> int:
        return hash((self.scale.tobytes(), self.zero_point.tobytes(), self.quantized_dimension))


class Tensor:
    """Base class of Value: everything except its producer and its uses.

    ``shape``: a tuple, with None for an unknown dimension; None if the rank is unknown.
    ``data``: the elements of a constant as an array of ``shape``; None for other tensors.  The data of a
    constant that is packed (see DType), sparse or compressed are the bytes of the file, a uint8 vector.
    Never write into this array: it may be a view of a memory map.
    ``is_variable``: the tensor keeps its elements from one run of the model to the next.
    ``extra``: fields of the schema's Tensor that the IR does not interpret, by the schema's name.
    """

    __slots__ = ("data", "dtype", "extra", "is_variable", "name", "quantization", "shape")

    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: Shape | None,
        data: Array | None = None,
        quantization: Quantization | None = None,
    ) -> None:
        """Make a tensor.

        Raise ModelError unless ``dtype`` is a DType, and ``shape`` a tuple, a list or None.
        """
        if not isinstance(dtype, DType):
            raise ModelError(f"%{name}: expected a dtype of circlekit.ir.dtypes, such as f32, got {dtype!r}")
        if shape is not None and not isinstance(shape, tuple | list):
            raise ModelError(f"%{name}: expected a shape, such as (1, 8), got {shape!r}")
        self.name = name
        self.dtype = dtype
        self.shape = None if shape is None else tuple(shape)
        self.data = data
        self.quantization = quantization
        self.is_variable = False
        self.extra: dict[str, Any] = {}

    @property
    def is_const(self) -> bool:
        return self.data is not None

    @property
    def is_plain(self) -> bool:
        """Whether ``data`` is an array of ``dtype`` and ``shape``, not packed, sparse or compressed bytes."""
        data = self.data
        if data is None or data.dtype != self.dtype.numpy or data.shape != self.shape:
            return False
        return "sparsity" not in self.extra and self.extra.get("compression_type", "NONE") == "NONE"

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.shape, self.quantization)

    @property
    def rank(self) -> int | None:
        """The number of axes; None if it is unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def known_shape(self) -> Shape:
        """The shape, maybe with unknown dimensions; raise ModelError if the rank is unknown."""
        if self.shape is None:
            raise ModelError(f"%{self.name} has shape [*], expected a known rank")
        return self.shape

    @property
    def known_rank(self) -> int:
        """The rank; raise ModelError if it is unknown."""
        return len(self.known_shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape without unknown dimensions; raise ModelError if a dimension or the rank is unknown."""
        if self.shape is None or None in self.shape:
            raise ModelError(f"%{self.name} has shape {format_shape(self.shape)}, expected a static shape")
        return self.shape  # type: ignore[return-value]  # None was excluded

    @property
    def is_static(self) -> bool:
        """Whether the rank and all dimensions are known."""
        return self.shape is not None and None not in self.shape

    @property
    def numel(self) -> int:
        """The number of elements; raise ModelError if the shape is not static."""
        return prod(self.static_shape)

    def array(self) -> Array:
        """Return ``data``; raise ModelError if the tensor is not a constant."""
        if self.data is None:
            raise ModelError(f"%{self.name} is not a constant")
        return self.data

    def __repr__(self) -> str:
        const = "const " if self.is_const else ""
        return f"%{self.name}: {const}{self.dtype.short}{format_shape(self.shape)}"


def same_grid(first: Quantization | None, second: Quantization | None) -> bool:
    """Return whether both have equal scales and zero points, so that stored numbers mean the same.

    Unlike ``==``, ignore recorded ranges; an absent zero point is 0.  If one of them has no scales, return
    whether the two are equal (``==``).
    """
    if first is None or second is None or not first.scale.size:
        return first == second
    if first.details != second.details or not same_array(first.scale, second.scale):
        return False
    left, right = (np.resize(q.zero_point, q.scale.size) for q in (first, second))
    is_same_axis = first.quantized_dimension == second.quantized_dimension or not first.is_per_channel
    return is_same_axis and np.array_equal(left, right)


def same_array(a: Array | None, b: Array | None) -> bool:
    """Return whether dtype, shape and bits are equal, so NaN equals itself, but 0.0 differs from -0.0.

    Strings, which numpy holds as objects, are compared by ``==``.
    """
    if a is b:
        return True
    if a is None or b is None or a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.__array_interface__["data"] == b.__array_interface__["data"] and a.strides == b.strides:
        return True  # two views of the same memory
    if a.dtype.hasobject:
        return bool(np.array_equal(a, b))
    left, right = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return bool(np.array_equal(left, right))


def format_shape(shape: Shape | None) -> str:
    """Return a shape as ``[1,?,3]``, or ``[*]`` if the rank is unknown; shorten it if it is very long."""
    if shape is None:
        return "[*]"
    more = f",... {len(shape)} dimensions" if len(shape) > 2 * MAX_RANK else ""
    return "[" + ",".join("?" if d is None else str(d) for d in shape[: 2 * MAX_RANK]) + more + "]"
