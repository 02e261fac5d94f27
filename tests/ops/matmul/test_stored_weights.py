# SPDX-License-Identifier: Apache-2.0
"""FULLY_CONNECTED with weights stored in blocks: sparse weights, and weights with a scale per block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from circlekit.errors import ModelError
from circlekit.interp.interpreter import select_kernels
from circlekit.ir.dtypes import DType, f32, i8
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.constant_operands import packed
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.numerics.output_stage import Kernels
from tests.ops.litert import _interpreter, assert_close, const, flatbuffer, graph_of, kernel_results, var
from tests.ops.quantized import draw, generator, quantized

INT4 = DType.INT4


def run_patched(graph: Graph, inputs: list[Array], optimized: bool = False) -> list[Array]:
    """Return LiteRT's outputs of a graph whose constants may be sparse or quantized by blocks.

    ``optimized``: whether LiteRT runs its optimized kernels; else it runs its reference kernels.
    """
    model = schema.ModelT.InitFromPackedBuf(flatbuffer([graph]))
    values = list(dict.fromkeys((*graph.values(),)))
    indices = {value: index for index, value in enumerate(values)}
    for tensor, value in zip(model.subgraphs[0].tensors, values, strict=True):
        if "sparsity" in value.extra:
            tensor.sparsity = sparsity_of(value.extra["sparsity"])
        details = value.quantization.details if value.quantization is not None else None
        if details is not None:
            blocks = schema.BlockwiseQuantizationT()
            blocks.scales, blocks.blockSize = indices[details["scales"]], details["block_size"]
            tensor.quantization.details = blocks
            tensor.quantization.detailsType = schema.QuantizationDetails.BlockwiseQuantization
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    interpreter = _interpreter(bytes(builder.Output()), optimized)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def sparsity_of(tree: Mapping[str, Any]) -> Any:
    out = schema.SparsityParametersT()
    out.traversalOrder = np.array(tree["traversal_order"], np.int32)
    out.blockMap = np.array(tree["block_map"], np.int32)
    out.dimMetadata = []
    for level in tree["dim_metadata"]:
        item = schema.DimensionMetadataT()
        item.format = getattr(schema.DimensionType, level["format"])
        item.denseSize = level.get("dense_size", 0)
        for name, field in (("array_segments", "arraySegments"), ("array_indices", "arrayIndices")):
            if name in level:
                vector = schema.Int32VectorT()
                vector.values = np.asarray(level[name]["values"], np.int32)
                setattr(item, field, vector)
                setattr(item, field + "Type", schema.SparseIndexVector.Int32Vector)
        out.dimMetadata.append(item)
    return out


# -- scales of blocks --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "units", "depth", "size"), [(1, 4, 32, 32), (3, 8, 128, 32), (5, 12, 192, 64)]
)
def test_blockwise_weights(batch: int, units: int, depth: int, size: int) -> None:
    """Each row has a scale per block.  Of LiteRT's kernels, only the optimized one supports that.

    The reference kernel returns the bias.  So a model with such weights is run with optimized kernels.
    """
    rng = generator("blocks", batch, units, depth)
    x = rng.normal(size=(batch, depth)).astype(np.float32)
    scales = Value.constant("scales", (2.0 ** rng.uniform(-9, -6, (units, depth // size))).astype(np.float16))
    numbers = packed(rng.integers(-8, 8, (units, depth)), INT4)
    details = {"": "BlockwiseQuantization", "scales": scales, "block_size": size}
    blocks = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64), details=details)
    w = Value("w", INT4, (units, depth), numbers, blocks)
    bias = rng.normal(size=units).astype(np.float32)
    op = FullyConnected(var(x), w, const(bias))
    graph = graph_of(op)
    graph.table = [scales, *graph.values()]
    (wanted,) = run_patched(graph, [x], optimized=True)
    assert_close(kernel_results(op, [x])[0], wanted)
    (wrong,) = run_patched(graph, [x])
    np.testing.assert_array_equal(wrong, np.broadcast_to(bias, (batch, units)))
    assert select_kernels(Model([graph])) is Kernels.OPTIMIZED


def test_blocks_without_scales() -> None:
    details = {"": "BlockwiseQuantization", "scales": 3, "block_size": 32}
    blocks = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64), details=details)
    w = Value("w", INT4, (4, 32), np.zeros(64, np.uint8), blocks)
    x = np.ones((1, 32), np.float32)
    with pytest.raises(ModelError, match="expected constant block scales of %w, got 3"):
        kernel_results(FullyConnected(var(x), w), [x])


# -- sparse weights ----------------------------------------------------------------------------


def sparse(rng: np.random.Generator, dtype: DType, units: int, depth: int, block: int) -> Value:
    """Return sparse weights in blocks of ``block`` columns; about half of the blocks are zero."""
    low, high = (-127, 128) if dtype is i8 else (-5, 6)
    numbers = rng.integers(low, high, (units, depth // block, block))
    there = rng.random(numbers.shape[:2]) < 0.5
    there[:, 0] = True
    segments = np.cumsum([0, *there.sum(axis=1)])
    levels = [
        {"format": "DENSE", "dense_size": units},
        {
            "format": "SPARSE_CSR",
            "array_segments": {"": "Int32Vector", "values": segments},
            "array_indices": {"": "Int32Vector", "values": np.nonzero(there)[1]},
        },
    ]
    order = [0, 1]
    if block > 1:
        order, levels = [0, 1, 2], [*levels, {"format": "DENSE", "dense_size": block}]
    data = numbers[there].astype(dtype.numpy)
    scale = Quantization.per_tensor(0.03) if dtype is i8 else None
    value = Value("w", dtype, (units, depth), np.frombuffer(data.tobytes(), np.uint8), scale)
    tree = {"traversal_order": order, "block_map": [1] if block > 1 else [], "dim_metadata": levels}
    value.extra["sparsity"] = tree
    return value


@pytest.mark.parametrize(("dtype", "block"), [(f32, 1), (f32, 4)])
def test_sparse_float_weights(dtype: DType, block: int) -> None:
    rng = generator("sparse", block)
    x = rng.normal(size=(3, 32)).astype(np.float32)
    op = FullyConnected(var(x), sparse(rng, dtype, 6, 32, block), const(rng.normal(size=6), np.float32))
    assert op.required_version() == 8
    (wanted,) = run_patched(graph_of(op), [x], optimized=block > 1)
    assert_close(kernel_results(op, [x])[0], wanted)


@pytest.mark.parametrize("per_channel", [False, True])
def test_sparse_int8_weights(per_channel: bool) -> None:
    """For blocks of 16, LiteRT has one kernel, which is in both kernel sets and computes in fixed point."""
    rng = generator("sparse i8", per_channel)
    x, w = quantized(i8, (3, 64), 0.05, 11), sparse(rng, i8, 8, 64, 16)
    if per_channel:
        w.quantization = Quantization(np.linspace(0.01, 0.05, 8, dtype=np.float32), np.zeros(8, np.int64), 0)
    assert w.quantization is not None
    scale = np.asarray(0.05 * w.quantization.scale, np.float32)
    numbers = rng.integers(-3000, 3000, 8).astype(np.int32)
    bias = Value.constant("", numbers, Quantization(scale, np.zeros(scale.size, np.int64)))
    op = FullyConnected(x, w, bias, results=[quantized(i8, (3, 8), 1.5, -20)])
    array = draw(rng, i8, (3, 64))
    (wanted,) = run_patched(graph_of(op), [array])
    np.testing.assert_array_equal(kernel_results(op, [array])[0], wanted)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_sparse_hybrid_weights(asymmetric: bool) -> None:
    rng = generator("sparse hybrid", asymmetric)
    x = rng.normal(size=(3, 64)).astype(np.float32)
    op = FullyConnected(var(x), sparse(rng, i8, 8, 64, 16), asymmetric_quantize_inputs=asymmetric)
    (wanted,) = run_patched(graph_of(op), [x])
    assert_close(kernel_results(op, [x])[0], wanted)
