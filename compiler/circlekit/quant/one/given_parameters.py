# SPDX-License-Identifier: Apache-2.0
"""Make all quantized int8 tensors of a model uint8, or set or copy the parameters of named tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from circlekit.errors import ModelError, did_you_mean
from circlekit.ir.dtypes import i8, i64, u8
from circlekit.ir.graph import Graph, Model
from circlekit.ir.location import working_on
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.value import Quantization, Value
from circlekit.ops.quantized_values import is_quantized
from circlekit.quant.one.with_minmax import touch_ops

OFFSET = 128
"""The number to add to int8 integers and zero points to get those of uint8; the scales are the same."""


def requantize_int8_to_uint8(model: Model) -> None:
    """Make every quantized int8 tensor uint8, in place; the real numbers do not change.

    Raise ModelError for a sparse or compressed constant, and the errors of ``check_shapes`` if dtypes of
    operands and results of an operator do not fit any more.  The model is changed even if an error is raised.
    """
    for graph in model.graphs:
        with working_on(graph, model):
            for value in graph.values():
                if value.dtype is i8 and is_quantized(value):
                    _to_uint8(value)
        touch_ops(graph)
    check_shapes(model)


def _to_uint8(value: Value) -> None:
    """Make the quantized int8 tensor ``value`` uint8."""
    old = value.quantization
    assert old is not None  # the caller checked it
    zero_point = old.zero_point if old.zero_point.size else np.zeros(old.scale.size, np.int64)
    axis = 0 if value.rank == 1 else old.quantized_dimension  # as in ONE, corrects a wrong axis
    value.quantization = replace(old, zero_point=zero_point + OFFSET, quantized_dimension=axis)
    value.dtype = u8
    if value.data is not None:
        if value.data.dtype != np.int8:
            raise ModelError(f"%{value.name}: expected plain int8 data, got sparse or compressed data")
        value.data = (value.data.astype(np.int16) + OFFSET).astype(np.uint8)


def force_parameters(model: Model, parameters: Sequence[tuple[str, float, int]]) -> None:
    """Give tensors a scale and a zero point; ``parameters``: (name, scale, zero point) for each tensor.

    The data of a constant does not change.
    Raise ModelError for an unknown name; for a scale that, as float32, is not positive and finite; for a zero
    point that does not fit int64 or the dtype of the tensor.
    """
    for name, scale, zero_point in parameters:
        with np.errstate(over="ignore"):
            if not 0 < np.float32(scale) < np.inf:
                raise ModelError(f"{name}: expected a positive float32 number as scale, got {scale}")
        for value in _named(model, name):
            _check_zero_point(name, value, zero_point)
            value.quantization = Quantization.per_tensor(scale, zero_point)


def _check_zero_point(name: str, value: Value, zero_point: int) -> None:
    """Raise ModelError unless ``zero_point`` fits int64 and the dtype of ``value``, if that is an integer."""
    low, high = (value.dtype if value.dtype.is_integer else i64).limits
    high = min(high, i64.limits[1])
    if not low <= zero_point <= high:
        expected = f"expected a zero point from {low} to {high} for {value.dtype.short}"
        raise ModelError(f"{name}: {expected}, got {zero_point}")


def copy_parameters(model: Model, pairs: Sequence[tuple[str, str]]) -> None:
    """Copy the quantization of the first tensor to the second, for each pair of names.

    Raise ModelError for an unknown name, if the scales do not fit the shape of the second tensor, or if the
    zero points do not fit its dtype.
    """
    for source, copy in pairs:
        quantization = _named(model, source)[0].quantization
        for value in _named(model, copy):
            misfit = None if quantization is None else quantization.misfit(value.shape)
            if misfit is not None:
                raise ModelError(f"{copy} cannot have the parameters of {source}: {misfit}")
            for zero_point in [] if quantization is None else quantization.zero_point.tolist():
                _check_zero_point(copy, value, zero_point)
            value.quantization = quantization


def _named(model: Model, name: str) -> list[Value]:
    """Return the values with the name ``name``, at most one of each graph.

    Raise ModelError if there are none.
    """
    by_graph = [_values_by_name(graph) for graph in model.graphs]
    found = [values[name] for values in by_graph if name in values]
    if not found:
        raise ModelError(
            f"no tensor is named {name!r}" + did_you_mean(name, [n for values in by_graph for n in values])
        )
    return found


def _values_by_name(graph: Graph) -> dict[str, Value]:
    """Return the values of ``graph`` by name."""
    return {value.name: value for value in graph.values()}
