# SPDX-License-Identifier: Apache-2.0
"""Move slices before the operators whose results they take; then these operators compute fewer elements."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from circlekit.index_maps.chains import present_cost
from circlekit.index_maps.of_operators import movement_of
from circlekit.index_maps.steps import MovementCost, Reshaped, Sliced, sum_of
from circlekit.index_maps.unknown_dim import dims_of, is_unknown
from circlekit.index_maps.write_back import sliced
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import misfit
from circlekit.ir.text.lines import short_op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.movement.gather import Gather
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.ops.quantized_values import is_per_channel
from circlekit.ops.reduction.reduce import Reduction, reduced_axes
from circlekit.passes.layout.movement_writer import MovementWriter, drop
from circlekit.passes.slices.kept_axes import needed_for, without_axis
from circlekit.passes.slices.part import Part, part_of
from circlekit.passes.support.conditions import remove_unused
from circlekit.passes.support.linear_producer import producer_refusal
from circlekit.rewrite.base import Context, GraphPass

MAX_OPS = 64
"""A slice moves before at most this many operators in one step, so that long chains take linear time."""


class BackwardSlice(GraphPass):
    """slice(f(x))  ==  f(slice(x)), where f is one operator or several between x and the slice.

    The slice is a Slice, StridedSlice or Gather, and must be the only user of f's result.  Where f needs only
    a part of a constant, a new constant is made.  Neither the number of operators nor the bytes copied may
    increase.  So at most one new slice is made, of x.  Every other value of which f needs only a part must be
    a constant or be computed from x.
    """

    name = "backward_slice"
    obeys_target = True

    def run_graph(self, graph: Graph, context: Context) -> int:
        slices = [op for op in graph.ops if isinstance(op, Slice | StridedSlice | Gather)]
        if not slices:
            return 0
        position = {op: index for index, op in enumerate(graph.ops)}
        writer = MovementWriter(graph, context)
        # an earlier move may have removed a slice from the graph
        return sum(op.graph is graph and self.move(writer, op, position, context) for op in slices)

    def move(self, writer: MovementWriter, op: Op, position: dict[Op, int], context: Context) -> bool:
        """Move the slice ``op`` before operators if that costs no more; return whether it moved.

        ``position``: the index of each operator in the graph.  A new operator gets the index of the operator
        before which it is inserted.
        """
        graph = writer.graph
        movement = movement_of(op)
        index_map = None if movement is None else movement.maps[0]
        if movement is None or index_map is None or movement.sources[0].producer is None:
            return False
        source = movement.sources[0]
        found = sliced(index_map, dims_of(source))
        if found is None:
            return False
        cut, permutation = found
        if not permutation.is_identity or index_map.size == index_map.source_size:
            return False  # it reorders elements, or takes all of them
        pairs = zip(dims_of(source), cut.ranges, strict=True)
        if any(is_unknown(dim) and len(indices) != dim for dim, indices in pairs):
            unknown = f"%{source.name}: the slice takes part of an axis of unknown size"
            context.refuse(self.name, op, unknown, progress=1)
            return False
        cone = _cone_of(graph, op, cut, position)
        new = cone.build(writer) if cone.ops else []
        if new and new[-1][0].output.shape != op.output.shape:
            reshaped = (Reshaped(dims_of(op.output)),)
            new += [(made, op) for made in writer.built(reshaped, new[-1][0].output, op.output)]
        sentence: str | None = f"%{source.name}: {cone.obstacle}"
        if cone.ops:
            sentence = writer.refusal([op, *cone.ops], [made for made, _ in new])
        if not context.accepts(self.name, op, sentence, progress=1):
            drop([made for made, _ in new])
            return False
        for made, anchor in new:
            graph.insert_before(anchor, made)
            position[made] = position[anchor]
        new[-1][0].take_result(0, op.output)
        graph.remove(op)
        remove_unused(graph, source)
        return True


def _cone_of(graph: Graph, op: Op, cut: Sliced, position: Mapping[Op, int]) -> _Cone:
    """Return the operators before which the slice ``op`` can move.

    ``cut``: the indices that the slice takes along each axis.

    A slice may also drop axes, for example a Gather of one index.  Then the moved operators compute without
    these axes.  Where they cannot, they keep the axes with size 1 and a Reshape follows.  The Reshape takes
    the place of the slice, so no new slice is allowed in this case.
    """
    pairs = enumerate(zip(cut.shape, dims_of(op.inputs[0]), strict=True))  # type: ignore[arg-type]
    single = frozenset(axis for axis, (dim, before) in pairs if dim == 1 and before != 1)
    ways = [(frozenset[int](), 1)]  # pairs: axes that the operators drop, largest number of new slices
    if cut.shape != dims_of(op.output):
        ways = [(frozenset(), 0)]  # with a Reshape
        kept = tuple(dim for axis, dim in enumerate(cut.shape) if axis not in single)
        if kept == dims_of(op.output):
            ways.insert(0, (single, 1))
    cones = [_Cone(graph, op, cut.ranges, dropped, position) for dropped, _ in ways]
    for cone, (_, limit) in zip(cones, ways, strict=True):
        cone.grow(MovementCost(present_cost(op).bytes, limit))
        if cone.ops:
            return cone
    return cones[0]


class _Cone:
    """The operators ``ops`` before which the slice ``last`` can move, in reverse order of the graph.

    For slice(Relu(Add(x, c))), ``ops`` can be [Relu, Add]: then x is sliced, and a part of c replaces c.
    A ``Part`` is the indices of a value that an operator needs, along each axis.
    ``needed``: for each operator of ``ops``, the parts of its operands, by operand index.  None stands for an
    operand that the operator no longer needs, such as one of a Concatenation that the slice leaves out.
    ``parts``: for each value, the parts of it that ``last`` or an operator of ``ops`` needs.
    ``obstacle``: why ``ops`` is empty.
    """

    def __init__(
        self,
        graph: Graph,
        last: Op,
        ranges: Sequence[range],
        dropped: frozenset[int],
        position: Mapping[Op, int],
    ) -> None:
        self.graph, self.last, self.position = graph, last, position
        self.ops: list[Op] = []
        self.needed: dict[Op, dict[int, Part | None]] = {}
        self.obstacle = "slices of the operands would move more bytes, or need more operators"
        self.parts: dict[Value, dict[Part, None]] = {}
        self.waiting: list[tuple[int, int, Op]] = []  # heap of producers of parts, the last operator first
        source = last.inputs[0]
        assert source is not None  # the operand of a slice
        self.need(part_of(source, dict(enumerate(ranges)), dropped))

    def grow(self, limit: MovementCost) -> None:
        """Add operators one by one; then keep the longest prefix of ``ops`` that is allowed.

        A prefix is allowed if the slices that its operators need cost at most ``limit``, and if the pass
        ``forward_batchnorm`` would not undo the move.
        """
        count = 0
        while self.waiting and len(self.ops) < MAX_OPS:
            op = heapq.heappop(self.waiting)[-1]
            needed = self.needed_by(op)
            if isinstance(needed, str):
                self.obstacle = self.obstacle if self.ops else needed
                continue
            self.ops.append(op)
            self.needed[op] = needed
            for part in needed.values():
                if part is not None:
                    self.need(part)
            cost = sum_of(MovementCost(part.bytes, 1) for part in self.to_slice())
            if cost.bytes > limit.bytes or cost.ops > limit.ops:
                continue
            if self.is_moved_back():
                self.obstacle = "the pass forward_batchnorm would undo the move"
            else:
                count = len(self.ops)
        del self.ops[count:]

    def need(self, part: Part) -> None:
        """Note that an operator needs ``part`` of a value.

        If the part is not the whole value, ``grow`` may add the producer of the value.
        """
        value = part.value
        is_first = all(not known.ranges for known in self.parts.get(value, ()))
        if part.ranges and is_first and value.producer is not None:
            heapq.heappush(self.waiting, (-self.position[value.producer], len(self.parts), value.producer))
        self.parts.setdefault(value, {})[part] = None

    def to_slice(self) -> Iterator[Part]:
        """Yield the parts for which slices are needed; constants and results of ``ops`` need none."""
        for value, parts in self.parts.items():
            if not value.is_const and value.producer not in self.needed:
                yield from (part for part in parts if part.ranges)

    def is_moved_back(self) -> bool:
        """Return whether the pass ``forward_batchnorm`` would undo the move.

        That pass moves an Add or Mul with a constant from after a slice to before it.
        """
        sliced_values = {part.value for part in self.to_slice()}
        return any(
            isinstance(op, Add | Mul)
            and any(value is not None and value.is_const for value in op.inputs)
            and any(producer_refusal(v, isinstance(op, Add)) is None for v in op.inputs if v in sliced_values)
            for op in self.ops
        )

    def needed_by(self, op: Op) -> dict[int, Part | None] | str:
        """Return which parts of its operands ``op`` needs, or why slices cannot move before it."""
        obstacle = self.result_obstacle(op)
        if obstacle is not None:
            return obstacle
        kind = type(op).__name__
        (result,) = self.parts[op.results[0]]
        # for each operand: the needed indices by axis, and the axes that the part does not have
        found: dict[int, dict[int, range]] = {}
        lost: dict[int, set[int]] = {}
        for axis, taken_indices in result.ranges:
            needed = needed_for(op, axis, taken_indices)
            if needed is None:
                return f"{kind} cannot compute only some indices of axis {axis}"
            for index, (own, part) in needed.items():
                found.setdefault(index, {})[own] = part
            without = without_axis(op, axis) if axis in result.dropped else {}
            if without is None:
                return f"{kind} needs axis {axis}, which the slice drops"
            for index, own in without.items():
                lost.setdefault(index, set()).add(own)
        operands = {
            i: part_of(v, found.get(i, {}), frozenset(lost.get(i, ())))
            for i, v in enumerate(op.inputs)
            if v is not None
        }
        new = [part for part in operands.values() if part.is_new]
        for obstacle in (quantization_obstacle(p.value) for p in new if not p.value.is_const):
            if obstacle is not None:
                return f"an operand of {kind} {obstacle}"
        whole = next((p.value for p in new if p.value.is_const and not p.has_data), None)
        if whole is not None and whole.use_count > 1:
            return f"{kind} shares a constant with other operators"
        if whole is not None:
            return f"{kind} has the constant %{whole.name}, which cannot be sliced"
        if any(not p.ranges and not p.value.is_const for p in new):
            return f"{kind} broadcasts an operand along an axis that the slice drops"
        present = [part for part in operands.values() if part.size]
        if len(present) < len(operands) and not isinstance(op, Concatenation):
            return f"{kind} has an operand without elements"
        if len(present) < len(operands) and len(present) == 1:
            return f"only one operand of {kind} would be left"
        return {i: part if part.size else None for i, part in operands.items()}

    def result_obstacle(self, op: Op) -> str | None:
        """Return why ``op`` cannot compute only the needed part of its result; None if nothing forbids it."""
        kind, value = type(op).__name__, op.results[0]
        if len(op.results) > 1:
            return f"{kind} has several results"
        other = next(
            (user for user in value.users if user not in self.needed and user is not self.last), None
        )
        if other is not None:
            return f"is also read by {short_op(other)}"
        if self.graph.is_output(value):
            return "is an output of the graph"
        if not op.pure:
            return f"{kind} is not pure"
        if (sentence := misfit(op)) is not None:
            return sentence
        if len(self.parts[value]) > 1:
            return f"different parts of the result of {kind} are needed"
        return quantization_obstacle(value)

    def build(self, writer: MovementWriter) -> list[tuple[Op, Op]]:
        """Return the new operators, each with the operator of the graph before which it is inserted."""
        new: list[tuple[Op, Op]] = []
        made: dict[Part, Value] = {}

        def value_of(part: Part | None, user: Op) -> Value | None:
            """Return the value that the new ``user`` reads; create a slice or a constant if needed."""
            if part is None or not part.is_new:
                return None if part is None else part.value
            if part not in made and part.value.is_const:
                made[part] = part.constant(self.graph)
            elif part not in made:
                ranges = dict(part.ranges)
                indices_taken = (ranges.get(a, range(n)) for a, n in enumerate(dims_of(part.value)))
                ops = writer.built((Sliced(tuple(indices_taken), part.dropped),), part.value, part.value)
                new.extend((op, user) for op in ops)
                made[part] = ops[-1].output
            return made[part]

        for op in reversed(self.ops):
            (part,) = self.parts[op.output]
            needed = self.needed[op]
            operands = [
                None if value is None else value_of(needed[index], op)
                for index, value in enumerate(op.inputs)
                if value is None or needed[index] is not None
            ]
            if isinstance(op, Reduction) and part.dropped:
                operands[1] = self.renumbered_axes(op)
            old = op.output
            name = self.graph.unique_name(f"{old.name}/part")
            result = Value(name, old.dtype, part.shape, None, old.quantization)
            new.append((type(op)(*operands, results=[result], **op.attribute_values), op))
            made[part] = result
        return new

    def renumbered_axes(self, op: Reduction) -> Value:
        """Return the axes of ``op`` as a constant, numbered without the axes that the slice drops."""
        axes, part = static_int_vector(op.axis), self.needed[op][0]
        assert axes is not None  # needed_for has read them
        assert part is not None
        reduced = reduced_axes(axes, part.value.known_rank)
        numbers = [axis - sum(lost < axis for lost in part.dropped) for axis in reduced]
        return Value.constant(self.graph.unique_name(op.axis.name), np.array(numbers, np.int32))


def quantization_obstacle(value: Value) -> str | None:
    """Return why a part of ``value`` cannot have its quantization; None if it can."""
    if value.quantization is not None and value.quantization.details is not None:
        return "has quantization details, which a slice cannot keep"
    return "has different scales for its channels" if is_per_channel(value) else None
