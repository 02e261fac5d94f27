# SPDX-License-Identifier: Apache-2.0
"""Write a decoded model file as ``test.recipe``.

From this recipe, ``recipe_reader`` makes an equal model, unless constants are resampled.

A model file consists of tables (Tensor, Operator, ...), a recipe of messages (Operand, Operation, ...).  The
tree of a table or message is a dict {field: value}; in the value of a union, the key "" names the table.  The
tree of a table has only the fields that the file has; for others, ``tree.get(field, default)`` gives the
default of the schema.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from math import prod
from typing import Any

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.io.operator_fields import code_key
from circlekit.io.schema import Tree
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Array
from circlekit.recipes.prototext.filler_data import Folder, filler_of, stored_count
from circlekit.recipes.prototext.message_types import (
    CUSTOM,
    INDEX_VECTORS,
    VERSIONS,
    custom_options,
    option_field,
    option_table,
    type_of,
)
from circlekit.recipes.prototext.protobuf_text import format_recipe

_DETAILS = {
    "CustomQuantization": "custom",
    "BlockwiseQuantization": "blockwise",
    "MultiAxisQuantization": "multi_axis",
}
"""{table with details of a quantization: its field in the message Quantization}."""


def recipe_text(
    tree: Tree, data: memoryview, fmt: str, folder: Folder | None = None, resample: bool = False
) -> str:
    """Return the recipe of a decoded model file.

    ``tree``: the table Model.  ``data``: the bytes of the file, for constants after the flatbuffer.
    ``fmt``: the format of the file, ``circle`` or ``tflite``.
    ``folder``: gets large constants as files; None: they are in the text, in base64.
    ``resample``: whether to replace large constants by random numbers of a normal distribution with the same
    mean and standard deviation.

    Raise UnsupportedError for a model that recipes cannot express.
    """
    return format_recipe(_RecipeWriter(tree, data, fmt, folder, resample).recipe(), fmt)


class _RecipeWriter:
    """Converts one decoded file to the tree of the message ModelRecipe.

    The argument ``tree`` of a method is the tree of a table of the file; the method returns the tree of a
    message of the recipe.

    ``has_external_data``: whether the file stores constants after the flatbuffer.
    ``buffers``: the bytes of each buffer; None: no data.
    ``fillers``: the messages Filler (data of a constant) made so far; the key is (index of the buffer, dtype,
    number of elements or None).
    ``codes``: (operator, custom code or None, version) of each operator code.
    ``names``: for each graph, unique names of its tensors, which recipes call operands.
    """

    def __init__(self, tree: Tree, data: memoryview, fmt: str, folder: Folder | None, resample: bool) -> None:
        self.tree = tree
        self.data = data
        self.format = fmt
        self.folder = folder
        self.resample = resample
        self.has_external_data = False
        self.buffers = [self.buffer(b) for b in tree.get("buffers", ())]
        self.fillers: dict[tuple[int, str, int | None], Tree] = {}
        self.codes = [code_key(code, fmt) for code in tree.get("operator_codes", ())]
        self.names = [_unique(graph.get("tensors", ())) for graph in tree["subgraphs"]]

    def buffer(self, tree: Tree) -> Array | None:
        """Return the bytes of a buffer, in the flatbuffer or after it; None if it has no data."""
        data: Array | None = tree.get("data")
        if tree.get("offset", 0) > 1:  # 0 and 1 mean that there is no external data
            self.has_external_data = True
            data = np.frombuffer(self.data, np.uint8, tree.get("size", 0), tree["offset"])
        return data if data is not None and len(data) else None

    # -- the model -----------------------------------------------------------------------------

    def recipe(self) -> Tree:
        """Return the message ModelRecipe."""
        tree = self.tree
        main, *others = [self.graph(g, names) for g, names in zip(tree["subgraphs"], self.names, strict=True)]
        operators = [op for g in tree["subgraphs"] for op in g.get("operators", ())]
        used = {self.codes[op.get("opcode_index", 0)] for op in operators}
        version = tree.get("version", 0)
        return main | {
            "graph": others,
            "signature_def": [self.signature(item) for item in tree.get("signature_defs", ())],
            "ext_offset": self.has_external_data,
            "model_version": version if version != VERSIONS[self.format] else None,
            "description": tree.get("description"),
            "keep_versions": len({key[:2] for key in used}) < len(used),  # an operator with two versions
            "metadata": [self.metadata(item) for item in tree.get("metadata", ())],
        }

    def metadata(self, tree: Tree) -> Tree:
        """Return a message Metadata."""
        data = self.buffers[tree.get("buffer", 0)]
        content = b"" if data is None else data.tobytes()
        out = {"name": tree.get("name", "")}
        try:
            return out | {"data": content.decode()}
        except UnicodeDecodeError:
            return out | {"base64": base64.b64encode(content).decode("ascii")}

    def signature(self, tree: Tree) -> Tree:
        """Return a message SignatureDef."""
        graph = tree.get("subgraph_index", 0)
        out: Tree = {"signature_key": tree.get("signature_key", ""), "subgraph_index": graph}
        for side in ("inputs", "outputs"):
            out[side] = [
                {"name": item.get("name", ""), "tensor": self.names[graph][item.get("tensor_index", 0)]}
                for item in tree.get(side, ())
            ]
        return out

    def graph(self, tree: Tree, names: Sequence[str]) -> Tree:
        """Return a message Graph; ``names``: the names of the graph's tensors."""
        return {
            "operand": [self.operand(t, n) for t, n in zip(tree.get("tensors", ()), names, strict=True)],
            "operation": [self.operation(op, names) for op in tree.get("operators", ())],
            "input": _operands(tree, "inputs", names) or None,
            "output": _operands(tree, "outputs", names) or None,
            "name": tree.get("name", ""),
            "data_format": tree.get("data_format"),
            "debug_metadata_index": tree.get("debug_metadata_index"),
        }

    # -- operands ------------------------------------------------------------------------------

    def operand(self, tree: Tree, name: str) -> Tree:
        """Return a message Operand with the unique name ``name``."""
        if tree.get("external_buffer"):
            raise UnsupportedError(f"%{name}: a recipe cannot express external_buffer")
        data = self.buffers[tree.get("buffer", 0)]
        out = {
            "name": name,
            "named": tree.get("name", "") if tree.get("name", "") != name else None,
            "type": tree.get("type", "FLOAT32"),
            **_shape(tree),
            "filler": None if data is None else self.filler(tree, data),
            "sparsity": self.sparsity(tree["sparsity"]) if "sparsity" in tree else None,
            "is_variable": tree.get("is_variable", False),
            "has_rank": tree.get("has_rank"),
            "compression_type": tree.get("compression_type"),
            "variant_tensors": [{"type": "FLOAT32", **item} for item in tree.get("variant_tensors", ())],
        }
        return out | (_quantization(tree["quantization"]) if "quantization" in tree else {})

    def filler(self, tree: Tree, data: Array) -> Tree:
        """Return a message Filler for a tensor with the bytes ``data``; tensors of a buffer may share it."""
        type_ = tree.get("type", "FLOAT32")
        if type_ not in DType.__members__:  # a number for which the schema has no name
            raise UnsupportedError(f"a recipe cannot express type {type_}, which TensorType lacks")
        dtype = DType[type_]
        elements: int | None = prod(tree["shape"].tolist()) if "shape" in tree else None
        if "sparsity" in tree:
            elements = stored_count({"dim_metadata": _dimensions(tree["sparsity"])})
        key = (tree.get("buffer", 0), dtype.name, elements)
        if key not in self.fillers:
            self.fillers[key] = filler_of(data, dtype, elements, self.folder, self.resample)
        return self.fillers[key]

    def sparsity(self, tree: Tree) -> Tree:
        """Return a message Sparsity."""
        words = {table: word for word, (table, _) in INDEX_VECTORS.items()}  # type in recipes, by table
        dimensions = _dimensions(tree)
        for item in dimensions:
            for name in {"array_segments", "array_indices"} & item.keys():
                vector = item[name]
                item[name] = {"dim": vector.get("values"), "type": words[vector[""]]}  # "": the table's name
        return {**tree, "dim_metadata": dimensions}

    # -- operations ----------------------------------------------------------------------------

    def operation(self, tree: Tree, names: Sequence[str]) -> Tree:
        """Return a message Operation; ``names``: the names of the graph's tensors."""
        code, custom, version = self.codes[tree.get("opcode_index", 0)]
        if code.startswith("UNKNOWN_"):
            raise UnsupportedError(f"a recipe cannot express an operator that the schema lacks, {code}")
        out: Tree = {"type": type_of(code), "version": version, "custom_code": custom}
        for field in ("input", "output"):
            out[field] = _operands(tree, field + "s", names) or None
        if "intermediates" in tree:
            out["intermediate"] = _operands(tree, "intermediates", names)
        for field in ("mutating_variable_inputs", "debug_metadata_index"):
            out[field] = tree.get(field)
        if code == "CUSTOM":
            return out | self.custom_options(tree, custom or "")
        options = tree.get("builtin_options") or tree.get("builtin_options_2")
        table = option_table(code)
        if options is None:
            return out | {"no_options": table is not None}
        if options[""] != table:
            raise UnsupportedError(f"a recipe cannot express {code} with the options {options['']}")
        return out | {option_field(code): options}

    def custom_options(self, tree: Tree, custom: str) -> Tree:
        """Return the fields of an operation for the options of the custom operator ``custom``."""
        data: Any = tree.get("custom_options")
        if tree.get("large_custom_options_offset", 0) > 1:  # 0 and 1 mean that there are no such options
            start = tree["large_custom_options_offset"]
            data = self.data[start : start + tree.get("large_custom_options_size", 0)]
        stored = None if data is None else bytes(data)
        if stored == (custom_options(custom, self.format) if custom in CUSTOM else None):
            return {}  # the reader makes these options by default
        if stored is None:
            return {"no_options": True}
        return {"custom_options": base64.b64encode(stored).decode("ascii")}


