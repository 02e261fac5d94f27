# SPDX-License-Identifier: Apache-2.0
"""A model that is printed and parsed stays the same model, also after O1.

Three checks, before O1 and after it: the original and the parsed model are equal; the files written from both
hold equal models; if the original is written ``without_layout``, both files have the same bytes.
In both models, the same passes of O1 make the same number of changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import circlekit
from circlekit.errors import CirclekitError
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Graph, Model
from circlekit.ir.model_equality import difference
from circlekit.ir.op import Op
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.text.literal_printing import plain_items
from circlekit.ir.value import Array, Value
from circlekit.passes.engine.legalize import legalize


def findings(first: Model, inputs: Sequence[Array], counts: Counter[str]) -> Iterator[str]:
    """Yield what printing and parsing ``first`` loses or changes, before O1 and after O1.

    O1 runs on ``first`` itself.
    """
    second = parse_model(print_model(first))
    yield from _differences(first, second, "")
    changes = [optimized(model) for model in (first, second)]
    if changes[0] != changes[1]:
        yield f"optimized differently: {changes[0]} and {changes[1]}"
    yield from _differences(first, second, "after O1: ")


def without_layout(model: Model) -> Model:
    """Return a copy that has forgotten how its file was laid out: indices of buffers, absent vectors..."""
    copy = clone(model)
    values = [value for graph in copy.graphs for value in graph.values()]
    things: list[Model | Graph | Op | Value] = [copy, *copy.graphs, *copy.ops(), *values]
    for thing in things:
        thing.extra = plain_items(thing.extra)
    return copy


def file_of(model: Model) -> bytes | str:
    """Return the bytes of the file; the message of the error if the model cannot be written."""
    try:
        return to_bytes(legalize(model, model.format))
    except CirclekitError as error:
        return error.message


def optimized(model: Model) -> str:
    """Run O1 on ``model``; return the passes with their numbers of changes, or the message of an error."""
    try:
        return str([(record.name, record.changes) for record in circlekit.optimize(model, "O1").passes])
    except CirclekitError as error:
        return error.message


def _differences(first: Model, second: Model, prefix: str) -> Iterator[str]:
    """Yield the results of the three checks that fail, each after ``prefix``."""
    found = difference(first, second)
    if found is not None:
        yield f"{prefix}{found}"
    files = [file_of(first), file_of(second)]
    if isinstance(files[0], bytes) and isinstance(files[1], bytes):
        found = difference(circlekit.load(files[0]), circlekit.load(files[1]))
        if found is not None:
            yield f"{prefix}in the files: {found}"
    if file_of(without_layout(first)) != files[1]:
        yield f"{prefix}the files differ in their bytes"
