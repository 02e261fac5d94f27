# SPDX-License-Identifier: Apache-2.0
"""What circledump and tfldump share: a whole model file in the peer's lines, or as text to be read again."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from circlekit.cli.common import Parser, run_command

if TYPE_CHECKING:
    from circlekit.io.schema import Tree
    from circlekit.recipes.model_file import ModelFile

RULER, LINE = "=" * 67, "-" * 67
FEW = 4
"""Elements of a vector, or bytes of a buffer, that are shown without an ellipsis."""

BYTES = 16
"""Bytes of a longer buffer that are shown."""

DATA_FORMATS = {
    "CHANNELS_LAST": "CHANNEL_LAST (NHWC for 2d, NDHWC for 3d data)",
    "CHANNELS_FIRST": "CHANNEL_FIRST (NCHW for 2d, NCDHW for 3d data)",
}


def circledump(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments ``argv``, by default those of the process; return its exit code."""
    return _command("circledump", "circle", argv)


def tfldump(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments ``argv``, by default those of the process; return its exit code."""
    return _command("tfldump", "tflite", argv)


def _command(name: str, format: str, argv: Sequence[str] | None) -> int:
    def parser() -> Parser:
        parser = Parser(name, "Print a whole model file.", format)
        parser.add_argument("file", metavar=format, help="the file to print")
        parser.add_argument(
            "--text", action="store_true", help="print the text form, which every command can read again"
        )
        return parser

    def run(arguments: argparse.Namespace) -> int:
        lines = _text(arguments.file) if arguments.text else _dump(arguments.file)
        for line in lines:
            print(line)
        return 0

    return run_command(parser, argv, run)


def _text(path: str) -> Iterator[str]:
    from circlekit.api import load
    from circlekit.ir.text import print_model

    yield print_model(load(path)).rstrip("\n")


def _dump(path: str) -> Iterator[str]:
    from circlekit.recipes.model_file import ModelFile

    facts = ModelFile(path)
    version = facts.tree.get("version", 0)  # a file that cannot be decoded is refused before the first line
    yield RULER
    yield f"Model version: {version}"
    yield f" # sub graphs: {len(facts.graphs)}"
    yield ""
    yield from _codes(facts)
    yield from _buffers(facts)
    yield from _metadata(facts)
    yield from _signatures(facts)
    for number, graph in enumerate(facts.graphs):
        yield LINE
        yield f"Sub-Graph: #{number} {graph.get('name', '')}"
        yield ""
        yield from _graph(facts, graph, number)
    yield RULER


# -- the model ---------------------------------------------------------------------------------


def _codes(facts: ModelFile) -> Iterator[str]:
    from circlekit.io.schema import number_of

    yield "Operator Codes: [order] OpCodeName (OpCode Enum)"
    for index, tree in enumerate(facts.tree.get("operator_codes", ())):
        code = number_of("BuiltinOperator", facts.format, tree.get("builtin_code", 0))
        old = tree.get("deprecated_builtin_code", 0)
        version = tree.get("version", 1)
        yield f"[{index}] {facts.codes[index]} (code: {code}, dep_code: {old}, version: {version})"
    yield ""


def _buffers(facts: ModelFile) -> Iterator[str]:
    yield "Buffers: B(index) (length) values, if any"
    for index in range(len(facts.tree.get("buffers", ()))):
        data = facts.buffer(index)
        yield f"B({index}) ({len(data)}) {_bytes(data)}"
    yield ""


def _bytes(data: memoryview) -> str:
    """In hexadecimal as C++ streams have it: 00 for zero, else 0x1."""
    shown = data[:BYTES] if len(data) > FEW else data
    texts = [hex(byte) if byte else "00" for byte in shown]
    return " ".join([*texts, "..."] if len(data) > FEW else texts)


def _metadata(facts: ModelFile) -> Iterator[str]:
    from circlekit.cli.dump_metadata import metadata_lines

    if "metadata" not in facts.tree:
        return
    yield "metadata : B(index) name"
    for item in facts.tree["metadata"]:
        index, name = item.get("buffer", 0), item.get("name", "")
        yield f"B({index}) {name}"
        yield from metadata_lines(name, bytes(facts.buffer(index)))
    yield ""


def _signatures(facts: ModelFile) -> Iterator[str]:
    if "signature_defs" not in facts.tree:
        return
    yield "SignatureDef"
    for index, tree in enumerate(facts.tree["signature_defs"]):
        graph = tree.get("subgraph_index", 0)
        yield f"S({index}) signature_key({tree.get('signature_key', '')}), sub_graph({graph})"
        for letter, side in (("I", "inputs"), ("O", "outputs")):
            for place, port in enumerate(tree.get(side, ())):
                tensor = port.get("tensor_index", 0)
                yield f"    {letter}({place}) T({graph}:{tensor}) {port.get('name', '')}"
    yield ""


# -- a graph -----------------------------------------------------------------------------------


def _graph(facts: ModelFile, graph: Tree, number: int) -> Iterator[str]:
    from circlekit.cli.dump_options import option_line
    from circlekit.recipes.model_file import name_of

    tensors = graph.get("tensors", ())

    def port(letter: str, index: int) -> str:
        name = name_of(tensors[index]) if 0 <= index < len(tensors) else ""
        return f"{letter} T({number}:{index}) {name}"

    if facts.format == "circle":
        yield "Data Format:"
        yield DATA_FORMATS.get(graph.get("data_format", "CHANNELS_LAST"), "")
        yield ""
    yield (
        "Operands: T(subgraph index : tensor index) TYPE (shape) (shape_signature) "
        "B(buffer index) (variable) OperandName"
    )
    for index, tensor in enumerate(tensors):
        yield from _tensor(tensor, f"T({number}:{index})")
    yield "Operators: O(subgraph index : operator index) OpCodeName "
    yield "    Option(values) ... <-- depending on OpCode"
    yield "    I T(tensor index) OperandName <-- as input"
    yield "    O T(tensor index) OperandName <-- as output"
    for index, op in enumerate(graph.get("operators", ())):
        yield f"O({number}:{index}) {facts.code_of(op)} "
        yield from option_line(op, facts.format)
        yield from (f"    {port('I', i)}" for i in op.get("inputs", ()))
        yield from (f"    {port('O', i)}" for i in op.get("outputs", ()))
    yield ""
    yield "Inputs/Outputs: I(input)/O(output) T(tensor index) OperandName"
    yield from (port("I", i) for i in graph.get("inputs", ()))
    yield from (port("O", i) for i in graph.get("outputs", ()))
    yield ""


def _tensor(tensor: Tree, label: str) -> Iterator[str]:
    from circlekit.recipes.model_file import name_of

    shape = [int(d) for d in tensor.get("shape", (-1,))]
    parts = [f"({_listed(shape)})"]
    if "shape_signature" in tensor:
        parts.append(f"({_listed(int(d) for d in tensor['shape_signature'])})")
    parts.append(f"B({tensor.get('buffer', 0)})")
    if tensor.get("is_variable", False):
        parts.append("(variable)")
    yield f"{label} {tensor.get('type', 'FLOAT32')} {' '.join(parts)} {name_of(tensor)}"
    yield from _quantization(tensor.get("quantization", {}))
    yield from _sparsity(tensor.get("sparsity", {}))
    yield ""


def _listed(numbers: Any) -> str:
    return ", ".join(map(str, numbers))


def _vector(vector: Any) -> str:
    """Up to four elements; floats with six digits."""
    texts = [f"{x:.6g}" if isinstance(x, float) else str(x) for x in vector[:FEW].tolist()]
    return ", ".join(texts) if len(vector) <= FEW else f"({len(vector)}) {', '.join(texts)} ... "


QUANTIZATION = {"min": "min", "max": "max", "scale": "scale", "zero_point": "zeropt"}


def _quantization(tree: Tree) -> Iterator[str]:
    if not ({"min", "max"} <= tree.keys() or {"scale", "zero_point"} <= tree.keys()):
        return
    line = "    Quantization: "
    indent = " " * len(line)
    for name, label in QUANTIZATION.items():
        if name in tree:
            line += f"{label}({_vector(tree[name])}) "
            if len(tree[name]) > 1:
                yield line
                line = indent
    yield f"{line}quantized_dimension({tree.get('quantized_dimension', 0)})"


def _sparsity(tree: Tree) -> Iterator[str]:
    line = "    Sparsity: "
    indent = " " * len(line)
    for name in ("traversal_order", "block_map"):
        if name in tree:
            yield f"{line}{name}({_vector(tree[name])}) "
            line = indent
    for index, dimension in enumerate(tree.get("dim_metadata", ())):
        line += f"dim_metadata[{index}]: "
        inner = " " * len(line)
        for item in _dimension(dimension):
            yield line + item
            line = inner
        line = indent


def _dimension(tree: Tree) -> Iterator[str]:
    yield f"format({tree.get('format', 'DENSE')}) "
    yield f"dense_size({tree.get('dense_size', 0)}) "
    for name in ("array_segments", "array_indices"):
        union = tree.get(name, {"": "NONE"})
        yield f"{name}_type({union['']}) "
        yield f"{name}({_vector(union['values']) if 'values' in union else ''})"
