# SPDX-License-Identifier: Apache-2.0
"""Convert shape and quantization of a tensor between the fields of its table and the IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from circlekit.errors import FormatError
from circlekit.io.schema import Tree
from circlekit.io.tables import TABLES
from circlekit.ir.value import Quantization, Shape, Value

# -- shapes ------------------------------------------------------------------------------------


def shape_of(stored: Sequence[int], signature: Sequence[int] | None) -> Shape:
    """Return the shape that the fields ``shape`` and ``shape_signature`` describe.

    ``stored``: the field ``shape``.  ``signature``: the field ``shape_signature``, or None.  A dimension is
    unknown if it is negative in ``stored`` or in ``signature``: [1, 4] with the signature [-1, 4] gives
    (None, 4).  A signature with another rank than ``stored`` is ignored.
    Raise FormatError for a number below -1 in ``stored``.
    """
    if any(d < -1 for d in stored):
        raise FormatError(f"expected dimensions from -1 (unknown) on, got {list(stored)}")
    if signature is None or len(signature) != len(stored):
        return tuple(None if d < 0 else d for d in stored)
    return tuple(None if d < 0 or s < 0 else d for d, s in zip(stored, signature, strict=True))


def shape_fields(shape: Shape | None, extra: Tree, is_const: bool) -> Tree:
    """Return the fields ``shape`` and, if needed, ``shape_signature`` that describe ``shape``.

    ``shape``: None for an unknown rank, which is written like the shape of a scalar, [].
    ``extra``: the tensor's ``extra``, which may have these fields from the input file.  They are returned if
    they describe ``shape``.
    ``is_const``: whether the tensor is a constant; then ``shape_signature`` says nothing about its shape.
    """
    canonical = [1 if d is None else d for d in shape or ()]  # unknown: 1, and -1 in the signature
    if shape is not None and None not in shape and extra.keys().isdisjoint(("shape", "shape_signature")):
        return {"shape": canonical}
    stored, signature = extra.get("shape", canonical), extra.get("shape_signature")
    if shape_of(stored, None if is_const else signature) != (shape or ()):
        stored, signature = canonical, None
        if shape is not None and None in shape:
            signature = [-1 if d is None else d for d in shape]
    return {"shape": stored} if signature is None else {"shape": stored, "shape_signature": signature}


# -- quantization ------------------------------------------------------------------------------

INDEX_FIELDS = frozenset({"scales", "zero_points"})
"""The fields in the details of a quantization that hold the index of a tensor, or -1 for no tensor.

If a file lacks such a field, it has the schema's default 0: the index of the first tensor.  So the field
always has to be written if there is no tensor.
"""

_NUMBERS = {"scale": np.float32, "zero_point": np.int64, "min": np.float32, "max": np.float32}
"""The vectors of the table QuantizationParameters, with the dtypes of their elements."""


def quantization_of(tree: Tree | None) -> Quantization | None:
    """Return the quantization that the table ``tree`` describes; None if the table has no parameters.

    If the field ``zero_point`` is absent, each scale gets the zero point 0; an empty vector stays empty.
    """
    if not tree:
        return None
    scale = tree.get("scale")
    zero_point = tree.get("zero_point")
    low, high, details = tree.get("min"), tree.get("max"), tree.get("details")
    if details is None and not any(v is not None and len(v) for v in (scale, zero_point, low, high)):
        return None
    if details is not None:
        details = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in details.items()}
    scale = np.zeros(0, np.float32) if scale is None else scale
    if zero_point is None:
        zero_point = np.zeros(len(scale), np.int64)
    return Quantization(scale, zero_point, tree.get("quantized_dimension", 0), low, high, details)


def quantization_tree(quantization: Quantization | None, stored: Tree | None) -> Tree | None:
    """Return a table that describes ``quantization``: ``stored`` if it does, else a new one.

    ``stored``: the table in the input file, or None.  If ``quantization`` is None, return ``stored`` if it
    has no parameters, else None.
    """
    if stored is not None and quantization_of(stored) == quantization:
        return stored
    if quantization is None:
        return None
    vectors = {name: getattr(quantization, name) for name in _NUMBERS}
    tree: Tree = {n: np.asarray(v, _NUMBERS[n]) for n, v in vectors.items() if v is not None and len(v)}
    if quantization.quantized_dimension:
        tree["quantized_dimension"] = quantization.quantized_dimension
    if quantization.details is not None:
        tree["details"] = quantization.details
    return tree


def index_fields(details: Mapping[str, Any]) -> list[str]:
    """Return those of INDEX_FIELDS that the table of ``details`` has in the schema.

    ``details``: the details of a quantization; the key "" holds the name of their table.
    """
    return [row[0] for row in TABLES.get(details.get("", ""), ()) if row[0] in INDEX_FIELDS]


def with_indices(quantization: Quantization | None, indices: dict[int, int]) -> Quantization | None:
    """Return ``quantization`` with indices of tensors in place of the Value objects in its details.

    A field of ``index_fields`` that the details lack becomes -1, no tensor.  ``indices``: {``id(value)``:
    index of its tensor}.
    """
    if quantization is None or not quantization.details:
        return quantization
    details = dict.fromkeys(index_fields(quantization.details), -1)
    for name, item in quantization.details.items():
        details[name] = indices[id(item)] if isinstance(item, Value) else item
    return replace(quantization, details=details)
