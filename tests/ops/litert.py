# SPDX-License-Identifier: Apache-2.0
"""LiteRT as the oracle of a kernel: its own schema code writes a graph as a flatbuffer, and LiteRT runs it.

circlekit.io is not used for this, because a mistake there could hide a mistake in a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from circlekit.equivalence.litert import make_interpreter, run_interpreter
from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Named
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Array, Quantization, Shape, Value
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.testing.model_builder import graph_of as graph_of

FLOAT_TOLERANCE = 1e-5
"""Largest difference from LiteRT's results, as a fraction of the largest magnitude of the result."""

_ENUM_TYPES = {"Activation": "ActivationFunctionType", "WeightsFormat": "FullyConnectedOptionsWeightsFormat"}


# -- making a model ----------------------------------------------------------------------------


def flatbuffer(graphs: Sequence[Graph]) -> bytes:
    """Return the ``.tflite`` file of ``graphs``, which must include every graph that an operator calls."""
    model = schema.ModelT()
    model.version = 3
    model.buffers = [schema.BufferT()]
    model.operatorCodes = []
    model.subgraphs = [_subgraph(model, graph, graphs) for graph in graphs]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _subgraph(model: Any, graph: Graph, graphs: Sequence[Graph]) -> Any:
    values = list(dict.fromkeys((*graph.values(), *_intermediates(graph))))
    index = {id(v): i for i, v in enumerate(values)}
    out = schema.SubGraphT()
    out.name = graph.name
    out.tensors = [_tensor(model, v) for v in values]
    out.inputs = _ints([index[id(v)] for v in graph.inputs])
    out.outputs = _ints([index[id(v)] for v in graph.outputs])
    out.operators = []
    for op in graph:
        item = schema.OperatorT()
        item.opcodeIndex = _code(model, op)
        item.inputs = _ints([-1 if v is None else index[id(v)] for v in op.inputs])
        item.outputs = _ints([index[id(v)] for v in op.results])
        if "intermediates" in op.extra:
            item.intermediates = _ints([index[id(v)] for v in op.extra["intermediates"]])
        _set_options(item, op, graphs)
        out.operators.append(item)
    return out


def _intermediates(graph: Graph) -> list[Value]:
    return [v for op in graph for v in op.extra.get("intermediates", ())]


def _tensor(model: Any, value: Value) -> Any:
    out = schema.TensorT()
    out.name = value.name
    out.type = getattr(schema.TensorType, value.dtype.name)
    out.isVariable = value.is_variable
    if value.shape is not None:
        out.hasRank = True
        out.shape = _ints([1 if d is None else d for d in value.shape])
        if None in value.shape:
            out.shapeSignature = _ints([-1 if d is None else d for d in value.shape])
    if value.quantization is not None:
        out.quantization = _quantization(value.quantization)
    if value.data is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(value.data.tobytes(), np.uint8)
        out.buffer = len(model.buffers)
        model.buffers.append(buffer)
    return out


def _quantization(quantization: Quantization) -> Any:
    out = schema.QuantizationParametersT()
    out.scale = quantization.scale
    out.zeroPoint = quantization.zero_point
    out.quantizedDimension = quantization.quantized_dimension
    return out


def _code(model: Any, op: Op) -> int:
    out = schema.OperatorCodeT()
    out.builtinCode = getattr(schema.BuiltinOperator, op.code)
    if isinstance(op, OpaqueOp):
        out.customCode = op.custom_code
    out.deprecatedBuiltinCode = min(out.builtinCode, 127)
    out.version = op.version or op.required_version()
    model.operatorCodes.append(out)
    return len(model.operatorCodes) - 1


def _set_options(item: Any, op: Op, graphs: Sequence[Graph]) -> None:
    if "custom_options" in op.extra:
        item.customOptions = np.asarray(op.extra["custom_options"], np.uint8)
    if op.options is None:
        return
    options = getattr(schema, op.options + "T")()
    for attribute in op.attributes:
        name = _camel(attribute.field)
        assert hasattr(options, name), f"{op.options} has no field {attribute.field}"
        value = _option(getattr(op, attribute.name), graphs)
        if attribute.field == "composite_attributes":
            value = np.asarray(value, np.uint8)
        setattr(options, name, value)
    second = hasattr(schema.BuiltinOptions2, op.options)
    union = schema.BuiltinOptions2 if second else schema.BuiltinOptions
    suffix = "2" if second else ""
    setattr(item, "builtinOptions" + suffix, options)
    setattr(item, f"builtinOptions{suffix}Type", getattr(union, op.options))


def _option(value: Any, graphs: Sequence[Graph]) -> Any:
    if isinstance(value, Graph):
        return graphs.index(value)
    if isinstance(value, DType):
        return getattr(schema.TensorType, value.name)
    if isinstance(value, Named):
        kind = type(value).__name__
        return getattr(getattr(schema, _ENUM_TYPES.get(kind, kind)), value.name)
    if isinstance(value, tuple | list | np.ndarray):
        return list(value)  # the builder writes a list in the type of the field, which may be long
    return value


def _camel(field: str) -> str:
    return re.sub(r"_(\w)", lambda m: m.group(1).upper(), field)


def _ints(numbers: Any) -> Array:
    return np.asarray(numbers, np.int32).reshape(-1)


