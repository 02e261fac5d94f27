# SPDX-License-Identifier: Apache-2.0
"""The versions of operators that LiteRT's reference kernels have."""

from __future__ import annotations

from functools import cache

import flatbuffers
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

from circlekit.ir.op import REGISTRY

LAST = 16
"""Versions below this number are tried; no operator has this version."""


def one_operator(code: int, version: int) -> bytes:
    """Return a model file with one operator, with no more than LiteRT needs to look up its kernel."""
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
    """Return the last version of an operator that LiteRT has among ``kernels``; 0 for none."""
    number = getattr(schema.BuiltinOperator, code)
    return max((v for v in range(1, LAST) if is_known(number, v, kernels)), default=0)


def is_known(code: int, version: int, kernels: OpResolverType) -> bool:
    try:
        LiteRt(model_content=one_operator(code, version), experimental_op_resolver_type=kernels)
    except (ValueError, RuntimeError) as error:
        return "Didn't find op" not in str(error)
    return True


WRONG_REFERENCE = {"LOCAL_RESPONSE_NORMALIZATION"}
"""Operators whose reference kernel contradicts the definition; their ``reference_version`` is 0."""

CODES = sorted(code for code in REGISTRY if hasattr(schema.BuiltinOperator, code))


@pytest.mark.parametrize("code", CODES)
def test_reference_versions(code: str) -> None:
    """``reference_version`` is the last version of LiteRT's reference kernel.

    It is None if the optimized kernel has no later version.
    """
    reference = last_version(code, OpResolverType.BUILTIN_REF)
    optimized = last_version(code, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    if code in WRONG_REFERENCE:
        reference = 0
    expected = reference if reference < optimized else None
    assert REGISTRY[code].reference_version == expected, f"declare {code} with reference_version={expected}"
