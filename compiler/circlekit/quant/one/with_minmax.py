# SPDX-License-Identifier: Apache-2.0
"""Quantize a model with recorded ranges by ONE's rules (``circle-quantizer --quantize_with_minmax``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from circlekit.ir.graph import Graph, Model
from circlekit.ir.location import working_on
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import check_shapes
from circlekit.ops.arithmetic.cast import Cast
from circlekit.quant.one.activations import (
    Task,
    propagate_backward,
    propagate_forward,
    quantize_constants,
    quantize_ranges,
    set_fixed_and_integer_scales,
)
from circlekit.quant.one.borders import (
    insert_mixed_precision,
    isolate_float_ops,
    port_dtypes,
    remove_redundant_conversions,
    requantize_copied_operands,
    set_input_types,
    set_output_types,
)
from circlekit.quant.one.graph_editor import GraphEditor
from circlekit.quant.one.layers import bias_of, quantize_layers
from circlekit.quant.one.rules import stays_float
from circlekit.quant.one.settings import LayerSetting, Settings, settings_of
from circlekit.quant.plan import GraphPlan, OperatorPlan, Plan, TensorForm
from circlekit.quant.scheme import NO_SCHEME
from circlekit.quant.weights import is_computed_float


def quantize_with_minmax(model: Model, settings: Settings) -> Plan:
    """Quantize ``model`` in place with the recorded min and max of its activations.

    Return a plan that says what was done, with reasons.  Graphs that operators call stay float.  So do
    operators without a quantized form, and operators whose bias is computed.  If ``settings.output_types``
    gives output NAME another dtype than its quantized tensor has, the output is a new value, as in ONE: it is
    named ``NAME_Dequantize`` for float32, otherwise ``NAME_Quantize``.  An output that becomes integer is
    new, too, if its operator stays float.  It needs a recorded range; without range and without
    ``settings.output_types``, such an output stays float.
    Raise the errors of ``quantize_operators``, and those of ``settings_of`` for ``settings.layers``.
    After an error, ``model`` may be partly changed and must not be used.
    """
    return quantize_operators(model, settings, settings_of(uncalled_graphs(model), settings))


def quantize_operators(
    model: Model,
    settings: Settings,
    own: Mapping[Op, LayerSetting],
    floats: Mapping[Op, str] | None = None,
    scheme: str = "one",
) -> Plan:
    """Do what ``quantize_with_minmax`` does; settings of single operators are given by operator, not by name.

    ``own``: the settings of single operators, in place of ``settings.layers``.
    ``floats``: additional operators that stay float, with the reasons.
    ``scheme``: the name of the scheme, for the plan.
    Raise ModelError if an activation has no valid recorded range, or if a constant is not finite;
    UnsupportedError or ShapeError for parts that cannot be quantized; UnsupportedError also for a wrong
    number of input or output types, and for a type that an input or output cannot have.
    """
    graphs = uncalled_graphs(model)
    plans = {}
    for graph in graphs:
        task = Task(graph, settings, own, GraphEditor(model, graph))
        task.float_ops = {op: why for op in graph if (why := _obstacle(op)) is not None}
        task.float_ops |= {op: why for op, why in (floats or {}).items() if op.graph is graph}
        with working_on(graph, model):
            plans[graph] = _quantize_graph(task, scheme)
    check_shapes(model)
    return Plan(scheme, [plans.get(graph, GraphPlan()) for graph in model.graphs])


def _obstacle(op: Op) -> str | None:
    """Return the reason why ``op`` stays float; None if it is quantized."""
    if stays_float(op):
        return "it has no quantized form in ONE"
    bias = bias_of(op)
    return "its bias is computed, not constant" if is_computed_float(bias) else None


def uncalled_graphs(model: Model) -> list[Graph]:
    """Return the graphs that no operator calls: the main graph and the graphs of signatures."""
    called = {id(graph) for op in model.ops() for graph in op.called_graphs()}
    return [graph for graph in model.graphs if id(graph) not in called]


def _quantize_graph(task: Task, scheme: str) -> GraphPlan:
    """Quantize one graph, with the steps in ONE's order; return its plan."""
    graph, settings, default = task.graph, task.settings, task.settings.default.dtype
    input_dtypes = port_dtypes(graph.inputs, settings.input_types, default, "input")
    output_dtypes = port_dtypes(graph.outputs, settings.output_types, default, "output")
    isolate_float_ops(task, output_dtypes)
    quantize_ranges(task)
    insert_mixed_precision(task)
    remove_redundant_conversions(task)
    propagate_backward(task)
    quantize_constants(task)
    set_fixed_and_integer_scales(task)
    propagate_forward(task)
    requantize_copied_operands(task)
    quantize_layers(task)
    set_input_types(task, input_dtypes)
    set_output_types(task, output_dtypes)
    remove_redundant_conversions(task)
    task.editor.finish()
    touch_ops(graph)
    if not settings.keeps_range:
        remove_ranges(graph)
    return _plan(task, scheme)


def _plan(task: Task, scheme: str) -> GraphPlan:
    """Return a plan that describes the quantized graph, with reasons.

    The QUANTIZE and DEQUANTIZE that were inserted are not among the operators of the plan; their quantized
    results are among its tensors.
    """
    tensors = {}
    for value in task.graph.values():
        parameters = value.quantization
        if parameters is not None and parameters.scale.size and value.dtype.is_integer:
            scales, zero_points = tuple(parameters.scale.tolist()), tuple(parameters.zero_point.tolist())
            axis = parameters.quantized_dimension
            reason = task.reasons.get(value, "its form in the float model")
            tensors[value.name] = TensorForm(value.dtype, scales, zero_points, axis, reason=reason)
    operators = {}
    for op in task.graph:
        if op.results and op not in task.editor.inserted:
            why = task.float_ops.get(op, "")
            operators[op.results[0].name] = OperatorPlan(op.code, NO_SCHEME if why else scheme, why)
    return GraphPlan(tensors, operators)


def remove_ranges(graph: Graph) -> None:
    """Remove min and max from the quantization of every value.

    A quantization that holds nothing else becomes None.
    """
    for value in graph.values():
        old = value.quantization
        if old is not None and (old.min is not None or old.max is not None):
            value.quantization = replace(old, min=None, max=None) if old.scale.size or old.details else None


def touch_ops(graph: Graph) -> None:
    """Update the versions of operators and the dtype attributes of each CAST after dtypes have changed."""
    for op in graph.ops:
        op.touch()
        if isinstance(op, Cast):
            op.in_data_type, op.out_data_type = op.input.dtype, op.output.dtype
