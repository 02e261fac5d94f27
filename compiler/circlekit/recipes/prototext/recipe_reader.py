# SPDX-License-Identifier: Apache-2.0
"""Read ``test.recipe`` as a tree of the schema, for circle or TFLite; errors show the place in the recipe."""

from __future__ import annotations

import numpy as np

from circlekit.errors import near_miss
from circlekit.io.operator_fields import PLACEHOLDER, flexbuffer_map
from circlekit.io.schema import Tree, enumeration, options_field
from circlekit.ir.dtypes import DType
from circlekit.ir.text.lexer import Token
from circlekit.recipes.prototext.filler_data import Files
from circlekit.recipes.prototext.message_types import (
    CIRCLE_ONLY,
    CUSTOM,
    message_type,
    operator_types,
    option_field,
    option_table,
)
from circlekit.recipes.prototext.operand_reader import OperandReader
from circlekit.recipes.prototext.prototext_parser import Item, Message, TextSource, parse_message

Key = tuple[str, str, int]
"""Operator, custom code, version (0 if all versions share a code)."""


def recipe_format(source: TextSource) -> str | None:
    """Return "circle" if the recipe has words that only circle has, else None."""
    words = (t.text for t in source.tokens if t.kind in ("name", "string"))
    return "circle" if any(word in CIRCLE_ONLY for word in words) else None


def read_tree(source: TextSource, fmt: str, files: Files) -> tuple[Tree, bool]:
    """Return the tree of the model, and whether its constants are to be external data.

    ``files`` returns the content of a file that a filler names.
    """
    recipe = parse_message(source, message_type("ModelRecipe", fmt))
    return RecipeReader(source, fmt, files, recipe).model(), recipe.get("ext_offset")


class RecipeReader(OperandReader):
    """Makes the tree of one recipe.

    types: Code of the schema for every type of operator.
    indices: Index of each operand, by name, for each graph.
    codes: Index of each operator code.
    """

    def __init__(self, source: TextSource, fmt: str, files: Files, recipe: Message) -> None:
        super().__init__(source, files)
        self.format = fmt
        self.recipe = recipe
        self.graphs = [recipe, *recipe.values("graph")]
        self.types = operator_types(fmt)
        self.indices: list[dict[str, int]] = []
        self.codes: dict[Key, int] = {}

    # -- the model -----------------------------------------------------------------------------

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
            self.fail(self.no_graph(index), message.place("subgraph_index"))
        tree: Tree = {"signature_key": message.get("signature_key") or "", "subgraph_index": index}
        for side in ("inputs", "outputs"):
            tree[side] = [self.tensor_map(m.value, index) for m in message.all(side)]
        return tree

    def no_graph(self, index: int) -> str:
        return f"expected an index of one of the {len(self.graphs)} graphs, got {index}"

    def tensor_map(self, message: Message, graph: int) -> Tree:
        known = self.indices[graph]
        index = message.get("tensor_index")
        if "tensor" in message:
            index = self.find(message.all("tensor")[0], known, optional=False)
        elif index is None:
            self.fail("expected a tensor or a tensor_index in the signature's port", message.token)
        elif index >= len(known):
            sentence = f"expected an index of one of the {len(known)} operands, got {index}"
            self.fail(sentence, message.place("tensor_index"))
        return {"name": message.get("name") or "", "tensor_index": index}

    # -- operator codes ------------------------------------------------------------------------

    def operator_codes(self) -> list[Tree]:
        """Return one code for each operator, with its highest version: by number, custom operators last."""
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
            self.fail("expected a type in the operation", operation.token)
        if type_ == "Custom" or operation.get("extype") == "Custom":
            if not custom:
                self.fail("expected a custom_code in the custom operation", operation.place("type"))
            return "CUSTOM", custom, version
        code = self.types.get(type_)
        if code is None:
            near = near_miss(type_, [*self.types, "Custom"])
            self.fail(f"no operator is named {type_}{near}", operation.place("type"))
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
        for item in message.all("input"):
            if "data" in self.buffers[tensors[known[item.value]]["buffer"]]:
                self.fail(f"expected an input without a filler, got the constant {item.value}", item.token)
        made: dict[int, Token] = {}
        tree["operators"] = [self.operator(o.value, known, made) for o in message.all("operation")]
        for field in ("data_format", "debug_metadata_index"):
            if field in message:
                tree[field] = message.get(field)
        return tree

    def declare(self, operand: Message, known: dict[str, int]) -> None:
        if "name" not in operand or "type" not in operand:
            self.fail("expected a name and a type in the operand", operand.token)
        name = operand.get("name")
        if name in known:
            self.fail(f"{name} is the name of an earlier operand", operand.place("name"))
        known[name] = len(known)

    def find(self, item: Item, known: dict[str, int], optional: bool) -> int:
        """Return the index of the operand that a field names; -1 for the empty name of an omitted one."""
        name: str = item.value
        if name in known:
            return known[name]
        if name != "" or not optional:
            what = (
                f"no operand is named {name}" if name else "expected the name of an operand, got an empty one"
            )
            self.fail(f"{what}{near_miss(name, known)}", item.token)
        return -1

    # -- operators -----------------------------------------------------------------------------

    def operator(self, operation: Message, known: dict[str, int], made: dict[int, Token]) -> Tree:
        key = self.key(operation)
        tree: Tree = {"opcode_index": self.codes[key]}
        tree["inputs"] = [self.find(item, known, optional=True) for item in operation.all("input")]
        tree["outputs"] = [self.find(item, known, optional=False) for item in operation.all("output")]
        for index, item in zip(tree["outputs"], operation.all("output"), strict=True):
            if index in made:
                self.fail(f"{item.value} is the result of an earlier operation", item.token)
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
        """Return the options of a built-in operator: its own field, or the defaults."""
        name = option_table(code)
        union = None if name is None else options_field(name)
        if name is None or union is None:
            return {}
        field = option_field(code)
        message = (
            operation.get(field)
            if field in operation
            else Message(message_type(name, self.format), operation.token)
        )
        options = self.table(message)
        for key in options:
            if key.endswith("_subgraph_index") and options[key] >= len(self.graphs):
                self.fail(self.no_graph(options[key]), message.token)
        return {union: options}

    def custom_options(self, operation: Message, custom_code: str) -> Tree:
        data = b""
        if "custom_options" in operation:
            at = operation.place("custom_options")
            data = self.filler("base64", [operation.get("custom_options")], at, DType.UINT8, 0, 0)
        elif custom_code in CUSTOM and not operation.get("no_options"):
            field, entries = CUSTOM[custom_code]
            options: Tree = {}
            if field:
                given = operation.get(field) if field in operation else None
                type_ = operation.type.fields[field].message
                assert type_ is not None  # options are messages
                options = self.table(given or Message(type_(), operation.token))
            data = flexbuffer_map(entries(options))
        return {"custom_options": np.frombuffer(data, np.uint8)} if data else {}
