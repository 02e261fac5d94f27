# SPDX-License-Identifier: Apache-2.0
"""Small files with features that are rare in real models, packed by the formats' own generated code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers
import numpy as np

from circlekit.io.schema import IDENTIFIERS
from tests.io.oracles import CIRCLE, LITERT, Oracle

Fill = Callable[["File"], None]
LIBRARY: dict[str, tuple[Oracle, Fill]] = {}
"""{name of a file: (package with the generated code of its format, function that makes its content)}."""


class File:
    """A model under construction; its first graph has tensors x and y and no operators."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.main = self.make("SubGraph", name="main", tensors=[], inputs=[0], outputs=[1], operators=[])
        self.model = self.make(
            "Model", version=3, operatorCodes=[], subgraphs=[self.main], buffers=[self.make("Buffer")]
        )
        self.tensor("x", [1, 4])
        self.tensor("y", [1, 4])

    def make(self, table: str, **fields: Any) -> Any:
        """Return an object of the generated object API, such as SubGraphT for the table SubGraph."""
        item = self.oracle.names[table + "T"]()
        for name, value in fields.items():
            assert hasattr(item, name), f"{table}.{name}"
            setattr(item, name, value)
        return item

    def enum(self, name: str, value: str) -> int:
        return self.oracle.enums[name][value]

    def tensor(
        self, name: str | bytes | None, shape: Sequence[int] | None, kind: str = "FLOAT32", **more: Any
    ) -> int:
        """Append a tensor to the first graph; return its index."""
        number = self.enum("TensorType", kind)
        self.main.tensors.append(self.make("Tensor", name=name, shape=shape, type=number, **more))
        return len(self.main.tensors) - 1

    def buffer(self, data: bytes | None = None, **more: Any) -> int:
        """Append a buffer to the model; return its index."""
        raw = None if data is None else np.frombuffer(data, np.uint8)
        self.model.buffers.append(self.make("Buffer", data=raw, **more))
        return len(self.model.buffers) - 1

    def op(
        self, code: str | int, inputs: Sequence[int], outputs: Sequence[int],
        options: Any = None, version: int = 1, custom: str | None = None, **more: Any,
    ) -> None:  # fmt: skip
        """Append an operator with an operator code of its own to the first graph."""
        number = code if isinstance(code, int) else self.enum("BuiltinOperator", code)
        self.model.operatorCodes.append(
            self.make(
                "OperatorCode", deprecatedBuiltinCode=min(number, 127), builtinCode=number, version=version,
                customCode=custom,
            )
        )  # fmt: skip
        if options is not None:
            table = type(options).__name__.removesuffix("T")
            second = table not in self.oracle.enums["BuiltinOptions"]
            union = "builtinOptions2" if second else "builtinOptions"
            more[union] = options
            more[union + "Type"] = self.enum(union[0].upper() + union[1:], table)
        opcode = len(self.model.operatorCodes) - 1
        operator = self.make(
            "Operator", opcodeIndex=opcode, inputs=list(inputs), outputs=list(outputs), **more
        )
        self.main.operators.append(operator)

    def pack(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), IDENTIFIERS[self.oracle.format])
        return bytes(builder.Output())


def file_bytes(name: str) -> bytes:
    """Return the bytes of the file ``name`` of ``LIBRARY``."""
    oracle, fill = LIBRARY[name]
    file = File(oracle)
    fill(file)
    return file.pack()


def both(fill: Fill) -> Fill:
    """Register a file in both formats."""
    for oracle in (LITERT, CIRCLE):
        LIBRARY[f"{fill.__name__}.{oracle.format}"] = (oracle, fill)
    return fill


def only(oracle: Oracle) -> Callable[[Fill], Fill]:
    """Register a file in the format of ``oracle`` only."""

    def enter(fill: Fill) -> Fill:
        LIBRARY[f"{fill.__name__}.{oracle.format}"] = (oracle, fill)
        return fill

    return enter


@both
def nothing(f: File) -> None:
    f.main.outputs = [0]


@both
def custom(f: File) -> None:
    options = np.frombuffer(b"\1\2\3flex", np.uint8)
    f.op("CUSTOM", [0, -1], [1], custom="Mine", version=7, customOptions=options)
    f.op("CUSTOM", [0], [f.tensor("z", [])], custom="Other")


@both
def unknown_code(f: File) -> None:
    f.op(310, [0], [1], version=5)


