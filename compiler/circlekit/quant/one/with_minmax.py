# SPDX-License-Identifier: Apache-2.0
"""Quantize a model with recorded ranges by ONE's rules (circle-quantizer --quantize_with_minmax)."""

from __future__ import annotations

from dataclasses import replace

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import check_shapes
from circlekit.ops.arithmetic.cast import Cast
from circlekit.quant.one.activations import (
    Task,
    fix_special,
    propagate_backward,
    propagate_forward,
    quantize_constants,
    quantize_ranges,
)
from circlekit.quant.one.borders import (
    insert_mixed_precision,
    isolate_float_ops,
    port_dtypes,
    remove_redundant_conversions,
    set_input_types,
    set_output_types,
)
from circlekit.quant.one.graph_editor import GraphEditor
from circlekit.quant.one.layers import quantize_layers
from circlekit.quant.one.settings import LayerSetting, Settings, settings_of


def quantize_with_minmax(model: Model, settings: Settings) -> None:
    """Quantize ``model`` in place, from the min and max in the quantization of its activations.

    Graphs that operators call, and operators that have no quantized form, stay float.  An output whose dtype
    changes behind its producer is called NAME_Quantize or NAME_Dequantize, as in ONE.  Raise ModelError if an
    activation has no recorded range, UnsupportedError for what cannot be quantized; ``model`` must not be
    used then.
    """
    graphs = uncalled_graphs(model)
    own = settings_of(graphs, settings)
    for graph in graphs:
        _quantize_graph(model, graph, settings, own)
    check_shapes(model)


def uncalled_graphs(model: Model) -> list[Graph]:
    """Return the graphs that no operator calls: the main graph and those of signatures."""
    called = {id(graph) for op in model.ops() for graph in op.called_graphs()}
    return [graph for graph in model.graphs if id(graph) not in called]


def _quantize_graph(model: Model, graph: Graph, settings: Settings, own: dict[Op, LayerSetting]) -> None:
    editor = GraphEditor(model, graph)
    task = Task(graph, settings, own, editor)
    default = settings.default.dtype
    inputs = port_dtypes(graph.inputs, settings.input_types, default, "input")
    outputs = port_dtypes(graph.outputs, settings.output_types, default, "output")
    isolate_float_ops(task)
    quantize_ranges(task)
    insert_mixed_precision(task)
    remove_redundant_conversions(task)
    propagate_backward(task)
    quantize_constants(task)
    fix_special(task)
    propagate_forward(task)
    quantize_layers(task)
    set_input_types(task, inputs)
    set_output_types(task, outputs)
    remove_redundant_conversions(task)
    editor.finish()
    touch_ops(graph)
    if not settings.keeps_range:
        remove_ranges(graph)


def remove_ranges(graph: Graph) -> None:
    """Remove min and max from the quantization of every value."""
    for value in graph.values():
        old = value.quantization
        if old is not None and (old.min is not None or old.max is not None):
            value.quantization = replace(old, min=None, max=None) if old.scale.size or old.details else None


def touch_ops(graph: Graph) -> None:
    """Record that the dtypes of operands changed: in operator versions, and in the attributes of CAST."""
    for op in graph.ops:
        op.touch()
        if isinstance(op, Cast):
            op.in_data_type, op.out_data_type = op.input.dtype, op.output.dtype
