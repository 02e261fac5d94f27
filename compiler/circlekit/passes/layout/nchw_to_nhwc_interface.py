# SPDX-License-Identifier: Apache-2.0
"""Change the inputs or the outputs of a model from NCHW to NHWC."""

from __future__ import annotations

from abc import abstractmethod

from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Value, format_shape
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.layout.convert_nchw_to_nhwc import NCHW, NHWC, TO_NCHW, TO_NHWC, nhwc_regions
from circlekit.passes.layout.region_finder import RegionFinder
from circlekit.passes.layout.region_rewriter import Constants
from circlekit.passes.remove.remove_transpose import Cancel
from circlekit.passes.support.axes import is_movable, permuted_quantization, permuted_shape
from circlekit.rewrite.base import Context, Pass


class InterfacePass(Pass):
    """Change inputs or outputs of the main graph from NCHW to NHWC; the base class of the passes below.

    ``nhwc_regions`` finds out which values are NCHW.  The pass changes inputs and outputs only in its first
    run: in a later run they might count as NCHW again, if no Transpose shows their layout any more.  For the
    same reason, ``Context.nhwc`` keeps the names of those that are NHWC when one of these passes runs.
    If the model already transposes such a value to NHWC, its Transpose and the new one cancel each other.
    Both stay if one of them rescales, or if an input would become an output.
    """

    changes_interface = True

    def __init__(self) -> None:
        self.is_done = False

    def run(self, model: Model, context: Context) -> int:
        if self.is_done:
            return 0
        self.is_done = True
        finder, _ = nhwc_regions(model.main)
        interface = (*model.main.inputs, *model.main.outputs)
        context.nhwc.update(v.name for v in interface if finder.sides.get(v) == NHWC)
        nchw = {v for v in interface if finder.sides.get(v) == NCHW and v.name not in context.nhwc}
        values = [v for v in dict.fromkeys(self.values(model.main)) if v in nchw and is_movable(v)]
        for value in self.values(model.main):
            neighbor = value.producer or next(iter(value.users), None)
            if value not in values and neighbor is not None:
                context.refuse(self.name, neighbor, f"%{value.name}: {_refusal(value, finder)}")
        constants = Constants(model.main)
        for value in values:
            quantization = permuted_quantization(value.quantization, TO_NHWC)
            shape = permuted_shape(value.known_shape, TO_NHWC)
            nhwc = Value(value.name, value.dtype, shape, None, quantization)
            value.name = model.main.unique_name(f"{value.name}_NCHW")
            self.convert(model.main, value, nhwc, constants)
            for signature in model.signatures:
                for ports in (signature.inputs, signature.outputs):
                    ports.update({key: nhwc for key, old in ports.items() if old is value})
        Cancel().run_graph(model.main, Context(context.format))  # removes pairs of inverse Transposes
        return len(values)

    @abstractmethod
    def values(self, graph: Graph) -> tuple[Value, ...]:
        """Return the inputs, or the outputs, of ``graph`` that the pass may change if they are NCHW."""

    @abstractmethod
    def convert(self, graph: Graph, value: Value, nhwc: Value, constants: Constants) -> None:
        """Replace the input or output ``value`` by ``nhwc``, and insert a Transpose between them.

        An input that no operator reads needs no Transpose.
        """


def _refusal(value: Value, finder: RegionFinder) -> str:
    """Return why the pass does not change ``value``, an input or output."""
    if value.rank != 4:
        return f"expected rank 4, got {'an unknown rank' if value.rank is None else value.rank}"
    if value.is_variable:
        return "is a variable, which keeps its layout"
    if not is_movable(value):
        return "has quantization details, which may depend on the layout"
    if value not in finder.sides:
        return f"has the shape {format_shape(value.shape)}, which is the same in NCHW and NHWC"
    return "is NHWC already, as an operator or a Transpose shows"


class NchwToNhwcInputShape(InterfacePass):
    """Change NCHW inputs of the main graph to NHWC; an input that is also an output stays.

    An input of rank 4 counts as NCHW, unless an operator or a Transpose shows that it is NHWC.  Variables and
    inputs with quantization details stay.
    """

    name = "nchw_to_nhwc_input_shape"

    def values(self, graph: Graph) -> tuple[Value, ...]:
        return tuple(v for v in graph.inputs if not graph.is_output(v))

    def convert(self, graph: Graph, value: Value, nhwc: Value, constants: Constants) -> None:
        graph.inputs = [nhwc if v is value else v for v in graph.inputs]
        if value.use_count:
            graph.insert_after(None, Transpose(nhwc, constants.vector("perm", TO_NCHW), results=[value]))


class NchwToNhwcOutputShape(InterfacePass):
    """Change NCHW outputs of the main graph to NHWC; an output that no operator produces stays.

    An output of rank 4 counts as NCHW, unless an operator or a Transpose shows that it is NHWC.  Outputs with
    quantization details stay.
    """

    name = "nchw_to_nhwc_output_shape"

    def values(self, graph: Graph) -> tuple[Value, ...]:
        return tuple(v for v in graph.outputs if v.producer is not None)

    def convert(self, graph: Graph, value: Value, nhwc: Value, constants: Constants) -> None:
        graph.outputs = [nhwc if v is value else v for v in graph.outputs]
        graph.append(Transpose(value, constants.vector("perm", TO_NHWC), results=[nhwc]))
