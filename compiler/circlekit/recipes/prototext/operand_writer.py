# SPDX-License-Identifier: Apache-2.0
"""Write tensors of the schema's tree as operands of ``test.recipe``, with the fillers of their constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.io.schema import Tree
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Array
from circlekit.recipes.prototext import operator_names as operators
from circlekit.recipes.prototext.filler_selection import Filling, Keep, filling, gaussian
from circlekit.recipes.prototext.message_types import INDEX_VECTORS, message_type, schema_defaults
from circlekit.recipes.prototext.prototext_parser import FieldType, MessageType
from circlekit.recipes.prototext.prototext_writer import Block
from circlekit.recipes.prototext.sparse_constants import stored_count

_DETAILS = {
    "CustomQuantization": "custom",
    "BlockwiseQuantization": "blockwise",
    "MultiAxisQuantization": "multi_axis",
}


class OperandWriter:
    """Makes the text of operands.

    keep: Puts large constants into files; None writes them into the recipe.
    resample: Write large constants as gaussian fillers.
    far: Whether the file has external data.
    fills: Fillers of the buffers so far.
    """

    def __init__(self, tree: Tree, data: memoryview, fmt: str, keep: Keep | None, resample: bool) -> None:
        self.data = data
        self.format = fmt
        self.keep = keep
        self.resample = resample
        self.far = False
        self.buffers = [self.buffer(b) for b in tree.get("buffers", ())]
        self.fills: dict[tuple[int, str, int | None], Filling] = {}

    def buffer(self, tree: Tree) -> Array | None:
        """Return the bytes of a buffer, in the flatbuffer or external; None if it has no data."""
        data: Array | None = tree.get("data")
        if tree.get("offset", 0) > 1:
            self.far = True
            data = np.frombuffer(self.data, np.uint8, tree.get("size", 0), tree["offset"])
        return data if data is not None and len(data) else None

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

    def table(self, tree: Tree, type_: MessageType) -> Block:
        """Return the text of a table of the schema: the fields that differ from a recipe's defaults."""
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
                value = schema_defaults(type_.name, self.format).get(stored) if value is None else value
                if value is not None and not _same(value, spec.default):
                    out.add(name, value, word=spec.kind == "enum")
        return out

    def preferred(self, type_: MessageType) -> Sequence[tuple[str, FieldType]]:
        """Return the fields; in a recipe of circle, circle's own names of fields come first."""
        fields = list(type_.fields.items())
        aliases = {*operators.ALIASES.values()} if self.format == "circle" else set()
        return sorted(fields, key=lambda field: field[0] not in aliases) if aliases else fields


def _as_list(value: Any, repeated: bool) -> list[Any]:
    if value is None:
        return []
    return list(value) if repeated else [value]


def _same(value: Any, default: Any) -> bool:
    """Return whether a field has its default; floats are compared as float32, bit for bit."""
    if isinstance(value, float) and isinstance(default, int | float):
        return bool(np.float32(value).tobytes() == np.float32(default).tobytes())
    return bool(value == default)
