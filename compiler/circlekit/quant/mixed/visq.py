# SPDX-License-Identifier: Apache-2.0
"""ONE's visq: compare each tensor of a quantized model with the float model; write or draw the errors.

``fake_quantize`` turns the quantized model into a float model that rounds: its rounded tensors are the
results of a QUANTIZE and a DEQUANTIZE, and their names end with SUFFIX.  Each is compared with the tensor of
the float model that has this name without SUFFIX.  Source of the formulas and of the file formats:
``visq`` in ONE's repository.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from circlekit.errors import ModelError, ParseError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.clone import clone
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array
from circlekit.ops.arithmetic.cast import Dequantize
from circlekit.quant.one.fake_quantized import fake_quantize

SUFFIX = "_FQ_Quantize_FQ_Dequantize"
"""The end of the names that ``fake_quantize`` gives to rounded tensors."""

EPSILON = 1e-6
"""MPEIR divides by the range of the elements plus this number, because the range may be 0."""

COLORS = (
    "#ffffcc", "#ffeda0", "#fed976", "#feb24c", "#fd8d3c", "#fc4e2a", "#e31a1c", "#bd0026", "#800026",
)  # fmt: skip
"""Colors from small to large errors: ColorBrewer's scheme YlOrRd."""

DIGITS = 4
"""The number of digits after the decimal point in files."""


def _peak(reference: Array, difference: Array) -> float:
    """Return the largest error relative to the difference of the largest and the smallest element."""
    return float(np.abs(difference).max() / (np.ptp(reference) + EPSILON))


def _mean_square(reference: Array, difference: Array) -> float:
    """Return the mean squared error."""
    return float(np.square(difference).mean())


def _total(reference: Array, difference: Array) -> float:
    """Return the sum of the absolute errors."""
    return float(np.abs(difference).sum())


METRICS: Mapping[str, Callable[[Array, Array], float]] = {
    "MPEIR": _peak,
    "MSE": _mean_square,
    "TAE": _total,
    "SRMSE": _mean_square,  # ``_finished`` takes the root and divides it by the scale
}
"""ONE's metrics by name.

MPEIR is the mean peak error to interval ratio, MSE the mean squared error, TAE the total absolute error,
SRMSE the scale-normalized root mean squared error.  Each is a function of a float tensor and of its
difference from the rounded tensor, and returns the error for one sample.  The error of a tensor is the mean
over all samples; for SRMSE, it is the root of this mean, divided by the scale.
"""


