# SPDX-License-Identifier: Apache-2.0
"""Check the structural rules of one value and of one operator; a broken rule is a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.op import Attribute, Op, OpaqueOp
from circlekit.ir.value import LARGEST_DIMENSION, Array, Quantization, Value, format_shape

# -- values ------------------------------------------------------------------------------------


def value_faults(value: Value) -> Iterator[str]:
    """Yield what is wrong with a value."""
    shape = value.shape or ()
    if any(d is not None and d < 0 for d in shape):
        yield f"shape {format_shape(value.shape)} has a negative dimension"
    if any(d is not None and d > LARGEST_DIMENSION for d in shape):
        yield f"shape {format_shape(value.shape)} has a dimension above {LARGEST_DIMENSION}"
    if value.data is not None:
        yield from _data_faults(value, value.data)
    if value.quantization is not None:
        yield from _quantization_faults(value, value.quantization)


def _data_faults(value: Value, data: Array) -> Iterator[str]:
    if value.is_variable:
        yield "it is a variable and a constant"
    if value.dtype.numpy is None or "sparsity" in value.extra or (data.ndim == 1 and _is_bytes(value, data)):
        if data.dtype != np.uint8 or data.ndim != 1:
            yield f"its data is {data.dtype}{list(data.shape)}, expected bytes (uint8, rank 1)"
        return
    if data.dtype != value.dtype.numpy:
        yield f"it is {value.dtype.short}, its data is {data.dtype}"
    if data.shape != value.shape:
        yield f"it has shape {format_shape(value.shape)}, its data has {list(data.shape)}"


def _is_bytes(value: Value, data: Array) -> bool:
    """Whether the data is compressed and kept as in the file."""
    return data.dtype == np.uint8 and value.extra.get("compression_type", "NONE") != "NONE"


def _quantization_faults(value: Value, quantization: Quantization) -> Iterator[str]:
    scale, zero_point = quantization.scale, quantization.zero_point
    for name, array, dtype in (("scale", scale, np.float32), ("zero_point", zero_point, np.int64)):
        if array.ndim != 1 or array.dtype != dtype:
            found = f"{array.dtype}{list(array.shape)}"
            yield f"{name} of its quantization is {found}, expected rank 1 of {dtype.__name__}"
    if zero_point.size not in (0, 1, scale.size):
        yield f"its quantization has {scale.size} scales and {zero_point.size} zero points"
    misfit = quantization.misfit(value.shape)
    if misfit is not None:
        yield misfit


# -- operators ---------------------------------------------------------------------------------


def op_faults(op: Op, graphs: Set[int]) -> Iterator[str]:
    """Yield how an operator differs from its declaration.  ``graphs``: the ids of the model's graphs."""
    if isinstance(op, OpaqueOp):
        for graph in op.called_graphs():
            if id(graph) not in graphs:
                yield f"its options name {graph.name}, which is not a graph of the model"
        return
    yield from operand_faults(op)
    count = len(op.result_names)
    if len(op.results) != count and not op.variadic_results:
        yield f"it has {len(op.results)} results, its declaration has {count}"
    for spec in op.attributes:
        if spec.name in op.attribute_values or spec.is_graph:
            fault = _attribute_fault(spec, op.attribute_values.get(spec.name, spec.default), graphs)
            if fault:
                yield fault


def operand_faults(op: Op) -> Iterator[str]:
    """Yield how the number and the dtypes of the operands differ from the declaration."""
    specs = op.operands
    is_variadic = bool(specs) and specs[-1].variadic
    if len(op.inputs) > len(specs) and not is_variadic:
        yield f"it has {len(op.inputs)} operands, its declaration has {len(specs)}"
    for index, spec in enumerate(specs):
        if not spec.optional and not spec.variadic and (index >= len(op.inputs) or op.inputs[index] is None):
            yield f"it lacks its operand {spec.name}"
    for index, value in enumerate(op.inputs[: len(specs)] if not is_variadic else op.inputs):
        spec = specs[min(index, len(specs) - 1)]
        if value is None:
            if spec.variadic:
                yield f"operand {index} of {spec.name} is absent"
        elif spec.dtypes and not _is_acceptable(value.dtype, spec.dtypes):
            expected = " or ".join(d.short for d in spec.dtypes)
            yield f"{spec.name} %{value.name} is {value.dtype.short}, expected {expected}"


def _is_acceptable(dtype: DType, declared: tuple[DType, ...]) -> bool:
    """Whether an operand may have ``dtype``: a declared one, or another width of a declared integer or float.

    A file with a width that no known kernel takes is kept; only running it is refused.
    """
    return dtype in declared or any(
        (dtype.is_integer and d.is_integer) or (dtype.is_float and d.is_float) for d in declared
    )


def _attribute_fault(spec: Attribute, value: Any, graphs: Set[int]) -> str | None:
    if spec.is_graph:
        if isinstance(value, Graph) and id(value) in graphs:
            return None
        name = value.name if isinstance(value, Graph) else value
        return f"{spec.name} is {name}, which is not a graph of the model"
    return spec.misfit(value)
