# SPDX-License-Identifier: Apache-2.0
"""Write quantization parameters, and the integers of constants, from files into a float model.

The format is that of ONE's q-implant: a JSON object with an object for each tensor, for example::

    {"conv": {"dtype": "uint8", "scale": "0.npy", "zerop": "1.npy", "quantized_dimension": 0},
     "weights": {"dtype": "uint8", "scale": "2.npy", "zerop": "3.npy", "quantized_dimension": 0,
                 "value": "4.npy"}}

``scale``, ``zerop`` and ``value`` name npy files beside the JSON file.  ``value`` has the integers of a
constant.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from circlekit.equivalence.data_files.numpy_files import read_npy
from circlekit.errors import CirclekitError, FormatError, ModelError, ShapeError, did_you_mean
from circlekit.io.file_map import map_file
from circlekit.io.parse_json import parse_json
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, i64, u8
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.snapshot import Snapshot
from circlekit.ir.value import Array, Quantization, Value, format_shape
from circlekit.ops.arithmetic.cast import quantization_arrays
from circlekit.quant.one.activations import plain_floats
from circlekit.quant.one.formulas import to_given_integers
from circlekit.quant.one.with_minmax import touch_ops

DTYPES = {"uint8": u8, "int8": i8, "int16": i16, "int32": i32, "int64": i64}
"""The dtypes of quantized tensors by ONE's names."""

SMALLEST_SCALE = float(np.finfo(np.float32).tiny)
"""The smallest scale by which a constant can be rounded: its inverse is a finite float32."""

FIELDS: dict[str, type] = {"dtype": str, "scale": str, "zerop": str, "quantized_dimension": int}
"""The required fields of each tensor's object, and their types."""


def implant(model: Model, path: str | os.PathLike[str]) -> None:
    """Quantize the main graph of ``model``, in place, with the parameters in the JSON file at ``path``.

    A constant without ``value`` in the file is rounded with its parameters.  If an operator such as RESHAPE
    does not requantize its operand, results that the file does not name get the parameters of the operand.
    After an error the model is as before.

    Raise FileError or FormatError for the files; LimitError if an array, or the data of a pipe, exceeds the
    memory limit; ShapeError if an array does not fit; UnsupportedError for a sparse or compressed constant.
    Raise ModelError in these cases:

    - A tensor in the file is not in the model, or not float32.
    - A tensor with ``value`` is not a constant.
    - The array of ``scale`` or ``zerop`` has other elements than numbers.
    - A scale is negative or not finite, or a zero point is not an integer of the tensor's dtype.
    - A constant without ``value`` has NaN, or its scale is below SMALLEST_SCALE.
    - An output, or a tensor of an operator, stays float32.
    """
    parameters = _read(Path(path))
    before = Snapshot(model)
    try:
        _implant(model, parameters, Path(path))
    except CirclekitError:
        before.restore()
        raise


