# SPDX-License-Identifier: Apache-2.0
"""Rewrite a graph so that the operators of a region work on the sides (layouts) that were chosen for them.

``region.py`` defines side, tensor, variable and region.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.layout.region import Region, RegionFinder, Tensor, Variable
from circlekit.passes.support.axes import (
    Perm,
    keeps_shape,
    permuted_constant,
    permuted_quantization,
    permuted_shape,
)


class Constants:
    """Creates constants in a graph; ``transposed`` and ``vector`` create equal ones once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._transposed: dict[tuple[Value, Perm], Value] = {}
        self._vectors: dict[tuple[str, tuple[int, ...]], Value] = {}

    def transposed(self, value: Value, perm: Perm) -> Value:
        """Return ``value`` transposed by ``perm``, or ``value`` itself if its elements keep their places."""
        if keeps_shape(value.array().shape, perm):
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


class Applier:
    """Rewrites the regions that ``finder`` has found in its graph."""

    def __init__(self, finder: RegionFinder, constants: Constants) -> None:
        self.finder = finder
        self.graph = finder.graph
        self.constants = constants
        self.order = {op: index for index, op in enumerate(finder.graph.ops)}

    def apply(self, region: Region, labels: Sequence[int]) -> None:
        """Put variable number i of ``region`` on side ``labels[i]``, and create the required copies."""
        chosen = {v.op: labels[v.number] for v in region.variables}
        demands = [self.finder.demand(tensor) for tensor in region.tensors]
        sides = [*labels, 1, 0]  # indices -1 and -2 are FIXED
        for tensor, demand in zip(region.tensors, demands, strict=True):
            origin = sides[demand.producer]
            self.place(tensor, origin, any(sides[c] != origin for c in demand.consumers), chosen)
        for variable in region.variables:
            if labels[variable.number] != variable.side:
                self.change(variable)

    # -- tensors -------------------------------------------------------------------------------

    def place(self, tensor: Tensor, origin: int, is_copied: bool, chosen: dict[Op, int]) -> None:
        """Produce ``tensor`` on side ``origin``; if ``is_copied``, also copy it to the other side.

        ``chosen``, also below: the new side of each variable.  Moves that are no longer required are removed.
        """
        source = self.value_on(tensor, origin)
        copy = self.value_on(tensor, 1 - origin) if is_copied else None
        kind = Reshape if self.finder.has_one_memory_order(tensor) else Transpose
        mover: Op | None = next(
            (m for m in tensor.moves if m.input is source and m.output is copy and isinstance(m, kind)), None
        )
        producer = tensor.root.producer
        if source is not tensor.root and producer is not None:
            producer.take_result(tensor.root.result_index, source)
        users = self.rewire(tensor, origin, source, copy, chosen)
        if copy is not None and mover is None:
            mover = self.mover(tensor, self.finder.perms[origin], source, copy)
        for move in reversed(tensor.moves):
            if move is not mover:
                self.graph.remove(move)
        if mover is not None:
            self.insert(mover, users)

    def value_on(self, tensor: Tensor, side: int) -> Value:
        """Return a value of ``tensor`` on ``side``, preferably an output of the graph; or create one."""
        candidates = [value for value, its_side in tensor.sides.items() if its_side == side]
        if candidates:
            return next(filter(self.graph.is_output, candidates), candidates[0])
        root, perm = tensor.root, self.finder.perms[tensor.side]
        assert root.shape is not None  # only values of known shape have a side
        quantization = permuted_quantization(root.quantization, perm)
        name = self.graph.unique_name(root.name)
        return Value(name, root.dtype, permuted_shape(root.shape, perm), None, quantization)

    def rewire(
        self, tensor: Tensor, origin: int, source: Value, copy: Value | None, chosen: dict[Op, int]
    ) -> list[Op]:
        """Let every user read ``source`` (on side ``origin``) or ``copy``; return the users of ``copy``."""
        moves = set(tensor.moves)
        users: list[Op] = []
        for value, side in tensor.sides.items():
            for op, index in value.uses:
                if op in moves:
                    continue
                required = side
                if self.finder.accepts_either_side(tensor, op, index):
                    required = origin
                elif op in chosen and index in self.finder.variables[op].operands:
                    required = chosen[op]
                if required == origin or copy is None:
                    op.set_input(index, source)
                else:
                    op.set_input(index, copy)
                    users.append(op)
        return users

    def mover(self, tensor: Tensor, perm: Perm, source: Value, copy: Value) -> Op:
        """Return a new Transpose by ``perm``, or an equal Reshape, from ``source`` to ``copy``.

        The operator that has produced ``copy`` gets another result.
        """
        if copy.producer is not None:
            stub = Value("", copy.dtype, copy.shape, None, copy.quantization)
            copy.producer.take_result(copy.result_index, stub)
        if not self.finder.has_one_memory_order(tensor) or copy.shape is None or source.shape is None:
            return Transpose(source, self.constants.vector("perm", perm), results=[copy])
        pairs = zip(copy.shape, permuted_shape(source.shape, perm), strict=True)  # one dim may be unknown
        shape = [next((dim for dim in pair if dim is not None), -1) for pair in pairs]
        return Reshape(source, self.constants.vector("shape", shape), results=[copy], new_shape=shape)

    def insert(self, op: Op, users: Sequence[Op]) -> None:
        """Insert or move ``op`` before the first of ``users``; without users, insert it after its operand.

        There are no users if the result is only an output of the graph.
        """
        if users:
            if op.graph is not None:
                self.graph.unlink(op)
            self.graph.insert_before(min(users, key=lambda user: self.order[user]), op)
        elif op.graph is None:
            source = op.inputs[0]
            self.graph.insert_after(None if source is None else source.producer, op)

    # -- operators -----------------------------------------------------------------------------

    def change(self, variable: Variable) -> None:
        """Change constants and attributes of a variable for the other side; ``place`` changes the rest."""
        op, perm = variable.op, self.finder.perms[variable.side]
        for index in sorted(variable.operands):
            value = op.inputs[index]
            if value is not None and value.is_const:
                op.set_input(index, self.constants.transposed(value, perm))
        names = {o.name for o in op.operands}
        for name, new in variable.changes.items():
            old = getattr(op, name)
            if name not in names:
                setattr(op, name, new)
            elif not np.array_equal(old.array(), new):
                setattr(op, name, self.constants.new(old.name, np.ascontiguousarray(new)))
