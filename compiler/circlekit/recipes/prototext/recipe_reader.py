# SPDX-License-Identifier: Apache-2.0
"""Convert a ``test.recipe`` to the tree of the schema's table Model; errors show the place in the recipe.

A recipe consists of messages (Operand, Operation, ...).  A model consists of tables (Tensor, Operator, ...).
The tree of a message or table is a dict {field: value}.  In recipes, tensors are called operands, and
operators are called operations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

import numpy as np

from circlekit.errors import LimitError, ModelError, counted, did_you_mean, shown
from circlekit.io.operator_fields import PLACEHOLDER
from circlekit.io.schema import Tree, enumeration, options_field
from circlekit.io.write.flatbuffer_encoder import StatedDefault
from circlekit.ir.dtypes import DType
from circlekit.ir.tensor import LARGEST_DIMENSION
from circlekit.ir.text.fillers import seed_of
from circlekit.ir.text.operator_names import suggest_operator
from circlekit.recipes.prototext.filler_data import Files, filled, sparse_tree, stored_count
from circlekit.recipes.prototext.message_types import (
    CIRCLE_ONLY,
    CUSTOM,
    INDEX_VECTORS,
    VERSIONS,
    custom_options,
    message_defaults,
    operator_types,
    option_field,
    option_table,
)
from circlekit.recipes.prototext.protobuf_text import RecipeText

Key = tuple[str, str, int]
"""An operator code: (code in the schema, custom code, version).

The version is 0, unless the recipe sets ``keep_versions``: then each version has a code of its own.
"""

_WORD = re.compile(r"""#.*|\btype\s*:\s*["'](\w+)["']|["'](?:[^"'\\\n]|\\.)*["']|(\w+)""")
"""Matches a comment, the type of an operation (group 1), another string, or a word (group 2) of a recipe."""


_STATED_FORMAT = re.compile(r"# format: (circle|tflite)\s*\n")
"""Matches the first line of a recipe that circlekit wrote; ONE's language has no field for the format."""


def recipe_format(text: str) -> str | None:
    """Return the format that the first line states; else circle if the text has a word in CIRCLE_ONLY.

    Names and other strings do not count as words; the types of operations do.
    Return None if the text tells nothing.
    """
    if stated := _STATED_FORMAT.match(text):
        return stated[1]
    words = (match[1] or match[2] for match in _WORD.finditer(text))
    return "circle" if any(word in CIRCLE_ONLY for word in words) else None


def read_tree(text: str, label: str, fmt: str, files: Files) -> tuple[Tree, bool]:
    """Return (tree of the schema's table Model, whether its constants are to be external data).

    External data stands in the file behind the flatbuffer.
    ``label``: the name of ``text``, for errors.  ``fmt``: ``circle`` or ``tflite``.
    ``files``: returns the content of a file whose name is in a filler (data of a constant).
    Raise ParseError for an invalid recipe, and FileError if such a file cannot be read.
    """
    recipe = RecipeText(text, label, fmt)
    return _RecipeReader(recipe, files).model(), recipe.tree["ext_offset"]