@both
def declared_but_odd(f: File) -> None:
    """Operators with too many operands, options of another operator, an unknown enum value, or no options."""
    f.op("TANH", [0, 0, 0], [1])
    f.op("SOFTMAX", [0], [f.tensor("z", [1, 4])], f.make("AddOptions"))
    f.op("ADD", [0, 0], [f.tensor("z", [1, 4])], f.make("AddOptions", fusedActivationFunction=77))
    f.op("ADD", [0, 0], [f.tensor("no_options", [1, 4])])
    f.op("RESHAPE", [0], [f.tensor("r", [4])], f.make("ReshapeOptions", newShape=[]))


@both
def stablehlo(f: File) -> None:
    precision = [f.enum("StablehloPrecisionConfig", "HIGHEST")] * 2
    dot = f.make("StablehloDotGeneralOptions", lhsContractingDimensions=[1], precisionConfig=precision)
    f.op("STABLEHLO_DOT_GENERAL", [0, 0], [1], dot)
    f.op("STABLEHLO_ADD", [0, 0], [f.tensor("z", [1, 4])])
    composite = f.make("StableHLOCompositeOptions", name="odml.thing", version=2, compositeAttributes=[1, 2])
    f.op("STABLEHLO_COMPOSITE", [0], [f.tensor("c", [1, 4])], composite)


@both
def operator_fields(f: File) -> None:
    hidden = f.tensor("hidden", [2], isVariable=True)
    f.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [0, -1, hidden], [1], mutatingVariableInputs=[False, False, True],
        intermediates=[f.tensor("inner", [3]), -1], debugMetadataIndex=3,
    )  # fmt: skip


@both
def graphs(f: File) -> None:
    body = f.make("SubGraph", name=None, tensors=f.main.tensors[:1], inputs=[0], outputs=[0], operators=[])
    f.model.subgraphs += [body, body]
    f.op("WHILE", [0], [1], f.make("WhileOptions", condSubgraphIndex=2, bodySubgraphIndex=1))
    f.op("IF", [0, 0], [f.tensor("z", [1, 4])], f.make("IfOptions", thenSubgraphIndex=1))


@both
def signatures(f: File) -> None:
    sides = [[f.make("TensorMap", name=n, tensorIndex=i)] for i, n in enumerate(("in", "out"))]
    f.model.signatureDefs = [
        f.make("SignatureDef", signatureKey=key, inputs=sides[0], outputs=sides[1], subgraphIndex=0)
        for key in ("serve", "again")
    ]


@both
def metadata(f: File) -> None:
    entry = f.make("Metadata", name="notes", buffer=f.buffer(b"some bytes"))
    empty = f.make("Metadata", name="empty", buffer=f.buffer())
    f.model.metadata = [entry, empty, entry]
    f.model.metadataBuffer = [1]
    f.model.description = "described"


@both
def constants(f: File) -> None:
    """Shared buffers, unused buffers, tensors and operator codes, packed and string data."""
    shared = f.buffer(np.arange(4, dtype=np.float32).tobytes())
    f.buffer(b"of no use")
    f.tensor("a", [1, 4], buffer=shared)
    f.tensor("b", [4], buffer=shared)
    f.tensor("packed", [3], "INT4", buffer=f.buffer(b"\x21\x03"))
    f.tensor("u4", [3], "UINT4", buffer=f.buffer(b"\x21\x03"))
    f.tensor("bf", [2], "BFLOAT16", buffer=f.buffer(b"\x80\x3f\0\0"))
    f.tensor("text", [1], "STRING", buffer=f.buffer(b"\1\0\0\0\x0c\0\0\0\x0e\0\0\0hi"))
    f.tensor("none", [0], "INT32", buffer=f.buffer(b""))
    f.tensor("truth", [2], "BOOL", buffer=f.buffer(b"\1\0"))
    f.tensor("c64", [1], "COMPLEX64", buffer=f.buffer(bytes(8)))
    f.model.operatorCodes.append(f.make("OperatorCode", deprecatedBuiltinCode=9, customCode="", version=4))
    f.op("ADD", [0, 2], [1], f.make("AddOptions"))


@both
def shapes(f: File) -> None:
    f.tensor("dynamic", [1, 4], shapeSignature=[-1, 4])
    f.tensor("minus", [-1, 4])
    f.tensor("static", [2, 4], shapeSignature=[2, 4])
    f.tensor("odd", [7, 4], shapeSignature=[-1, 4], hasRank=True)
    f.tensor("unranked", [])
    f.tensor("scalar", [], hasRank=True)
    f.tensor("empty_signature", [], shapeSignature=[], hasRank=True)
    f.tensor("absent", None)
    f.tensor(None, [1])
    f.tensor("", [1])
    f.tensor(b"\xff\xfe not utf-8", [1])
    f.tensor("constant", [2], shapeSignature=[-1], buffer=f.buffer(bytes(8)))


