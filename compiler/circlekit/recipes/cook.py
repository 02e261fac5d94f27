# SPDX-License-Identifier: Apache-2.0
"""``test.recipe`` -> the schema's tree, for either format; errors point into the recipe."""

from __future__ import annotations

from math import prod
from typing import Any, NoReturn

import numpy as np

from circlekit.errors import ModelError
from circlekit.io.flexbuffers import flexbuffer_map
from circlekit.io.schema import Tree, enumeration, options_field
from circlekit.ir.dtypes import DType
from circlekit.ir.fillers import seed_of
from circlekit.ir.lexer import Token, near_miss
from circlekit.recipes import operators
from circlekit.recipes.fillers import FILLERS, Files, filled
from circlekit.recipes.messages import CIRCLE_ONLY, INDEX_VECTORS, message_type
from circlekit.recipes.prototext import Item, Message, TextSource, parse_message
from circlekit.recipes.sparse import sparse_tree, stored_count

LARGEST_DIM = 2**31 - 1
PLACEHOLDER = 127
"""What the one-byte field of an operator code holds for numbers that do not fit into it."""

Key = tuple[str, str, int]
"""Operator, custom code, version (0 where all versions of it are one)."""


def recipe_format(source: TextSource) -> str | None:
    """What the words of a recipe say of its format: circle where only that has them, else None."""
    words = (t.text for t in source.tokens if t.kind in ("name", "string"))
    return "circle" if any(word in CIRCLE_ONLY for word in words) else None


def cook(source: TextSource, fmt: str, files: Files) -> tuple[Tree, bool]:
    """The tree of the model, and whether its data is to lie behind the flatbuffer.

    ``files`` gives the bytes of a file that a filler names.
    """
    recipe = parse_message(source, message_type("ModelRecipe", fmt))
    return Cook(source, fmt, files, recipe).model(), recipe.get("ext_offset")


