# SPDX-License-Identifier: Apache-2.0
"""Parts of a picture that are in a graph where the rest of it is not."""

from __future__ import annotations

from collections.abc import Iterator

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.rewrite.match import Matcher
from circlekit.rewrite.picture import Node

Miss = tuple[Op, str, int]
"""The operator where it is, the sentence, how far it got."""


def unread_parts(matcher: Matcher, graph: Graph) -> Iterator[Miss]:
    """For each operator that the picture has inside, and that another one reads than it wants."""
    picture = matcher.picture
    for node in picture.nodes[:-1]:
        for at, name in enumerate(node.results):
            readers = [n for n in picture.nodes if any(o.name == name for o in n.operands)]
            for op in graph:
                if readers and node.fits(op) and at < len(op.results):
                    yield from _unread(matcher, node, op, op.results[at], readers[0])
    root = picture.root
    for op in graph:
        if root.custom is not None and isinstance(op, root.kinds) and not root.fits(op) and op.results:
            code = getattr(op, "custom_code", None) or op.code
            yield op, f"%{op.output.name}: is {code}, the picture wants {root.kind_names()}", 1


def _unread(matcher: Matcher, node: Node, op: Op, value: Value, reader: Node) -> Iterator[Miss]:
    found = next(iter(value.users), None)
    if any(reader.fits(user) for user in value.users):
        return  # its own refusal says more
    size, sentence, progress = matcher.part(node, op)
    if size:
        what = "nobody" if found is None else type(found).__name__
        where = f" %{found.output.name}" if found is not None and found.results else ""
        sentence = f"%{value.name}: is read by {what}{where}, the picture wants {reader.kind_names()}"
        progress = 2 * size
    if sentence:
        yield op, sentence, progress
