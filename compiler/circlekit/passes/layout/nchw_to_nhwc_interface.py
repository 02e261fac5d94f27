# SPDX-License-Identifier: Apache-2.0
"""Change the inputs or the outputs of a model from NCHW to NHWC."""

from __future__ import annotations

from abc import abstractmethod

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.layout.apply import Constants
from circlekit.passes.layout.axes import Perm, permuted_quantization, permuted_shape
from circlekit.passes.layout.convert_nchw_to_nhwc import NCHW, TO_NCHW, TO_NHWC, nhwc_regions
from circlekit.passes.layout.region import constant_perm
from circlekit.rewrite.base import Context, Pass


class InterfacePass(Pass):
    """Base of both passes: runs once, on the values of the main graph that are inferred to be NCHW."""

    changes_interface = True

    def __init__(self) -> None:
        self.is_done = False

    def run(self, model: Model, context: Context) -> int:
        if self.is_done:
            return 0
        self.is_done = True
        finder, _ = nhwc_regions(model.main)
        values = [v for v in self.values(model.main) if finder.sides.get(v) == NCHW and not v.is_variable]
        for value in self.values(model.main):
            neighbor = value.producer or next(iter(value.users), None)
            if value not in values and neighbor is not None:
                found = "an unknown rank" if value.rank is None else value.rank
                channels_last = "has channels last already, as its operators show"
                why = channels_last if value.rank == 4 else f"expected rank 4, got {found}"
                context.refuse(self.name, neighbor, f"%{value.name}: {why}")
        constants = Constants(model.main)
        for value in dict.fromkeys(values):
            twin = self.convert(model.main, value, constants)
            for signature in model.signatures:
                for ports in (signature.inputs, signature.outputs):
                    ports.update({key: twin for key, old in ports.items() if old is value})
        return len(values)

    @abstractmethod
    def values(self, graph: Graph) -> tuple[Value, ...]:
        """Return the inputs, or the outputs."""

    @abstractmethod
    def convert(self, graph: Graph, value: Value, constants: Constants) -> Value:
        """Replace ``value`` in the interface by a new value of the same name in NHWC; return it."""


class NchwToNhwcInputShape(InterfacePass):
    """Inputs of rank 4 in NCHW become NHWC; the shape of the input changes."""

    name = "nchw_to_nhwc_input_shape"

    def values(self, graph: Graph) -> tuple[Value, ...]:
        return tuple(v for v in graph.inputs if not graph.is_output(v))

    def convert(self, graph: Graph, value: Value, constants: Constants) -> Value:
        twin = _twin(graph, value, TO_NHWC)
        graph.inputs = [twin if v is value else v for v in graph.inputs]
        for op in tuple(value.users):
            if _is_move(op, TO_NHWC) and _is_same(op.output, twin) and not graph.is_output(op.output):
                graph.replace_uses(op.output, twin)
                graph.remove(op)
        if value.use_count:
            move = Transpose(twin, constants.vector("perm", TO_NCHW), results=[value])
            graph.insert_after(None, move)
        return twin


class NchwToNhwcOutputShape(InterfacePass):
    """Outputs of rank 4 in NCHW become NHWC; the shape of the output changes."""

    name = "nchw_to_nhwc_output_shape"

    def values(self, graph: Graph) -> tuple[Value, ...]:
        return tuple(v for v in graph.outputs if v.producer is not None)

    def convert(self, graph: Graph, value: Value, constants: Constants) -> Value:
        twin = _twin(graph, value, TO_NHWC)
        producer = value.producer
        graph.outputs = [twin if v is value else v for v in graph.outputs]
        source = producer.inputs[0] if producer is not None else None
        if producer is not None and _is_move(producer, TO_NCHW) and _can_be_output(graph, source, twin):
            assert source is not None
            assert source.producer is not None
            old = source.producer.take_result(source.result_index, twin)
            graph.replace_uses(old, twin)
            if not value.use_count:
                graph.remove(producer)
            return twin
        graph.append(Transpose(value, constants.vector("perm", TO_NHWC), results=[twin]))
        return twin


def _is_move(op: Op, perm: Perm) -> bool:
    return isinstance(op, Transpose) and constant_perm(op) == perm


def _is_same(value: Value, twin: Value) -> bool:
    """Return whether dtype and quantization agree; a transpose in a file may change them."""
    return value.dtype is twin.dtype and value.quantization == twin.quantization


def _can_be_output(graph: Graph, value: Value | None, twin: Value) -> bool:
    if value is None or value.producer is None or not _is_same(value, twin):
        return False
    return not graph.is_output(value) and not value.is_variable


def _twin(graph: Graph, value: Value, perm: Perm) -> Value:
    """Return a new value of the transposed type with the name of ``value``, which gets another name."""
    assert value.shape is not None  # it has a side
    quantization = permuted_quantization(value.quantization, perm)
    twin = Value(value.name, value.dtype, permuted_shape(value.shape, perm), None, quantization)
    value.name = graph.unique_name(f"{value.name}_NCHW")
    return twin
