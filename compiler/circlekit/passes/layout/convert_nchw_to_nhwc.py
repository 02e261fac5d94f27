# SPDX-License-Identifier: Apache-2.0
"""Convert a model from NCHW to NHWC as far as possible."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from circlekit.ir.graph import Graph, Model
from circlekit.ir.shape_inference import fits
from circlekit.ir.value import Value, same_grid
from circlekit.ops.constant_operands import int_list, static_int_vector
from circlekit.ops.movement.shape import Transpose
from circlekit.ops.reduction.reduce import Reduction, reduced_axes
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.layout.region import Region, Variable
from circlekit.passes.layout.region_finder import RegionFinder
from circlekit.passes.layout.region_problem import problem_of
from circlekit.passes.layout.region_rewriter import Applier, Constants
from circlekit.passes.pipelines import RESOLVE_CUSTOM
from circlekit.passes.support.axes import Perm, constant_perm, inverse, permuted_shape
from circlekit.passes.support.conditions import remove_unused
from circlekit.rewrite.base import Context, GraphPass

TO_NHWC: Perm = (0, 2, 3, 1)
TO_NCHW: Perm = (0, 3, 1, 2)

NCHW, NHWC = 0, 1
"""The two sides of a RegionFinder with the permutation TO_NHWC: a side is a number for an order of axes."""

CHANNELS_LAST = frozenset({
    "AVERAGE_POOL_2D", "BATCH_TO_SPACE_ND", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE", "INSTANCE_NORM",
    "L2_POOL_2D", "LOCAL_RESPONSE_NORMALIZATION", "MAX_POOL_2D", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR",
    "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "TRANSPOSE_CONV",
})  # fmt: skip
"""Operators whose data of rank 4 is NHWC by definition."""


def nhwc_regions(graph: Graph) -> tuple[RegionFinder, list[Region]]:
    """Return the finder, whose ``sides`` has the layout of each value, and all regions of ``graph``.

    A region is connected values and operators whose layouts can be chosen.  A layout is known where a
    Transpose between NCHW and NHWC shows it.  Data of the operators in CHANNELS_LAST is NHWC.  All other data
    of rank 4 is assumed to be NCHW.
    """
    finder = RegionFinder(graph, [TO_NHWC], most_sides=2)
    transposes = [op for op in graph if isinstance(op, Transpose) and constant_perm(op) in finder.perms]
    regions = list(finder.regions(transposes))
    regions += _regions_of(finder, NHWC, _data(graph, channels_last=True))
    regions += _regions_of(finder, NCHW, _data(graph, channels_last=False))
    return finder, regions


def _regions_of(finder: RegionFinder, side: int, values: Iterator[Value]) -> Iterator[Region]:
    """Yield a new region for each of ``values`` that is in no region yet; the value is on ``side``."""
    for value in values:
        if value not in finder.sides and finder.has_side(value):
            yield finder.region(value, side)


def _data(graph: Graph, channels_last: bool) -> Iterator[Value]:
    """Yield the data of operators in CHANNELS_LAST if ``channels_last``, else graph inputs and results."""
    yield from () if channels_last else graph.inputs
    for op in graph:
        if not channels_last:
            yield from op.results
        elif op.code in CHANNELS_LAST:
            weight = getattr(op, "filter", None)  # has a layout of its own, so it is left out
            yield from (v for v in (*op.inputs, *op.results) if v is not None and v is not weight)


def move_reductions(graph: Graph, sides: Mapping[Value, int], codes: Collection[str]) -> int:
    """Let the reductions in ``codes`` read NHWC instead of NCHW values; return how many changed.

    ``sides``: the layout, NCHW or NHWC, of each value in a region.  If the order of the dimensions of a
    result changes, a Transpose restores it.  Reductions with ``keep_dims`` do not change here: they change
    with their regions, because their results have rank 4.
    """
    constants = Constants(graph)
    reductions = [op for op in graph.ops if isinstance(op, Reduction) and op.code in codes]
    movable = [op for op in reductions if _can_move(op, sides)]
    for op in movable:
        _move(graph, op, constants)
    return len(movable)


def _can_move(op: Reduction, sides: Mapping[Value, int]) -> bool:
    """Return whether ``op`` reduces transposable NCHW data along constant axes, and drops these axes."""
    source = op.input
    if op.keep_dims or (source.quantization is not None and source.quantization.is_per_channel):
        return False
    if not fits(op) or op.output.rank is None or static_int_vector(op.axis) is None:
        return False
    if source.is_const or source.is_variable:
        return False
    return _channels_last(source) is not None or sides.get(source) == NCHW


def _channels_last(value: Value) -> Value | None:
    """Return the NHWC value from which a Transpose makes ``value``, with the same quantization.

    Return None if there is no such Transpose.
    """
    producer = value.producer
    if not isinstance(producer, Transpose) or constant_perm(producer) != TO_NCHW:
        return None
    return producer.input if same_grid(producer.input.quantization, value.quantization) else None


def _move(graph: Graph, op: Reduction, constants: Constants) -> None:
    """Let ``op`` reduce NHWC data along the same axes."""
    axes = reduced_axes(int_list(op.axis.array()), 4)
    source = _channels_last(op.input)
    if source is None:
        move = Transpose(op.input, constants.vector("perm", TO_NHWC))
        graph.insert_before(op, move)
        source = move.output
    nchw = op.input
    op.input = source
    op.axis = constants.new(op.axis.name, np.array([TO_NHWC.index(a) for a in axes], np.int32))
    remove_unused(graph, nchw)
    # the NCHW axes that the new result has: for a reduction of axis H, for example, [0, 3, 1].  The Transpose
    # then has the permutation [0, 2, 1]
    remaining = [axis for axis in TO_NHWC if axis not in axes]
    if remaining == sorted(remaining):
        return  # they are in the old order
    perm, result = tuple(remaining.index(axis) for axis in sorted(remaining)), op.output
    shape = permuted_shape(result.known_shape, inverse(perm))
    reduced = Value(graph.unique_name(result.name), result.dtype, shape, None, result.quantization)
    op.take_result(0, reduced)
    graph.insert_after(op, Transpose(reduced, constants.vector("perm", perm), results=[result]))


ALWAYS_NHWC = frozenset({
    "ADD", "CONCATENATION", "DIV", "ELU", "GELU", "LEAKY_RELU", "LOGISTIC", "MAXIMUM", "MEAN", "MINIMUM",
    "MIRROR_PAD", "MUL", "NEG", "PAD", "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RELU", "RELU6", "RSQRT",
    "SPLIT_V", "SQUARED_DIFFERENCE", "SUB",
})  # fmt: skip
"""Operators that become NHWC wherever they can: those that ONE's pass convert_nchw_to_nhwc converts."""