# -- running it --------------------------------------------------------------------------------


def run_steps(
    graphs: Graph | Sequence[Graph], steps: Sequence[Sequence[Array]], optimized: bool = False
) -> list[list[Array]]:
    """Run the first graph in LiteRT once for each of ``steps``; variables keep their elements.

    LiteRT uses its reference kernels.  If there is none for an operator or its version, the whole model runs
    with optimized kernels.
    ``optimized``: always use the optimized kernels.
    """
    interpreter = _interpreter(flatbuffer([graphs] if isinstance(graphs, Graph) else graphs), optimized)
    return run_interpreter(interpreter, steps)


def run_litert(
    graphs: Graph | Sequence[Graph], inputs: Sequence[Array], optimized: bool = False
) -> list[Array]:
    """Run the first graph once; see ``run_steps``."""
    return run_steps(graphs, [inputs], optimized)[0]


def _interpreter(model: bytes, optimized: bool = False) -> Any:
    return make_interpreter(model, Kernels.OPTIMIZED if optimized else Kernels.REFERENCE)


def kernel_results(op: Op, inputs: Sequence[Array]) -> list[Array]:
    """Return the kernel's results; ``inputs``: one array for each distinct operand without data, in order."""
    given = iter(inputs)
    seen: dict[Value, Array] = {}
    arrays: list[Array | None] = []
    for value in op.inputs:
        if value is None:
            arrays.append(None)
            continue
        if value not in seen:
            seen[value] = constant_elements(value) if value.is_const else next(given)
        arrays.append(seen[value])
    for array in seen.values():
        array.flags.writeable = False  # a kernel that writes into an operand fails here
    arrays += [None] * (len(op.operands) - len(arrays))
    with np.errstate(all="ignore"):  # as the interpreter runs them
        result = op.kernel(*arrays)
    return list(result) if isinstance(result, tuple | list) else [result]


def assert_close(got: Array, wanted: Array, tolerance: float = FLOAT_TOLERANCE) -> None:
    """Assert equal dtype, shape and elements.

    Floats and complex numbers may differ by ``tolerance`` * the largest magnitude.
    """
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if wanted.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, wanted)
        return
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(got[~finite], wanted[~finite])
    scale = float(np.abs(wanted[finite]).max(initial=0.0))
    np.testing.assert_allclose(got[finite], wanted[finite], rtol=0, atol=tolerance * scale)


def check(
    op: Op,
    *inputs: Array,
    tolerance: float = FLOAT_TOLERANCE,
    reference: Op | None = None,
    optimized: bool = False,
) -> list[Array]:
    """Assert that the kernel agrees with LiteRT and with the shape rule; return the kernel's results.

    ``reference``: an operator with the same results for LiteRT to run, if LiteRT does not take ``op``.
    """
    # copies, because kernel_results makes its arrays read-only; in Fortran order, as after a TRANSPOSE
    results = kernel_results(op, tuple(np.array(x, order="F") for x in inputs))
    check_shapes(op, results)
    reference = reference or op
    graph = reference.graph or graph_of(reference)
    for got, wanted in zip(results, run_litert(graph, inputs, optimized), strict=True):
        assert_close(got, wanted, tolerance)
    return results


# -- shape rules -------------------------------------------------------------------------------


def check_shapes(op: Op, results: Sequence[Array]) -> None:
    """Assert that the shape rule gives the shapes of the results.

    If dimensions or ranks of inputs are unknown, the rule must not contradict these shapes.
    """
    for kind, array in zip(op.inferred(), results, strict=True):
        assert kind.dtype.numpy == array.dtype
        assert kind.shape is not None
        _assert_fits(kind.shape, array.shape)
        if all(v is None or v.is_const or v.is_static for v in op.inputs) and not _data_dependent(op):
            assert kind.shape == array.shape
    for value in {v: None for v in op.inputs if v is not None and not v.is_const}:
        shape = value.shape
        assert shape is not None
        vaguer: list[Shape | None] = [(*shape[:i], None, *shape[i + 1 :]) for i in range(len(shape))]
        for attempt in (*vaguer, (None,) * len(shape), None):
            value.shape = attempt
            for kind, array in zip(op.inferred(), results, strict=True):
                assert kind.dtype.numpy == array.dtype
                if kind.shape is not None:
                    _assert_fits(kind.shape, array.shape)
        value.shape = shape


def _assert_fits(shape: Shape, actual: tuple[int, ...]) -> None:
    assert len(shape) == len(actual), f"rule says {shape}, the kernel made {actual}"
    assert all(d is None or d == a for d, a in zip(shape, actual, strict=True)), (shape, actual)


def _data_dependent(op: Op) -> bool:
    """Return whether a result's shape may depend on elements of an operand that is not constant."""
    return any(not v.is_const and v.dtype.is_integer for v in op.inputs if v is not None)


# -- operands ----------------------------------------------------------------------------------


def var(array: Array, name: str = "") -> Value:
    """A Value of the type of ``array``, without data: an input of the graph."""
    return Value(name, DType.of(array.dtype), array.shape)


def const(array: Any, dtype: Any = None) -> Value:
    """A constant."""
    return Value.constant("", np.array(array, dtype))


def ints(numbers: Any) -> Value:
    """A constant of int32, such as axes or sizes."""
    return const(numbers, np.int32)
