# SPDX-License-Identifier: Apache-2.0
"""Convert a model to the tree of a file: the tables of its graphs, tensors, signatures and metadata."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ModelError, UnsupportedError, shown
from circlekit.io.origin import MARKS_RANKS, NO_ORIGIN, Origin, drop_absent, extra_fault, place_of
from circlekit.io.schema import TFLITE_VERSION, Tree, enumeration, table
from circlekit.io.tensor_fields import quantization_tree, shape_fields, with_indices
from circlekit.io.write.buffer_table import BufferTable, ConstantBytes, Key
from circlekit.io.write.flatbuffer_encoder import StatedDefault
from circlekit.io.write.save_ops import OpSaver
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array, Value

OWN_KEYS: dict[str, tuple[type, ...]] = {
    "buffer": (int,), "stored_data": (np.ndarray,), "stored_name": (tuple,), "stored_quantization": (dict,),
    "absent": (list, tuple), "shape": (list, np.ndarray), "shape_signature": (list, np.ndarray),
}  # fmt: skip
"""The keys of Value.extra that are not copied into the tree of a tensor, with their types: see ``io.origin``.

``shape`` and ``shape_signature`` are fields of the schema that ``shape_fields`` writes.
"""

TENSOR_TYPES = {**OWN_KEYS, "quantization": (dict,)}
"""The types of values of Value.extra that this module reads."""

GRAPH_KEYS: dict[str, tuple[type, ...]] = {"absent": (list, tuple), "unused": (list,)}
"""The keys of Graph.extra (see ``io.origin``) that this module reads, with their types."""


class Saver:
    """Converts one model to the tree of a file.

    A tree (``schema.Tree``) refers to buffers by index.  These indices are known only after all constants
    were added; until then a ``Key`` stands for a buffer.
    ``is_native``: whether the model was loaded from a file of the same format.
    ``listed``: the values of each graph in the order of the file, by ``id(graph)``.
    ``has_rank``: whether tensors of known rank get a true field ``has_rank``, except those for which the
    input file has false; these get true only if ``must_mark`` is true.
    ``must_mark``: whether a rank is unknown, but no tensor would have a true ``has_rank``.  Readers would
    then take the unknown rank for 0.
    ``has_no_rank``: whether all ranks are unknown.  Then no tensor can have a true ``has_rank``; instead
    every tensor has the field with its default, false.
    ``signature_values``: the values that signatures name, by ``id(graph)``.
    ``indices``: the index of each value among the tensors of its graph, by ``id(graph)`` and ``id(value)``.
    ``tensors``: the tree of every tensor, with the key of its buffer.
    """

    def __init__(self, model: Model, fmt: str) -> None:
        if (fault := extra_fault(model.extra, {"origin": (Origin,)})) is not None:
            raise ModelError(fault)
        self.model = model
        self.format = fmt
        self.origin: Origin = model.extra.get("origin") or NO_ORIGIN
        self.is_native = self.origin.format == fmt
        self.buffers = BufferTable(self.origin)
        self.operators = OpSaver(fmt, self.origin, model)
        self.listed = {id(graph): list(graph.values()) for graph in model.graphs}
        values = [value for listed in self.listed.values() for value in listed]
        has_unknown_rank = any(value.shape is None for value in values)
        self.has_rank = (
            self.origin.has_rank
            or has_unknown_rank
            or any("has_rank" in v.extra for v in values)
            or any(name == MARKS_RANKS for name, _ in model.metadata)
        )
        marked = (v.shape is not None and v.extra.get("has_rank", True) for v in values)
        self.must_mark = has_unknown_rank and not any(marked)
        self.has_no_rank = has_unknown_rank and all(value.shape is None for value in values)
        self.signature_values: dict[int, list[Value]] = {}
        for signature in model.signatures:
            named = self.signature_values.setdefault(id(signature.graph), [])
            named += [*signature.inputs.values(), *signature.outputs.values()]
        self.indices: dict[int, dict[int, int]] = {}
        self.tensors: list[tuple[Tree, Key]] = []

    def tree(self) -> Tree:
        """Return the table Model.

        Raise ModelError for contents that a file cannot hold, and UnsupportedError for what the format lacks.
        """
        model = self.model
        tree: Tree = dict(self.origin.rest)
        tree["version"] = model.version if self.is_native or self.format == "circle" else TFLITE_VERSION
        if model.description is not None:
            tree["description"] = model.description
        tree["subgraphs"] = [self.graph(g) for g in model.graphs]
        operators = [op for graph in tree["subgraphs"] for op in graph.get("operators", ())]
        tree["operator_codes"] = self.operators.operator_codes(operators)
        tree["signature_defs"] = self.signatures()
        tree["metadata"] = [{"name": name} for name, _ in model.metadata]
        keys = [self.metadata_buffer(number, data) for number, (_, data) in enumerate(model.metadata)]
        tree["buffers"], index = self.buffers.trees()
        for tensor, key in [*self.tensors, *zip(tree["metadata"], keys, strict=True)]:
            tensor["buffer"] = index[key]
        if self.origin.metadata_buffer is not None:  # (0, n): the key of buffer n of the input file
            tree["metadata_buffer"] = [index[0, n] for n in self.origin.metadata_buffer if (0, n) in index]
        drop_absent(tree, self.origin.absent)
        return tree

    def metadata_buffer(self, number: int, data: bytes) -> Key:
        """Return the key of a buffer with ``data`` for metadata entry ``number``, the old one if possible.

        Raise ModelError if ``data`` are not bytes.
        """
        try:
            content = memoryview(data)
        except TypeError:
            name, got = self.model.metadata[number][0], type(data).__name__
            raise ModelError(f"metadata {name!r}: expected bytes, got {got}") from None
        index = self.origin.metadata[number] if number < len(self.origin.metadata) else 0
        stored = self.buffers.old[index] if index else None
        if index and content == (b"" if stored is None else stored.data):
            return self.buffers.keep(index)
        return self.buffers.add(ConstantBytes(data))

    def signatures(self) -> list[Tree]:
        """Return the tables SignatureDef.  The trees of all graphs must be made before.

        Raise ModelError for a signature of a graph that is not in the model.
        """
        numbers = {id(g): i for i, g in enumerate(self.model.graphs)}
        out = []
        for signature in self.model.signatures:
            if id(signature.graph) not in numbers:
                place = f"the graph {shown(signature.graph.name)}, which is not in the model"
                raise ModelError(f"signature {signature.key!r} belongs to {place}")
            indices = self.indices[id(signature.graph)]
            tree: Tree = {"signature_key": signature.key, "subgraph_index": numbers[id(signature.graph)]}
            for side, values in (("inputs", signature.inputs), ("outputs", signature.outputs)):
                tree[side] = [{"name": n, "tensor_index": indices[id(v)]} for n, v in values.items()]
            out.append(tree)
        return out

    # -- graphs --------------------------------------------------------------------------------

    def graph(self, graph: Graph) -> Tree:
        """Return the table SubGraph of ``graph``."""
        if (fault := extra_fault(graph.extra, GRAPH_KEYS)) is not None:
            raise ModelError(fault, f"at {graph.name}")
        values = self.values(graph)
        indices = {id(v): i for i, v in enumerate(values)}
        self.indices[id(graph)] = indices
        kept = table("SubGraph", self.format).by_name.keys() & graph.extra.keys()
        tree: Tree = {name: graph.extra[name] for name in sorted(kept)}
        tree["name"] = graph.name
        tree["inputs"] = [indices[id(v)] for v in graph.inputs]
        tree["outputs"] = [indices[id(v)] for v in graph.outputs]
        tree["tensors"] = [self.tensor(v, graph) for v in values]
        tree["operators"] = [self.operators.tree(op, indices) for op in graph]
        drop_absent(tree, graph.extra.get("absent", ()))
        return tree

    def values(self, graph: Graph) -> list[Value]:
        """Return the values to write, in order: those in use, and those unused already in the input file."""
        keep = {id(v) for v in graph.extra.get("unused", ())}
        keep.update(id(v) for v in (*graph.inputs, *graph.outputs))
        others: list[Value] = []  # values in use that ``listed`` may lack
        for op in graph:
            stated = self.operators.intermediates(op) if "intermediates" in op.extra else []
            intermediates = [v for v in stated if v is not None]
            keep.update(id(v) for v in (*op.inputs, *op.results, *intermediates))
            others += intermediates
        others += self.signature_values.get(id(graph), ())
        keep.update(id(v) for v in others)
        listed = self.listed[id(graph)]
        for value in listed:
            if id(value) in keep:
                others += value.scale_values
        keep.update(id(v) for v in others)
        ordered = {id(v): v for v in (*listed, *others)}
        return [v for key, v in ordered.items() if key in keep]

    # -- tensors -------------------------------------------------------------------------------

    def tensor(self, value: Value, graph: Graph) -> Tree:
        """Return the table Tensor of ``value`` without the index of its buffer, which ``tree`` adds."""
        extra = value.extra
        if (fault := _tensor_fault(extra)) is not None:
            raise ModelError(fault, f"at {graph.name} > %{value.name}")
        tree: Tree = {name: item for name, item in extra.items() if name not in OWN_KEYS}
        # the name that ``load`` made for a nameless tensor, and what the file has instead
        loaded_name, name = extra.get("stored_name", (None, None))
        name = name if loaded_name == value.name else value.name
        if name is not None:
            tree["name"] = name
        tree["type"] = value.dtype.name
        tree |= shape_fields(value.shape, extra, value.is_const)
        if not self.operators.keeps_format and all(d >= 0 for d in tree.get("shape_signature", ())):
            tree.pop("shape_signature", None)  # without -1, it says nothing more than the shape
        if self.has_rank and value.shape is not None:
            tree["has_rank"] = self.must_mark or tree.get("has_rank", True)
        if self.has_no_rank:
            tree["has_rank"] = StatedDefault(False)
        tree["is_variable"] = value.is_variable
        stored = with_indices(value.quantization, self.indices[id(graph)])
        quantization = quantization_tree(stored, extra.get("stored_quantization"))
        if quantization is not None:
            tree["quantization"] = quantization
        drop_absent(tree, extra.get("absent", ()))
        self.check(tree, value, graph)
        self.tensors.append((tree, self.buffer(value)))
        return tree

    def buffer(self, value: Value) -> Key:
        """Return the key of the buffer for the data of ``value``.

        The input file may have a longer buffer than the elements of a constant need.  The constant keeps that
        buffer as long as its data are the beginning of the buffer.
        """
        stored, data = value.extra.get("stored_data"), value.data
        if (
            data is not None
            and stored is not None
            and data.flags.c_contiguous
            and place_of(stored)[0] == place_of(data)[0]
        ):
            return self.buffers.key_of(stored)
        if data is None or not data.size:
            return self.buffers.key_without_data(value.extra.get("buffer"))
        return self.buffers.key_of(data, self.stored_type(value, data))

    @staticmethod
    def stored_type(value: Value, data: Array) -> np.dtype[Any]:
        """Return the dtype of a constant's elements in the file; raise ModelError if ``data`` do not fit.

        A uint8 vector may be the bytes of a packed, sparse or compressed constant, and is written as it is.
        """
        dtype = value.dtype.numpy
        if data.dtype == dtype or (data.dtype == np.uint8 and data.ndim == 1):
            return data.dtype
        if dtype is None or data.dtype.newbyteorder("<") != dtype:
            raise ModelError(f"%{value.name}: expected data of type {value.dtype.short}, got {data.dtype}")
        return dtype

    def check(self, tree: Tree, value: Value, graph: Graph) -> None:
        """Raise UnsupportedError if the format lacks the dtype, a field or the quantization kind of a tensor.

        ``tree``: the table of the tensor that would be written.
        """
        details = tree.get("quantization", {}).get("details")
        kind = details.get("") if isinstance(details, dict) else None  # the name of its table
        if tree["type"] not in enumeration("TensorType", self.format).numbers:
            missing = f"tensors of {value.dtype.name}"
        elif foreign := sorted(table("Tensor", self.format).foreign & tree.keys()):
            missing = f"{foreign[0]} of tensors"
        elif isinstance(kind, str) and kind not in enumeration("QuantizationDetails", self.format).numbers:
            missing = kind
        else:
            return
        where = "at " + " > ".join([*filter(None, [self.model.source]), graph.name, f"%{value.name}"])
        raise UnsupportedError(f".{self.format} has no {missing}", where)


def _tensor_fault(extra: Tree) -> str | None:
    """Return what is wrong with ``extra`` of a tensor; None if nothing is.  See ``extra_fault``."""
    if (fault := extra_fault(extra, TENSOR_TYPES)) is not None:
        return fault
    for key in ("shape", "shape_signature"):
        if key in extra and not all(isinstance(d, int | np.integer) for d in extra[key]):
            return f"{key} in extra: expected integers, got {list(extra[key])}"
    return None
