# SPDX-License-Identifier: Apache-2.0
"""Rewrite a graph so that the operators of a region work on the sides (layouts) that were chosen for them.

The terms of ``region.py``: a side is a number that stands for an order of axes.  A move is a Transpose, or a
Reshape with the same effect.  A tensor is all values that moves produce from each other, each on a side.  A
variable is an operator that can work on several sides.  A region is connected tensors and variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from circlekit.ir.declaration import kept_rank
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.layout.region import Finder, Region, Tensor, Variable
from circlekit.passes.layout.region_problem import accepts_all_sides, ends_of
from circlekit.passes.support.axes import (
    Perm,
    keeps_shape,
    permuted_constant,
    permuted_quantization,
    permuted_shape,
)


class Constants:
    """Creates constants in a graph; for equal arguments, ``transposed`` and ``vector`` create only one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._transposed: dict[tuple[Value, Perm], Value] = {}
        self._vectors: dict[tuple[str, tuple[int, ...]], Value] = {}

    def transposed(self, value: Value, perm: Perm, is_broadcast: bool) -> Value:
        """Return ``value`` transposed by ``perm``, or ``value`` itself if its elements keep their places.

        ``is_broadcast``: whether the operator broadcasts ``value``; then it needs no leading axes of size 1
        that ``perm`` inserts.
        """
        shape = value.array().shape
        gains_axes = len(shape) == kept_rank(perm) < len(perm)
        if keeps_shape(shape, perm) and (is_broadcast or not gains_axes):
            return value
        if (value, perm) not in self._transposed:
            constant = permuted_constant(value, perm)
            constant.name = self.graph.unique_name(value.name)
            self._transposed[value, perm] = constant
        return self._transposed[value, perm]

    def vector(self, base: str, numbers: Sequence[int]) -> Value:
        """Return ``numbers`` as an i32 constant; its name begins with ``base``."""
        key = base, tuple(numbers)
        if key not in self._vectors:
            self._vectors[key] = self.new(base, np.array(numbers, np.int32))
        return self._vectors[key]

    def new(self, base: str, array: Array) -> Value:
        """Return a new constant; its name begins with ``base``."""
        return Value.constant(self.graph.unique_name(base), array)


@dataclass(eq=False, repr=False)
class _Copy:
    """A tensor as it is on ``side``: ``value``.  ``users``: the operators that will read ``value``.

    ``mover``: the move that makes ``value`` from the value of the copy ``base``.  For the original, which the
    producer of the tensor makes, ``mover`` and ``base`` are None.
    """

    side: int
    value: Value
    base: _Copy | None = None
    users: list[Op] = field(default_factory=list)
    mover: Op | None = None