class Cook:
    """One run over one recipe."""

    def __init__(self, source: TextSource, fmt: str, files: Files, recipe: Message) -> None:
        self.source = source
        self.format = fmt
        self.files = files
        self.recipe = recipe
        self.graphs = [recipe, *recipe.values("graph")]
        self.types = operators.operator_types(fmt)
        self.buffers: list[Tree] = [{}]
        self.indices: list[dict[str, int]] = []
        self.codes: dict[Key, int] = {}

    def fail(self, message: str, token: Token) -> NoReturn:
        self.source.fail(message, token)

    # -- the whole -----------------------------------------------------------------------------

    def model(self) -> Tree:
        recipe = self.recipe
        codes = self.operator_codes()
        tree: Tree = {"version": recipe.get("model_version"), "description": recipe.get("description")}
        if tree["version"] is None:
            tree["version"] = 3 if self.format == "tflite" else 0
        tree["operator_codes"] = codes
        tree["subgraphs"] = [self.graph(graph, i) for i, graph in enumerate(self.graphs)]
        tree["signature_defs"] = [self.signature(s.value) for s in recipe.all("signature_def")]
        if "metadata" in recipe:
            tree["metadata"] = [self.metadata(m.value) for m in recipe.all("metadata")]
        tree["buffers"] = self.buffers
        return tree

    def metadata(self, message: Message) -> Tree:
        data = (message.get("data") or "").encode("utf-8", "surrogateescape")
        if "base64" in message:
            data = self.filler("base64", [message.get("base64")], message.place("base64"), DType.UINT8, 0, 0)
        self.buffers.append({"data": np.frombuffer(data, np.uint8)} if data else {})
        return {"name": message.get("name") or "", "buffer": len(self.buffers) - 1}

    def signature(self, message: Message) -> Tree:
        index: int = message.get("subgraph_index")
        if index >= len(self.graphs):
            self.fail(
                f"there is no graph {index}, but {len(self.graphs)} graphs", message.place("subgraph_index")
            )
        tree: Tree = {"signature_key": message.get("signature_key") or "", "subgraph_index": index}
        for side in ("inputs", "outputs"):
            tree[side] = [self.tensor_map(m.value, index) for m in message.all(side)]
        return tree

    def tensor_map(self, message: Message, graph: int) -> Tree:
        known = self.indices[graph]
        index = message.get("tensor_index")
        if "tensor" in message:
            index = self.find(message.all("tensor")[0], known, optional=False)
        elif index is None:
            self.fail("a port of a signature has a tensor or a tensor_index", message.token)
        elif index >= len(known):
            self.fail(f"there is no operand {index}, but {len(known)}", message.place("tensor_index"))
        return {"name": message.get("name") or "", "tensor_index": index}

    # -- operator codes ------------------------------------------------------------------------

    def operator_codes(self) -> list[Tree]:
        """One code for each operator, by number, custom ones last; the highest version that is asked for."""
        versions: dict[Key, int] = {}
        for graph in self.graphs:
            for operation in graph.values("operation"):
                key, version = self.key(operation), operation.get("version")
                versions[key] = max(versions.get(key, version), version)
        numbers = enumeration("BuiltinOperator", self.format).numbers
        ordered = sorted(versions, key=lambda key: (key[1] != "", numbers[key[0]], key))
        self.codes = {key: index for index, key in enumerate(ordered)}
        codes = []
        for key in ordered:
            code: Tree = {
                "deprecated_builtin_code": min(numbers[key[0]], PLACEHOLDER),
                "builtin_code": key[0],
            }
            code["version"] = versions[key]
            if key[1]:
                code["custom_code"] = key[1]
            codes.append(code)
        return codes

    def key(self, operation: Message) -> Key:
        version = operation.get("version") if self.recipe.get("keep_versions") else 0
        custom = operation.get("custom_code") or ""
        type_ = operation.get("type")
        if type_ is None:
            self.fail("an operation has a type", operation.token)
        if type_ == "Custom" or operation.get("extype") == "Custom":
            if not custom:
                self.fail("a custom operation has a custom_code", operation.place("type"))
            return "CUSTOM", custom, version
        code = self.types.get(type_)
        if code is None:
            near = near_miss(type_, [*self.types, "Custom"])
            self.fail(f"there is no operator {type_}{near}", operation.place("type"))
        return code, custom, version

    # -- graphs --------------------------------------------------------------------------------

    def graph(self, message: Message, number: int) -> Tree:
        name = message.get("name")
        if name is None:
            name = f"sub_{number}" if number else "main"
        sides = {side: [i.value for i in message.all(side)] for side in ("input", "output")}
        empty = {name: len(self.buffers) + i for i, name in enumerate(sides["input"] + sides["output"])}
        self.buffers += [{} for _ in sides["input"] + sides["output"]]
        known: dict[str, int] = {}
        tensors = []
        for item in message.all("operand"):
            self.declare(item.value, known)
            tensors.append(self.tensor(item.value, name, empty))
        self.indices.append(known)
        tree: Tree = {"tensors": tensors, "name": name}
        for side in ("input", "output"):
            tree[side + "s"] = [self.find(item, known, optional=False) for item in message.all(side)]
        self.check_interface(message, tensors, known)
        made: dict[int, Token] = {}
        tree["operators"] = [self.operator(o.value, known, made) for o in message.all("operation")]
        for field in ("data_format", "debug_metadata_index"):
            if field in message:
                tree[field] = message.get(field)
        return tree

    def declare(self, operand: Message, known: dict[str, int]) -> None:
        if "name" not in operand or "type" not in operand:
            self.fail("an operand has a name and a type", operand.token)
        name = operand.get("name")
        if name in known:
            self.fail(f"there is an operand {name} before", operand.place("name"))
        known[name] = len(known)

    def find(self, item: Item, known: dict[str, int], optional: bool) -> int:
        """Index of the operand that a field names; -1 for the empty name of one that is left out."""
        name: str = item.value
        if name in known:
            return known[name]
        if name != "" or not optional:
            self.fail(f"there is no operand {name or 'without a name'}{near_miss(name, known)}", item.token)
        return -1

    def check_interface(self, message: Message, tensors: list[Tree], known: dict[str, int]) -> None:
        for side in ("input", "output"):
            for item in message.all(side):
                buffer = self.buffers[tensors[known[item.value]]["buffer"]]
                if side == "input" and buffer.get("data") is not None:
                    self.fail(f"{item.value} has a filler: a constant is no input", item.token)

    # -- tensors -------------------------------------------------------------------------------

    def tensor(self, operand: Message, graph: str, empty: dict[str, int]) -> Tree:
        name = operand.get("name")
        dims = self.shape(operand)
        named = name if "named" not in operand else operand.get("named")
        tree: Tree = {"name": named, "type": operand.get("type"), "shape": dims}
        tree["is_variable"] = operand.get("is_variable")
        if "shape_signature" in operand:
            tree["shape_signature"] = self.shape_signature(operand, dims)
        if "quant" in operand or "mx_quant" in operand:
            tree["quantization"] = self.quantization(operand)
        if "sparsity" in operand:
            tree["sparsity"] = self.sparsity(operand.get("sparsity"))
        for field in ("has_rank", "compression_type"):
            if field in operand:
                tree[field] = operand.get(field)
        if "variant_tensors" in operand:
            tree["variant_tensors"] = [self.variant(m) for m in operand.values("variant_tensors")]
        if "filler" in operand:
            data = self.data(operand, tree, graph)
            self.buffers.append({"data": np.frombuffer(data, np.uint8)} if data else {})
            tree["buffer"] = len(self.buffers) - 1
        elif name in empty:
            tree["buffer"] = empty[name]
        else:
            self.buffers.append({})
            tree["buffer"] = len(self.buffers) - 1
        return tree

    def shape(self, message: Message) -> list[int] | None:
        if "shape" not in message:
            return None
        for item in message.get("shape").all("dim"):
            if item.value > LARGEST_DIM:
                self.fail(f"a dimension is at most {LARGEST_DIM}, not {item.value}", item.token)
        dims: list[int] = message.get("shape").values("dim")
        return dims

    def shape_signature(self, operand: Message, dims: list[int] | None) -> list[int]:
        signature: list[int] = operand.get("shape_signature").values("dim")
        if signature and len(signature) != len(dims or ()):
            self.fail(
                f"the signature has {len(signature)} dimensions, the shape {len(dims or ())}",
                operand.place("shape_signature"),
            )
        return signature

    def quantization(self, operand: Message) -> Tree:
        tree: Tree = {}
        if "quant" in operand:
            quant = operand.get("quant")
            vectors = ("min", "max", "scale", "zero_point")
            tree = {name: quant.values(name) for name in vectors if name in quant}
            tree["quantized_dimension"] = quant.get("quantized_dimension")
            for name in ("custom", "blockwise", "multi_axis"):
                if name in quant:
                    tree["details"] = self.table(quant.get(name))
        if "mx_quant" in operand:
            tree["details"] = self.table(operand.get("mx_quant"))
        return tree

    def variant(self, message: Message) -> Tree:
        return {
            "type": message.get("type"), "shape": self.shape(message), "has_rank": message.get("has_rank")
        }  # fmt: skip

    def sparsity(self, message: Message) -> Tree:
        tree: Tree = {}
        for name in ("traversal_order", "block_map"):
            tree[name] = message.get(name).values("dim") if name in message else []
        tree["dim_metadata"] = [self.dimension(m) for m in message.values("dim_metadata")]
        return tree

    def dimension(self, message: Message) -> Tree:
        tree: Tree = {
            "format": message.get("format") or "DENSE",
            "dense_size": message.get("dense_size") or 0,
        }
        for name in ("array_segments", "array_indices"):
            vector = message.get(name)
            if vector is None or vector.get("type") not in INDEX_VECTORS:
                continue
            values = np.array(vector.values("dim"), np.int64)
            top = {"INT32VEC": 2**31, "UINT16VEC": 2**16, "UINT8VEC": 2**8}[vector.get("type")]
            if values.size and not 0 <= values.min() <= values.max() < top:
                self.fail(f"an index is from 0 to {top - 1}", vector.token)
            tree[name] = {"": INDEX_VECTORS[vector.get("type")], "values": values}
        return tree

    # -- constants -----------------------------------------------------------------------------

    def data(self, operand: Message, tree: Tree, graph: str) -> bytes:
        """The bytes of a constant; a sparse one is told apart in ``tree``."""
        filler = operand.get("filler")
        dtype = DType[tree["type"]]
        args = filler.values("arg")
        count = prod(tree["shape"]) if tree["shape"] is not None else len(args)
        if "sparsity" in tree:
            count = stored_count(tree["sparsity"])
        tag = filler.get("tag")
        if tag is None:
            self.fail("a filler has a tag", filler.token)
        seed = seed_of(graph, operand.get("name"))
        data = self.filler(tag, args, filler.place("tag"), dtype, count, seed)
        if not operand.get("make_sparse"):
            return data
        if "sparsity" in tree or not tree["shape"] or dtype not in (DType.FLOAT32, DType.FLOAT16):
            self.fail(
                "only FLOAT32 and FLOAT16 of rank 1 and more can be made sparse", operand.place("make_sparse")
            )
        tree["sparsity"], data = sparse_tree(np.frombuffer(data, dtype.numpy).reshape(tree["shape"]))
        return data

    def filler(self, tag: str, args: list[str], at: Token, dtype: DType, count: int, seed: int) -> bytes:
        if tag not in FILLERS:
            near = near_miss(tag, FILLERS) or f"; there are {', '.join(FILLERS)}"
            self.fail(f"there is no filler {tag}{near}", at)
        try:
            return filled(tag, args, dtype, count, seed, self.files)
        except ModelError as error:
            self.fail(error.message, at)

    # -- operators -----------------------------------------------------------------------------

    def operator(self, operation: Message, known: dict[str, int], made: dict[int, Token]) -> Tree:
        key = self.key(operation)
        tree: Tree = {"opcode_index": self.codes[key]}
        tree["inputs"] = [self.find(item, known, optional=True) for item in operation.all("input")]
        tree["outputs"] = [self.find(item, known, optional=False) for item in operation.all("output")]
        for index, item in zip(tree["outputs"], operation.all("output"), strict=True):
            if index in made:
                self.fail(f"{item.value} is the result of an operation before", item.token)
            made[index] = item.token
        if "intermediate" in operation:
            tree["intermediates"] = [
                self.find(i, known, optional=True) for i in operation.all("intermediate")
            ]
        if "mutating_variable_inputs" in operation:
            tree["mutating_variable_inputs"] = operation.values("mutating_variable_inputs")
        if "debug_metadata_index" in operation:
            tree["debug_metadata_index"] = operation.get("debug_metadata_index")
        if key[0] == "CUSTOM":
            tree |= self.custom_options(operation, key[1])
        elif not operation.get("no_options"):
            tree |= self.options(operation, key[0])
        return tree

    def options(self, operation: Message, code: str) -> Tree:
        """The options of a built-in operator: its own field, or the defaults."""
        name = operators.option_table(code)
        union = None if name is None else options_field(name)
        if name is None or union is None:
            return {}
        field = operators.option_field(code)
        message = (
            operation.get(field)
            if field in operation
            else Message(message_type(name, self.format), operation.token)
        )
        options = self.table(message)
        for key in options:
            if key.endswith("_subgraph_index") and options[key] >= len(self.graphs):
                self.fail(f"there is no graph {options[key]}, but {len(self.graphs)} graphs", message.token)
        return {union: options}

    def table(self, message: Message) -> Tree:
        """A message whose type is a table of the schema."""
        tree: Tree = {"": message.type.name}
        for name, spec in message.type.fields.items():
            stored = spec.stored or name
            if stored in tree and name not in message:
                continue  # an alias of a field that was there
            if spec.kind == "message":
                found = [self.table(m) for m in message.values(name)]
                value: Any = found if spec.repeated else next(iter(found), None)
            else:
                value = message.values(name) if spec.repeated else message.get(name)
            if value is not None and (name in message or not spec.repeated):
                tree[stored] = value
        return tree

    def custom_options(self, operation: Message, custom_code: str) -> Tree:
        data = b""
        if "custom_options" in operation:
            at = operation.place("custom_options")
            data = self.filler("base64", [operation.get("custom_options")], at, DType.UINT8, 0, 0)
        elif custom_code in operators.CUSTOM and not operation.get("no_options"):
            field, entries = operators.CUSTOM[custom_code]
            options: Tree = {}
            if field:
                given = operation.get(field) if field in operation else None
                type_ = operation.type.fields[field].message
                assert type_ is not None  # options are messages
                options = self.table(given or Message(type_(), operation.token))
            data = flexbuffer_map(entries(options))
        return {"custom_options": np.frombuffer(data, np.uint8)} if data else {}
