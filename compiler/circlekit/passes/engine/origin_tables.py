# SPDX-License-Identifier: Apache-2.0
"""ONE's profile data: from which original operators each operator of the optimized model was made.

The metadata ``ONE_source_table`` gives each original operator a number and a name, ``ONE_op_table`` lists
these numbers for each operator of the written model.  All words are 32 bits, little-endian, ``*`` repeats:

    source table := count, (number, byte count, text with a zero byte at its end)*
    op table     := count, (number, origin count, (number of an original operator)*)*
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op

MAX_ORIGINS = 32
"""The most original operators that one operator is attributed to."""

SOURCES, ORIGINS = "ONE_source_table", "ONE_op_table"


def add_profile(original: Model, model: Model) -> None:
    """Put the two tables into the metadata of ``model``; existing ones are replaced.

    An operator is attributed to the operators of ``original`` that lie between its operands and its results;
    values of the two models correspond if they have the same name.
    """
    names = [op.results[0].name if op.results else op.code for op in original.ops()]
    numbers = {id(op): number for number, op in enumerate(original.ops())}
    graphs = {graph.name: graph for graph in original.graphs}
    origins: list[list[int]] = []
    for graph in model.graphs:
        source = graphs.get(graph.name)
        origins += _origins(source, graph, numbers) if source is not None else [[] for _ in graph]
    other_metadata = [(name, data) for name, data in model.metadata if name not in (SOURCES, ORIGINS)]
    texts = [name.encode("utf-8", "replace") + b"\0" for name in names]
    source_table = _table([(len(text), text) for text in texts])
    origin_table = _table([(len(row), struct.pack(f"<{len(row)}I", *row)) for row in origins])
    model.metadata = [*other_metadata, (SOURCES, source_table), (ORIGINS, origin_table)]


def _origins(original: Graph, graph: Graph, numbers: dict[int, int]) -> list[list[int]]:
    """Return for each operator of ``graph`` the ``numbers`` (by id) of its original operators, sorted."""
    producers = {value.name: op for op in original for value in op.results}
    known = {value.name for value in original.values()}
    found: dict[int, list[int]] = {}
    for op in reversed(graph.ops):
        starts = [producers[v.name] for v in op.results if v.name in producers]
        operands = {v.name for v in op.inputs if v is not None and v.name in known}
        inherited = [n for v in op.results for user in v.users for n in found.get(id(user), [])]
        between = _between(starts, operands, numbers) if starts else inherited
        found[id(op)] = sorted(set(between))
    return [found[id(op)] for op in graph]


def _between(starts: Sequence[Op], ends: set[str], numbers: dict[int, int]) -> list[int]:
    """Return the numbers of ``starts`` and of their producers, back to the values named ``ends``.

    If these values are not found, because they were renamed, at most MAX_ORIGINS numbers are returned.
    """
    seen = {id(op): op for op in starts}
    todo = list(starts)
    for op in todo:
        for value in op.inputs:
            producer = value.producer if value is not None and value.name not in ends else None
            if producer is not None and id(producer) not in seen and len(seen) < MAX_ORIGINS:
                seen[id(producer)] = producer
                todo.append(producer)
    return [numbers[key] for key in seen]


def _table(entries: Sequence[tuple[int, bytes]]) -> bytes:
    """Return a table of entries, each given by its length and its content."""
    packed = [struct.pack("<II", n, length) + content for n, (length, content) in enumerate(entries)]
    return struct.pack("<I", len(entries)) + b"".join(packed)
