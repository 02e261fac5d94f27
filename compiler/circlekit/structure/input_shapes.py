# SPDX-License-Identifier: Apache-2.0
"""The shapes that a caller wants for the inputs of a model: as a list, as a dict, or as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from circlekit.errors import ModelError, ShapeError, did_you_mean, names_in, shown
from circlekit.ir.graph import Graph
from circlekit.ir.value import LARGEST_DIMENSION, MAX_RANK, Shape

Shapes = Sequence[Sequence[int | None]] | Mapping[str, Sequence[int | None]]
"""A shape for each input in order, or for some inputs by name; None or -1 stands for an unknown dimension."""


def parse_shapes(text: str) -> list[list[int]]:
    """Return the shapes in a text such as ``[1,2],[3,-1],[]``; commas before a shape do not matter.

    Raise ShapeError, in ONE's words, for any other text.
    """
    rest = text.strip()
    found: list[list[int]] = []
    while rest:
        head, close, rest = rest.partition("]")
        words = head.strip().lstrip(",").strip()
        if not close or not words.startswith("["):
            raise ShapeError(f"Invalid shape format: {text}")
        try:
            found.append([int(word) for word in words[1:].split(",")] if words[1:].strip() else [])
        except ValueError:
            raise ShapeError(f"Error during shape processing: {words[1:]}") from None
        rest = rest.strip()
    if not found:
        raise ShapeError(f"No shapes found in the input string: {text}")
    return found


def shapes_by_input(graph: Graph, shapes: Shapes) -> list[Shape | None]:
    """Return the new shape of each input of ``graph``; an input that a dict does not name keeps its shape.

    Raise ModelError for a wrong number of shapes or an unknown name, ShapeError for an invalid shape.
    """
    if isinstance(shapes, Mapping):
        names_in("an input", shapes)
        by_name = {v.name: v for v in graph.inputs}
        for name in shapes:
            if name not in by_name:
                hint = did_you_mean(name, by_name, 3)
                raise ModelError(f"graph {shown(graph.name)} has no input named {name!r}{hint}")
        return [_checked(shapes[v.name]) if v.name in shapes else v.shape for v in graph.inputs]
    listed = _listed(shapes)
    if len(listed) != len(graph.inputs):
        # ONE's words, for which its tests of circle-resizer search
        raise ModelError(f"Expected {len(graph.inputs)} shapes but provided {len(listed)}")
    return [_checked(shape) for shape in listed]


def _listed(shapes: object) -> list[object]:
    """Return ``shapes`` as a list; raise ModelError if it is not a collection of shapes."""
    if isinstance(shapes, str) or not isinstance(shapes, Iterable):
        raise ModelError(f"expected a list of shapes, or a dict by input name, got {type(shapes).__name__}")
    return list(shapes)


def _checked(shape: object) -> Shape:
    """Return ``shape`` with None for -1; raise ShapeError unless it is a sequence of valid dimensions."""
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise ShapeError(f"expected a shape, such as [1, 8], got {shape!r}")
    dims: list[int | None] = []
    for dim in shape:
        if dim is not None and not (isinstance(dim, int | np.integer) and -1 <= dim <= LARGEST_DIMENSION):
            expected = f"dimensions from 0 to {LARGEST_DIMENSION}, or -1 for an unknown one"
            raise ShapeError(f"expected {expected}, got {dim!r}")
        dims.append(None if dim in (-1, None) else int(dim))
    if len(dims) > MAX_RANK:
        raise ShapeError(f"expected at most {MAX_RANK} dimensions, got {len(dims)}")
    return tuple(dims)
