# SPDX-License-Identifier: Apache-2.0
"""Puts the operators of a region on the sides that were chosen for them.

Over 120 lines because operands, constants, attributes and results of an operator change together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.layout.axes import (
    Perm,
    keeps_shape,
    permuted_constant,
    permuted_quantization,
    permuted_shape,
)
from circlekit.passes.layout.region import Finder, Region, Tensor, Variable, constant_perm


class Constants:
    """New constants of a graph, one for each content that is asked for."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._moved: dict[tuple[Value, Perm], Value] = {}
        self._vectors: dict[tuple[str, tuple[int, ...]], Value] = {}

    def moved(self, value: Value, perm: Perm) -> Value:
        """``value`` permuted, or itself where that is the same."""
        if keeps_shape(value.array().shape, perm):
            return value
        if (value, perm) not in self._moved:
            constant = permuted_constant(value, perm)
            constant.name = self.graph.unique_name(value.name)
            self._moved[value, perm] = constant
        return self._moved[value, perm]

    def vector(self, base: str, numbers: Sequence[int]) -> Value:
        """``numbers`` as i32; ``base``: for its name."""
        key = base, tuple(numbers)
        if key not in self._vectors:
            self._vectors[key] = self.new(base, np.array(numbers, np.int32))
        return self._vectors[key]

    def new(self, base: str, array: Array) -> Value:
        return Value.constant(self.graph.unique_name(base), array)


class Applier:
    """Changes one graph by the labels of its regions."""

    def __init__(self, finder: Finder, constants: Constants) -> None:
        self.finder = finder
        self.graph = finder.graph
        self.constants = constants
        self.order = {op: index for index, op in enumerate(finder.graph.ops)}

    def apply(self, region: Region, labels: Sequence[int]) -> None:
        """Put variable number i of ``region`` on side ``labels[i]`` and make the copies that this takes."""
        chosen = {v.op: labels[v.number] for v in region.variables}
        demands = [self.finder.demand(tensor) for tensor in region.tensors]
        values = [*labels, 1, 0]  # FIXED, taken as an index, is its own label
        for tensor, demand in zip(region.tensors, demands, strict=True):
            home = values[demand.producer]
            self.place(tensor, home, any(values[c] != home for c in demand.consumers), chosen)
        for variable in region.variables:
            if labels[variable.number] != variable.side:
                self.change(variable)

    # -- tensors -------------------------------------------------------------------------------

    def place(self, tensor: Tensor, home: int, is_copied: bool, chosen: dict[Op, int]) -> None:
        """Make ``tensor`` on side ``home``, and a copy on the other if it is wanted; serve all readers."""
        made = self.value_on(tensor, home)
        copy = self.value_on(tensor, 1 - home) if is_copied else None
        fits = Reshape if self.finder.lies_still(tensor) else Transpose
        kept = [m for m in tensor.moves if m.input is made and m.output is copy and isinstance(m, fits)][:1]
        producer = tensor.root.producer
        if made is not tensor.root and producer is not None:
            producer.take_result(tensor.root.result_index, made)
        readers = self.rewire(tensor, home, made, copy, chosen)
        mover: Op | None = kept[0] if kept else None
        if copy is not None and mover is None:
            mover = self.mover(tensor, self.finder.perms[home], made, copy)
        for move in reversed(tensor.moves):
            if move is not mover:
                self.graph.remove(move)
        if mover is not None:
            self.insert(mover, readers)

    def value_on(self, tensor: Tensor, side: int) -> Value:
        """What holds ``tensor`` on ``side``: an output of the graph, any value there, or a new one."""
        there = [value for value, at in tensor.sides.items() if at == side]
        for value in there:
            if self.graph.is_output(value):
                return value
        if there:
            return there[0]
        root, perm = tensor.root, self.finder.perms[tensor.side]
        assert root.shape is not None  # a value without a rank has no side
        quantization = permuted_quantization(root.quantization, perm)
        name = self.graph.unique_name(root.name)
        return Value(name, root.dtype, permuted_shape(root.shape, perm), None, quantization)

    def rewire(
        self, tensor: Tensor, home: int, made: Value, copy: Value | None, chosen: dict[Op, int]
    ) -> list[Op]:
        """Let every reader read the value of its side; returns those of the copy."""
        moves = set(tensor.moves)
        readers: list[Op] = []
        for value, side in tensor.sides.items():
            for op, index in value.uses:
                if op in moves:
                    continue
                wanted = side
                if self.finder.reads_either(tensor, op, index):
                    wanted = home
                elif op in chosen and index in self.finder.variables[op].operands:
                    wanted = chosen[op]
                if wanted == home or copy is None:
                    op.set_input(index, made)
                else:
                    op.set_input(index, copy)
                    readers.append(op)
        return readers

    def mover(self, tensor: Tensor, perm: Perm, made: Value, copy: Value) -> Op:
        """A new operator that makes ``copy`` of ``made``."""
        result = self.detached(copy)
        if not self.finder.lies_still(tensor) or copy.shape is None or made.shape is None:
            return Transpose(made, self.perm_operand(tensor, perm), results=[result])
        dims = zip(copy.shape, permuted_shape(made.shape, perm), strict=True)
        shape = [-1 if (d := there if here is None else here) is None else d for here, there in dims]
        return Reshape(made, self.constants.vector("shape", shape), results=[result], new_shape=shape)

    def detached(self, value: Value) -> Value:
        """``value`` without the operator that made it until now."""
        if value.producer is not None:
            stub = Value("", value.dtype, value.shape, None, value.quantization)
            value.producer.take_result(value.result_index, stub)
        return value

    def perm_operand(self, tensor: Tensor, perm: Perm) -> Value:
        for move in tensor.moves:
            if isinstance(move, Transpose) and constant_perm(move) == perm:
                return move.perm
        return self.constants.vector("perm", perm)

    def insert(self, op: Op, readers: Sequence[Op]) -> None:
        """Put ``op`` before the first of ``readers``, or, for an output alone, behind what it reads."""
        if op.graph is not None:
            if not readers:
                return
            self.graph.unlink(op)
        if readers:
            self.graph.insert_before(min(readers, key=lambda r: self.order[r]), op)
        else:
            source = op.inputs[0]
            self.graph.insert_after(None if source is None else source.producer, op)

    # -- operators -----------------------------------------------------------------------------

    def change(self, variable: Variable) -> None:
        """Make an operator work on the other side; its results have been replaced already."""
        op, perm = variable.op, self.finder.perms[variable.side]
        for index in sorted(variable.operands):
            value = op.inputs[index]
            if value is not None and value.is_const:
                op.set_input(index, self.constants.moved(value, perm))
        names = {o.name for o in op.operands}
        for name, content in variable.changes.items():
            if name not in names:
                setattr(op, name, content)
                continue
            old = getattr(op, name)
            if not np.array_equal(old.array(), content):
                setattr(op, name, self.constants.new(old.name, np.ascontiguousarray(content)))
