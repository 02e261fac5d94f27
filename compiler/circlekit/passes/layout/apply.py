# SPDX-License-Identifier: Apache-2.0
"""Rewrite a graph for the chosen sides of the operators of a region."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.layout.region import Finder, Region, Tensor, Variable
from circlekit.passes.support.axes import (
    Perm,
    keeps_shape,
    permuted_constant,
    permuted_quantization,
    permuted_shape,
)


class Constants:
    """Creates constants in a graph; equal ones are created once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._transposed: dict[tuple[Value, Perm], Value] = {}
        self._vectors: dict[tuple[str, tuple[int, ...]], Value] = {}

    def transposed(self, value: Value, perm: Perm) -> Value:
        """Return ``value`` transposed, or ``value`` itself if that is the same."""
        if keeps_shape(value.array().shape, perm):
            return value
        if (value, perm) not in self._transposed:
            constant = permuted_constant(value, perm)
            constant.name = self.graph.unique_name(value.name)
            self._transposed[value, perm] = constant
        return self._transposed[value, perm]

    def vector(self, base: str, numbers: Sequence[int]) -> Value:
        """Return ``numbers`` as an i32 constant; ``base``: begins its name."""
        key = base, tuple(numbers)
        if key not in self._vectors:
            self._vectors[key] = self.new(base, np.array(numbers, np.int32))
        return self._vectors[key]

    def new(self, base: str, array: Array) -> Value:
        """Return a new constant."""
        return Value.constant(self.graph.unique_name(base), array)


class Applier:
    """Rewrites one graph."""

    def __init__(self, finder: Finder, constants: Constants) -> None:
        self.finder = finder
        self.graph = finder.graph
        self.constants = constants
        self.order = {op: index for index, op in enumerate(finder.graph.ops)}

    def apply(self, region: Region, labels: Sequence[int]) -> None:
        """Put variable number i of ``region`` on side ``labels[i]``, and create the copies needed."""
        chosen = {v.op: labels[v.number] for v in region.variables}
        demands = [self.finder.demand(tensor) for tensor in region.tensors]
        values = [*labels, 1, 0]  # indices -1 and -2 are FIXED
        for tensor, demand in zip(region.tensors, demands, strict=True):
            home = values[demand.producer]
            self.place(tensor, home, any(values[c] != home for c in demand.consumers), chosen)
        for variable in region.variables:
            if labels[variable.number] != variable.side:
                self.change(variable)

    # -- tensors -------------------------------------------------------------------------------

    def place(self, tensor: Tensor, home: int, is_copied: bool, chosen: dict[Op, int]) -> None:
        """Produce ``tensor`` on side ``home``, if ``is_copied`` also on the other; connect all users."""
        made = self.value_on(tensor, home)
        copy = self.value_on(tensor, 1 - home) if is_copied else None
        fits = Reshape if self.finder.has_one_memory_order(tensor) else Transpose
        mover: Op | None = next(
            (m for m in tensor.moves if m.input is made and m.output is copy and isinstance(m, fits)), None
        )
        producer = tensor.root.producer
        if made is not tensor.root and producer is not None:
            producer.take_result(tensor.root.result_index, made)
        users = self.rewire(tensor, home, made, copy, chosen)
        if copy is not None and mover is None:
            mover = self.mover(tensor, self.finder.perms[home], made, copy)
        for move in reversed(tensor.moves):
            if move is not mover:
                self.graph.remove(move)
        if mover is not None:
            self.insert(mover, users)

    def value_on(self, tensor: Tensor, side: int) -> Value:
        """Return the value of ``tensor`` on ``side``: preferably a graph output, or a new one."""
        there = [value for value, at in tensor.sides.items() if at == side]
        for value in there:
            if self.graph.is_output(value):
                return value
        if there:
            return there[0]
        root, perm = tensor.root, self.finder.perms[tensor.side]
        assert root.shape is not None  # it has a side
        quantization = permuted_quantization(root.quantization, perm)
        name = self.graph.unique_name(root.name)
        return Value(name, root.dtype, permuted_shape(root.shape, perm), None, quantization)

    def rewire(
        self, tensor: Tensor, home: int, made: Value, copy: Value | None, chosen: dict[Op, int]
    ) -> list[Op]:
        """Let every user read the value on its side; return the users of the copy."""
        moves = set(tensor.moves)
        users: list[Op] = []
        for value, side in tensor.sides.items():
            for op, index in value.uses:
                if op in moves:
                    continue
                required = side
                if self.finder.accepts_either_side(tensor, op, index):
                    required = home
                elif op in chosen and index in self.finder.variables[op].operands:
                    required = chosen[op]
                if required == home or copy is None:
                    op.set_input(index, made)
                else:
                    op.set_input(index, copy)
                    users.append(op)
        return users

    def mover(self, tensor: Tensor, perm: Perm, made: Value, copy: Value) -> Op:
        """Return a new operator that produces ``copy``, which may have a producer now, from ``made``."""
        if copy.producer is not None:
            stub = Value("", copy.dtype, copy.shape, None, copy.quantization)
            copy.producer.take_result(copy.result_index, stub)
        if not self.finder.has_one_memory_order(tensor) or copy.shape is None or made.shape is None:
            return Transpose(made, self.constants.vector("perm", perm), results=[copy])
        dims = zip(copy.shape, permuted_shape(made.shape, perm), strict=True)
        shape = [-1 if (d := there if here is None else here) is None else d for here, there in dims]
        return Reshape(made, self.constants.vector("shape", shape), results=[copy], new_shape=shape)

    def insert(self, op: Op, users: Sequence[Op]) -> None:
        """Insert ``op`` before the first of ``users``, or, if only an output needs it, after its operand."""
        if op.graph is not None:
            if not users:
                return
            self.graph.unlink(op)
        if users:
            self.graph.insert_before(min(users, key=lambda r: self.order[r]), op)
        else:
            source = op.inputs[0]
            self.graph.insert_after(None if source is None else source.producer, op)

    # -- operators -----------------------------------------------------------------------------

    def change(self, variable: Variable) -> None:
        """Let an operator work on the other side; its results have been replaced already."""
        op, perm = variable.op, self.finder.perms[variable.side]
        for index in sorted(variable.operands):
            value = op.inputs[index]
            if value is not None and value.is_const:
                op.set_input(index, self.constants.transposed(value, perm))
        names = {o.name for o in op.operands}
        for name, content in variable.changes.items():
            if name not in names:
                setattr(op, name, content)
                continue
            old = getattr(op, name)
            if not np.array_equal(old.array(), content):
                setattr(op, name, self.constants.new(old.name, np.ascontiguousarray(content)))
