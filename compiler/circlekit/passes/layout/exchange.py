# SPDX-License-Identifier: Apache-2.0
"""Exchange a Transpose and the Reshape after it where the result is only reduced, as in a group norm.

PyTorch's group norm reshapes NCHW data to [N, groups, channels / groups, H * W] and computes the mean and the
variance of each group.  Without the exchange, this Reshape keeps its data in NCHW, because it merges H and W.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from circlekit.ir.graph import Graph
from circlekit.ir.value import Shape, Value
from circlekit.ops.dimensions import matching_groups
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.ops.reduction.reduce import Reduction
from circlekit.passes.support.axes import Perm, constant_perm, inverse, keeps_order
from circlekit.passes.support.conditions import remove_unused
from circlekit.passes.support.insertion import Inserter


class Exchange(NamedTuple):
    """An exchange that was made.

    ``reshape``: the old Reshape, which is in no graph now.  ``moved``: its operand, the result of the old
    Transpose.  ``result``: the result of the new Transpose, which the users of ``reshape`` read now.
    """

    reshape: Reshape
    moved: Value
    result: Value

    def finish(self, graph: Graph) -> bool:
        """Undo the exchange if it saved no Transpose; return whether it stays.

        It saved none if ``moved`` and ``result`` are both still computed.  Then ``reshape``, which moves no
        bytes, is cheaper than the new Transpose.
        """
        producers = self.moved.producer, self.result.producer
        if any(op is None or op.graph is not graph for op in producers):
            self.reshape.drop_inputs()
            remove_unused(graph, self.moved)
            return True
        assert producers[1] is not None
        self.reshape.set_input(0, self.moved)
        graph.insert_before(producers[1], self.reshape)
        graph.replace(self.result, self.reshape.output)
        remove_unused(graph, self.result)
        return False


def exchanged(graph: Graph, reshape: Reshape) -> Exchange | None:
    """Compute reshape(transpose(x)) as transpose(reshape(x)), and take ``reshape`` out of the graph.

    Return None, and change nothing, in these cases: ``reshape`` does not read a Transpose with a constant
    permutation; a shape is unknown; the result is quantized, or x is a variable; ``_exchanged_steps`` finds
    no steps; ``_is_only_reduced`` is false for the result.
    """
    moved, result = reshape.input, reshape.output
    perm = constant_perm(transpose := moved.producer)
    if not isinstance(transpose, Transpose) or perm is None:
        return None
    x = transpose.input
    if not (x.is_static and moved.is_static and result.is_static) or result.quantization or x.is_variable:
        return None
    found = _exchanged_steps(x.static_shape, perm, result.static_shape)
    if found is None or not _is_only_reduced(graph, result, found[1]):
        return None
    new = Inserter(graph, reshape)
    exchanged_result = new.transposed(new.reshaped(x, found[0]), found[1])
    graph.replace(result, exchanged_result)
    graph.unlink(reshape)
    reshape.set_input(0, None)
    return Exchange(reshape, moved, exchanged_result)


def _exchanged_steps(
    shape: tuple[int, ...], perm: Perm, result: tuple[int, ...]
) -> tuple[Shape, Perm] | None:
    """Return (s, p) such that transpose(reshape(x, s), p) is reshape(transpose(x, perm), result).

    ``shape``: the shape of x.  The axes that the Reshape splits or merges together must be consecutive axes
    of x in the order of x; axes of dimension 1 count, too.  Otherwise return None.  Also return None if
    nothing would be transposed, or for some shapes without elements (``matching_groups`` finds no groups).
    Example: for [1,8,8,16], (0,3,1,2) and [1,4,4,64], return [1,64,4,4] and (0,2,3,1).
    """
    groups = matching_groups([shape[axis] for axis in perm], result)
    if groups is None or any(b != a + 1 for group, _ in groups for a, b in pairwise(perm[group])):
        return None
    in_order = sorted(groups, key=lambda group: perm[group[0]])
    # the axes of the result, in the order in which x has them
    order = [axis for _, group in in_order for axis in range(len(result))[group]]
    if keeps_order(result, tuple(order)):
        return None
    return tuple(result[axis] for axis in order), inverse(tuple(order))


def _is_only_reduced(graph: Graph, value: Value, perm: Perm) -> bool:
    """Return whether ``value`` is read only by reductions and elementwise operators.

    The same must hold for the results of these elementwise operators.  Their other operands of this shape
    must be constants or computed from ``value`` in this way, too.  The reductions must keep their axes, and a
    transpose by the inverse of ``perm`` must keep the order of the elements in their results.
    """
    values, others, back = [value], set[Value](), inverse(perm)
    for member in values:  # the list grows in the loop
        if graph.is_output(member) or not member.uses:
            return False
        for op in dict.fromkeys(member.users):
            if isinstance(op, Reduction):
                shape = op.output.shape
                if not op.keep_dims or shape is None or None in shape or not keeps_order(shape, back):
                    return False
            elif op.elementwise and op.pure and op.output.shape == value.shape:
                others.update(v for v in op.inputs if v is not None and v.shape == value.shape)
                if op.output not in values:
                    values.append(op.output)
            else:
                return False
    return all(other.is_const or other in values for other in others)
