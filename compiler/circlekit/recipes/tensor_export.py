# SPDX-License-Identifier: Apache-2.0
"""Export the tensors of a model file, with their data and quantization, as HDF5 groups."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from math import prod

import numpy as np

from circlekit.io.schema import Tree
from circlekit.ir.dtypes import DType
from circlekit.ir.value import Array
from circlekit.recipes.model_file import NO_NAME, ModelFile, name_of

PARAMETERS = {"min": "<f4", "max": "<f4", "scale": "<f4", "zero_point": "<i8"}


def data_of(facts: ModelFile, tensor: Tree) -> Array | None:
    """Return a constant in its shape, or as bytes if numpy has no such array; None for other tensors."""
    if not facts.buffer_size(tensor):
        return None
    data = np.frombuffer(facts.buffer(tensor.get("buffer", 0)), np.uint8)
    kind = DType.__members__.get(str(tensor.get("type", "FLOAT32")))
    shape = [int(d) for d in tensor.get("shape", ())]
    if kind is None or kind.numpy is None or min(shape, default=0) < 0:
        return data
    if prod(shape) * kind.numpy.itemsize != data.size:  # sparse
        return data
    return data.view(kind.numpy).reshape(shape)


def hdf5_of(facts: ModelFile) -> bytes:
    """Return an HDF5 file with one group per tensor, named after it.

    The datasets of a group are ``weights``, ``min``, ``max``, ``scale``, ``zero_point`` and
    ``quantized_dimension``, as far as the tensor has them.  In names, ``/`` becomes ``_``; repeated names get
    a number at the end.  Tensors without a name are left out.
    """
    groups: dict[str, dict[str, Array]] = {}
    for tensor in facts.tensors():
        name = name_of(tensor).replace("/", "_")
        if name == NO_NAME:
            continue
        count, unique = 0, name
        while unique in groups:
            count += 1
            unique = f"{name}_{count}"
        groups[unique] = dict(_datasets(facts, tensor))
    encoded: bytes = import_module("circlekit.equivalence.hdf5").encode_groups(groups)
    return encoded


def _datasets(facts: ModelFile, tensor: Tree) -> Iterator[tuple[str, Array]]:
    data = data_of(facts, tensor)
    if data is not None:
        yield "weights", data
    quantization = tensor.get("quantization")
    if quantization is None:
        return
    for name, kind in PARAMETERS.items():
        if name in quantization:
            yield name, quantization[name].astype(kind)
    yield "quantized_dimension", np.array(quantization.get("quantized_dimension", 0), "<i4")
