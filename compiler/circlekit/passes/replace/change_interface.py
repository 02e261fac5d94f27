# SPDX-License-Identifier: Apache-2.0
"""Change the outputs of a model, or set an unknown batch size to 1."""

from __future__ import annotations

from circlekit.errors import CirclekitError, RewriteError, ShapeError, counted, did_you_mean
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import infer_shapes
from circlekit.ir.snapshot import Snapshot
from circlekit.ir.value import Shape, Value, format_shape
from circlekit.passes.fold.remove_dead import RemoveDead
from circlekit.rewrite.base import Context, Option, Pass, names_of


class ChangeOutputs(Pass):
    """Make the named values the outputs of the main graph, in this order, and remove unused operators.

    Raise RewriteError, with the message of ONE, if the number of names is not the number of outputs, or if no
    value of the main graph has a given name.
    """

    name = "change_outputs"
    changes_interface = True
    options = (
        Option("change_outputs", "make these values the outputs; as many as now", "NAME,NAME", names_of),
    )

    def run(self, model: Model, context: Context) -> int:
        names: list[str] = self.setting(context, "change_outputs") or []
        graph = model.main
        if not names or [v.name for v in graph.outputs] == names:
            return 0
        if len(names) != len(graph.outputs):
            expected = f"number of outputs should be {len(graph.outputs)}"
            raise RewriteError(f"Change outputs failed: {expected}, got {counted(len(names), 'name')}")
        values = {value.name: value for value in graph.values()}
        chosen = [_find(name, values) for name in names]
        replacements: dict[Value, list[Value]] = {}  # several for a value that is an output several times
        for old, new in zip(graph.outputs, chosen, strict=True):
            replacements.setdefault(old, []).append(new)
        for signature in model.signatures:
            if signature.graph is graph:
                left = {old: list(new) for old, new in replacements.items()}
                signature.outputs = {key: _next_of(left, v) for key, v in signature.outputs.items()}
        graph.outputs = chosen
        RemoveDead().run(model, Context(context.format))  # a new context: its changes are not counted
        return len(chosen)


def _next_of(left: dict[Value, list[Value]], value: Value) -> Value:
    """Return the next value in ``left`` that replaces ``value``; ``value`` itself if nothing replaces it.

    The value is removed from ``left``, unless it is the last one.
    """
    new = left.get(value, [value])
    return new.pop(0) if len(new) > 1 else new[0]


def _find(name: str, values: dict[str, Value]) -> Value:
    """Return the value called ``name``; if there is none, raise RewriteError with up to 3 similar names."""
    if name not in values:
        raise RewriteError(f"Change outputs failed: node not found: {name}" + did_you_mean(name, values, 3))
    return values[name]


class DynamicBatchToSingleBatch(Pass):
    """Set the first dimension of each input to 1 where it is unknown, and infer all shapes again.

    The inputs are those of the main graph and of all graphs with a signature.  Raise CirclekitError, and
    leave the model unchanged, if an input or an operator cannot have a batch of 1.
    """

    name = "dynamic_batch_to_single_batch"
    changes_interface = True

    def run(self, model: Model, context: Context) -> int:
        count, start = 0, Snapshot(model)
        try:
            for graph in dict.fromkeys([model.main, *(s.graph for s in model.signatures)]):
                unknown = [v for v in graph.inputs if v.shape and v.shape[0] is None]
                for value in unknown:
                    _set_shape(value, (1, *value.known_shape[1:]))
                graph.epoch += bool(unknown)  # counts changes of the graph
                count += len(unknown)
            if count:
                infer_shapes(model)
        except CirclekitError:  # an input or operator cannot have a batch of 1
            start.restore()
            raise
        return count


def _set_shape(value: Value, shape: Shape) -> None:
    """Set the shape of the input ``value``; raise ShapeError if its quantization does not fit the shape."""
    fault = None if value.quantization is None else value.quantization.misfit(shape)
    if fault is not None:
        raise ShapeError(f"%{value.name} cannot have the shape {format_shape(shape)}: {fault}")
    value.shape = shape