@both
def quantization(f: File) -> None:
    def add(name: str, **fields: Any) -> None:
        f.tensor(name, [1, 4], "INT8", quantization=f.make("QuantizationParameters", **fields))

    def details(table: str, **fields: Any) -> dict[str, Any]:
        return {"details": f.make(table, **fields), "detailsType": f.enum("QuantizationDetails", table)}

    add("nothing")
    add("range", min=[-1.0], max=[1.0])
    add("scale", scale=[0.5])
    add("both", scale=[0.5], zeroPoint=[3])
    add("empty", scale=[], zeroPoint=[])
    add("axis", scale=[0.5] * 4, zeroPoint=[0, 1, 2, 3], quantizedDimension=1)
    add("custom", **details("CustomQuantization", custom=[1, 2, 3]))
    add("blocks", **details("BlockwiseQuantization", scales=1, zeroPoints=2, blockSize=32))


@both
def sparsity(f: File) -> None:
    index = f.make("Uint8Vector", values=[0, 1, 2])
    dense = f.make("DimensionMetadata", denseSize=4)
    bytes_, ints = (f.enum("SparseIndexVector", name) for name in ("Uint8Vector", "Int32Vector"))
    sparse = f.make(
        "DimensionMetadata", format=1, arraySegments=index, arraySegmentsType=bytes_,
        arrayIndices=f.make("Int32Vector", values=[0, 3]), arrayIndicesType=ints,
    )  # fmt: skip
    parameters = f.make(
        "SparsityParameters", traversalOrder=[0, 1], blockMap=[0], dimMetadata=[dense, sparse]
    )
    f.tensor("sparse", [4, 4], sparsity=parameters, buffer=f.buffer(bytes(8)))


@both
def variants(f: File) -> None:
    inner = f.make("VariantSubType", shape=[2], type=f.enum("TensorType", "INT64"), hasRank=True)
    f.tensor("v", [], "VARIANT", variantTensors=[inner])
    f.tensor("r", [], "RESOURCE")


@only(LITERT)
def external(f: File) -> None:
    f.model.externalBufferGroups = [f.make("ExternalBufferGroup", name="weights.bin")]
    f.model.externalBuffers = [f.make("ExternalBuffer", id=5, offset=64, length=16, packing="none")]
    f.tensor("outside", [4], externalBuffer=5)


@only(LITERT)
def newest_types(f: File) -> None:
    f.tensor("i2", [4], "INT2", buffer=f.buffer(b"\x1b"))
    f.tensor("f8", [1], "FLOAT8_E5M2", buffer=f.buffer(b"\1"))
    fields = {
        "details": f.make("MultiAxisQuantization", scales=1, quantizedDimensions=[0, 1]),
        "detailsType": 3,
    }
    f.tensor("axes", [1], "INT8", quantization=f.make("QuantizationParameters", **fields))


@only(CIRCLE)
def own_operators(f: File) -> None:
    f.op("INSTANCE_NORM", [0, 0, 0], [1], f.make("InstanceNormOptions", epsilon=1e-5))
    f.op("RMS_NORM", [0, 0], [f.tensor("r", [1, 4])], f.make("RmsNormOptions", epsilon=1e-6))
    f.op("ROPE", [0, 0, 0], [f.tensor("p", [1, 4])], f.make("RoPEOptions", mode=1))
    f.op("BCQ_GATHER", [0], [f.tensor("g", [1, 4])], f.make("BCQGatherOptions", axis=1))
    f.op("GRU", [0], [f.tensor("u", [1, 4])], f.make("GRUOptions", timeMajor=True))
    f.op("RUN_MODEL", [0], [f.tensor("m", [1, 4])], f.make("RunModelOptions", location="a.circle"))


@only(CIRCLE)
def own_tensors(f: File) -> None:
    f.tensor("q4", [32], "GGML_Q4_0", buffer=f.buffer(bytes(18)))
    f.tensor("small", [4], buffer=f.buffer(b"zip"), compressionType=f.enum("CompressionType", "HUFFMAN"))
    fields = {"details": f.make("MXQuantization", axis=1), "detailsType": 2}
    f.tensor("mx", [32], "MXFP4", quantization=f.make("QuantizationParameters", **fields))