@dataclass
class TensorErrors:
    """Errors of tensors in one metric.

    ``metric``: a key of METRICS.  ``errors``: by name of the tensor, in the order of execution.
    ``low``, ``high``: the errors at both ends of the color scale.
    """

    metric: str
    errors: dict[str, float] = field(default_factory=dict)
    low: float = 0.0
    high: float = 1.0

    def colors(self) -> list[dict[str, Any]]:
        """Return the color scale as ONE's JSON objects: the color ``c`` is for errors from ``b`` to ``e``."""
        width = (self.high - self.low) / len(COLORS)
        ends = [self.low + index * width for index in range(len(COLORS) + 1)]
        return [{"b": ends[index], "e": ends[index + 1], "c": color} for index, color in enumerate(COLORS)]

    def document(self, model: str) -> dict[str, Any]:
        """Return the JSON document of ONE's ``*.visq.json``; ``model``: the name of the model file."""
        scheme = [
            {key: x if isinstance(x, str) else round(x, DIGITS) for key, x in slot.items()}
            for slot in self.colors()
        ]
        errors = {name: round(error, DIGITS) for name, error in self.errors.items()}
        return {"meta": {"model": model, "metric": self.metric, "colorscheme": scheme}, "error": [errors]}

    def dot(self, graph: Graph, model: str) -> str:
        """Return a drawing of ``graph`` in Graphviz's language.

        Operators have the color of the error of their first result; those without an error are gray.
        ``model``: the name of the drawing.
        """
        slots = self.colors()
        cells = "".join(
            f'<tr><td bgcolor="{slot["c"]}">{self.metric}: {slot["b"]:.4f} ~ {slot["e"]:.4f}</td></tr>'
            for slot in slots
        )
        lines = [f"digraph {_quoted(model)} {{", f"color_table [shape=none, label=<<table>{cells}</table>>];"]
        lines += [f"{_quoted(value.name)};" for value in (*graph.inputs, *graph.outputs)]
        for op in graph:
            if op.results:
                lines += self._dot_lines(graph, op)
        return "\n".join([*lines, "}", ""])

    def _dot_lines(self, graph: Graph, op: Op) -> list[str]:
        """Return the lines for the node of ``op``, named after its first result, and for the edges to it."""
        name, error = op.results[0].name, self.errors.get(op.results[0].name)
        style = 'style=filled, fillcolor="gray"'
        if error is not None:
            label = f"{self.metric}: {error:.4f}"
            style = f'style=filled, fillcolor="{self._color(error)}", xlabel="{label}"'
        producers = (
            value.name if value.producer is None else value.producer.results[0].name
            for value in op.inputs
            if value is not None and (value.producer is not None or value in graph.inputs)
        )
        edges = [f"{_quoted(source)} -> {_quoted(name)};" for source in producers]
        return [f"{_quoted(name)} [{style}];", *edges]

    def _color(self, error: float) -> str:
        """Return the color of ``error``."""
        share = (error - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return COLORS[min(max(int(share * len(COLORS)), 0), len(COLORS) - 1)]


def tensor_errors(
    model: Model, quantized: Model, samples: Iterable[Sequence[Array]], metrics: Sequence[str]
) -> list[TensorErrors]:
    """Return for each metric the errors of the tensors that ``quantized`` rounds.

    ``model``: the float model.  ``metrics``: keys of METRICS.
    ``samples``: lists of arrays in the order of the graph's inputs; they are read one at a time.
    Results of operators that only move elements have no error: as in ONE, ``fake_quantize`` does not round
    them.

    Raise ModelError if there are no samples, if no rounded tensor has the name and shape of a float result,
    or if an error is not finite.  For SRMSE, also raise ModelError if a scale is not positive.  Raise the
    errors of ``Interpreter.run``.
    """
    rounding = clone(quantized)
    fake_quantize(rounding)
    scales = _scales(rounding)  # its keys: the names of the tensors to compare
    float_interpreter, rounding_interpreter = Interpreter(model), Interpreter(rounding)
    # {metric: {tensor: the error for each sample}}
    errors_by_metric: dict[str, dict[str, list[float]]] = {metric: {} for metric in metrics}
    has_sample = False
    for sample in samples:
        has_sample = True
        references = _results(float_interpreter, sample, lambda name: name if name in scales else None)
        results = _results(rounding_interpreter, sample, _original)
        for name, reference in references.items():
            if results[name].shape != reference.shape or not reference.size:
                continue
            with np.errstate(all="ignore"):
                difference = reference - results[name]
                for metric in metrics:
                    error = METRICS[metric](reference, difference)
                    errors_by_metric[metric].setdefault(name, []).append(error)
    if not has_sample:
        raise ModelError("expected at least one sample to measure errors of tensors, got none")
    return [_finished(metric, errors, scales) for metric, errors in errors_by_metric.items()]


def _finished(
    metric: str, errors: Mapping[str, Sequence[float]], scales: Mapping[str, float]
) -> TensorErrors:
    """Return the errors of tensors (see ``METRICS``) and the ends of the color scale.

    The ends are those of ONE.  MPEIR: 0 and 1.  SRMSE: 0 and the largest error.  Other metrics: the smallest
    and the largest error of a tensor in one sample.
    ``errors``: by tensor, the error for each sample.  ``scales``: the scale of each tensor, for SRMSE.
    Raise ModelError if there are no errors, or if one is not finite; for SRMSE, also if a scale is not
    positive.
    """
    if not errors:
        raise ModelError("expected quantized results with the names and shapes of float results, found none")
    means = {name: sum(found) / len(found) for name, found in errors.items()}
    wrong = next((name for name, mean in means.items() if not math.isfinite(mean)), None)
    if wrong is not None:
        raise ModelError(f"expected tensors of finite numbers, got the error {means[wrong]} at %{wrong}")
    if metric == "MPEIR":
        return TensorErrors(metric, means)
    if metric == "SRMSE":
        for name in means:
            if scales[name] <= 0:
                raise ModelError(f"%{name}: expected a positive scale, got {scales[name]:g}")
        means = {name: math.sqrt(mean) / scales[name] for name, mean in means.items()}
        return TensorErrors(metric, means, 0.0, max(means.values()))
    every = [error for found in errors.values() for error in found]
    return TensorErrors(metric, means, min(every), max(every))


def _results(
    interpreter: Interpreter, sample: Sequence[Array], name_of: Callable[[str], str | None]
) -> dict[str, Array]:
    """Run the main graph on ``sample`` and return the float results of its operators by new names.

    ``name_of``: returns the new name for the name of a result, or None to leave the result out.
    """
    found: dict[str, Array] = {}

    def keep(op: Op, arrays: Sequence[Array]) -> None:
        """Keep the float results of ``op`` that have a new name."""
        for value, array in zip(op.results, arrays, strict=True):
            name = name_of(value.name)
            if name is not None and op.graph is interpreter.model.main and array.dtype.kind == "f":
                found[name] = array

    interpreter.reset()
    interpreter.run(sample, observe=keep)
    return found


def _original(name: str) -> str | None:
    """Return the name that the rounded tensor ``name`` has in the float model; None for other tensors."""
    return name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else None


def _scales(rounding: Model) -> dict[str, float]:
    """Return the scale of each rounded tensor, by its name in the float model."""
    return {
        name: float(op.input.quantization.scale.reshape(-1)[0])
        for op in rounding.main
        if isinstance(op, Dequantize)
        and op.input.quantization is not None
        and (name := _original(op.output.name)) is not None
    }


def read_errors(document: Any, path: str) -> dict[str, float]:
    """Return {name: error} of the tensors in the JSON ``document`` of a file ``*.visq.json``.

    ``path``: the path of the file, for messages.  Raise ParseError for any other document.
    """
    graphs = document.get("error") if isinstance(document, dict) else None
    if not isinstance(graphs, list) or not graphs or not isinstance(graphs[0], dict):
        raise ParseError(f"{path}: Invalid visq file: expected an object with errors by tensor at error[0]")
    if not all(type(error) in (int, float) for error in graphs[0].values()):
        raise ParseError(f"{path}: Invalid visq file: expected numbers at error[0]")
    try:
        return {name: float(error) for name, error in graphs[0].items()}
    except OverflowError as error:
        raise ParseError(f"{path}: Invalid visq file: {error}") from None


def _quoted(name: str) -> str:
    """Return ``name`` as a string of Graphviz's language."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
