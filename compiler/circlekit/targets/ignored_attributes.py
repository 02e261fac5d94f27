# SPDX-License-Identifier: Apache-2.0
"""Find operators whose results have a wrong shape in a runtime although the graph's outputs are right.

An operator's entry in a target's table may have ``ignores``: attributes that the runtime ignores, such as
``keep_num_dims`` of FULLY_CONNECTED, with the values that it uses instead.  The result of such an operator
has the right elements in the right order, but perhaps another shape.  That does no harm if, for example, a
RESHAPE follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from circlekit.errors import CirclekitError
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Value
from circlekit.targets.planners import VIEWS
from circlekit.targets.target import Target

Dims = tuple[int, ...]


def tolerated(graph: Graph, target: Target) -> set[Op]:
    """Return the operators with ignored attributes that ``target`` refuses, but that do no harm in ``graph``.

    They do no harm if all outputs of the graph have the right elements and shapes, although the runtime
    ignores the attributes of these operators.
    """
    found = {op for op in graph if target.ignored(op) and target.refusal(op) is not None}
    return _Shapes(graph, target, found).tolerated() if found else found


class _Shapes:
    """The shapes that results have in a runtime that ignores attributes of ``ops``.

    ``shapes``: the shape in the runtime of each value whose declared shape (the one in the model) is another.
    ``origins``: for each such value, the operators of ``ops`` that cause the difference.
    """

    def __init__(self, graph: Graph, target: Target, ops: set[Op]) -> None:
        self.graph, self.target, self.ops = graph, target, ops
        self.shapes: dict[Value, Dims] = {}
        self.origins: dict[Value, set[Op]] = {}

    def tolerated(self) -> set[Op]:
        """Remove from ``ops`` all operators that cause a wrong result; return the others.

        The results are examined in the order of the operators.  When one is wrong, the operators that cause
        it are removed, and the results are examined again from the first removed operator on.
        """
        ops = self.graph.ops
        numbers = {op: number for number, op in enumerate(ops)}
        number = 0
        while number < len(ops):
            causes = self._examine(ops[number])
            self.ops -= causes
            # go back to the first removed operator: the results before it do not depend on it
            number = min((numbers[op] for op in causes), default=number + 1)
        return self.ops

    def _examine(self, op: Op) -> set[Op]:
        """Set the shape of the result of ``op``; return the operators of ``ops`` that make the result wrong.

        Return an empty set if the result is right.
        """
        for value in op.results:
            self.shapes.pop(value, None)
        changed = [v for v in op.inputs if v is not None and v in self.shapes]
        origins = set[Op]().union(*(self.origins[v] for v in changed))
        if op not in self.ops and (not changed or self.target.ignored(op)):
            # the result has its declared shape: the operands have theirs, or their shapes do not matter, as
            # in a FULLY_CONNECTED whose keep_num_dims is false anyway
            return set()
        shape = self._shape(op)
        if shape is None:
            return origins or {op}
        value = op.results[0]
        if op in self.ops:
            origins = {op}
        if shape != value.shape:
            if self.graph.is_output(value):
                return origins
            self.shapes[value], self.origins[value] = shape, origins
        return set()

    def _shape(self, op: Op) -> Dims | None:
        """Return the shape of the result of ``op`` in the runtime; None if its elements may be wrong."""
        # an operator without a shape rule, with several results or with unknown shapes is not examined
        is_static = all(v.is_static for v in (*op.results, *filter(None, op.inputs)))
        if isinstance(op, OpaqueOp) or len(op.results) != 1 or not is_static:
            return None
        operands = [None if v is None else self._copy(v) for v in op.inputs]
        attributes = {**op.attribute_values, **(self.target.ignored(op) if op in self.ops else {})}
        result = Value("", op.output.dtype, None, None, op.output.quantization)
        trial = type(op)(*operands, results=[result], **attributes)
        try:
            shape = trial.inferred()[0].shape
        except CirclekitError:
            return None
        sizes = tuple(size for size in shape or () if size is not None)
        if shape is None or len(sizes) < len(shape) or prod(sizes) != op.output.numel:
            return None
        result.shape = shape
        if self.target.refusal(trial) is not None or not self._keeps_order(op, operands, sizes):
            return None
        return sizes

    def _copy(self, value: Value) -> Value:
        """Return a copy of ``value`` with the shape that it has in the runtime."""
        shape = self.shapes.get(value, value.shape)
        return Value("", value.dtype, shape, value.data, value.quantization)

    def _keeps_order(self, op: Op, operands: Sequence[Value | None], shape: Dims) -> bool:
        """Return whether the result of ``op`` in the runtime has the same elements in the same order.

        ``operands``, ``shape``: the operands, and the shape of the result, as they are in the runtime.
        Operators in ``ops`` and views keep the order.  An elementwise operator keeps it in two cases:

        - Shapes change only by leading dimensions of 1.
        - The last dimension of the result stays.  Each operand has as many elements as the result, or is a
          vector as long as that dimension, or has one element.

        For other operators, return False.
        """
        if op in self.ops or op.code in VIEWS:
            return True
        if not op.elementwise:
            return False
        pairs = [(a, b) for a, b in zip(op.inputs, operands, strict=True) if a is not None and b is not None]
        if all(_core(a.shape) == _core(b.shape) for a, b in pairs) and _core(shape) == _core(op.output.shape):
            return True
        whole, last = op.output.numel, op.output.static_shape[-1:]
        return tuple(shape[-1:]) == last and all(
            b.numel == whole or _core(b.shape) in ((), last) for _, b in pairs
        )


def _core(shape: Sequence[int | None] | None) -> tuple[int | None, ...]:
    """Return ``shape`` without leading dimensions of 1."""
    sizes = list(shape or ())
    while sizes and sizes[0] == 1:
        sizes.pop(0)
    return tuple(sizes)
