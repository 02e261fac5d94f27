# SPDX-License-Identifier: Apache-2.0
"""One tensor of a graph: type, quantization, constant data, and the two ends of its edges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType

if TYPE_CHECKING:
    from circlekit.ir.op import Op

Array = NDArray[Any]
Shape = tuple[int | None, ...]

MAX_RANK = 32
"""Of what is read: numpy has arrays of it in all of its versions; no operator takes more than 8."""


@dataclass(frozen=True)
class TensorType:
    """What an operator says of a result.  ``shape`` is None where even the rank is unknown."""

    dtype: DType
    shape: Shape | None
    quantization: Quantization | None = None

    def __str__(self) -> str:
        return self.dtype.short + format_shape(self.shape)


@dataclass(frozen=True, eq=False)
class Quantization:
    """real = scale * (quantized - zero_point), per tensor or along ``quantized_dimension``.

    ``scale`` is float32, ``zero_point`` int64, both rank 1 (empty where the file has only ``min`` and
    ``max``, the float32 range that a calibration recorded).  ``details`` is what the schema's union of
    other schemes holds (custom, blockwise, MX), with values in the place of indices of tensors.
    """

    scale: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    zero_point: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    quantized_dimension: int = 0
    min: Array | None = None
    max: Array | None = None
    details: Mapping[str, Any] | None = None

    @property
    def is_per_channel(self) -> bool:
        return self.scale.size > 1

    def misfit(self, shape: Shape | None) -> str | None:
        """Why a tensor of this shape cannot have these scales, None where it can."""
        if self.scale.size <= 1 or shape is None:
            return None
        axis = self.quantized_dimension
        if not 0 <= axis < len(shape):
            return f"it is quantized along axis {axis}, its shape is {format_shape(shape)}"
        if shape[axis] not in (None, self.scale.size):
            return f"its quantization has {self.scale.size} scales, axis {axis} has {shape[axis]} elements"
        return None

    @property
    def mentioned(self) -> list[Value]:
        """The values that ``details`` refer to: the scales of blocks."""
        return [v for v in (self.details or {}).values() if isinstance(v, Value)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantization):
            return NotImplemented
        return (
            self.quantized_dimension == other.quantized_dimension
            and self.details == other.details
            and all(
                same_array(getattr(self, name), getattr(other, name))
                for name in ("scale", "zero_point", "min", "max")
            )
        )

    def __hash__(self) -> int:
        return hash((self.scale.tobytes(), self.zero_point.tobytes(), self.quantized_dimension))


def same_array(a: Array | None, b: Array | None) -> bool:
    """Equal dtype, shape and bits: NaN equals itself, and 0.0 differs from -0.0."""
    if a is b:
        return True
    if a is None or b is None or a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.__array_interface__["data"] == b.__array_interface__["data"] and a.strides == b.strides:
        return True
    left, right = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return bool(np.array_equal(left, right))


class Value:
    """One tensor.

    ``shape``: a dimension is None where unknown, the whole is None where the rank is unknown.
    ``data``: None, or the constant: an array of this shape, or, for a packed dtype or sparse data, the
    file's bytes as a rank-1 uint8 array.  It may be a read-only view of a memory map: never write into it.
    ``producer``: the operator whose ``results[result_index]`` this is, or None.
    ``extra``: fields of the schema's Tensor that the IR does not interpret, by the schema's name.
    """

    __slots__ = (
        "_uses", "data", "dtype", "extra", "is_variable", "name", "producer", "quantization",
        "result_index", "shape",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: Shape | None,
        data: Array | None = None,
        quantization: Quantization | None = None,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.data = data
        self.quantization = quantization
        self.is_variable = False
        self.extra: dict[str, Any] = {}
        self.producer: Op | None = None
        self.result_index = 0
        self._uses: dict[tuple[Op, int], None] = {}

    @staticmethod
    def constant(name: str, array: Array, quantization: Quantization | None = None) -> Value:
        """A constant with the dtype and shape of ``array``; the array is kept, not copied."""
        return Value(name, DType.of(array.dtype), array.shape, array, quantization)

    @property
    def uses(self) -> Sequence[tuple[Op, int]]:
        """Each place that reads this: (operator, index into its inputs), in the order of their making."""
        return tuple(self._uses)

    @property
    def users(self) -> Iterator[Op]:
        """The operators that read this, each once."""
        return iter({op: None for op, _ in self._uses})

    def other_user(self, known: Collection[Op]) -> Op | None:
        """The first operator that reads this and is not ``known``; no matter how many read it, soon found."""
        return next((op for op, _ in self._uses if op not in known), None)

    @property
    def use_count(self) -> int:
        return len(self._uses)

    @property
    def is_const(self) -> bool:
        return self.data is not None

    @property
    def is_plain(self) -> bool:
        """Whether ``data`` is an array of ``shape``, not the bytes of something packed or sparse."""
        data = self.data
        if data is None or data.dtype != self.dtype.numpy or data.shape != self.shape:
            return False
        return "sparsity" not in self.extra and self.extra.get("compression_type", "NONE") == "NONE"

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.shape, self.quantization)

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape, all of it known; ModelError where it is not."""
        if self.shape is None or None in self.shape:
            raise ModelError(f"%{self.name} has shape {format_shape(self.shape)}, a static one is wanted")
        return self.shape  # type: ignore[return-value]  # no None is left

    @property
    def is_static(self) -> bool:
        return self.shape is not None and None not in self.shape

    @property
    def numel(self) -> int:
        """Number of elements of a static shape."""
        return prod(self.static_shape)

    def array(self) -> Array:
        """The constant as an array of ``shape``; ModelError where there is none."""
        if self.data is None:
            raise ModelError(f"%{self.name} is no constant")
        return self.data

    def __repr__(self) -> str:
        kind = "const " if self.is_const else ""
        return f"%{self.name}: {kind}{self.dtype.short}{format_shape(self.shape)}"


LARGEST_DIMENSION = 2**31 - 1
"""Files hold a dimension in 32 bits, with a sign."""


def format_shape(shape: Shape | None) -> str:
    """``[1,?,3]``; ``[*]`` where the rank is unknown."""
    if shape is None:
        return "[*]"
    more = f",... {len(shape)} dimensions" if len(shape) > 2 * MAX_RANK else ""
    return "[" + ",".join("?" if d is None else str(d) for d in shape[: 2 * MAX_RANK]) + more + "]"
