# SPDX-License-Identifier: Apache-2.0
"""Change the outputs of a model, or set its unknown batch size to 1."""

from __future__ import annotations

from circlekit.errors import RewriteError, near_miss
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import infer_shapes
from circlekit.ir.value import Value
from circlekit.passes.fold.remove_dead import RemoveDead
from circlekit.rewrite.base import Context, Option, Pass


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"expected names separated by commas, got {text!r}")
    return names


class ChangeOutputs(Pass):
    """Make the named results the outputs, in the order of the names; remove operators not needed any more."""

    name = "change_outputs"
    changes_interface = True
    options = (
        Option(
            "change_outputs", "make these results the outputs, as many as there are now", "NAME,NAME", _names
        ),
    )

    def run(self, model: Model, context: Context) -> int:
        names: list[str] = self.setting(context, "change_outputs") or []
        graph = model.main
        if not names or [v.name for v in graph.outputs] == names:
            return 0
        if len(names) != len(graph.outputs):
            raise RewriteError(
                f"change_outputs: expected {len(graph.outputs)} names, as many as outputs, got {len(names)}"
            )
        results = {value.name: value for op in graph for value in op.results}
        chosen = [_find(name, results) for name in names]
        replacements = dict(zip(graph.outputs, chosen, strict=True))
        for signature in model.signatures:
            if signature.graph is graph:
                signature.outputs = {key: replacements.get(v, v) for key, v in signature.outputs.items()}
        graph.outputs = chosen
        RemoveDead().run(model, Context(context.format))
        return len(chosen)


def _find(name: str, results: dict[str, Value]) -> Value:
    if name not in results:
        raise RewriteError(f"change_outputs: no operator has a result %{name}" + near_miss(name, results, 3))
    return results[name]


class DynamicBatchToSingleBatch(Pass):
    """Set the first dimension of every input to 1 if it is unknown.

    The inputs are those of the main graph and of all graphs with a signature.
    """

    name = "dynamic_batch_to_single_batch"
    changes_interface = True

    def run(self, model: Model, context: Context) -> int:
        count = 0
        for graph in dict.fromkeys([model.main, *(s.graph for s in model.signatures)]):
            unknown = [v for v in graph.inputs if v.shape and v.shape[0] is None]
            for value in unknown:
                assert value.shape is not None
                value.shape = (1, *value.shape[1:])
            graph.epoch += bool(unknown)
            count += len(unknown)
        if count:
            infer_shapes(model)
        return count
