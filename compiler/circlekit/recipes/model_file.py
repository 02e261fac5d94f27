# SPDX-License-Identifier: Apache-2.0
"""Properties of a model file, for ``circle-inspect``, ``circle-tensordump`` and the rules of recipes.

The properties are those of the tables in the file, as other programs read them, not those of the IR.
A table of the schema (Model, SubGraph, Operator, Tensor) is a dict {field: value} (``Tree``).  It has only
the fields that the file has; a reader gives the schema's default: ``tree.get(field, default)``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

import circlekit.ops  # noqa: F401  # imported to declare the operators
from circlekit.errors import FormatError
from circlekit.io.check.check_file import check_bytes
from circlekit.io.file_map import map_file
from circlekit.io.findings import Finding
from circlekit.io.operator_fields import code_key
from circlekit.io.read.flatbuffer_decoder import decode, identify
from circlekit.io.read.load import unidentified
from circlekit.io.schema import Tree
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Array

NO_NAME = "(noname)"
"""ONE's name for a tensor without a name."""

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
"""The codes of the operators that ``ModelFile.conv2d_weights`` lists."""


class ModelFile:
    """The model file at ``path``.  ``format``: ``circle`` or ``tflite``.  ``size``: the number of bytes.

    The constructor raises FileError if the file cannot be read, FormatError if it does not begin like a
    model, and LimitError if it is a pipe with more bytes than the memory limit.  Properties and methods raise
    FormatError if the flatbuffer is damaged; only ``findings`` returns the damage instead.  A wrong index in
    a valid flatbuffer raises nothing: the result then has ``(invalid: INDEX)`` in place of a name, or no
    data.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self.data = map_file(path)
        self.size = len(self.data)
        fmt = identify(self.data)
        if fmt is None:
            raise FormatError(f"{self.name}: {unidentified(self.data)}")
        self.format = fmt

    @cached_property
    def tree(self) -> Tree:
        """The schema's table Model as decoded from the file."""
        return decode(self.data, self.format, self.name)

    @property
    def graphs(self) -> list[Tree]:
        """The tables SubGraph."""
        graphs: list[Tree] = self.tree.get("subgraphs", [])
        return graphs

    # -- operators -----------------------------------------------------------------------------

    @cached_property
    def codes(self) -> list[str]:
        """The name of each operator code in the file, such as ADD; ``CUSTOM(name)`` for a custom operator."""
        names = []
        for tree in self.tree.get("operator_codes", ()):
            name, custom_code, _ = code_key(tree, self.format)
            custom = f"CUSTOM({custom_code})" if custom_code else "(invalid custom)"
            names.append(custom if name == "CUSTOM" else name)
        return names

    def code_of(self, op: Tree) -> str:
        """Return the name of the operator code of ``op``, a table Operator."""
        index = op.get("opcode_index", 0)
        return self.codes[index] if index < len(self.codes) else f"(invalid: {index})"

    def operators(self) -> list[str]:
        """Return the name of each operator of all graphs, see ``codes``, in order."""
        return [self.code_of(op) for graph in self.graphs for op in graph.get("operators", ())]

    def op_versions(self) -> dict[str, int]:
        """Return {operator name: its highest version}, sorted by name; ``(invalid: INDEX)`` has version 0."""
        versions: dict[str, int] = {}
        codes = self.tree.get("operator_codes", [])
        for graph in self.graphs:
            for op in graph.get("operators", ()):
                index = op.get("opcode_index", 0)
                version = codes[index].get("version", 1) if index < len(codes) else 0
                name = self.code_of(op)
                versions[name] = max(versions.get(name, version), version)
        return dict(sorted(versions.items()))

    def conv2d_weights(self) -> list[tuple[str, str]]:
        """Return (code of the operator, code of its weights' producer) for each operator in CONVOLUTIONS.

        If no operator produces the weights, the second code is ``CONST`` for constants and ``?`` otherwise.
        """
        return [pair for graph in self.graphs for pair in self._weights(graph)]

    def _weights(self, graph: Tree) -> Iterator[tuple[str, str]]:
        """Yield the pairs of ``conv2d_weights`` for one graph."""
        operators = graph.get("operators", ())
        tensors = graph.get("tensors", ())
        producers = {int(i): self.code_of(op) for op in operators for i in op.get("outputs", ())}
        for op in operators:
            kind = self.code_of(op)
            inputs = op.get("inputs", ())
            if kind not in CONVOLUTIONS:
                continue
            weight = int(inputs[1]) if len(inputs) > 1 else -1  # index of the tensor; -1: there is none
            constant = weight in range(len(tensors)) and self.buffer_size(tensors[weight])
            yield kind, producers.get(weight) or ("CONST" if constant else "?")

    # -- tensors -------------------------------------------------------------------------------

    def tensors(self) -> list[Tree]:
        """Return the tables Tensor of all graphs."""
        return [tensor for graph in self.graphs for tensor in graph.get("tensors", ())]

    @staticmethod
    def tensor_name(graph: Tree, index: int) -> str:
        """Return the name of tensor ``index`` of ``graph``; ``(invalid: INDEX)`` if there is none."""
        tensors = graph.get("tensors", ())
        return name_of(tensors[index]) if 0 <= index < len(tensors) else f"(invalid: {index})"

    def buffer(self, index: int) -> memoryview:
        """Return the bytes of the buffer ``index``; b"" for a wrong index.

        The bytes are in the table Buffer, or behind the flatbuffer if the table has an ``offset`` above 1.
        Bytes that would lie beyond the end of the file are left out.
        """
        buffers = self.tree.get("buffers", ())
        tree = buffers[index] if index < len(buffers) else {}
        data, offset = tree.get("data"), tree.get("offset", 0)
        if data is not None and len(data):
            return memoryview(data)
        return self.data[offset : offset + tree.get("size", 0)] if offset > 1 else memoryview(b"")

    def buffer_size(self, tensor: Tree) -> int:
        """Return the size of the data of ``tensor`` in bytes; buffer 0 stands for no data."""
        index = tensor.get("buffer", 0)
        return len(self.buffer(index)) if index else 0

    def constants(self) -> list[str]:
        """Return the names of all tensors that have data and are no variables."""
        tensors = (tensor for tensor in self.tensors() if not tensor.get("is_variable", False))
        return [name_of(tensor) for tensor in tensors if self.buffer_size(tensor)]

    def tensor_dtypes(self) -> list[tuple[str, str]]:
        """Return (name, name of the element type in the schema) of each tensor."""
        return [(name_of(tensor), str(tensor.get("type", "FLOAT32"))) for tensor in self.tensors()]

    def tensor_shapes(self) -> list[tuple[str, str]]:
        """Return (name, shape as text) of each tensor; in ``[1,-1,3]`` the second dimension is unknown."""
        return [(name_of(tensor), f"[{','.join(map(str, dims_of(tensor)))}]") for tensor in self.tensors()]

    # -- validity ------------------------------------------------------------------------------

    def findings(self) -> list[Finding]:
        """Return all violations of the format that ``check_bytes`` finds in the file."""
        return check_bytes(self.data, self.name)