class Applier:
    """Rewrites the regions that ``finder`` has found in its graph."""

    def __init__(self, finder: Finder, constants: Constants) -> None:
        self.finder = finder
        self.graph = finder.graph
        self.constants = constants
        self.order = {op: index for index, op in enumerate(finder.graph.ops)}

    def apply(self, region: Region, labels: Sequence[int]) -> None:
        """Put variable number i of ``region`` on side ``labels[i]``, and create the required copies."""
        chosen = {v.op: labels[v.number] for v in region.variables}
        # an end is the number of a variable, or ``~side`` if the side is fixed
        ends = [ends_of(tensor, self.finder) for tensor in region.tensors]
        for tensor, (producer, consumers) in zip(region.tensors, ends, strict=True):
            origin, *needed = (labels[end] if end >= 0 else ~end for end in (producer, *consumers))
            self.place(tensor, origin, needed, chosen)
        for variable in region.variables:
            if labels[variable.number] != variable.side:
                self.change(variable, labels[variable.number])

    # -- tensors -------------------------------------------------------------------------------

    def place(self, tensor: Tensor, origin: int, needed: Sequence[int], chosen: dict[Op, int]) -> None:
        """Produce ``tensor`` on side ``origin``, and copy it to the other sides that are ``needed``.

        Moves that make none of these copies are removed.  ``chosen``, here and below: the new side of each
        variable, by operator.
        """
        copies = self.copies_on(tensor, origin, needed)
        source = copies[tensor.shapes[origin]].value
        made = [copy for copy in copies.values() if copy.base is not None]
        for copy in made:
            copy.mover = self.present_mover(tensor, copy)
        producer = tensor.root.producer
        if source is not tensor.root and producer is not None:
            producer.take_result(tensor.root.result_index, source)
        self.rewire(tensor, origin, copies, chosen)
        kept = [copy.mover for copy in made]
        for copy in made:
            copy.mover = copy.mover or self.mover(tensor, copy)
        for move in reversed(tensor.moves):
            if move not in kept:
                self.graph.remove(move)
        self.insert_movers(made)

    def copies_on(self, tensor: Tensor, origin: int, needed: Sequence[int]) -> dict[int, _Copy]:
        """Return the original of ``tensor`` on side ``origin``, and its copies on the sides ``needed``.

        The keys are the numbers in ``tensor.shapes``.  Sides with the same number share one copy.
        """
        original = _Copy(origin, self.value_on(tensor, origin))
        copies = {tensor.shapes[origin]: original}
        for side in sorted(needed):
            if tensor.shapes[side] not in copies:
                # from a copy with the same order in memory, a Reshape is enough
                base = next(
                    (c for c in copies.values() if tensor.orders[c.side] == tensor.orders[side]), original
                )
                copies[tensor.shapes[side]] = _Copy(side, self.value_on(tensor, side), base)
        return copies

    def insert_movers(self, made: Sequence[_Copy]) -> None:
        """Insert the mover of each copy in ``made`` before all operators that read the copy.

        These are the users of the copy, and the movers of the copies that are derived from it.  A derived
        copy counts as follows:

        - If it has users, the users count, because its mover will be inserted before them.
        - If it has no users, but its mover is in the graph, the mover counts; it stays where it is.
        - Otherwise it does not count: its mover is inserted later, after the mover of its base.
        """
        for copy in made:
            derived = [other for other in made if other.base is copy]
            users = [user for c in (copy, *derived) for user in c.users]
            users += [c.mover for c in derived if not c.users and c.mover is not None and c.mover.graph]
            assert copy.mover is not None
            self.insert(copy.mover, users)

    def present_mover(self, tensor: Tensor, copy: _Copy) -> Op | None:
        """Return the move in the graph that makes ``copy`` from its base; None if there is no such move.

        A Transpose does not count where a Reshape is enough, so that ``mover`` makes a Reshape instead.
        """
        assert copy.base is not None
        kind = Reshape if tensor.orders[copy.side] == tensor.orders[copy.base.side] else Transpose
        found = (m for m in tensor.moves if m.input is copy.base.value and m.output is copy.value)
        return next((m for m in found if isinstance(m, kind)), None)

    def value_on(self, tensor: Tensor, side: int) -> Value:
        """Return a value that ``tensor`` already has for ``side``, or else a new one.

        An output of the graph is preferred.
        """
        candidates = [
            value for value, other in tensor.sides.items() if tensor.shapes[other] == tensor.shapes[side]
        ]
        if candidates:
            return next(filter(self.graph.is_output, candidates), candidates[0])
        root, perm = tensor.root, self.finder.perm(tensor.side, side)
        quantization = permuted_quantization(root.quantization, perm)
        name = self.graph.unique_name(root.name)
        return Value(name, root.dtype, permuted_shape(root.known_shape, perm), None, quantization)

    def rewire(self, tensor: Tensor, origin: int, copies: dict[int, _Copy], chosen: dict[Op, int]) -> None:
        """Let every user but the moves read the copy on its side, and add it to the ``users`` of this copy.

        A user that accepts all sides reads the original.  ``copies``: by number in ``tensor.shapes``.
        """
        moves = set(tensor.moves)
        for value, side in tensor.sides.items():
            for op, index in value.uses:
                if op in moves:
                    continue
                required = side
                if accepts_all_sides(op, index, tensor):
                    required = origin
                elif op in chosen and index in self.finder.variables[op].operands:
                    required = chosen[op]
                copy = copies[tensor.shapes[required]]
                op.set_input(index, copy.value)
                copy.users.append(op)

    def mover(self, tensor: Tensor, copy: _Copy) -> Op:
        """Return a new Transpose, or a Reshape with the same effect, that makes ``copy`` from its base.

        If another operator produces the value of ``copy`` now, that operator gets a new result instead.
        """
        assert copy.base is not None
        source, result = copy.base.value, copy.value
        perm = self.finder.perm(copy.base.side, copy.side)
        if result.producer is not None:
            result.producer.take_result(result.result_index, Value.of_type(result))
        if tensor.orders[copy.side] != tensor.orders[copy.base.side]:
            return Transpose(source, self.constants.vector("perm", perm), results=[result])
        # the stated shape of ``result``, or that of the root, may lack dimensions that the other one has
        expected = permuted_shape(tensor.root.known_shape, self.finder.perm(tensor.side, copy.side))
        pairs = zip(expected if result.shape is None else result.shape, expected, strict=True)
        shape = [next((dim for dim in pair if dim is not None), -1) for pair in pairs]  # at most one -1
        return Reshape(source, self.constants.vector("shape", shape), results=[result], new_shape=shape)

    def insert(self, op: Op, users: Sequence[Op]) -> None:
        """Insert ``op``, or move it if it is in the graph, before the first of ``users``.

        If there are no users, the result is only an output of the graph.  Then an ``op`` that is not in the
        graph yet is inserted after the producer of its operand; one that is in the graph stays there.
        """
        if users:
            if op.graph is not None:
                self.graph.unlink(op)
            self.graph.insert_before(min(users, key=lambda user: self.order[user]), op)
        elif op.graph is None:
            source = op.inputs[0]
            self.graph.insert_after(None if source is None else source.producer, op)

    # -- operators -----------------------------------------------------------------------------

    def change(self, variable: Variable, side: int) -> None:
        """Change the constants and attributes of a variable for ``side``.

        ``place`` has already changed the other operands.
        """
        op, perm = variable.op, self.finder.perm(variable.side, side)
        for index in sorted(variable.operands):
            value = op.inputs[index]
            if value is not None and value.is_const:
                op.set_input(index, self.constants.transposed(value, perm, op.elementwise))
        names = {o.name for o in op.operands}
        for name, new in variable.changes[side].items():
            old = getattr(op, name)
            if name not in names:
                setattr(op, name, new)
            elif not np.array_equal(old.array(), new):
                setattr(op, name, self.constants.new(old.name, np.ascontiguousarray(new)))