def _implant(model: Model, parameters: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Quantize the main graph of ``model`` with the ``parameters`` that ``path`` holds; see ``implant``."""
    values = {v.name: v for v in model.main.values()}
    for name, tree in parameters.items():
        if name not in values:
            raise ModelError(f"{path}: no tensor is named {name!r}{did_you_mean(name, values, 3)}")
        _quantize(values[name], name, tree, path)
    for op in model.main:
        _pass_parameters_on(op)
    touch_ops(model.main)
    for value in _used_values(model):
        if value.dtype is f32:
            raise ModelError(f"{path}: expected parameters for every tensor, got none for %{value.name}")


def _read(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return {tensor: its object}; raise FileError if ``path`` cannot be read, FormatError if it is wrong."""
    try:
        tree = parse_json(bytes(map_file(path)))
    except ValueError as error:
        raise FormatError(f"Cannot parse config file (json format). {path}: {error}") from None
    if not isinstance(tree, dict) or not all(isinstance(item, dict) for item in tree.values()):
        raise FormatError(f"{path}: expected a JSON object with an object for each tensor")
    for name, item in tree.items():
        for field, kind in FIELDS.items():
            if not isinstance(item.get(field), kind):
                raise FormatError(
                    f"{path}: {name}: expected {field} of type {kind.__name__}, got {item.get(field)!r}"
                )
        axis = item["quantized_dimension"]
        if isinstance(axis, bool) or not -(1 << 31) <= axis < 1 << 31:
            raise FormatError(f"{path}: {name}: expected quantized_dimension to fit 32 bits, got {axis!r}")
        if not isinstance(item.get("value", ""), str):
            raise FormatError(f"{path}: {name}: expected value of type str, got {item['value']!r}")
        if item["dtype"].lower() not in DTYPES:
            raise FormatError(f"{path}: {name}: Invalid dtype detected. {item['dtype']}")
    return tree


def _quantize(value: Value, name: str, tree: Mapping[str, Any], path: Path) -> None:
    """Quantize ``value`` by its JSON object ``tree``.

    ``path``: the JSON file, in whose folder the npy files are.  Errors: see ``implant``.
    """
    if value.dtype is not f32:
        raise ModelError(f"%{name}: expected a float32 tensor, got {value.dtype.short}")
    scale, zero_point = (read_npy(path.parent / tree[field]) for field in ("scale", "zerop"))
    dtype = DTYPES[tree["dtype"].lower()]
    quantization = _parameters(scale, zero_point, tree["quantized_dimension"], dtype, name)
    if (misfit := quantization.misfit(value.shape)) is not None:
        raise ShapeError(f"%{name}: {misfit}")
    floats = None if value.data is None else plain_floats(value)
    if "value" in tree:
        _set_integers(value, dtype, path.parent / tree["value"])
    elif floats is not None:
        if np.isnan(floats).any():
            raise ModelError(f"%{name}: expected numbers, got NaN")
        if (smallest := quantization.scale.min()) < SMALLEST_SCALE:
            expected = f"expected scales of at least {SMALLEST_SCALE:.3g} to round the constant"
            raise ModelError(f"%{name}: {expected}, got {smallest:.3g}")
        value.quantization = quantization
        value.data = to_given_integers(floats, dtype, *quantization_arrays(value, floats.ndim))
    value.dtype, value.quantization = dtype, quantization


def _parameters(scale: Array, zero_point: Array, axis: int, dtype: DType, name: str) -> Quantization:
    """Return the quantization of the tensor ``name`` of ``dtype`` with the arrays of its npy files.

    Raise ShapeError unless both are vectors of the same size, at least 1; ModelError for a scale or zero
    point that ``implant`` does not allow.
    """
    if scale.ndim != 1 or scale.shape != zero_point.shape or not scale.size:
        shapes = f"{format_shape(scale.shape)} and {format_shape(zero_point.shape)}"
        raise ShapeError(f"%{name}: expected scale and zerop as vectors of the same size, got {shapes}")
    if not {scale.dtype.kind, zero_point.dtype.kind} <= set("fiu"):
        raise ModelError(
            f"%{name}: expected scale and zerop as numbers, got {scale.dtype} and {zero_point.dtype}"
        )
    with np.errstate(over="ignore"):
        scales = scale.astype(np.float32)
    if wrong := [number for number in scales.tolist() if not 0 <= number < math.inf]:
        raise ModelError(f"%{name}: expected finite scales of at least 0, got {wrong[0]}")
    lowest, largest = dtype.limits
    if wrong := [n for n in zero_point.tolist() if not (lowest <= n <= largest and n == int(n))]:
        expected = f"expected integers from {lowest} to {largest} as zero points for {dtype.short}"
        raise ModelError(f"%{name}: {expected}, got {wrong[0]}")
    return Quantization(scales, zero_point.astype(np.int64), axis)


def _set_integers(value: Value, dtype: DType, path: Path) -> None:
    """Set the data of the constant ``value`` to the integers in the npy file ``path``.

    Raise ModelError if ``value`` is not a constant, ShapeError if dtype or shape differ.
    """
    if value.data is None:
        raise ModelError(
            f"%{value.name}: expected a constant for the integers in {path}, got a computed tensor"
        )
    data = read_npy(path)
    if data.dtype != dtype.numpy or data.shape != value.shape:
        expected = f"{dtype.short}{format_shape(value.shape)}"
        raise ShapeError(f"{path}: expected {expected}, got {data.dtype}{format_shape(data.shape)}")
    value.data = np.ascontiguousarray(data)


def _pass_parameters_on(op: Op) -> None:
    """If ``op`` does not requantize its operand, give float results the operand's dtype and parameters."""
    rule = op.quantization_rule
    source = None if rule is None or rule.results_follow is None else getattr(op, rule.results_follow, None)
    source = source[0] if isinstance(source, tuple) and source else source  # of several, the first
    if not isinstance(source, Value) or source.dtype is f32 or source.quantization is None:
        return
    for value in op.results:
        if value.dtype is f32:
            value.dtype, value.quantization = source.dtype, source.quantization


def _used_values(model: Model) -> list[Value]:
    """Return the outputs of the main graph, and all operands (also constants) and results in it."""
    values = [v for op in model.main for v in (*op.inputs, *op.results) if v is not None]
    return list(dict.fromkeys([*model.main.outputs, *values]))
