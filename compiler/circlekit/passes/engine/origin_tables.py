# SPDX-License-Identifier: Apache-2.0
"""ONE's profile data: from which original operators each operator of the optimized model was made.

The metadata ``ONE_source_table`` gives each original operator a number and a name.  ``ONE_op_table`` lists
these numbers for each operator of the written model.  Numbers and counts are 32-bit words, little-endian;
``(...)*`` repeats:

    source table := count, (number, byte count, text with a zero byte at its end)*
    op table     := count, (number, origin count, (number of an original operator)*)*
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op

MAX_ORIGINS = 32
"""The search for the original operators of one operator adds no more when it has found this many."""

SOURCES, ORIGINS = "ONE_source_table", "ONE_op_table"
"""The names of the two tables in the metadata."""


def add_profile(original: Model, model: Model) -> None:
    """Put the two tables into the metadata of ``model``; existing ones are replaced.

    An operator is attributed to the operators of ``original`` that lie between its operands and its results;
    values of the two models correspond if they have the same name.  ``original`` may have such tables itself.
    Then the new tables refer, as in ONE, to the operators of the model from which ``original`` was made.
    """
    earlier = _earlier_tables(original)
    names = [op.results[0].name if op.results else op.code for op in original.ops()]
    texts = {number: name.encode("utf-8", "replace") + b"\0" for number, name in enumerate(names)}
    numbers = {id(op): number for number, op in enumerate(original.ops())}
    graphs = {graph.name: graph for graph in original.graphs}
    origins: list[list[int]] = []
    for graph in model.graphs:
        source = graphs.get(graph.name)
        origins += _origins(source, graph, numbers) if source is not None else [[] for _ in graph]
    if earlier is not None:
        texts, rows = earlier  # rows[n]: the origins of operator n of ``original``
        origins = [sorted({origin for number in row for origin in rows[number]}) for row in origins]
    other_metadata = [(name, data) for name, data in model.metadata if name not in (SOURCES, ORIGINS)]
    source_table = _table({number: (len(text), text) for number, text in texts.items()})
    words = [(len(row), struct.pack(f"<{len(row)}I", *row)) for row in origins]
    origin_table = _table(dict(enumerate(words)))
    model.metadata = [*other_metadata, (SOURCES, source_table), (ORIGINS, origin_table)]


def _origins(original: Graph, graph: Graph, numbers: dict[int, int]) -> list[list[int]]:
    """Return, for each operator of ``graph``, the numbers of its original operators, sorted.

    ``numbers``: the number of each operator of ``original``, by ``id``.
    If no result of an operator has the name of a result in ``original``, the operator gets the numbers that
    were found for the users of its results.
    """
    producers = {value.name: op for op in original for value in op.results}
    known = {value.name for value in original.values()}
    found: dict[int, list[int]] = {}
    for op in reversed(graph.ops):  # users before producers, because producers may inherit from them
        starts = [producers[v.name] for v in op.results if v.name in producers]
        operands = {v.name for v in op.inputs if v is not None and v.name in known}
        inherited = [n for v in op.results for user in v.users for n in found.get(id(user), [])]
        between = _between(starts, operands, numbers) if starts else inherited
        found[id(op)] = sorted(set(between))
    return [found[id(op)] for op in graph]


def _between(starts: Sequence[Op], ends: set[str], numbers: dict[int, int]) -> list[int]:
    """Return the numbers of ``starts`` and of the operators before them, back to the values named ``ends``.

    If passes have renamed an operand, the search does not stop there, but at MAX_ORIGINS operators.
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


def _table(entries: Mapping[int, tuple[int, bytes]]) -> bytes:
    """Return a table as bytes.

    ``entries``: for each number, the length that the table states (in bytes or words), and the content.
    """
    packed = [struct.pack("<II", n, length) + content for n, (length, content) in entries.items()]
    return struct.pack("<I", len(entries)) + b"".join(packed)


def _earlier_tables(model: Model) -> tuple[dict[int, bytes], list[list[int]]] | None:
    """Return the texts of the source table of ``model`` by number, and the origins of each operator.

    Return None if ``model`` has no such tables, or if they do not fit its operators.
    """
    metadata = dict(model.metadata)
    try:
        texts = _entries(metadata[SOURCES], 1)
        rows = _entries(metadata[ORIGINS], 4)
        origins = [struct.unpack(f"<{len(rows[n]) // 4}I", rows[n]) for n in range(len(list(model.ops())))]
    except (KeyError, struct.error):  # a table is missing, lacks an operator, or is damaged
        return None
    fits = len(rows) == len(origins) and all(number in texts for row in origins for number in row)
    return (texts, [list(row) for row in origins]) if fits else None


def _entries(table: bytes, unit_bytes: int) -> dict[int, bytes]:
    """Return the content of each entry of ``table`` by number; raise struct.error if it is damaged.

    ``unit_bytes``: the unit of the lengths in the table: 1 in the source table, 4 in the op table.
    """
    data, at, found = bytes(table), 4, {}
    (count,) = struct.unpack_from("<I", data)
    for _ in range(count):
        number, length = struct.unpack_from("<II", data, at)
        begin, at = at + 8, at + 8 + length * unit_bytes
        if at > len(data):
            raise struct.error
        found[number] = data[begin:at]
    return found
