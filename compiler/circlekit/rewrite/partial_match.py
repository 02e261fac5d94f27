# SPDX-License-Identifier: Apache-2.0
"""Parts of a picture that a graph has without the rest, for explanations where nothing comes close."""

from __future__ import annotations

from collections.abc import Iterator

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.rewrite.match import Matcher
from circlekit.rewrite.picture import Node

PartialMatch = tuple[Op, str, int]
"""The operator, the sentence that says what differs, and the progress of the match."""


def partial_matches(matcher: Matcher, graph: Graph) -> Iterator[PartialMatch]:
    """Yield operators that match an interior node of the picture but not with the user it expects."""
    picture = matcher.picture
    for node in picture.nodes[:-1]:
        for at, name in enumerate(node.results):
            users = [n for n in picture.nodes if any(o.name == name for o in n.operands)]
            for op in graph:
                if users and node.fits(op) and at < len(op.results):
                    yield from _other_user(matcher, node, op, op.results[at], users[0])
    root = picture.root
    for op in graph:
        if root.custom is not None and isinstance(op, root.kinds) and not root.fits(op) and op.results:
            code = getattr(op, "custom_code", None) or op.code
            yield op, f"%{op.output.name}: is {code}, the picture wants {root.kind_names()}", 1


def _other_user(matcher: Matcher, node: Node, op: Op, value: Value, wanted: Node) -> Iterator[PartialMatch]:
    if any(wanted.fits(user) for user in value.users):
        return  # the refusal of the match with that user as root says more
    size, sentence, progress = matcher.part(node, op)
    if size:
        user = next(iter(value.users), None)
        kind = "" if user is None else f"is read by {type(user).__name__}"
        where = f" %{user.output.name}" if user is not None and user.results else ""
        sentence = f"%{value.name}: {kind or 'has no use'}{where}, the picture wants {wanted.kind_names()}"
        progress = 2 * size
    if sentence:
        yield op, sentence, progress
