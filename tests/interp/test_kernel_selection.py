# SPDX-License-Identifier: Apache-2.0
"""A model that LiteRT's reference kernels refuse has the integers of its optimized ones."""

from __future__ import annotations

from functools import cache

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

import circlekit
from circlekit.interp.interpreter import select_kernels
from circlekit.ir.graph import Model
from circlekit.ir.op import REGISTRY
from circlekit.ir.text import parse_model
from circlekit.ops.numerics.output_stage import Kernels
from tests.ops.litert import run_litert

LAST = 16
"""No operator has as many versions."""


def one_operator(code: int, version: int) -> bytes:
    """A model with one operator, as little of it as is needed to be looked up."""
    model, graph = schema.ModelT(), schema.SubGraphT()
    op_code, op, tensor = schema.OperatorCodeT(), schema.OperatorT(), schema.TensorT()
    op_code.builtinCode, op_code.deprecatedBuiltinCode, op_code.version = code, min(code, 127), version
    tensor.shape, tensor.name = [1], "x"
    op.inputs = op.outputs = [0]
    graph.tensors, graph.inputs, graph.outputs, graph.operators = [tensor], [0], [0], [op]
    model.version, model.operatorCodes, model.subgraphs = 3, [op_code], [graph]
    model.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder(256)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@cache
def last_version(code: str, kernels: OpResolverType) -> int:
    """The last version of an operator that LiteRT has among ``kernels``; 0 for none."""
    number = getattr(schema.BuiltinOperator, code)
    return max((v for v in range(1, LAST) if is_known(number, v, kernels)), default=0)


def is_known(code: int, version: int, kernels: OpResolverType) -> bool:
    try:
        LiteRt(model_content=one_operator(code, version), experimental_op_resolver_type=kernels)
    except (ValueError, RuntimeError) as error:
        return "Didn't find op" not in str(error)
    return True


CODES = sorted(code for code in REGISTRY if hasattr(schema.BuiltinOperator, code))


@pytest.mark.parametrize("code", CODES)
def test_reference_versions(code: str) -> None:
    """``reference_version`` is where LiteRT's reference kernels end, None where its others end there, too."""
    reference = last_version(code, OpResolverType.BUILTIN_REF)
    others = last_version(code, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    assert REGISTRY[code].reference_version == (reference if reference < others else None)


MODEL = """
model tflite

graph main(%x: i8[1,64,64,8] quant(scale: 0.5, zero_point: 3)) -> %y {{
  %w = const i8[4,3,3,8] quant(scale: 0.0078125) uniform(-127, 127)
  %b = const i32[4] quant(scale: 0.00390625) uniform(-3000, 3000)
  %c = Conv2D(%x, %w, %b) : i8[1,64,64,4] quant(scale: 8.0, zero_point: -4)
  %y = DepthToSpace(%c) {options} : i8[1,128,128,1] quant(scale: 8.0, zero_point: -4)
}}
"""


def model_of(options: str) -> Model:
    return parse_model(MODEL.format(options=options))


@pytest.mark.parametrize(
    ("options", "kernels"),
    [("{block_size: 2}", Kernels.OPTIMIZED), ("{block_size: 2, version: 1}", Kernels.REFERENCE)],
)
def test_model_as_litert_runs_it(options: str, kernels: Kernels) -> None:
    """LiteRT by its reference kernels where it can, else by the others; the two differ here."""
    model = model_of(options)
    assert select_kernels(model) is kernels
    rng = np.random.default_rng(5)
    x = rng.integers(-128, 128, (1, 64, 64, 8), dtype=np.int8)
    (wanted,) = run_litert(model.main, [x])
    for _ in range(2):  # the second run repeats what the first has recorded
        (got,) = circlekit.Interpreter(model).run([x])
        np.testing.assert_array_equal(got, wanted)
    (other,) = next(circlekit.Interpreter(model, k) for k in Kernels if k is not kernels).run([x])
    assert np.count_nonzero(other != wanted)


def test_comparison_by_the_kernels_of_the_first() -> None:
    """Else two models that differ in a version alone would have other values."""
    assert circlekit.compare(model_of("{block_size: 2}"), model_of("{block_size: 2, version: 1}")).equal


def test_kernels_by_their_values() -> None:
    """A text is no reason to run others than those it names."""
    model = parse_model("graph main(%x: f32[2]) -> %y { %y = Abs(%x) }")
    assert circlekit.Interpreter(model, kernels="optimized").kernels is Kernels.OPTIMIZED
    with pytest.raises(ValueError, match="'fast' is not a valid Kernels"):
        circlekit.Interpreter(model, kernels="fast")