class ConvertNchwToNhwc(GraphPass):
    """Let ADD, CONCATENATION, MEAN, PAD and others work on NHWC instead of NCHW data wherever they can.

    These operators are listed in ALWAYS_NHWC.  Unlike optimize_layout, the pass converts them even if
    transposes then move more bytes: it is for runtimes that are fast only in NHWC.  Other operators become
    NHWC only where that saves transposes.  Transposes remain between NHWC and NCHW operators, and at inputs
    and outputs of the graph.
    Data is assumed to be NCHW unless a Transpose, or an operator that works only on NHWC data (CONV_2D and
    others), shows its layout.  Custom operators that have a builtin form are replaced first.  One
    optimization converts each graph only once.
    """

    name = "convert_nchw_to_nhwc"

    def __init__(self) -> None:
        self.done: set[Graph] = set()

    def run(self, model: Model, context: Context) -> int:
        has_custom = any(op.code == "CUSTOM" for op in model.ops())
        records = run_passes(model, RESOLVE_CUSTOM, context) if has_custom else []
        return sum(record.changes for record in records) + super().run(model, context)

    def run_graph(self, graph: Graph, context: Context) -> int:
        if graph in self.done:  # a second run would convert again what another pass undid to save bytes
            return 0
        self.done.add(graph)
        finder, regions = nhwc_regions(graph)
        applier = Applier(finder, Constants(graph))
        moved = 0
        for region in regions:
            if any(v.side != NHWC and _becomes_nhwc(v) for v in region.variables):
                labels = _labels(finder, region)
                moved += sum(v.side != labels[v.number] for v in region.variables)
                applier.apply(region, labels)
        for op, sentence in finder.fixed.items():
            if isinstance(op, Reduction) and finder.sides.get(op.input) == NHWC:
                sentence = "reads NHWC data already"  # its result has no layout
            if op.results and not isinstance(op, Transpose):
                context.refuse(self.name, op, f"%{op.output.name}: {sentence}")
        if context.partial_matches:
            self._explain_others(graph, context)
        return moved + move_reductions(graph, finder.sides, ALWAYS_NHWC)

    def _explain_others(self, graph: Graph, context: Context) -> None:
        """Record why operators keep their layout: the rank is not 4, or they are not in ALWAYS_NHWC."""
        for op in graph:
            if op.results and op.output.rank != 4:
                rank = "unknown" if op.output.rank is None else op.output.rank
                context.refuse(self.name, op, f"%{op.output.name}: expected rank 4, got {rank}", progress=1)
            elif op.results and op.code not in ALWAYS_NHWC:
                sentence = f"%{op.output.name}: {op.code} becomes NHWC only where that saves transposes"
                context.refuse(self.name, op, sentence, progress=1)


def _becomes_nhwc(variable: Variable) -> bool:
    """Return whether the operator of ``variable`` is in ALWAYS_NHWC and can work on NHWC data."""
    return variable.op.code in ALWAYS_NHWC and NHWC in variable.changes


def _labels(finder: RegionFinder, region: Region) -> list[int]:
    """Return a layout for each variable of ``region``, which is an operator whose layout can be chosen.

    It is NHWC where ``_becomes_nhwc`` holds; the others get the layouts that cost least together.
    """
    forced = {v.number for v in region.variables if _becomes_nhwc(v)}

    def pinned(number: int) -> int:  # in a demand, ``~side`` stands for an operator with a fixed side
        return ~NHWC if number in forced else number

    problem = problem_of(region, finder)
    for demand in problem.demands:
        demand.producer = pinned(demand.producer)
        demand.consumers = [pinned(number) for number in demand.consumers]
    labels = problem.solve()
    return [NHWC if number in forced else label for number, label in enumerate(labels)]
