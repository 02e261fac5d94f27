# SPDX-License-Identifier: Apache-2.0
"""Read types of the text form: dtype, shape, quantization and the other fields of a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from circlekit.errors import did_you_mean
from circlekit.ir.dtypes import BY_SHORT, DType
from circlekit.ir.text.lexer import Source, Token
from circlekit.ir.text.literal_parsing import UNRESOLVED, Fail, array_of, tree_of
from circlekit.ir.text.syntax import Arguments, Literal, TypeNode
from circlekit.ir.value import LARGEST_DIMENSION, MAX_RANK, Array, Quantization, Shape, Value


@dataclass
class TypeSpec:
    """A type as it is written in the text.

    ``dtype``: None if left out.  ``has_shape``: whether a shape or ``[*]`` is written.  ``shape``: None for
    ``[*]``, and if no shape is written.  ``token``: the place of the type, for errors.
    """

    dtype: DType | None
    has_shape: bool
    shape: Shape | None
    token: Token
    quantization: Quantization | None = None
    name: str | None = None  # the text in ``named("...")``
    is_variable: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def apply_to(self, value: Value) -> None:
        """Set the fields of ``value`` except name and data.

        Dtype, shape and quantization are set only if they are written in the text.
        """
        value.dtype = self.dtype or value.dtype
        if self.has_shape:
            value.shape = self.shape
        value.is_variable = self.is_variable
        value.extra = self.extra
        if self.quantization is not None:
            value.quantization = self.quantization


def read_type(node: TypeNode, source: Source) -> TypeSpec:
    """Return the type that ``node`` stands for; raise ParseError if a model cannot have such a type."""
    dtype = None
    if node.dtype is not None:
        dtype = BY_SHORT.get(node.dtype)
        if dtype is None:
            hint = (
                did_you_mean(node.dtype, BY_SHORT) or f"; expected one of {', '.join([*BY_SHORT][:9])}, ..."
            )
            source.fail(f"no dtype is named {node.dtype}{hint}", node.token)
    spec = TypeSpec(dtype, node.dims is not None, _shape(node, source), node.token)
    for number, suffix in enumerate(node.suffixes):
        fail = source.fail_at(suffix.token)
        if any(suffix.name == earlier.name for earlier in node.suffixes[:number]):
            fail(f"{suffix.name} is given twice")
        if suffix.name == "quant":
            spec.quantization = _quantization(suffix, fail)
        elif suffix.name == "variable":
            spec.is_variable = True
        elif suffix.name == "named":
            spec.name = name_of(suffix, fail)
        elif suffix.positional:
            fail("every argument of extra needs a name")
        else:
            spec.extra = {key: tree_of(value, fail) for key, value in suffix.named.items()}
    return spec


def _shape(node: TypeNode, source: Source) -> Shape | None:
    """Return the shape in ``node``; None if there is none, or for ``[*]``."""
    if node.dims is None or node.dims == ["*"]:
        return None
    dims: list[int | None] = []
    if len(node.dims) > MAX_RANK:
        source.fail(f"expected at most {MAX_RANK} dimensions, got {len(node.dims)}", node.token)
    for dim in node.dims:
        if isinstance(dim, int):
            if not 0 <= dim <= LARGEST_DIMENSION:
                source.fail(f"expected a dimension from 0 to {LARGEST_DIMENSION}, got {dim}", node.token)
            dims.append(dim)
        elif dim == "?":
            dims.append(None)
        else:
            source.fail(f"expected a number or ? as dimension of a model, got {dim}", node.token)
    return tuple(dims)


def name_of(suffix: Arguments, fail: Fail) -> str:
    """Return the text of ``named("text")``."""
    if len(suffix.positional) != 1 or suffix.named or type(suffix.positional[0]) is not str:
        fail(f"{suffix.name} takes one string in quotes")
    return suffix.positional[0]


_QUANT = ("scale", "zero_point", "axis", "min", "max", "details")


def _quantization(suffix: Arguments, fail: Fail) -> Quantization:
    """Return the quantization parameters in ``quant(...)``; ``axis`` is the quantized dimension.

    Values in ``details`` stay names: they may be defined later in the text.
    """
    given: Mapping[str, Literal] = suffix.named
    if suffix.positional:
        fail("every argument of quant needs a name: " + ", ".join(_QUANT))
    for name in given:
        if name not in _QUANT:
            fail(f"quant has no {name}" + (did_you_mean(name, _QUANT) or f"; it has {', '.join(_QUANT)}"))
    scale = _vector(given.get("scale", []), DType.FLOAT32, fail)
    zeros: Literal = [0] * scale.size  # the default zero points
    axis = given.get("axis", 0)
    if isinstance(axis, bool) or not isinstance(axis, int) or not -(1 << 31) <= axis < 1 << 31:
        fail("axis must be an integer that fits 32 bits")
    details = tree_of(given["details"], fail, UNRESOLVED) if "details" in given else None
    if details is not None and not isinstance(details, dict):
        fail("details must be {field: value, ...}")
    zero_point = _vector(given.get("zero_point", zeros), DType.INT64, fail)
    low, high = (_vector(given[n], DType.FLOAT32, fail) if n in given else None for n in ("min", "max"))
    return Quantization(scale, zero_point, axis, low, high, details)


def _vector(literal: Literal, dtype: DType, fail: Fail) -> Array:
    """Return the vector of a number, a list of numbers, or ``array(...)``."""
    if isinstance(literal, Arguments):
        array = tree_of(literal, fail)
        if not isinstance(array, np.ndarray) or array.dtype != dtype.numpy or array.ndim != 1:
            fail(f"expected a list of {dtype.short}")
        return array
    listed: list[Literal] = literal if isinstance(literal, list) else [literal]
    if any(isinstance(x, list) for x in listed):
        fail("expected a flat list of numbers")
    return array_of(listed, dtype, None, fail)