class _RecipeReader:
    """Converts one recipe to the tree of a model; raises ParseError for an invalid recipe.

    The argument ``recipe`` of a method is the tree of a message.

    ``graphs``: the messages of all graphs; the recipe itself is the main graph.
    ``types``: {type of an operation: its operator's code}.
    ``buffers``: the tables Buffer so far; the first stays empty, because index 0 stands for no data.
    ``indices``: for each graph so far, {name of an operand: index of its tensor}.
    ``codes``: the index of each operator code.
    """

    def __init__(self, recipe: RecipeText, files: Files) -> None:
        self.fail = recipe.fail
        self.recipe = recipe.tree
        self.format = recipe.format
        self.files = files
        self.graphs = [recipe.tree, *recipe.tree.get("graph", ())]
        self.types = operator_types(recipe.format)
        self.buffers: list[Tree] = [{}]
        self.indices: list[dict[str, int]] = []
        self.codes: dict[Key, int] = {}

    # -- the model -----------------------------------------------------------------------------

    def model(self) -> Tree:
        """Return the table Model.

        The order matters: graphs need the operator codes, signatures need the graphs.
        """
        recipe = self.recipe
        return {
            "version": recipe.get("model_version", VERSIONS[self.format]),
            "description": recipe.get("description"),
            "operator_codes": self.operator_codes(),
            "subgraphs": [self.graph(graph, number) for number, graph in enumerate(self.graphs)],
            "signature_defs": [self.signature(item) for item in recipe.get("signature_def", ())],
            "metadata": [self.metadata(item) for item in recipe.get("metadata", ())] or None,
            "buffers": self.buffers,
        }

    def metadata(self, recipe: Tree) -> Tree:
        """Return a table Metadata."""
        data = recipe.get("data", "").encode("utf-8", "surrogateescape")
        if "base64" in recipe:
            data = self.base64(recipe, "base64")
        return {"name": recipe.get("name", ""), "buffer": self.add_buffer(data)}

    def add_buffer(self, data: bytes = b"") -> int:
        """Add a buffer and return its index."""
        self.buffers.append({"data": np.frombuffer(data, np.uint8)} if data else {})
        return len(self.buffers) - 1

    def signature(self, recipe: Tree) -> Tree:
        """Return a table SignatureDef."""
        index: int = recipe["subgraph_index"]
        self.check_graph(index, recipe, "subgraph_index")
        tree: Tree = {"signature_key": recipe.get("signature_key", ""), "subgraph_index": index}
        for side in ("inputs", "outputs"):
            tree[side] = [self.tensor_map(item, self.indices[index]) for item in recipe.get(side, ())]
        return tree

    def check_graph(self, index: int, recipe: Tree, field: str) -> None:
        """Raise ParseError at ``field`` unless ``index`` is that of a graph."""
        if not 0 <= index < len(self.graphs):
            message = f"expected the index of a graph, 0 to {len(self.graphs) - 1}, got {index}"
            self.fail(message, recipe, field)

    def tensor_map(self, recipe: Tree, indices: dict[str, int]) -> Tree:
        """Return a table TensorMap; ``indices``: {name of an operand of the graph: index of its tensor}."""
        index = recipe.get("tensor_index")
        if "tensor" in recipe:
            index = self.find([recipe["tensor"]], indices, recipe, "tensor")[0]
        elif index is None:
            self.fail("expected a tensor or a tensor_index in an input or output of a signature", recipe)
        elif not 0 <= index < len(indices):
            known = f"0 to {len(indices) - 1}" if indices else "but the graph has none"
            self.fail(f"expected the index of an operand, {known}, got {index}", recipe, "tensor_index")
        return {"name": recipe.get("name", ""), "tensor_index": index}

    # -- operator codes ------------------------------------------------------------------------

    def operator_codes(self) -> list[Tree]:
        """Set ``codes``; return the tables OperatorCode.

        The version of a code is the highest of its operators.  Codes without a custom code come first.
        Otherwise, the numbers of the operators in the schema determine the order.
        """
        versions: dict[Key, int] = {}
        for graph in self.graphs:
            for operation in graph.get("operation", ()):
                key, version = self.key(operation), operation["version"]
                versions[key] = max(versions.get(key, version), version)
        numbers = enumeration("BuiltinOperator", self.format).numbers
        ordered = sorted(versions, key=lambda key: (key[1] != "", numbers[key[0]], key))
        self.codes = {key: index for index, key in enumerate(ordered)}
        return [
            {
                "deprecated_builtin_code": min(numbers[key[0]], PLACEHOLDER),  # a field of one byte
                "builtin_code": key[0],
                "version": versions[key],
                "custom_code": key[1] or None,
            }
            for key in ordered
        ]

    def key(self, operation: Tree) -> Key:
        """Return the key of the operator code of an operation."""
        version = operation["version"] if self.recipe["keep_versions"] else 0
        custom, type_ = operation.get("custom_code", ""), operation.get("type")
        if type_ is None:
            self.fail("expected a type in the operation", operation)
        if type_ == "Custom" or operation.get("extype") == "Custom":
            if not custom:
                self.fail("expected a custom_code in the custom operation", operation, "type")
            return "CUSTOM", custom, version
        if type_ not in self.types:
            near = suggest_operator(type_, [*self.types, "Custom"])
            self.fail(f"no operator is named {shown(type_)}{near}", operation, "type")
        return self.types[type_], custom, version

    # -- graphs --------------------------------------------------------------------------------

    def graph(self, recipe: Tree, number: int) -> Tree:
        """Return a table SubGraph; ``number``: its index."""
        name = recipe.get("name", f"sub_{number}" if number else "main")
        interface = [*recipe.get("input", ()), *recipe.get("output", ())]
        empty = {operand: self.add_buffer() for operand in interface}  # these buffers come first, as in ONE
        indices: dict[str, int] = {}
        tensors = []
        for operand in recipe.get("operand", ()):
            if "name" not in operand or "type" not in operand:
                self.fail("expected a name and a type in the operand", operand)
            if operand["name"] in indices:
                self.fail(f"{shown(operand['name'])} is the name of an earlier operand", operand, "name")
            indices[operand["name"]] = len(indices)
            tensors.append(self.tensor(operand, name, empty))
        self.indices.append(indices)
        tree: Tree = {"tensors": tensors, "name": name}
        for side in ("input", "output"):
            tree[side + "s"] = self.find(recipe.get(side, ()), indices, recipe, side)
        for position, index in enumerate(tree["inputs"]):
            if "data" in self.buffers[tensors[index]["buffer"]]:
                message = f"expected an input without a filler, got the constant {recipe['input'][position]}"
                self.fail(message, recipe, "input", position)
        made: set[int] = set()
        tree["operators"] = [self.operator(item, indices, made) for item in recipe.get("operation", ())]
        return tree | _present(recipe, "data_format", "debug_metadata_index")

    def find(
        self, names: Sequence[str], indices: dict[str, int], recipe: Tree, field: str, optional: bool = False
    ) -> list[int]:
        """Return the index of each operand in ``names``; -1 for "" (an absent operand) if ``optional``.

        ``field``: the field of ``recipe`` that lists the names, for errors.
        """
        for number, name in enumerate(names):
            if name not in indices and (name or not optional):
                empty = "expected the name of an operand, got an empty one"
                message = f"no operand is named {name}" if name else empty
                self.fail(f"{message}{did_you_mean(name, indices)}", recipe, field, number)
        return [indices.get(name, -1) for name in names]

    # -- operands ------------------------------------------------------------------------------

    def tensor(self, recipe: Tree, graph: str, empty: dict[str, int]) -> Tree:
        """Return a table Tensor for an operand.

        ``graph``: the name of its graph.  ``empty``: {name of an input or output of the graph: index of an
        empty buffer}.
        """
        name, dims = recipe["name"], self.shape(recipe)
        tree: Tree = {"name": recipe.get("named", name), "type": recipe["type"], "shape": dims}
        tree |= _present(recipe, "is_variable", "has_rank", "compression_type")
        if "has_rank" in tree:  # a stated false is stored, too: see ``has_rank`` of ``io.read.load.Loader``
            tree["has_rank"] = StatedDefault(tree["has_rank"])
        if "shape_signature" in recipe:
            tree["shape_signature"] = signature = recipe["shape_signature"]
            if signature and len(signature) != len(dims or ()):
                expected = counted(len(dims or ()), "dimension")
                message = f"expected {expected}, as the shape has, got {len(signature)}"
                self.fail(message, recipe, "shape_signature")
        if "quant" in recipe or "mx_quant" in recipe:
            tree["quantization"] = _quantization(recipe)
        if "sparsity" in recipe:
            tree["sparsity"] = self.sparsity(recipe["sparsity"])
        if "variant_tensors" in recipe:
            variants = recipe["variant_tensors"]
            tree["variant_tensors"] = [{**variant, "shape": self.shape(variant)} for variant in variants]
        if "filler" in recipe:
            tree["buffer"] = self.add_buffer(self.data(recipe, tree, graph))
        else:
            tree["buffer"] = empty[name] if name in empty else self.add_buffer()
        return tree

    def shape(self, recipe: Tree) -> list[int] | None:
        """Return the dimensions in the field ``shape``; None if the field is absent."""
        dims: list[int] | None = recipe.get("shape")
        if dims and max(dims) > LARGEST_DIMENSION:
            message = f"expected a dimension of at most {LARGEST_DIMENSION}, got {max(dims)}"
            self.fail(message, recipe, "shape")
        return dims

    def sparsity(self, recipe: Tree) -> Tree:
        """Return a table SparsityParameters."""
        dimensions = [self.dimension(item) for item in recipe.get("dim_metadata", ())]
        return {"traversal_order": [], **recipe, "dim_metadata": dimensions}

    def dimension(self, recipe: Tree) -> Tree:
        """Return a table DimensionMetadata."""
        tree = _present(recipe, "format", "dense_size")
        for name in ("array_segments", "array_indices"):
            type_ = recipe.get(name, {}).get("type")
            if type_ not in INDEX_VECTORS:
                continue
            table, limit = INDEX_VECTORS[type_]
            values = np.array(recipe[name].get("dim", []), np.int64)
            if values.size and not 0 <= values.min() <= values.max() < limit:
                actual = values.tolist()[:8]
                self.fail(f"expected indices from 0 to {limit - 1}, got {actual}", recipe[name])
            tree[name] = {"": table, "values": values}
        return tree

    # -- constants -----------------------------------------------------------------------------

    def data(self, recipe: Tree, tree: Tree, graph: str) -> bytes:
        """Return the bytes of a constant operand, as the file stores them.

        ``tree``: the table Tensor of the operand so far.  ``graph``: the name of its graph, for the seed.
        If the operand has ``make_sparse``, add ``sparsity`` to ``tree``; the bytes are those of the sparse
        form.
        """
        filler, dims, dtype = recipe["filler"], tree["shape"], DType[tree["type"]]
        args, tag = filler.get("arg", []), filler.get("tag")
        if tag is None:
            self.fail("expected a tag in the filler", filler)
        count = prod(dims) if dims is not None else len(args)
        if "sparsity" in tree:
            count = stored_count(tree["sparsity"])
        try:
            data = filled(tag, args, dtype, count, seed_of(graph, recipe["name"]), self.files)
        except (LimitError, ModelError) as error:
            self.fail(error.message, filler, "tag")
        if recipe["make_sparse"]:
            if "sparsity" in tree:
                self.fail("make_sparse: expected an operand without sparsity", recipe, "make_sparse")
            if not dims or dtype not in (DType.FLOAT32, DType.FLOAT16):
                actual = f"{dtype.name}{' without a shape' if dims is None else dims}"
                message = f"make_sparse: expected FLOAT32 or FLOAT16 of rank 1 or more, got {actual}"
                self.fail(message, recipe, "make_sparse")
            if len(data) * 8 != count * dtype.bits:  # base64, of which ``filled`` does not check the size
                message = f"expected {count * dtype.bits // 8} bytes for {dims}, got {len(data)}"
                self.fail(f"make_sparse: {message}", recipe, "make_sparse")
            tree["sparsity"], data = sparse_tree(np.frombuffer(data, dtype.numpy).reshape(dims))
        return data

    def base64(self, recipe: Tree, field: str) -> bytes:
        """Return the bytes in ``field``, which is in base64."""
        try:
            return filled("base64", [recipe[field]], DType.UINT8, 0, 0, self.files)
        except ModelError as error:
            self.fail(error.message, recipe, field)

    # -- operators -----------------------------------------------------------------------------

    def operator(self, recipe: Tree, indices: dict[str, int], made: set[int]) -> Tree:
        """Return a table Operator.

        ``indices``: {name of an operand of the graph: index of its tensor}.  ``made``: the indices of the
        results of earlier operators; those of this operator are added.
        """
        code, custom_code, _ = key = self.key(recipe)
        tree: Tree = {"opcode_index": self.codes[key]}
        for field in ("input", "output", "intermediate"):
            names = recipe.get(field)
            if names is not None or field != "intermediate":
                optional = field != "output"
                tree[field + "s"] = self.find(names or (), indices, recipe, field, optional)
        for number, index in enumerate(tree["outputs"]):
            if index in made:
                message = f"{recipe['output'][number]} is a result twice, here and earlier"
                self.fail(message, recipe, "output", number)
            made.add(index)
        tree |= _present(recipe, "mutating_variable_inputs", "debug_metadata_index")
        if code == "CUSTOM":
            data = self.custom_options(recipe, custom_code)
            return tree | ({} if data is None else {"custom_options": np.frombuffer(data, np.uint8)})
        return tree if recipe["no_options"] else tree | self.options(recipe, code)

    def options(self, recipe: Tree, code: str) -> Tree:
        """Return {"builtin_options" or "builtin_options_2": table of options} for an operator.

        If the recipe states no options, the table has the defaults.  Return {} if operators with ``code``
        have no options.
        """
        table = option_table(code)
        if table is None or (union := options_field(table)) is None:
            return {}
        field = option_field(code)
        options = recipe.get(field) or message_defaults(table, self.format)
        for name, value in options.items():
            if name.endswith("_subgraph_index"):
                self.check_graph(value, recipe, field)
        return {union: options}

    def custom_options(self, recipe: Tree, custom_code: str) -> bytes | None:
        """Return the options of a custom operator as bytes; None if it has none."""
        if "custom_options" in recipe:
            return self.base64(recipe, "custom_options")
        if custom_code not in CUSTOM or recipe["no_options"]:
            return None
        options = recipe.get(CUSTOM[custom_code][0])
        return custom_options(custom_code, self.format, options)


def _quantization(recipe: Tree) -> Tree:
    """Return a table QuantizationParameters for an operand."""
    quant = recipe.get("quant", {})
    tree = _present(quant, "min", "max", "scale", "zero_point", "quantized_dimension")
    details = [quant.get(kind) for kind in ("custom", "blockwise", "multi_axis")]
    return tree | {"details": next(filter(None, [recipe.get("mx_quant"), *details]), None)}


def _present(tree: Tree, *fields: str) -> Tree:
    """Return those of ``fields`` that ``tree`` has, with their values."""
    return {name: tree[name] for name in fields if name in tree}
