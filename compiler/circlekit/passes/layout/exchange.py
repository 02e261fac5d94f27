# SPDX-License-Identifier: Apache-2.0
"""Exchange a Transpose and the Reshape after it where the result is only reduced, as in a group norm.

PyTorch's group norm reshapes NCHW data to [N, groups, channels / groups, H * W] and computes the mean and the
variance of each group.  Without the exchange, this Reshape keeps its data in NCHW, because it merges H and W.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from circlekit.ir.graph import Graph
from circlekit.ir.value import Shape, Value
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

    Return None if the two cannot be exchanged, or if the result is not only reduced.
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

    ``shape``: the shape of x.  Return None if the Reshape splits or merges axes that are not next to each
    other in x, or if nothing would be transposed.
    Example: for [1,8,8,16], (0,3,1,2) and [1,4,4,64], return [1,64,4,4] and (0,2,3,1).
    """
    groups = _groups([shape[axis] for axis in perm], result)
    if groups is None:
        return None
    axes_of_x = [[perm[axis] for axis in group] for group, _ in groups]
    if any(axes != [*range(axes[0], axes[0] + len(axes))] for axes in axes_of_x):
        return None
    in_order = sorted(range(len(groups)), key=axes_of_x.__getitem__)
    order = [axis for index in in_order for axis in groups[index][1]]  # the axes of the result, as x has them
    if keeps_order(result, tuple(order)):
        return None
    return tuple(result[axis] for axis in order), inverse(tuple(order))


def _groups(shape: list[int], result: tuple[int, ...]) -> list[tuple[list[int], list[int]]] | None:
    """Return the smallest groups of axes of ``shape``, and of ``result``, with the same number of elements.

    Return None if not all axes belong to such groups.
    """
    groups = list[tuple[list[int], list[int]]]()
    i = j = 0
    while i < len(shape) and j < len(result):
        before, after = [i], [j]
        i, j = i + 1, j + 1
        while (a := prod(shape[k] for k in before)) != (b := prod(result[k] for k in after)):
            if (i if a < b else j) == len(shape if a < b else result):
                return None
            if a < b:
                before.append(i)
                i += 1
            else:
                after.append(j)
                j += 1
        groups.append((before, after))
    for axes, rest in ((0, range(i, len(shape))), (1, range(j, len(result)))):
        if groups and all((shape, result)[axes][k] == 1 for k in rest):
            groups[-1][axes].extend(rest)
        elif rest:
            return None
    return groups


def _is_only_reduced(graph: Graph, value: Value, perm: Perm) -> bool:
    """Return whether elementwise operators lead from ``value`` to reductions, and to nothing else.

    Also, transposing ``value`` by the inverse of ``perm`` must not change the order of elements in the
    results of the reductions.
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
