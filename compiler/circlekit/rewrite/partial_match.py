# SPDX-License-Identifier: Apache-2.0
"""Find operators that fit a part of a picture, for ``--explain``, and say why the rest does not match."""

from __future__ import annotations

from collections.abc import Iterator

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.text.lines import short_op
from circlekit.ir.value import Value
from circlekit.rewrite.match import Matcher
from circlekit.rewrite.picture import Node

PartialMatch = tuple[Op, str, int]
"""An operator, the sentence that says what differs, and the progress of the match (see ``match.Failure``)."""


def partial_matches(matcher: Matcher, graph: Graph) -> Iterator[PartialMatch]:
    """Yield each operator that fits a node before the root, if no user of its result fits the picture.

    If the picture is a Relu of a Conv2D, for example, yield each Conv2D whose result no Relu reads.  If the
    root is a custom operator, also yield all operators without a declaration that have another code.
    """
    picture = matcher.picture
    for node in picture.nodes[:-1]:
        for at, name in enumerate(node.results):
            users = [user for user in picture.nodes if any(o.name == name for o in user.operands)]
            for op in graph:
                if users and node.fits(op) and at < len(op.results):
                    yield from _missing_user(matcher, node, op, op.results[at], users[0])
    root = picture.root
    for op in graph:
        if root.custom is not None and isinstance(op, root.kinds) and not root.fits(op) and op.results:
            code = getattr(op, "custom_code", None) or op.code
            yield op, f"%{op.output.name}: is {code}, expected {root.kind_names()}", 1


def _missing_user(
    matcher: Matcher, node: Node, op: Op, value: Value, expected: Node
) -> Iterator[PartialMatch]:
    """Yield ``op``, which fits ``node``, if no user of its result ``value`` fits the node ``expected``.

    If the part of the picture that ends with ``node`` matches, the sentence is about the user of ``value``;
    else it says what differs in that part.
    """
    if any(expected.fits(user) for user in value.users):
        return  # then the refusal of a match that includes this user says more
    count, sentence, progress = matcher.part(node, op)
    if count:
        user = next(iter(value.users), None)
        if user is not None:
            relation = f"is read by {short_op(user)}"
        else:
            is_output = op.graph is not None and op.graph.is_output(value)
            relation = "is an output that no operator reads" if is_output else "has no use"
        sentence = f"%{value.name}: {relation}, expected {expected.kind_names()}"
        progress = 2 * count
    if sentence:
        yield op, sentence, progress