def name_of(tensor: Tree) -> str:
    """Return the name of ``tensor``, or NO_NAME."""
    return str(tensor.get("name") or NO_NAME)


def dims_of(tensor: Tree) -> list[int]:
    """Return the dimensions of ``tensor`` as ONE prints them: ``shape_signature``, else ``shape``."""
    dims: Any = tensor.get("shape_signature")
    if dims is None:
        dims = tensor.get("shape", ())
    return [int(d) for d in dims]


PARAMETERS = {"min": "<f4", "max": "<f4", "scale": "<f4", "zero_point": "<i8"}
"""The vectors of a quantization that ``hdf5_of`` writes, with the numpy dtypes in the HDF5 file."""


def data_of(file: ModelFile, tensor: Tree) -> Array | None:
    """Return the data of ``tensor`` with the tensor's dtype and shape; None if there is no data.

    If numpy lacks the dtype (int4, strings), or the data does not fit dtype and shape, return the bytes as
    uint8[n].
    """
    if not file.buffer_size(tensor):
        return None
    data = np.frombuffer(file.buffer(tensor["buffer"]), np.uint8)
    dtype = DType.__members__.get(str(tensor.get("type", "FLOAT32")))
    shape = [int(d) for d in tensor.get("shape", ())]
    if dtype is None or dtype.numpy is None or any(d < 0 for d in shape):
        return data
    if prod(shape) * dtype.numpy.itemsize != data.size:  # such as sparse data
        return data
    return data.view(dtype.numpy).reshape(shape)


def hdf5_of(file: ModelFile) -> bytes:
    """Return the bytes of an HDF5 file with a group for each tensor of ``file`` that has a name.

    A group has the datasets ``weights``, ``min``, ``max``, ``scale``, ``zero_point`` and
    ``quantized_dimension``, as far as the tensor has them.  The group's name is the tensor's name with ``_``
    in place of ``/``; a repeated name gets a number at its end.
    """
    from circlekit.equivalence.data_files import hdf5  # importing h5py takes a tenth of a second

    groups: dict[str, dict[str, Array]] = {}
    counts: Counter[str] = Counter()  # how many numbers each name has used
    for tensor in file.tensors():
        name = unique = name_of(tensor).replace("/", "_")
        if name == NO_NAME:
            continue
        while unique in groups:
            counts[name] += 1
            unique = f"{name}_{counts[name]}"
        group = groups[unique] = {}
        data = data_of(file, tensor)
        if data is not None:
            group["weights"] = data
        quantization = tensor.get("quantization")
        if quantization is None:
            continue
        group |= {n: quantization[n].astype(kind) for n, kind in PARAMETERS.items() if n in quantization}
        group["quantized_dimension"] = np.array(quantization.get("quantized_dimension", 0), "<i4")
    return hdf5.encode_groups(groups)