def _operands(tree: Tree, field: str, names: Sequence[str]) -> list[str]:
    """Return the names of the operands in ``field`` of ``tree``; "" for an absent operand."""
    return [names[i] if i >= 0 else "" for i in tree.get(field, ())]


def _shape(tree: Tree) -> Tree:
    """Return the fields ``shape`` and ``shape_signature`` of a message Operand for the tensor ``tree``.

    In a recipe ``shape`` has no -1; instead, it has 1 there, and ``shape_signature`` has -1.
    """
    shape, signature = tree.get("shape"), tree.get("shape_signature")
    if shape is not None and np.any(shape < 0):
        if signature is None or len(signature) != len(shape):  # readers ignore a signature of another rank
            signature = shape
        signature = np.where(shape < 0, -1, signature)
        shape = np.where(shape < 0, 1, shape)
    return {"shape": shape, "shape_signature": signature}


def _dimensions(tree: Tree) -> list[Tree]:
    """Return the tables DimensionMetadata of a table SparsityParameters, with defaults."""
    return [{"format": "DENSE", "dense_size": 0, **item} for item in tree.get("dim_metadata", ())]


def _quantization(tree: Tree) -> Tree:
    """Return the fields of a message Operand for ``tree``, the table QuantizationParameters of a tensor."""
    details: Tree = tree.get("details") or {}
    kind = details.get("", "")
    quant = {name: value for name, value in tree.items() if name != "details"}
    if kind == "MXQuantization":
        return {"mx_quant": details, "quant": quant or None}
    return {"quant": quant | ({_DETAILS[kind]: details} if kind in _DETAILS else {})}


def _unique(tensors: Sequence[Tree]) -> list[str]:
    """Return a unique name for each tensor.

    The name is the tensor's own, or ``tensor_INDEX`` if it has none; if this is taken, a number is appended.
    For tensors with the names "x", "x" and "", the result is ["x", "x_1", "tensor_2"].
    """
    own_names = [tensor.get("name", "") for tensor in tensors]
    taken, seen = set(own_names), set[str]()
    numbers: dict[str, Iterator[int]] = defaultdict(lambda: count(1))
    names = []
    for index, name in enumerate(own_names):
        base = label = name or f"tensor_{index}"
        while label in (seen if name == label else taken):  # a made name must not be any tensor's own
            label = f"{base}_{next(numbers[base])}"
        seen.add(label)
        taken.add(label)
        names.append(label)
    return names
