# SPDX-License-Identifier: Apache-2.0
"""Write protobuf text, and tensors of the schema tree as operands of ``test.recipe`` with fillers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.io.schema import Tree
from circlekit.ir.dtypes import DType
from circlekit.ir.text.literal_printing import format_float32
from circlekit.ir.value import Array
from circlekit.recipes.prototext.filler_data import stored_count
from circlekit.recipes.prototext.filler_selection import Filling, Keep, filling, gaussian
from circlekit.recipes.prototext.message_types import (
    ALIASES,
    INDEX_VECTORS,
    message_type,
    schema_defaults,
)
from circlekit.recipes.prototext.prototext_parser import MessageType

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Block:
    """The lines of a message; callers may leave out an empty one."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, name: str, *values: str | int | float | bool, word: bool = False) -> None:
        """Add the field once for each value.  ``word``: texts are enum values, without quotes."""
        self.lines += [f"{name}: {_scalar(v, word)}" for v in values]

    def vector(self, name: str, values: Sequence[str | int | float | bool], word: bool = False) -> None:
        """Add a repeated field, which is written even without values."""
        self.add(name, *values, word=word)
        if not len(values):
            self.lines.append(f"{name}: []")

    def row(self, name: str, field: str, values: Iterable[int]) -> None:
        """Add a message of one repeated field, in one line."""
        inner = "".join(f" {field}: {v}" for v in values)
        self.lines.append(f"{name} {{{inner} }}")

    def message(self, name: str, block: Block) -> None:
        if not block.lines:
            self.lines.append(f"{name} {{ }}")
            return
        self.lines += [f"{name} {{", *(f"  {line}" for line in block.lines), "}"]

    def text(self) -> str:
        return "\n".join([*self.lines, ""])


def _scalar(value: str | int | float | bool, word: bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float32(value)
    if isinstance(value, int):
        return str(value)
    return value if word else quoted_text(value)


def quoted_text(text: str) -> str:
    """Return a quoted string; control characters and bytes that are not UTF-8 become octal escapes."""
    return '"' + "".join(map(_character, text)) + '"'


def _character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


_DETAILS = {
    "CustomQuantization": "custom",
    "BlockwiseQuantization": "blockwise",
    "MultiAxisQuantization": "multi_axis",
}


class OperandWriter:
    """Makes the text of operands.

    keep: Puts large constants into files; None writes them into the recipe.
    resample: Write large constants as gaussian fillers.
    far: Whether the file stores constants behind the flatbuffer (external data).
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
            raise UnsupportedError(f"%{name}: a recipe cannot express external_buffer")
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
        fields = list(type_.fields.items())
        if self.format == "circle":  # circle's own names of fields come first
            fields.sort(key=lambda item: item[0] not in ALIASES.values())
        for name, spec in fields:
            stored = spec.stored
            value = tree.get(stored)
            if stored in written:
                continue
            written.add(stored)
            if spec.kind == "message":
                assert spec.message is not None
                items = [] if value is None else value if spec.repeated else [value]
                for item in items:
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


def _same(value: Any, default: Any) -> bool:
    """Return whether a field has its default; floats are compared as float32, bit for bit."""
    if isinstance(value, float) and isinstance(default, int | float):
        return bool(np.float32(value).tobytes() == np.float32(default).tobytes())
    return bool(value == default)
