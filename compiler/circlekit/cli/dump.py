# SPDX-License-Identifier: Apache-2.0
"""circledump and tfldump: print a whole model file as ONE's commands do, or in the text form.

A ``Tree`` is a decoded table of the file: {field: value}, without the fields that the file omits.  A union,
such as the options of an operator, holds one of several tables; its tree has the name of the table under the
key "".
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterator
from typing import Any

from circlekit.api.models import load
from circlekit.cli.arguments import Parser, input_file
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.output.operator_options import field_text, option_lines
from circlekit.cli.output.terminal import number_text
from circlekit.io.schema import Tree, number_of
from circlekit.ir.text import print_model
from circlekit.recipes.model_file import ModelFile, name_of


def metadata_lines(name: str, data: bytes) -> Iterator[str]:
    """Yield the lines for the metadata ``name`` with the content ``data``; none if ONE has no such table.

    The tables are ONE_source_table and ONE_op_table (also without ``ONE_``).  A table has the number of
    entries, then the entries.  An entry has a node id, a length N, and N units: in the source table the bytes
    of a zero-terminated text, in the op table node ids.  All numbers are little-endian uint32.
    """
    headings = {"source_table": "node_id : node_name", "op_table": "node_id : origin_ids"}
    table_name = name.removeprefix("ONE_")
    if table_name not in headings or not data:
        return
    yield f"    [{headings[table_name]}]"
    try:
        (count,) = struct.unpack_from("<I", data)
        offset = 4
        for _ in range(count):
            node_id, length = struct.unpack_from("<II", data, offset)
            is_text = table_name == "source_table"
            layout = f"<{length}{'s' if is_text else 'I'}"
            content = struct.unpack_from(layout, data, offset + 8)
            offset += 8 + struct.calcsize(layout)
            shown = content[0][:-1].decode("utf-8", "replace") if is_text else ", ".join(map(str, content))
            yield f"    [{node_id} : {shown}]"
    except struct.error:
        yield f"    (the table is truncated after {len(data)} bytes)"


RULER, LINE = "=" * 67, "-" * 67
MAX_ELEMENTS = 4
"""A vector of quantization or sparsity with more elements is printed as its length, its first MAX_ELEMENTS
elements and an ellipsis.  The vectors in options and shapes are printed whole."""

MAX_BYTES = 16
"""A buffer of more than MAX_ELEMENTS bytes is printed as its first MAX_BYTES bytes and an ellipsis."""

DATA_FORMATS = {
    "CHANNELS_LAST": "CHANNEL_LAST (NHWC for 2d, NDHWC for 3d data)",
    "CHANNELS_FIRST": "CHANNEL_FIRST (NCHW for 2d, NCDHW for 3d data)",
}
"""{data format of a circle graph in the schema: the text that ONE prints, without the S of CHANNELS}."""


def _declare(parser: Parser) -> None:
    parser.add_argument("file", type=input_file, help="the file to print; - is the standard input")
    parser.add_switch(
        "--text",
        help="print the text form, which circlekit can read in place of a model file; it is complete: large"
        " constants are in it as base64",
    )
    parser.add_switch(
        "--shorten",
        help="with --text: show only the first elements of large constants; no command can read the result",
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.text:
        print(print_model(load(arguments.file), shorten=arguments.shorten).rstrip("\n"))
        return 0
    if arguments.shorten:
        arguments.refuse("--shorten needs --text")
    for line in _dump(ModelFile(arguments.file)):
        print(line)
    return 0


circledump = Command(
    "circledump", "Print a whole model file.", "file", _declare, _run, one=OneCodes(unread=255)
)
tfldump = Command("tfldump", "Print a whole model file.", "file", _declare, _run, one=OneCodes(unread=255))


def _dump(model: ModelFile) -> Iterator[str]:
    model_version = model.tree.get("version", 0)  # decodes the file: an error comes before the first line
    yield RULER
    yield f"Model version: {model_version}"
    yield f" # sub graphs: {len(model.graphs)}"
    yield ""
    yield "Operator Codes: [order] OpCodeName (OpCode Enum)"
    for index, tree in enumerate(model.tree.get("operator_codes", ())):
        code = number_of("BuiltinOperator", model.format, tree.get("builtin_code", 0))
        old = tree.get("deprecated_builtin_code", 0)
        version = tree.get("version", 1)
        yield f"[{index}] {model.codes[index]} (code: {code}, dep_code: {old}, version: {version})"
    yield ""
    yield "Buffers: B(index) (length) values, if any"
    for index in range(len(model.tree.get("buffers", ()))):
        data = model.buffer(index)
        yield f"B({index}) ({len(data)}) {_bytes(data)}"
    yield ""
    yield from _metadata(model)
    yield from _signatures(model)
    for number, graph in enumerate(model.graphs):
        yield LINE
        yield f"Sub-Graph: #{number} {graph.get('name', '')}"
        yield ""
        yield from _graph(model, graph, number)
    yield RULER


# -- the model ---------------------------------------------------------------------------------


def _bytes(data: memoryview) -> str:
    """Return ``data``, shortened (MAX_BYTES), as C++ prints hexadecimal numbers: 00 for zero, 0x1 for one."""
    shown = data[:MAX_BYTES] if len(data) > MAX_ELEMENTS else data
    texts = [hex(byte) if byte else "00" for byte in shown]
    return " ".join([*texts, "..."] if len(data) > MAX_ELEMENTS else texts)


def _metadata(model: ModelFile) -> Iterator[str]:
    if "metadata" not in model.tree:
        return
    yield "metadata : B(index) name"
    for item in model.tree["metadata"]:
        index, name = item.get("buffer", 0), item.get("name", "")
        yield f"B({index}) {name}"
        yield from metadata_lines(name, bytes(model.buffer(index)))
    yield ""


def _signatures(model: ModelFile) -> Iterator[str]:
    if "signature_defs" not in model.tree:
        return
    yield "SignatureDef"
    for index, tree in enumerate(model.tree["signature_defs"]):
        graph = tree.get("subgraph_index", 0)
        yield f"S({index}) signature_key({tree.get('signature_key', '')}), sub_graph({graph})"
        for letter, side in (("I", "inputs"), ("O", "outputs")):
            for place, port in enumerate(tree.get(side, ())):
                tensor = port.get("tensor_index", 0)
                yield f"    {letter}({place}) T({graph}:{tensor}) {port.get('name', '')}"
    yield ""


# -- a graph -----------------------------------------------------------------------------------


def _graph(model: ModelFile, graph: Tree, number: int) -> Iterator[str]:
    tensors = graph.get("tensors", ())

    def port(letter: str, index: int) -> str:
        """Return the text for a tensor as input ("I") or output ("O"); index -1 is an absent operand."""
        name = name_of(tensors[index]) if 0 <= index < len(tensors) else ""
        return f"{letter} T({number}:{index}) {name}"

    if model.format == "circle":
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
        yield f"O({number}:{index}) {model.code_of(op)} "
        yield from option_lines(op, model.format)
        yield from (f"    {port('I', i)}" for i in op.get("inputs", ()))
        yield from (f"    {port('O', i)}" for i in op.get("outputs", ()))
    yield ""
    yield "Inputs/Outputs: I(input)/O(output) T(tensor index) OperandName"
    yield from (port("I", i) for i in graph.get("inputs", ()))
    yield from (port("O", i) for i in graph.get("outputs", ()))
    yield ""


def _tensor(tensor: Tree, label: str) -> Iterator[str]:
    parts = [f"({field_text(list(tensor.get('shape', (-1,))), False)})"]  # ONE prints a missing shape as -1
    if "shape_signature" in tensor:
        parts.append(f"({field_text(tensor['shape_signature'], False)})")
    parts.append(f"B({tensor.get('buffer', 0)})")
    if tensor.get("is_variable", False):
        parts.append("(variable)")
    yield f"{label} {tensor.get('type', 'FLOAT32')} {' '.join(parts)} {name_of(tensor)}"
    yield from _quantization(tensor.get("quantization", {}))
    yield from _sparsity(tensor.get("sparsity", {}))
    yield ""


def _vector(vector: Any) -> str:
    """Return an array as text: all elements, or the length and the first MAX_ELEMENTS of them."""
    texts = [number_text(x) for x in vector[:MAX_ELEMENTS].tolist()]
    return ", ".join(texts) if len(vector) <= MAX_ELEMENTS else f"({len(vector)}) {', '.join(texts)} ... "


QUANTIZATION = {"min": "min", "max": "max", "scale": "scale", "zero_point": "zeropt"}
"""The label that ONE prints for a field of the quantization, by the name of the field in the schema."""


def _quantization(tree: Tree) -> Iterator[str]:
    """Yield the lines on the quantization of a tensor; a line ends after a vector of several elements.

    As in ONE, a tensor has such lines if it has min and max, or scale and zero point.
    """
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
    """Yield the lines on a sparse tensor; {} for a dense one yields none."""
    line = "    Sparsity: "
    indent = " " * len(line)
    for name in ("traversal_order", "block_map"):
        if name in tree:
            yield f"{line}{name}({_vector(tree[name])}) "
            line = indent
    for index, dimension in enumerate(tree.get("dim_metadata", ())):
        line += f"dim_metadata[{index}]: "
        inner = " " * len(line)
        yield f"{line}format({dimension.get('format', 'DENSE')}) "
        yield f"{inner}dense_size({dimension.get('dense_size', 0)}) "
        for name in ("array_segments", "array_indices"):
            union = dimension.get(name, {"": "NONE"})
            yield f"{inner}{name}_type({union['']}) "
            yield f"{inner}{name}({_vector(union['values']) if 'values' in union else ''})"
        line = indent
