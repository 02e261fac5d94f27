# SPDX-License-Identifier: Apache-2.0
"""Shape and quantization of a tensor: conversion between the fields of its table and the IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from circlekit.errors import FormatError
from circlekit.io.schema import Tree
from circlekit.ir.value import Quantization, Shape, Value, same_array

# -- shapes ------------------------------------------------------------------------------------


def shape_of(stored: Sequence[int], signature: Sequence[int] | None) -> Shape:
    """The shape by a tensor's two fields: what either says is -1 is unknown."""
    if min(stored, default=0) < -1:
        raise FormatError(f"shape {list(stored)} has a negative dimension")
    if signature is None or len(signature) != len(stored):
        return tuple(None if d < 0 else d for d in stored)
    return tuple(None if d < 0 or s < 0 else d for d, s in zip(stored, signature, strict=True))


def shape_fields(shape: Shape | None, extra: Tree, is_const: bool) -> Tree:
    """``shape`` and ``shape_signature`` of a tensor: those of the file where they still say the same."""
    canonical = [1 if d is None else d for d in shape or ()]
    if shape is not None and None not in shape and extra.keys().isdisjoint(("shape", "shape_signature")):
        return {"shape": canonical}
    stored, signature = extra.get("shape", canonical), extra.get("shape_signature")
    said = shape_of(stored, None if is_const else signature)
    if said != (shape or ()):
        stored, signature = canonical, None
        if shape is not None and None in shape:
            signature = [-1 if d is None else d for d in shape]
    return {"shape": stored} if signature is None else {"shape": stored, "shape_signature": signature}


# -- quantization ------------------------------------------------------------------------------

TENSOR_FIELDS = frozenset({"scales", "zero_points"})
"""Of a blockwise quantization: indices of tensors; -1 for none."""

_NUMBERS = {"scale": np.float32, "zero_point": np.int64, "min": np.float32, "max": np.float32}


def quantization_of(tree: Tree | None) -> Quantization | None:
    """The quantization by its table; None for a table without parameters."""
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
    """The table of a quantization: ``stored``, what the file had, where that means the same."""
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


def with_indices(quantization: Quantization | None, indices: dict[int, int]) -> Quantization | None:
    """``quantization`` with ``indices``, by id, in the place of values."""
    if quantization is None or not quantization.details:
        return quantization
    details = {
        k: indices[id(v)] if isinstance(v, Value) else v for k, v in (quantization.details or {}).items()
    }
    return replace(quantization, details=details)


def same_tree(a: Any, b: Any) -> bool:
    """Whether two trees hold the same, bit for bit."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and same_array(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same_tree(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same_tree, a, b))
    return bool(a == b)
