# SPDX-License-Identifier: Apache-2.0
"""Load files as models.  The decoder has checked every offset in a file; this module checks every index."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import replace
from typing import NoReturn

import numpy as np

from circlekit.errors import FormatError, FormatWarning, counted
from circlekit.io.attached_zip import attached_archive
from circlekit.io.file_map import FileMap, map_file
from circlekit.io.findings import InvalidFile, UnknownType
from circlekit.io.foreign_files import foreign_file
from circlekit.io.origin import MARKS_RANKS, Origin, Place, absent, place_of
from circlekit.io.read.flatbuffer_decoder import Decoder, identify
from circlekit.io.read.load_ops import OpLoader
from circlekit.io.schema import Tree
from circlekit.io.tensor_fields import index_fields, quantization_of, shape_of
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model, Signature
from circlekit.ir.value import MAX_RANK, Array, Shape, Value, format_shape

# the vectors and strings of the table Model that Origin.absent names if a file does not have them
MODEL_VECTORS = ("operator_codes", "subgraphs", "description", "buffers", "metadata", "signature_defs")


def load(path: str | os.PathLike[str]) -> Model:
    """Return the model in a ``.circle`` or ``.tflite`` file.

    The content of the file tells the format; the extension does not matter.  Raise FileError if the file
    cannot be read, FormatError if it is not a valid model, and LimitError if ``path`` is a pipe with more
    bytes than the memory limit.  Warnings: see ``load_bytes``.
    """
    name = os.fspath(path)
    model = load_bytes(map_file(path), name)
    model.source = name
    return model


def load_bytes(data: bytes | bytearray | memoryview, name: str = "<bytes>") -> Model:
    """Return the model in the bytes of a file; its constants are views of ``data``.

    ``name``: the name of the file, for messages.  Raise FormatError if the bytes are not a valid model.
    Issue a FormatWarning for each part of the file that is lost, and for bytes behind the elements of a
    constant, which are kept.  For fields that the schema lacks, the decoder issues at most MAX_WARNINGS.
    """
    view = memoryview(data).cast("B").toreadonly()
    fmt = identify(view)
    if fmt is None:
        raise FormatError(f"{name}: {unidentified(view)}")
    decoder = Decoder(view, fmt, name)
    return Loader(view, fmt, decoder.root(), name, is_complete=not decoder.notes).model()


def unidentified(data: memoryview) -> str:
    """Return the error message for bytes that have the identifier of neither format."""
    if not data:
        return "not a model: it is empty; was the download or the copy interrupted?"
    if (description := foreign_file(data)) is not None:
        return f"not a model that circlekit reads: it is {description}"
    start = bytes(data[:64])
    if all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in start):
        advice = "if it is a recipe, `circle2circle TEXT OUT.circle` writes its model"
        return f"not a model file but a text; {advice}"
    if len(data) < 8:
        return f"not a model: it ends after {counted(len(data), 'byte')}"
    return f"not a model: expected b'TFL3' or b'CIR0' in bytes 4 to 7, got {bytes(data[4:8])!r}"


class Loader:
    """Makes the model of one decoded file.

    ``tree``: the decoded file; loading removes fields from its tables.  ``name``: the name of the file.
    ``is_complete``: whether nothing in the file was skipped so far.
    ``has_external_data``: whether any buffer has only the position of its data, outside of the flatbuffer.
    ``buffers``: the bytes of each buffer, or None if it has none.  ``used_buffers``: the indices of buffer 0
    and of the buffers to which tensors and metadata refer.
    ``trees``: the decoded tables of the graphs.  ``values``: the values of each graph.
    ``has_rank``: whether the file says which ranks are known.  A file says so if the field ``has_rank`` is
    true in some tensor, if every tensor has this field and no dimensions, or if TensorFlow's converter wrote
    MARKS_RANKS.  In such a file, a tensor without dimensions is a scalar if its ``has_rank`` is true or it is
    a constant; else its rank is unknown.  In other files, all tensors without dimensions are scalars.
    """

    def __init__(self, data: memoryview, fmt: str, tree: Tree, name: str, is_complete: bool = True) -> None:
        self.data = data
        self.format = fmt
        self.tree = tree
        self.name = name
        self.is_complete = is_complete
        self.has_external_data = False
        self.buffers = [self.buffer(i, b) for i, b in enumerate(tree.get("buffers", ()))]
        places = {place_of(b): len(b) for b in self.buffers if b is not None and len(b)}
        if sum(places.values()) > len(data):  # copies of overlapping buffers could take any amount of memory
            self.fail("buffer-region", "buffers", "expected buffers that do not overlap")
        self.used_buffers: set[int] = {0}
        self.trees: list[Tree] = tree.get("subgraphs", [])
        tensors = [tensor for graph in self.trees for tensor in graph.get("tensors", ())]
        self.has_rank = (
            any(tensor.get("has_rank") for tensor in tensors)
            or all("has_rank" in tensor and not len(tensor.get("shape", ())) for tensor in tensors)
            or any(entry.get("name") == MARKS_RANKS for entry in tree.get("metadata", ()))
        )
        self.values: list[list[Value]] = []

    def fail(self, rule: str, path: str, what: str) -> NoReturn:
        """Raise InvalidFile: the file violates ``rule`` at ``path``.  ``what``: the message."""
        raise InvalidFile.of(self.name, rule, path, what)

    def warn(self, path: str, what: str) -> None:
        """Warn that the model will not have something that the file has at ``path``."""
        self.is_complete = False
        self.note(path, what)

    def note(self, path: str, what: str) -> None:
        """Issue a FormatWarning about something unusual at ``path`` in the file."""
        warnings.warn(f"{self.name}: {path}: {what}", FormatWarning, stacklevel=3)

    def index(self, number: int, count: int, path: str, what: str) -> int:
        """Return ``number`` if it is an index from 0 to ``count`` - 1; else fail.

        ``path``: where the file has the index.  ``what``: "buffer", "tensor" or "graph", for the message.
        """
        if not 0 <= number < count:
            self.fail(f"{what}-index", path, f"index {number}, there are {count} {what}s")
        return number

    # -- the model -----------------------------------------------------------------------------

    def model(self) -> Model:
        """Return the model; raise InvalidFile for an invalid index, dtype, shape or constant."""
        if not self.trees:
            self.fail("subgraphs", "subgraphs", "expected one graph or more, got none")
        graphs = [Graph(tree.get("name", "")) for tree in self.trees]
        codes = self.tree.get("operator_codes", [])
        operators = OpLoader(self.data, self.name, self.format, codes, graphs)
        for number, (graph, tree) in enumerate(zip(graphs, self.trees, strict=True)):
            path = f"subgraphs[{number}]"
            tensors = tree.get("tensors", ())
            values = [self.value(t, f"{path}.tensors[{i}]") for i, t in enumerate(tensors)]
            self.values.append(values)
            self.link_scales(values, path)
            self.set_fields(graph, tree, values, path, operators)
            for i, op in enumerate(tree.get("operators", ())):
                graph.append(operators.op(op, values, f"{path}.operators[{i}]"))
            self.record_unused(graph, values)
        model = Model(graphs, self.format)
        model.signatures = self.signatures(graphs)
        self.describe(model, operators)
        return model

    def describe(self, model: Model, operators: OpLoader) -> None:
        """Set the fields of Model except graphs and signatures; keep the lists of the file in ``origin``."""
        tree = self.tree
        model.version = tree.get("version", 0)
        model.description = tree.get("description")
        indices = []
        copies: dict[Place, bytes] = {}  # entries that share a buffer share the copy
        for number, item in enumerate(tree.get("metadata", ())):
            path = f"metadata[{number}].buffer"
            index = self.index(item.get("buffer", 0), len(self.buffers), path, "buffer")
            self.used_buffers.add(index)
            indices.append(index)
            data = self.buffers[index]
            place = (0, 0) if data is None else place_of(data)
            if place not in copies:
                copies[place] = b"" if data is None else data.tobytes()
            model.metadata.append((item.get("name", ""), copies[place]))
        numbers = tree.get("metadata_buffer")
        interpreted = {*MODEL_VECTORS, "version", "metadata_buffer"}
        model.extra["origin"] = Origin(
            format=self.format,
            codes=tuple(operators.codes),
            buffers=tuple(self.buffers),
            unused_buffers=frozenset(range(len(self.buffers))) - self.used_buffers,
            unused_codes=frozenset(range(len(operators.codes))) - operators.used,
            metadata=tuple(indices),
            metadata_buffer=None if numbers is None else tuple(numbers.tolist()),
            has_external_data=self.has_external_data,
            far_options=tuple(operators.far_options),
            has_rank=self.has_rank,
            absent=absent(tree, MODEL_VECTORS),
            archive=attached_archive(self.data),
            is_complete=self.is_complete,
            source=self.data.obj if isinstance(self.data.obj, FileMap) else None,
            rest={name: value for name, value in tree.items() if name not in interpreted},
        )

    def signatures(self, graphs: list[Graph]) -> list[Signature]:
        """Return the signatures; raise InvalidFile for an invalid index."""
        out = []
        for number, tree in enumerate(self.tree.get("signature_defs", ())):
            path = f"signature_defs[{number}]"
            graph = self.index(tree.get("subgraph_index", 0), len(graphs), path + ".subgraph_index", "graph")
            sides: list[dict[str, Value]] = []
            for side in ("inputs", "outputs"):
                values: dict[str, Value] = {}
                for i, item in enumerate(tree.get(side, ())):
                    name, where = item.get("name", ""), f"{path}.{side}[{i}]"
                    if name in values:
                        self.warn(where, f"{name!r} is listed twice; the first is lost")
                    listed, where = self.values[graph], where + ".tensor_index"
                    index = self.index(item.get("tensor_index", 0), len(listed), where, "tensor")
                    values[name] = listed[index]
                sides.append(values)
            if "deprecated_tag" in tree:
                self.warn(f"{path}.deprecated_tag", f"{tree['deprecated_tag']!r} is lost")
            out.append(Signature(tree.get("signature_key", ""), graphs[graph], *sides))
        return out

    # -- graphs --------------------------------------------------------------------------------

    @staticmethod
    def set_fields(graph: Graph, tree: Tree, values: list[Value], path: str, operators: OpLoader) -> None:
        """Set all fields of ``graph`` except its operators; give a name to each value without one."""
        for side in ("inputs", "outputs"):
            setattr(graph, side, operators.pick(tree.get(side, ()), values, path, side, lowest=0))
        graph.table = list(values)
        missing = absent(tree, ("tensors", "inputs", "outputs", "operators", "name"))
        if missing:
            graph.extra["absent"] = missing
        for name in ("data_format", "debug_metadata_index"):
            if name in tree:
                graph.extra[name] = tree[name]
        names = {value.name for value in values}
        for i, value in enumerate(values):
            if not value.name:
                value.name = f"tensor_{i}"
                while value.name in names:
                    value.name += "_"
                names.add(value.name)
                value.extra["stored_name"] = (value.name, value.extra.pop("name"))  # see ``io.origin``

    def link_scales(self, values: list[Value], path: str) -> None:
        """Replace indices of tensors in the details of quantizations by the values.

        ``values``: the values of the graph at ``path``.
        """
        for number, value in enumerate(values):
            quantization = value.quantization
            if quantization is None or not quantization.details:
                continue
            details = dict(quantization.details)
            for name in index_fields(details):
                where = f"{path}.tensors[{number}].quantization.details.{name}"
                if (index := details.get(name, 0)) >= 0:
                    details[name] = values[self.index(index, len(values), where, "tensor")]
            value.quantization = replace(quantization, details=details)

    @staticmethod
    def record_unused(graph: Graph, values: list[Value]) -> None:
        """Record the values that nothing computes or uses; make constants of values without elements.

        ``values``: the values of ``graph``.  In the file, a constant without elements has no data, so it
        looks like a computed value.  Therefore a value without elements becomes a constant if

        - no operator computes it,
        - it is neither an input of the graph nor a variable,
        - its dtype is one that numpy has, or a packed integer type.
        """
        inputs, outputs = ({id(v) for v in side} for side in (graph.inputs, graph.outputs))
        unused = []
        for value in values:
            if value.producer is None and id(value) not in inputs:
                if not value.use_count and id(value) not in outputs:
                    unused.append(value)
                if value.data is not None or not _is_empty(value) or value.is_variable:
                    continue
                if value.dtype.numpy is not None:
                    value.data = np.zeros(value.static_shape, value.dtype.numpy)
                elif value.dtype.is_integer:  # packed: the data are a vector of bytes
                    value.data = np.zeros(0, np.uint8)
        if unused:
            graph.extra["unused"] = unused

    # -- tensors -------------------------------------------------------------------------------

    def buffer(self, number: int, tree: Tree) -> Array | None:
        """Return the bytes of buffer ``number``, which may be external data; None or [] if it has no data."""
        data: Array | None = tree.get("data")
        offset, size = tree.get("offset", 0), tree.get("size", 0)
        if offset <= 1 or (data is not None and len(data)):  # 0 and 1 stand for no external data
            return data
        if offset + size > len(self.data):
            self.fail("buffer-region", f"buffers[{number}]", f"{size} bytes at {offset} end beyond the file")
        self.has_external_data = True
        return np.frombuffer(self.data, np.uint8, size, offset) if size else None

    def value(self, tree: Tree, path: str) -> Value:
        """Return the value of the tensor ``tree``; fields that the IR does not interpret become ``extra``."""
        pop = tree.pop
        type_name = pop("type", "FLOAT32")
        if not isinstance(type_name, str):
            raise UnknownType.of(self.name, "dtype", f"{path}.type", f"the schema has no type {type_name}")
        dtype = DType[type_name]
        index = self.index(pop("buffer", 0), len(self.buffers), path + ".buffer", "buffer")
        self.used_buffers.add(index)
        buffer = self.buffers[index] if index else None  # buffer 0 means no data, whatever it contains
        data = None if buffer is None or not len(buffer) else buffer
        name = pop("name", None)
        value = Value(name or "", dtype, self.shape(tree, data is not None, path))
        value.is_variable = pop("is_variable", False)
        extra = value.extra = tree
        if not name:  # None or "": ``set_fields`` makes a name
            extra["name"] = name
        if data is not None:
            value.data = self.constant(data, value, path)
        elif index:
            extra["buffer"] = index
        if "quantization" in tree:
            extra["stored_quantization"] = pop("quantization")
            value.quantization = quantization_of(extra["stored_quantization"])
        value.extra = tree.copy()  # without the memory of the fields that were removed
        return value

    def shape(self, tree: Tree, is_const: bool, path: str) -> Shape | None:
        """Return the shape of the tensor ``tree``; None if its rank is unknown.

        Remove the fields from ``tree`` that ``save`` can derive from the shape.  ``is_const``: whether the
        tensor is a constant.
        """
        stored = tree.get("shape")
        signature = tree.get("shape_signature")
        ranked = tree.pop("has_rank", False)
        numbers = [] if stored is None else stored.tolist()
        if len(numbers) > MAX_RANK:
            self.fail("shape", path + ".shape", f"expected at most {MAX_RANK} dimensions, got {len(numbers)}")
        if stored is None:
            tree["absent"] = ("shape",)
        try:
            shape = shape_of(numbers, None if is_const or signature is None else signature.tolist())
        except FormatError as error:
            self.fail("shape", path + ".shape", error.message)
        if self.has_rank and not ranked:  # the file marks known ranks, but not the rank of this tensor
            if not numbers and not is_const:
                tree.pop("shape", None)
                return None
            tree["has_rank"] = False
        # ``save`` writes [?,4] as ``shape`` [1,4] and ``shape_signature`` [-1,4]
        if numbers == [1 if d is None else d for d in shape]:
            tree.pop("shape", None)
            derived = [-1 if d is None else d for d in shape]
            if signature is not None and None in shape and signature.tolist() == derived:
                del tree["shape_signature"]
        return shape

    def constant(self, data: Array, value: Value, path: str) -> Array:
        """Return the data of a constant as an array of its dtype and shape.

        Strings and packed, sparse or compressed data stay bytes.  If the data have more bytes than the
        elements take, issue a warning; ``save`` writes all the bytes again.
        """
        dtype = value.dtype.numpy
        compression = value.extra.get("compression_type", "NONE")
        if dtype is None or "sparsity" in value.extra or compression != "NONE":
            return data
        if not value.is_static:
            got = format_shape(value.shape)
            self.fail("data-size", path, f"expected a static shape for a constant, got {got}")
        size = dtype.itemsize * math.prod(value.static_shape)
        if size > len(data):
            self.fail("data-size", path, _other_size(value, size, len(data)))
        if not size and not _is_empty(value):
            limit = "nonzero dimensions with a product below 2^58"
            self.fail("data-size", path, f"expected {limit}, got {list(value.static_shape)}")
        if size < len(data):
            unused = f"the last {len(data) - size} are not used"
            self.note(path, f"{_other_size(value, size, len(data))}; {unused}")
            value.extra["stored_data"] = data
        return data[:size].view(dtype).reshape(value.static_shape)


def _other_size(value: Value, size: int, got: int) -> str:
    """Return the sentence about a constant of ``got`` bytes whose type takes ``size`` bytes."""
    return f"expected {counted(size, 'byte')} for {value.dtype.short}{list(value.static_shape)}, got {got}"


def _is_empty(value: Value) -> bool:
    """Return whether ``value`` has no elements, and a shape that a numpy array can have."""
    shape = value.shape or ()
    # numpy needs a product of the nonzero dimensions below 2^63 bytes; an element has at most 16 bytes
    return 0 in shape and None not in shape and math.prod(d for d in shape if d) < 2**58
