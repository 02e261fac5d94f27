# SPDX-License-Identifier: Apache-2.0
"""A valid model file, and for most rules of the checker a change that breaks the rule, and a near miss.

The rules without a case are APART in ``test_check``.  The cases are one table, so this file is longer than
others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.io.models import File
from tests.io.oracles import LITERT

Change = Callable[[File], None]
GRAPH, OP = "subgraphs[0]", "subgraphs[0].operators"
SPARSE, LEVEL = "subgraphs[0].tensors[5].sparsity", "T5.sparsity.dimMetadata["


def sound(oracle: Any = LITERT) -> File:
    """Return a valid model with most of what the rules look at.

    Tensors: 0 x, 1 y, 2 w, 3 a, 4 state, 5 sparse, 6 words, 7 packed, 8 loop, 9 b, 10 spare.
    Operators: 0 FULLY_CONNECTED, 1 CUSTOM, 2 ADD, 3 WHILE.
    Buffers: 0 empty, then the data of w, sparse, words, packed, and of the metadata.
    """
    f = File(oracle)
    quantization = f.make(
        "QuantizationParameters", scale=[0.5] * 4, zeroPoint=[0] * 4, min=[-1.0] * 4, max=[1.0] * 4
    )
    f.tensor("w", [4, 4], "INT8", buffer=f.buffer(bytes(16)), quantization=quantization)
    f.tensor("a", [1, 4])
    f.tensor("state", [1, 4], isVariable=True)
    bytes_ = f.enum("SparseIndexVector", "Uint8Vector")
    level = f.make(
        "DimensionMetadata", format=1,
        arraySegments=f.make("Uint8Vector", values=[0, 1, 2]), arraySegmentsType=bytes_,
        arrayIndices=f.make("Uint8Vector", values=[0, 1]), arrayIndicesType=bytes_,
    )  # fmt: skip
    levels = [f.make("DimensionMetadata", denseSize=2), level]
    sparsity = f.make("SparsityParameters", traversalOrder=[0, 1], blockMap=[], dimMetadata=levels)
    f.tensor("sparse", [2, 2], sparsity=sparsity, buffer=f.buffer(bytes(8)))
    f.tensor("words", [2], "STRING", buffer=f.buffer(texts(18).tobytes()))
    f.tensor("packed", [3], "INT4", buffer=f.buffer(b"\x21\x03"))
    f.tensor("loop", [1, 4], shapeSignature=[-1, 4])
    f.tensor("b", [1, 4])
    f.tensor("spare", [1])
    f.op("FULLY_CONNECTED", [0, 2, -1], [3], f.make("FullyConnectedOptions"))
    f.op("CUSTOM", [3, 5, 6, 7], [9], custom="Mine")
    f.op("ADD", [9, 4], [1], f.make("AddOptions"))
    f.op("WHILE", [1], [8], f.make("WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2))
    f.model.subgraphs += [called(f, "cond", "BOOL", [1]), called(f, "body", "FLOAT32", [1, 4])]
    entry = [[f.make("TensorMap", name=name, tensorIndex=i)] for i, name in enumerate(("in", "out"))]
    f.model.signatureDefs = [
        f.make("SignatureDef", signatureKey="s", inputs=entry[0], outputs=entry[1], subgraphIndex=0)
    ]
    f.model.metadata = [f.make("Metadata", name="m", buffer=f.buffer(b"text"))]
    return f


def texts(end: int) -> Any:
    """Return the bytes of two strings, the second of which ends at ``end``."""
    return np.frombuffer(np.array([2, 16, min(end, 17), end], "<i4").tobytes() + b"ab", np.uint8)


def called(f: File, name: str, kind: str, shape: list[int]) -> Any:
    """Return a graph with one custom operator ``name``, whose operator code is added to ``f``."""
    custom = f.enum("BuiltinOperator", "CUSTOM")
    f.model.operatorCodes.append(
        f.make("OperatorCode", deprecatedBuiltinCode=custom, builtinCode=custom, customCode=name)
    )
    code = len(f.model.operatorCodes) - 1
    number = f.enum("TensorType", kind)
    tensors = [
        f.make("Tensor", name="i", shape=[1, 4]),
        f.make("Tensor", name="o", shape=shape, type=number),
    ]
    op = f.make("Operator", opcodeIndex=code, inputs=[0], outputs=[1])
    return f.make("SubGraph", name=name, tensors=tensors, inputs=[0], outputs=[1], operators=[op])


def put(place: str, value: Any) -> Change:
    """Return a change that sets the field at ``place``, a path in the tree of generated objects ``f.model``.

    At the start of a path, ``T3`` stands for tensor 3 and ``O1`` for operator 1 of the main graph.
    """
    place = re.sub(r"^T(\d+)", r"subgraphs[0].tensors[\1]", place)
    place = re.sub(r"^O(\d)", r"subgraphs[0].operators[\1]", place)

    def change(f: File) -> None:
        *path, last = re.findall(r"\w+", place)
        item: Any = f.model
        for step in path:
            item = item[int(step)] if step.isdigit() else getattr(item, step)
        if last.isdigit():
            item[int(last)] = value
        else:
            assert hasattr(item, last)
            setattr(item, last, value)

    return change


def both(*changes: Change) -> Change:
    def change(f: File) -> None:
        for each in changes:
            each(f)

    return change


def buffer(number: int, size: int) -> Change:
    """Return a change that makes the data of a buffer ``size`` zeros."""
    return put(f"buffers[{number}].data", np.zeros(size, np.uint8))


def region(offset: int, size: int) -> Change:
    """Return a change that makes the data of tensor w external: ``size`` bytes at ``offset`` in the file."""
    return both(put("buffers[1].data", None), put("buffers[1].offset", offset), put("buffers[1].size", size))


def code(number: int, name: str, options: str | None = None) -> Change:
    """Return a change that makes operator ``number`` a ``name``; its operator code has the same number."""

    def change(f: File) -> None:
        item, op = f.model.operatorCodes[number], f.main.operators[number]
        item.builtinCode = f.enum("BuiltinOperator", name)
        item.deprecatedBuiltinCode = min(item.builtinCode, 127)
        op.builtinOptions = None if options is None else f.make(options)
        op.builtinOptionsType = 0 if options is None else f.enum("BuiltinOptions", options)

    return change


def one_scale_less(f: File) -> None:
    """Give tensor w three scales for its four channels."""
    f.main.tensors[2].quantization = f.make("QuantizationParameters", scale=[0.5] * 3)


def stray(index: int) -> Change:
    """Return a change that gives operator 1, which is CUSTOM, the options of a WHILE with graph ``index``."""

    def change(f: File) -> None:
        op = f.main.operators[1]
        op.builtinOptions = f.make("WhileOptions", condSubgraphIndex=index, bodySubgraphIndex=2)
        op.builtinOptionsType = f.enum("BuiltinOptions", "WhileOptions")

    return change


def computations(*indices: int) -> Change:
    """Return a change that gives operator 1 the options of a STABLEHLO_CUSTOM_CALL of these graphs."""

    def change(f: File) -> None:
        op = f.main.operators[1]
        op.builtinOptions2 = f.make("StablehloCustomCallOptions", calledComputations=list(indices))
        op.builtinOptions2Type = f.enum("BuiltinOptions2", "StablehloCustomCallOptions")

    return change


def blocks(scales: int) -> Change:
    """Return a change that gives tensor w blockwise quantization; tensor number ``scales`` has its scales."""

    def change(f: File) -> None:
        details = f.make("BlockwiseQuantization", scales=scales, zeroPoints=-1, blockSize=2)
        quantization = f.main.tensors[2].quantization
        quantization.details = details
        quantization.detailsType = f.enum("QuantizationDetails", "BlockwiseQuantization")

    return change


def external(f: File) -> None:
    """Add an external buffer with the id 5."""
    f.model.externalBufferGroups = [f.make("ExternalBufferGroup", name="weights.bin")]
    f.model.externalBuffers = [f.make("ExternalBuffer", id=5, offset=64, length=16)]


def unnumbered(f: File) -> None:
    """Add an external buffer whose id and group have their default, 0, which is not stored."""
    f.model.externalBufferGroups = [f.make("ExternalBufferGroup", name="weights.bin")]
    f.model.externalBuffers = [f.make("ExternalBuffer", offset=64, length=16)]


QUANTIZATION_VECTORS = ("scale", "zeroPoint", "min", "max")

CASES: list[tuple[str, str, Change, Change]] = [
    (
        "subgraphs",
        "subgraphs",
        both(put("subgraphs", []), put("signatureDefs", [])),
        put("signatureDefs", []),
    ),
    ("dtype", f"{GRAPH}.tensors[8].type", put("T8.type", 99), put("T4.name", "other")),
    ("shape", f"{GRAPH}.tensors[7].shape", put("T7.shape", [-7]), put("T8.shape", [-1, 4])),
    ("shape", f"{GRAPH}.tensors[4].shape", put("T4.shape", [1] * 33), put("T8.shape", [0, 4])),
    ("data-size", f"{GRAPH}.tensors[2]", buffer(1, 15), buffer(1, 16)),
    ("data-size", f"{GRAPH}.tensors[2]", put("T2.shape", [4, -1]), put("T2.shapeSignature", [4, -1])),
    ("buffer-index", f"{GRAPH}.tensors[3].buffer", put("T3.buffer", 6), put("T3.buffer", 0)),
    ("buffer-index", "metadata[0].buffer", put("metadata[0].buffer", 6), put("metadata[0].buffer", 0)),
    ("buffer-region", "buffers[1]", region(4000, 16), region(96, 16)),
    ("tensor-index", f"{OP}[0].inputs[0]", put("O0.inputs[0]", 11), put("O0.inputs[0]", 4)),
    ("tensor-index", f"{OP}[0].inputs[0]", put("O0.inputs[0]", -2), put("O0.inputs[2]", -1)),
    ("tensor-index", f"{OP}[3].outputs[0]", put("O3.outputs", [-1]), put("O3.outputs", [8])),
    (
        "tensor-index",
        f"{OP}[0].intermediates[1]",
        put("O0.intermediates", [-1, 11]),
        put("O0.intermediates", [-1, 9]),
    ),
    (
        "tensor-index",
        f"{GRAPH}.inputs[1]",
        put("subgraphs[0].inputs", [0, 11]),
        put("subgraphs[0].inputs", [0]),
    ),
    (
        "tensor-index",
        f"{GRAPH}.outputs[1]",
        put("subgraphs[0].outputs", [1, -1]),
        put("subgraphs[0].outputs", [1, 3]),
    ),
    (
        "tensor-index",
        "signature_defs[0].inputs[0].tensor_index",
        put("signatureDefs[0].inputs[0].tensorIndex", 11),
        put("signatureDefs[0].inputs[0].name", "other"),
    ),
    (
        "tensor-index",
        f"{GRAPH}.tensors[2].quantization.details.scales",
        blocks(11),
        blocks(10),
    ),
    ("operator-code", f"{OP}[1].opcode_index", put("O1.opcodeIndex", 6), put("operatorCodes[1].version", 7)),
    (
        "graph-index",
        f"{OP}[3].builtin_options.cond_subgraph_index",
        put("O3.builtinOptions.condSubgraphIndex", 3),
        put("O3.builtinOptions.condSubgraphIndex", 1),
    ),
    (
        "graph-index",
        "signature_defs[0].subgraph_index",
        put("signatureDefs[0].subgraphIndex", 3),
        put("signatureDefs", []),
    ),
    (
        "one-producer",
        f"{OP}[3].outputs[0]",
        both(put("O3.outputs", [1]), put("O3.inputs", [4])),
        put("O3.inputs", [4]),
    ),
    ("one-producer", f"{OP}[1].outputs[1]", put("O1.outputs", [9, 9]), put("O1.outputs", [9])),
    (
        "shape-size",
        f"{GRAPH}.tensors[10].shape",
        put("T10.shape", [2**30, 2**30, 2]),
        put("T10.shape", [2**30, 2**31 - 1]),
    ),
    ("packed-size", f"{GRAPH}.tensors[7]", put("T7.shape", [5]), put("T7.shape", [4])),
    ("packed-size", f"{GRAPH}.tensors[7]", put("T7.shape", [-1, 4]), put("T7.shape", [1, 4])),
    ("strings", f"{GRAPH}.tensors[6]", put("T6.shape", [3]), put("T6.shape", [2, 1])),
    ("strings", f"{GRAPH}.tensors[6]", put("T6.shape", [-1, 2]), put("T6.shape", [1, 2])),
    (
        "strings",
        f"{GRAPH}.tensors[6]",
        put("buffers[3].data", np.array([9, 0, 0, 0], np.uint8)),
        put("T6.name", "w2"),
    ),
    ("strings", f"{GRAPH}.tensors[6]", put("buffers[3].data", texts(19)), put("buffers[3].data", texts(16))),
    (
        "quantization",
        f"{GRAPH}.tensors[2].quantization",
        put("T2.quantization.zeroPoint", [0] * 3),
        put("T2.quantization.zeroPoint", [0]),
    ),
    (
        "quantization",
        f"{GRAPH}.tensors[2].quantization.quantized_dimension",
        put("T2.quantization.quantizedDimension", 2),
        put("T2.quantization.quantizedDimension", 1),
    ),
    (
        "quantization",
        f"{GRAPH}.tensors[2].quantization.quantized_dimension",
        put("T2.quantization.quantizedDimension", -1),
        put("T2.quantization.quantizedDimension", 0),
    ),
    (
        "quantization",
        f"{GRAPH}.tensors[2].quantization.scale",
        one_scale_less,
        put("T2.quantization.scale", [0.25] * 4),
    ),
    (
        "sparsity",
        SPARSE,
        put("T5.sparsity.traversalOrder", [0, 2]),
        put("T5.sparsity.traversalOrder", [0, 1]),
    ),
    ("sparsity", SPARSE, put("T5.sparsity.blockMap", [0]), put("T5.sparsity.blockMap", [])),
    ("sparsity", SPARSE, put(LEVEL + "0].denseSize", 1 << 30), put(LEVEL + "0].denseSize", 2)),
    (
        "sparsity",
        SPARSE,
        put(LEVEL + "1].arraySegments.values", [0, 1]),
        put(LEVEL + "1].arraySegments.values", [0, 0, 2]),
    ),
    (
        "sparsity",
        SPARSE,
        put(LEVEL + "1].arraySegments.values", [0, 2, 1]),
        put(LEVEL + "1].arraySegments.values", [0, 0, 0]),
    ),
    (
        "sparsity",
        SPARSE,
        put(LEVEL + "1].arrayIndices.values", [0, 2]),
        put(LEVEL + "1].arrayIndices.values", [1, 1]),
    ),
    (
        "sparsity",
        SPARSE,
        put(LEVEL + "1].arrayIndices.values", [0]),
        put(LEVEL + "1].arrayIndices.values", [0, 1]),
    ),
    ("sparsity", SPARSE, put(LEVEL + "1].arrayIndices", None), put("T5.name", "s")),
    ("sparsity", SPARSE, buffer(2, 7), buffer(2, 8)),
    ("sparsity", SPARSE, put("T5.shape", [2, -1]), put("T5.name", "s")),
    ("sparsity", SPARSE, put("T5.type", 5), put("T5.type", 2)),
    (
        "external-buffer",
        f"{GRAPH}.tensors[4].external_buffer",
        both(external, put("T4.externalBuffer", 6)),
        both(external, put("T4.externalBuffer", 5)),
    ),
    (
        "external-buffer",
        "external_buffers[0].group",
        both(external, put("externalBuffers[0].group", 1)),
        external,
    ),
    (
        "external-buffer",
        "external_buffers[0].group",
        both(unnumbered, put("externalBufferGroups", [])),
        unnumbered,
    ),
    (
        "external-buffer",
        "external_buffers[1].id",
        both(unnumbered, lambda f: f.model.externalBuffers.append(f.make("ExternalBuffer", length=16))),
        both(unnumbered, lambda f: f.model.externalBuffers.append(f.make("ExternalBuffer", id=1))),
    ),
    (
        "external-buffer",
        "external_buffers[1].id",
        both(external, lambda f: f.model.externalBuffers.append(f.model.externalBuffers[0])),
        external,
    ),
    ("operands", f"{OP}[0].inputs[1]", put("O0.inputs", [0]), put("O0.inputs", [0, 2])),
    ("operands", f"{OP}[2].inputs", put("O2.inputs", [9, 4, 4]), put("O2.inputs", [4, 9])),
    ("operands", f"{OP}[3].inputs[1]", put("O3.inputs", [1, -1]), put("O3.inputs", [1])),
    ("results", f"{OP}[2].outputs", put("O2.outputs", [1, 10]), put("O1.outputs", [9, 10])),
    (
        "custom-code",
        f"{OP}[1]",
        put("operatorCodes[1].customCode", ""),
        put("operatorCodes[1].customCode", "x"),
    ),
    ("order", f"{OP}[1].inputs[0]", put("O1.inputs[0]", 1), put("O1.inputs[0]", 4)),
    ("order", f"{OP}[1].inputs[0]", put("O1.inputs[0]", 9), put("O1.inputs[0]", 0)),
    ("overwrite", f"{OP}[3].outputs[0]", put("O3.outputs", [0]), put("O3.outputs", [8])),
    ("overwrite", f"{OP}[1].outputs[1]", put("O1.outputs", [9, 7]), put("O1.outputs", [9, 4])),
    (
        "graph-index",
        f"{OP}[3].builtin_options.body_subgraph_index",
        put("O3.builtinOptions.bodySubgraphIndex", -1),
        put("O3.builtinOptions.bodySubgraphIndex", 2),
    ),
    (
        "buffer-region",
        f"{OP}[1].large_custom_options_offset",
        both(put("O1.largeCustomOptionsOffset", 4000), put("O1.largeCustomOptionsSize", 9)),
        both(put("O1.largeCustomOptionsOffset", 96), put("O1.largeCustomOptionsSize", 9)),
    ),
    ("kept-graph-index", f"{OP}[1].builtin_options.cond_subgraph_index", stray(3), stray(-1)),
    ("kept-graph-index", f"{OP}[1].builtin_options.cond_subgraph_index", stray(-2), stray(2)),
    (
        "kept-graph-index",
        f"{OP}[1].builtin_options_2.called_computations",
        computations(1, 3),
        computations(1, 2),
    ),
    (
        "recursion",
        GRAPH,
        put("O3.builtinOptions.bodySubgraphIndex", 0),
        put("O3.builtinOptions.bodySubgraphIndex", 2),
    ),
    ("no-producer", f"{OP}[2].inputs[1]", put("T4.isVariable", False), put("O2.inputs[1]", 3)),
    (
        "no-producer",
        f"{GRAPH}.outputs[1]",
        put("subgraphs[0].outputs", [1, 10]),
        put("subgraphs[0].outputs", [1, 8]),
    ),
    (
        "interface",
        f"{GRAPH}.inputs[1]",
        put("subgraphs[0].inputs", [0, 0]),
        put("subgraphs[0].outputs", [1, 1]),
    ),
    ("interface", f"{GRAPH}.outputs[0]", put("T1.name", "x"), put("T1.name", "X")),
    ("interface", f"{GRAPH}.inputs[0]", put("T0.name", None), put("T3.name", None)),
    ("interface", f"{GRAPH}.inputs", put("subgraphs[0].inputs", [0, 7]), put("subgraphs[0].inputs", [0, 4])),
    (
        "signature",
        "signature_defs[0].outputs[0]",
        put("signatureDefs[0].outputs[0].tensorIndex", 3),
        put("signatureDefs[0].outputs", []),
    ),
    (
        "signature",
        "signature_defs[0].inputs[1].name",
        lambda f: f.model.signatureDefs[0].inputs.append(f.model.signatureDefs[0].inputs[0]),
        put("signatureDefs[0].inputs[0].name", "out"),
    ),
    (
        "signature",
        "signature_defs[1].signature_key",
        lambda f: f.model.signatureDefs.append(f.model.signatureDefs[0]),
        lambda f: f.model.signatureDefs.append(f.make("SignatureDef", inputs=[], outputs=[])),
    ),
    ("operator-type", f"{OP}[2]", code(2, "EMBEDDING_LOOKUP"), code(2, "MAXIMUM")),
    ("operator-shape", f"{OP}[2]", put("T1.shape", [1, 3]), put("T1.shape", [1, 4])),
    ("options", f"{OP}[2].builtin_options", put("O2.builtinOptions", None), code(2, "MUL", "MulOptions")),
    ("options", f"{OP}[2].builtin_options", code(2, "ADD", "MulOptions"), code(2, "ADD")),
    (
        "code-fields",
        "operator_codes[0].builtin_code",
        put("operatorCodes[0].deprecatedBuiltinCode", 3),
        put("operatorCodes[0].deprecatedBuiltinCode", 9),
    ),
    (
        "code-fields",
        "operator_codes[0].builtin_code",
        put("operatorCodes[0].deprecatedBuiltinCode", 0),
        put("operatorCodes[0].builtinCode", 0),
    ),
    (
        "code-fields",
        "operator_codes[2].builtin_code",
        put("operatorCodes[2].deprecatedBuiltinCode", 127),
        put("operatorCodes[2].deprecatedBuiltinCode", 0),
    ),
    (
        "enum",
        "operator_codes[1].builtin_code",
        both(put("operatorCodes[1].builtinCode", 310), put("operatorCodes[1].deprecatedBuiltinCode", 127)),
        both(put("operatorCodes[1].builtinCode", 32), put("operatorCodes[1].deprecatedBuiltinCode", 32)),
    ),
    (
        "enum",
        f"{OP}[2].builtin_options.fused_activation_function",
        put("O2.builtinOptions.fusedActivationFunction", 77),
        put("O2.builtinOptions.fusedActivationFunction", 1),
    ),
    (
        "enum",
        f"{OP}[1].custom_options_format",
        put("O1.customOptionsFormat", 1),
        put("O1.customOptionsFormat", 0),
    ),
    ("text", f"{GRAPH}.tensors[3].name", put("T3.name", b"\xff"), put("T3.name", "\u00ff")),
    (
        "shape-signature",
        f"{GRAPH}.tensors[8].shape_signature",
        put("T8.shapeSignature", [-1, 5]),
        put("T8.shapeSignature", [1, -1]),
    ),
    (
        "shape-signature",
        f"{GRAPH}.tensors[8].shape_signature",
        put("T8.shapeSignature", [-1]),
        put("T8.shapeSignature", []),
    ),
    (
        "quantization-values",
        f"{GRAPH}.tensors[2].quantization.scale[1]",
        put("T2.quantization.scale[1]", 0.0),
        put("T2.quantization.scale[1]", 1e-30),
    ),
    (
        "quantization-values",
        f"{GRAPH}.tensors[2].quantization.scale[3]",
        put("T2.quantization.scale[3]", float("inf")),
        put("T2.quantization.scale[3]", 1e30),
    ),
    (
        "quantization-values",
        f"{GRAPH}.tensors[2].quantization.zero_point[0]",
        put("T2.quantization.zeroPoint[0]", -129),
        put("T2.quantization.zeroPoint[0]", -128),
    ),
    (
        "quantization-values",
        f"{GRAPH}.tensors[2].quantization.zero_point[3]",
        put("T2.quantization.zeroPoint[3]", 128),
        put("T2.quantization.zeroPoint[3]", 127),
    ),
    (
        "min-max",
        f"{GRAPH}.tensors[2].quantization",
        put("T2.quantization.min", [-1.0]),
        both(put("T2.quantization.min", [-1.0]), put("T2.quantization.max", [1.0])),
    ),
    (
        "min-max",
        f"{GRAPH}.tensors[2].quantization",
        both(put("T2.quantization.min", [-1.0] * 2), put("T2.quantization.max", [1.0] * 2)),
        both(
            *(
                put(f"T2.quantization.{name}", [1.0] * 2 if name in ("min", "max") else [])
                for name in QUANTIZATION_VECTORS
            )
        ),
    ),
    ("surplus-data", f"{GRAPH}.tensors[2]", buffer(1, 17), buffer(1, 16)),
    ("variable", f"{GRAPH}.tensors[7]", put("T7.isVariable", True), put("T5.isVariable", False)),
    (
        "buffer-zero",
        "buffers[0]",
        put("buffers[0].data", np.zeros(4, np.uint8)),
        put("buffers[0].data", np.zeros(0, np.uint8)),
    ),
    ("version", "version", put("version", 4), put("description", "4")),
]
"""(rule, path of the finding, a change that breaks the rule, a near miss: a similar change that keeps it)."""
