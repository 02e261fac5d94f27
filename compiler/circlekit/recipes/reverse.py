# SPDX-License-Identifier: Apache-2.0
"""The schema's tree -> ``test.recipe``: what ``cook`` makes of the text is an equal model."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.io.flexbuffers import flexbuffer_map
from circlekit.io.load_ops import code_key
from circlekit.io.schema import Tree
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Array
from circlekit.recipes import operators
from circlekit.recipes.keep import Filling, Keep, filling, gaussian
from circlekit.recipes.messages import INDEX_VECTORS, message_type, schema_defaults
from circlekit.recipes.prototext import FieldType, MessageType
from circlekit.recipes.prototext_writer import Block
from circlekit.recipes.sparse import stored_count

VERSIONS = {"tflite": 3, "circle": 0}
"""Schema versions of models that a recipe describes without saying so."""

_DETAILS = {
    "CustomQuantization": "custom",
    "BlockwiseQuantization": "blockwise",
    "MultiAxisQuantization": "multi_axis",
}


def reverse_tree(
    tree: Tree, data: memoryview, fmt: str, keep: Keep | None = None, resample: bool = False
) -> str:
    """The text of a decoded file.

    ``data``: the file, for what lies behind the flatbuffer.  ``keep``: where large constants go; without it
    they are in the text, in base64.  ``resample``: large constants become normal numbers of the same mean
    and deviation, and the model another one.  UnsupportedError for what no recipe can say.
    """
    return Reverse(tree, data, fmt, keep, resample).recipe().text()


class Reverse:
    """One run over one decoded file."""

    def __init__(self, tree: Tree, data: memoryview, fmt: str, keep: Keep | None, resample: bool) -> None:
        self.tree = tree
        self.data = data
        self.format = fmt
        self.keep = keep
        self.resample = resample
        self.far = False
        self.buffers = [self.buffer(b) for b in tree.get("buffers", ())]
        self.codes = [code_key(code, fmt) for code in tree.get("operator_codes", ())]
        self.fills: dict[tuple[int, str, int | None], Filling] = {}
        self.names: list[list[str]] = []

    def buffer(self, tree: Tree) -> Array | None:
        """The bytes of a buffer, inside the flatbuffer or behind it; None for none."""
        data: Array | None = tree.get("data")
        if tree.get("offset", 0) > 1:
            self.far = True
            data = np.frombuffer(self.data, np.uint8, tree.get("size", 0), tree["offset"])
        return data if data is not None and len(data) else None

    # -- the whole -----------------------------------------------------------------------------

    def recipe(self) -> Block:
        graphs = self.tree["subgraphs"]
        self.names = [_unique(graph.get("tensors", ())) for graph in graphs]
        out = Block()
        for number, graph in enumerate(graphs[1:], 1):
            inner = Block()
            self.graph(inner, graph, number)
            out.message("graph", inner)
        self.graph(out, graphs[0], 0)
        for signature in self.tree.get("signature_defs", ()):
            self.signature(out, signature)
        if self.far:
            out.add("ext_offset", True)
        if self.tree.get("version", 0) != VERSIONS[self.format]:
            out.add("model_version", self.tree.get("version", 0))
        if self.tree.get("description") is not None:
            out.add("description", self.tree["description"])
        if len({key[:2] for key in self.used()}) < len(self.used()):
            out.add("keep_versions", True)
        for item in self.tree.get("metadata", ()):
            self.metadata(out, item)
        return out

    def used(self) -> set[tuple[str, str | None, int]]:
        operators = (op for graph in self.tree["subgraphs"] for op in graph.get("operators", ()))
        return {self.codes[op.get("opcode_index", 0)] for op in operators}

    def metadata(self, out: Block, item: Tree) -> None:
        block = Block()
        block.add("name", item.get("name", ""))
        data = self.buffers[item.get("buffer", 0)]
        text = b"" if data is None else data.tobytes()
        try:
            block.add("data", text.decode())
        except UnicodeDecodeError:
            block.add("base64", base64.b64encode(text).decode("ascii"))
        out.message("metadata", block)

    def signature(self, out: Block, tree: Tree) -> None:
        block = Block()
        graph = tree.get("subgraph_index", 0)
        for side in ("inputs", "outputs"):
            for item in tree.get(side, ()):
                port = Block()
                port.add("name", item.get("name", ""))
                port.add("tensor", self.names[graph][item.get("tensor_index", 0)])
                block.message(side, port)
        block.add("signature_key", tree.get("signature_key", ""))
        block.add("subgraph_index", graph)
        out.message("signature_def", block)

    # -- graphs --------------------------------------------------------------------------------

    def graph(self, out: Block, tree: Tree, number: int) -> None:
        names = self.names[number]
        for tensor, name in zip(tree.get("tensors", ()), names, strict=True):
            out.message("operand", self.operand(tensor, name))
        for op in tree.get("operators", ()):
            out.message("operation", self.operation(op, names))
        for side in ("input", "output"):
            out.add(side, *(names[i] for i in tree.get(side + "s", ())))
        out.add("name", tree.get("name", ""))
        if "data_format" in tree:
            out.add("data_format", tree["data_format"], word=True)
        if "debug_metadata_index" in tree:
            out.add("debug_metadata_index", tree["debug_metadata_index"])

    # -- operands ------------------------------------------------------------------------------

    def operand(self, tree: Tree, name: str) -> Block:
        out = Block()
        out.add("name", name)
        if tree.get("name", "") != name:
            out.add("named", tree.get("name", ""))
        out.add("type", tree.get("type", "FLOAT32"), word=True)
        if "shape" in tree:
            out.row("shape", "dim", tree["shape"].tolist())
        if tree.get("external_buffer"):
            raise UnsupportedError(f"%{name}: a recipe cannot say external_buffer")
        data = self.buffers[tree.get("buffer", 0)]
        if data is not None:
            self.filler(out, tree, data, name)
        if "quantization" in tree:
            self.quantization(out, tree["quantization"])
        if "sparsity" in tree:
            out.message("sparsity", self.sparsity(tree["sparsity"]))
        if tree.get("is_variable"):
            out.add("is_variable", True)
        if "shape_signature" in tree:
            out.row("shape_signature", "dim", tree["shape_signature"].tolist())
        for field in ("has_rank", "compression_type"):
            if field in tree:
                out.add(field, tree[field], word=True)
        for variant in tree.get("variant_tensors", ()):
            out.message("variant_tensors", self.variant(variant))
        return out

    def filler(self, out: Block, tree: Tree, data: Array, name: str) -> None:
        dtype = DType[tree.get("type", "FLOAT32")]
        count: int | None = prod(tree["shape"].tolist()) if "shape" in tree else None
        if "sparsity" in tree:
            count = stored_count({"dim_metadata": self.dimensions(tree["sparsity"])})
        key = (tree.get("buffer", 0), dtype.name, count)
        found = self.fills.get(key)
        if found is None:
            found = gaussian(data, dtype, name, count) if self.resample else None
            found = found or filling(data, dtype, name, count, self.keep)
            if found.tag != "gaussian":
                self.fills[key] = found
        block = Block()
        block.add("tag", found.tag)
        block.add("arg", *found.args)
        out.message("filler", block)

    def quantization(self, out: Block, tree: Tree) -> None:
        details: Tree = tree.get("details") or {}
        kind = details.get("", "")
        vectors = {n: tree[n].tolist() for n in ("min", "max", "scale", "zero_point") if n in tree}
        if kind == "MXQuantization":
            out.row("mx_quant", "axis", [details.get("axis", 0)])
            if not vectors:
                return
        block = Block()
        for name, values in vectors.items():
            block.vector(name, values)
        if tree.get("quantized_dimension"):
            block.add("quantized_dimension", tree["quantized_dimension"])
        if kind in _DETAILS:
            block.message(_DETAILS[kind], self.table(details, message_type(kind, self.format)))
        out.message("quant", block)

    @staticmethod
    def dimensions(tree: Tree) -> list[Tree]:
        return [{"format": "DENSE", "dense_size": 0, **d} for d in tree.get("dim_metadata", ())]

    def sparsity(self, tree: Tree) -> Block:
        out = Block()
        for name in ("traversal_order", "block_map"):
            if name in tree:
                out.row(name, "dim", tree[name].tolist())
        words = {table: word for word, table in INDEX_VECTORS.items()}
        for item in self.dimensions(tree):
            block = Block()
            block.add("format", item["format"], word=True)
            block.add("dense_size", item["dense_size"])
            for name in ("array_segments", "array_indices"):
                if name in item:
                    vector = Block()
                    vector.add("dim", *item[name].get("values", np.zeros(0, int)).tolist())
                    vector.add("type", words[item[name][""]], word=True)
                    block.message(name, vector)
            out.message("dim_metadata", block)
        return out

    def variant(self, tree: Tree) -> Block:
        out = Block()
        out.add("type", tree.get("type", "FLOAT32"), word=True)
        if "shape" in tree:
            out.row("shape", "dim", tree["shape"].tolist())
        if tree.get("has_rank"):
            out.add("has_rank", True)
        return out

    # -- operations ----------------------------------------------------------------------------

    def operation(self, tree: Tree, names: list[str]) -> Block:
        code, custom, version = self.codes[tree.get("opcode_index", 0)]
        out = Block()
        out.add("type", operators.type_of(code))
        for field in ("input", "output", "intermediate"):
            operands = [names[i] if i >= 0 else "" for i in tree.get(field + "s", ())]
            if field == "intermediate" and "intermediates" in tree:
                out.vector(field, operands)
            else:
                out.add(field, *operands)
        if version != 1:
            out.add("version", version)
        if custom is not None:
            out.add("custom_code", custom)
        if code == "CUSTOM":
            self.custom_options(out, tree, custom or "")
        else:
            self.options(out, tree, code)
        if "mutating_variable_inputs" in tree:
            out.vector("mutating_variable_inputs", [bool(x) for x in tree["mutating_variable_inputs"]])
        if "debug_metadata_index" in tree:
            out.add("debug_metadata_index", tree["debug_metadata_index"])
        return out

    def options(self, out: Block, tree: Tree, code: str) -> None:
        options = tree.get("builtin_options") or tree.get("builtin_options_2")
        table = operators.option_table(code)
        if options is None:
            if table is not None:
                out.add("no_options", True)
            return
        if options[""] != table:
            raise UnsupportedError(f"a recipe cannot say that {code} has the options {options['']}")
        block = self.table(options, message_type(options[""], self.format))
        if block.lines:
            out.message(operators.option_field(code), block)

    def custom_options(self, out: Block, tree: Tree, custom: str) -> None:
        data: Any = tree.get("custom_options")
        if tree.get("large_custom_options_offset", 0) > 1:
            start = tree["large_custom_options_offset"]
            data = self.data[start : start + tree.get("large_custom_options_size", 0)]
        stored = b"" if data is None else bytes(data)
        if stored == self.default_options(custom):
            return
        if stored:
            out.add("custom_options", base64.b64encode(stored).decode("ascii"))
        else:
            out.add("no_options", True)

    def default_options(self, custom: str) -> bytes:
        """What a recipe gives this custom operator when it says nothing."""
        if custom not in operators.CUSTOM:
            return b""
        field, entries = operators.CUSTOM[custom]
        type_ = message_type("Operation", self.format).fields[field].message if field else None
        fields: Mapping[str, FieldType] = type_().fields if type_ is not None else {}
        return flexbuffer_map(entries({spec.stored or name: spec.default for name, spec in fields.items()}))

    def table(self, tree: Tree, type_: MessageType) -> Block:
        """A table of the schema: what differs from what a recipe means without saying it."""
        out = Block()
        written: set[str] = set()
        for name, spec in self.preferred(type_):
            stored = spec.stored
            value = tree.get(stored)
            if stored in written:
                continue
            written.add(stored)
            if spec.kind == "message":
                for item in _as_list(value, spec.repeated):
                    assert spec.message is not None
                    out.message(name, self.table(item, spec.message()))
            elif spec.repeated:
                if value is not None:
                    values = value.tolist() if isinstance(value, np.ndarray) else value
                    out.vector(name, values, word=spec.kind == "enum")
            else:
                value = schema_defaults(type_.name, self.format)[stored] if value is None else value
                if value is not None and not _same(value, spec.default):
                    out.add(name, value, word=spec.kind == "enum")
        return out

    def preferred(self, type_: MessageType) -> Sequence[tuple[str, FieldType]]:
        """The fields; circle's names of them before the others in a recipe of circle."""
        fields = list(type_.fields.items())
        aliases = {*operators.ALIASES.values()} if self.format == "circle" else set()
        return sorted(fields, key=lambda field: field[0] not in aliases) if aliases else fields


def _as_list(value: Any, repeated: bool) -> list[Any]:
    if value is None:
        return []
    return list(value) if repeated else [value]


def _same(value: Any, default: Any) -> bool:
    """Whether a field may be left out: floats are compared as the file has them."""
    if isinstance(value, float) and isinstance(default, int | float):
        return bool(np.float32(value).tobytes() == np.float32(default).tobytes())
    return bool(value == default)


def _unique(tensors: Sequence[Tree]) -> list[str]:
    """A name for every tensor: its own if no other has it before, else one with a number."""
    given = [tensor.get("name", "") for tensor in tensors]
    taken = set(given)
    seen: set[str] = set()
    names = []
    counts: dict[str, int] = {}
    for index, name in enumerate(given):
        label = name
        if not name or name in seen:
            base = name or f"tensor_{index}"
            label = base
            while label in taken:
                counts[base] = counts.get(base, 0) + 1
                label = f"{base}_{counts[base]}"
        seen.add(label)
        taken.add(label)
        names.append(label)
    return names
