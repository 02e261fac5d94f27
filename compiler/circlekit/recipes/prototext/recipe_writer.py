# SPDX-License-Identifier: Apache-2.0
"""Write a decoded model file as ``test.recipe``, from which ``recipe_reader`` makes an equal model."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from circlekit.errors import UnsupportedError
from circlekit.io.operator_fields import code_key, flexbuffer_map
from circlekit.io.schema import Tree
from circlekit.recipes.prototext.filler_selection import Keep
from circlekit.recipes.prototext.message_types import (
    CUSTOM,
    message_type,
    option_field,
    option_table,
    type_of,
)
from circlekit.recipes.prototext.operand_writer import Block, OperandWriter
from circlekit.recipes.prototext.prototext_parser import FieldType

VERSIONS = {"tflite": 3, "circle": 0}
"""The schema version of a model whose recipe does not specify one, by format."""


def recipe_text(
    tree: Tree, data: memoryview, fmt: str, keep: Keep | None = None, resample: bool = False
) -> str:
    """Return the recipe of a decoded file.

    data: The file, for external data.
    keep: Puts large constants into files; without it they are in the text, in base64.
    resample: Replace large constants by normal numbers of the same mean and standard deviation.

    Raises UnsupportedError for a model that recipes cannot express.
    """
    return RecipeWriter(tree, data, fmt, keep, resample).recipe().text()


class RecipeWriter(OperandWriter):
    """Makes the text of one decoded file.  ``names``: the operands of each graph."""

    def __init__(self, tree: Tree, data: memoryview, fmt: str, keep: Keep | None, resample: bool) -> None:
        super().__init__(tree, data, fmt, keep, resample)
        self.tree = tree
        self.codes = [code_key(code, fmt) for code in tree.get("operator_codes", ())]
        self.names: list[list[str]] = []

    # -- the model -----------------------------------------------------------------------------

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
        """Return the operator codes that operators have."""
        ops = (op for graph in self.tree["subgraphs"] for op in graph.get("operators", ()))
        return {self.codes[op.get("opcode_index", 0)] for op in ops}

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

    # -- operations ----------------------------------------------------------------------------

    def operation(self, tree: Tree, names: list[str]) -> Block:
        code, custom, version = self.codes[tree.get("opcode_index", 0)]
        if code.startswith("UNKNOWN_"):
            raise UnsupportedError(f"a recipe cannot express an operator that the schema lacks, {code}")
        out = Block()
        out.add("type", type_of(code))
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
        table = option_table(code)
        if options is None:
            if table is not None:
                out.add("no_options", True)
            return
        if options[""] != table:
            raise UnsupportedError(f"a recipe cannot express {code} with the options {options['']}")
        block = self.table(options, message_type(options[""], self.format))
        if block.lines:
            out.message(option_field(code), block)

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
        """Return the custom options that the reader assumes for a recipe without options."""
        if custom not in CUSTOM:
            return b""
        field, entries = CUSTOM[custom]
        type_ = message_type("Operation", self.format).fields[field].message if field else None
        fields: Mapping[str, FieldType] = type_().fields if type_ is not None else {}
        return flexbuffer_map(entries({spec.stored or name: spec.default for name, spec in fields.items()}))


def _unique(tensors: Sequence[Tree]) -> list[str]:
    """Return a unique name for every tensor: its own, or that with a number if an earlier tensor has it."""
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
