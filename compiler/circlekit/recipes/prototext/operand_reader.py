# SPDX-License-Identifier: Apache-2.0
"""Read operands of ``test.recipe`` as tensor trees of the schema, and make the buffers of their constants."""

from __future__ import annotations

from math import prod
from typing import Any, NoReturn

import numpy as np

from circlekit.errors import LimitError, ModelError, near_miss
from circlekit.io.schema import Tree
from circlekit.ir.dtypes import DType
from circlekit.ir.text.fillers import seed_of
from circlekit.ir.text.lexer import Token
from circlekit.recipes.prototext.filler_data import FILLERS, Files, filled, sparse_tree, stored_count
from circlekit.recipes.prototext.message_types import INDEX_VECTORS
from circlekit.recipes.prototext.prototext_parser import Message, TextSource

MAX_DIMENSION = 2**31 - 1


class OperandReader:
    """Makes the trees of operands.

    files: Returns the content of a file that a filler names.
    buffers: The trees of all buffers so far; the first is empty.
    """

    def __init__(self, source: TextSource, files: Files) -> None:
        self.source = source
        self.files = files
        self.buffers: list[Tree] = [{}]

    def fail(self, message: str, token: Token) -> NoReturn:
        self.source.fail(message, token)

    # -- tensors -------------------------------------------------------------------------------

    def tensor(self, operand: Message, graph: str, empty: dict[str, int]) -> Tree:
        """Return the tree of an operand of ``graph``.  ``empty``: buffers of inputs and outputs, by name."""
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
            if item.value > MAX_DIMENSION:
                self.fail(f"expected a dimension of at most {MAX_DIMENSION}, got {item.value}", item.token)
        dims: list[int] = message.get("shape").values("dim")
        return dims

    def shape_signature(self, operand: Message, dims: list[int] | None) -> list[int]:
        signature: list[int] = operand.get("shape_signature").values("dim")
        if signature and len(signature) != len(dims or ()):
            message = f"expected {len(dims or ())} dimensions, as the shape has, got {len(signature)}"
            self.fail(message, operand.place("shape_signature"))
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
                self.fail(f"expected indices from 0 to {top - 1}, got {values.tolist()[:8]}", vector.token)
            tree[name] = {"": INDEX_VECTORS[vector.get("type")], "values": values}
        return tree

    # -- constants -----------------------------------------------------------------------------

    def data(self, operand: Message, tree: Tree, graph: str) -> bytes:
        """Return the bytes of a constant; for a sparse one, add the sparsity to ``tree``."""
        filler = operand.get("filler")
        dtype = DType[tree["type"]]
        args = filler.values("arg")
        count = prod(tree["shape"]) if tree["shape"] is not None else len(args)
        if "sparsity" in tree:
            count = stored_count(tree["sparsity"])
        tag = filler.get("tag")
        if tag is None:
            self.fail("expected a tag in the filler", filler.token)
        seed = seed_of(graph, operand.get("name"))
        data = self.filler(tag, args, filler.place("tag"), dtype, count, seed)
        if not operand.get("make_sparse"):
            return data
        if "sparsity" in tree or not tree["shape"] or dtype not in (DType.FLOAT32, DType.FLOAT16):
            message = (
                f"make_sparse: expected FLOAT32 or FLOAT16 of rank 1 or more, got {dtype.name}{tree['shape']}"
            )
            self.fail(message, operand.place("make_sparse"))
        tree["sparsity"], data = sparse_tree(np.frombuffer(data, dtype.numpy).reshape(tree["shape"]))
        return data

    def filler(self, tag: str, args: list[str], at: Token, dtype: DType, count: int, seed: int) -> bytes:
        if tag not in FILLERS:
            near = near_miss(tag, FILLERS) or f"; expected one of {', '.join(FILLERS)}"
            self.fail(f"no filler is named {tag}{near}", at)
        try:
            return filled(tag, args, dtype, count, seed, self.files)
        except (LimitError, ModelError) as error:
            self.fail(error.message, at)

    def table(self, message: Message) -> Tree:
        """Return the tree of a message whose type is a table of the schema."""
        tree: Tree = {"": message.type.name}
        for name, spec in message.type.fields.items():
            stored = spec.stored or name
            if stored in tree and name not in message:
                continue  # an alias of a field that was read before
            if spec.kind == "message":
                found = [self.table(m) for m in message.values(name)]
                value: Any = found if spec.repeated else next(iter(found), None)
            else:
                value = message.values(name) if spec.repeated else message.get(name)
            if value is not None and (name in message or not spec.repeated):
                tree[stored] = value
        return tree
