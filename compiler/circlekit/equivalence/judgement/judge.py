# SPDX-License-Identifier: Apache-2.0
"""Judge a quantized model against its float model: metrics of outputs, errors of layers, findings.

A layer is an operator of the quantized model whose result has the name of a float32 result in the float
model.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circlekit.equivalence.array_comparison import Outcome
from circlekit.equivalence.judgement.error_metrics import ErrorMetrics
from circlekit.equivalence.judgement.layer_errors import LayerError, LayerErrors
from circlekit.equivalence.layer_comparison import compare_results, shared_results
from circlekit.equivalence.named_results import interpreter_of, run_keeping
from circlekit.equivalence.real_numbers import inputs_for, real_numbers
from circlekit.equivalence.reference_runs import Records, Run
from circlekit.errors import ModelError, ShapeError, counted
from circlekit.interp.evaluate import Inputs
from circlekit.interp.interpreter import expect_runs
from circlekit.ir.dtypes import i32
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.ops.quantized_values import is_quantized

MIN_CLIPPED = 1e-3
"""A layer gets a finding if at least this share of its elements is clipped."""

CSV_COLUMNS = (
    "op_name", "tensor_idx", "num_elements", "stddev", "mean_error", "max_abs_error", "mean_squared_error",
    "scale", "zero_point", "tensor_name", "rmse/scale", "sqnr_db", "added_share",
)  # fmt: skip
"""The columns of TensorFlow's QuantizationDebugger, and three more at the end."""


@dataclass(frozen=True)
class QuantizationFinding:
    """A fault of a quantized model: its place, the reason, and a remedy, all as text."""

    place: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}; {self.remedy}"


@dataclass
class Judgement:
    """The errors of a quantized model.

    ``outputs``: the metrics of each output, by its name in the float model.  ``layers``: the errors of
    layers, in the order of the quantized model.  ``findings``: overflowed biases, then clipped elements and
    dead channels of layers.
    """

    outputs: dict[str, ErrorMetrics]
    layers: list[LayerError]
    findings: list[QuantizationFinding]

    @property
    def sqnr(self) -> float | None:
        """The lowest SQNR of an output, in dB; None if no output has one (see ``ErrorMetrics.sqnr``)."""
        numbers = [m.sqnr for m in self.outputs.values() if m.sqnr is not None]
        return min(numbers, default=None)

    def by_added_error(self) -> list[LayerError]:
        """Return the layers, sorted by the error that they add, the largest first."""
        return sorted(self.layers, key=lambda layer: -layer.added_share)

    def to_csv(self) -> str:
        """Return a table with a row for each layer: the columns of CSV_COLUMNS, in the order of the model."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(CSV_COLUMNS)
        rows.writerows(_csv_row(index, layer) for index, layer in enumerate(self.layers))
        return text.getvalue()


def _csv_row(index: int, layer: LayerError) -> tuple[object, ...]:
    """Return the cells of CSV_COLUMNS.  The column ``tensor_idx`` has ``index``, the number of the layer."""
    error, form, scale = layer.error, layer.quantization, layer.scale
    # a tensor has one zero point or stores none: the sum is that zero point, or 0
    return (
        layer.op.code, index, error.count, error.deviation, error.mean_error, error.worst, error.mse,
        scale or "", "" if form is None else int(form.zero_point.sum()), layer.value.name,
        error.mse**0.5 / scale if scale else "", error.sqnr, layer.added_share,
    )  # fmt: skip


def is_quantized_form(before: Model, after: Model) -> bool:
    """Return whether ``after`` looks like a quantized form of ``before``.

    If ``before`` has no quantized tensor, ``after`` must have one.  Otherwise, a tensor must be quantized in
    ``after`` but not in ``before``; tensors are matched by name.
    """
    quantized = {v.name for v in _values(before) if is_quantized(v)}
    others = {v.name for v in _values(before)} - quantized
    return any(is_quantized(v) and (not quantized or v.name in others) for v in _values(after))


def _values(model: Model) -> Iterator[Value]:
    """Yield the inputs of the main graph, and the constant operands and results of its operators."""
    yield from model.main.inputs
    for op in model.main:
        yield from (v for v in op.inputs if v is not None and v.is_const)
        yield from op.results


class Judge:
    """Runs ``after``, the quantized form of ``before``, right after each run of ``before``; compares both.

    Arguments:
    ``records``: inputs that the user gives; all runs are judged.  None: inputs are seeded, and only the run
    on the set ``normal`` is judged, because the sets ``boundary`` and ``zero`` are no typical inputs.
    ``with_layers``: also compare the layers of the first run, as ``compare_layers`` does.

    Fields:
    ``outputs``: the outputs of ``after``, by the label of the inputs.
    ``layer_outcomes``: the comparison of layers; empty unless ``with_layers``.
    ``names``: the names of all values whose arrays ``add`` needs, from either model.
    """

    def __init__(
        self, before: Model, after: Model, records: Records | None, with_layers: bool = False
    ) -> None:
        self.before, self.after, self.records, self.with_layers = before, after, records, with_layers
        self.outputs: dict[str, list[Array]] = {}
        self.layer_outcomes: list[Outcome] = []
        self._interpreter = interpreter_of(after)
        self._pairs = _paired(before.main.outputs, after.main.outputs)
        self._metrics = {reference.name: ErrorMetrics() for reference, _ in self._pairs}
        self._layers = LayerErrors(before, after)
        self.names = self._layers.names.union(v.name for pair in self._pairs for v in pair)
        self.names.update(shared_results(before, after) if with_layers else ())

    def wants(self, label: str) -> bool:
        """Return whether a run on the inputs with this label is judged."""
        return self.records is not None or label == "normal"

    def add(
        self, label: str, inputs: Inputs, outputs: list[Array], results: Mapping[str, Array], kernels: Kernels
    ) -> None:
        """Run ``after`` on ``inputs``, and add its errors.

        The other arguments describe the run of ``before`` on the same inputs.  ``outputs``: its outputs in
        graph order.  ``results``: the arrays of values in ``names``.  ``kernels``: its kernel set.
        """
        converted = inputs_for(self.after, self.before, inputs)
        if converted is None:
            raise ModelError("the models have different inputs, so they cannot be compared")
        expect_runs(self.after, 1)
        self.outputs[label], right = run_keeping(self._interpreter, converted, self.names)
        for reference, result in self._pairs:
            _add_output(self._metrics[reference.name], label, reference, results, result, right)
        self._layers.add(results, right)
        if self.with_layers and len(self.outputs) == 1:
            run = Run(label, inputs, outputs, kernels)
            self.layer_outcomes = compare_results(self.before, self.after, run, results, right)

    @property
    def judgement(self) -> Judgement:
        """The judgement of all runs so far."""
        layers = self._layers.layers
        return Judgement(self._metrics, layers, [*_bias_findings(self.after), *_layer_findings(layers)])


def _paired(before: Sequence[Value], after: Sequence[Value]) -> list[tuple[Value, Value]]:
    """Return the pairs of outputs to compare, by name if all names agree, else by position."""
    if len(before) != len(after):
        raise ModelError(f"expected {counted(len(before), 'output')}, got {len(after)}")
    by_name = {v.name: v for v in after}
    if all(v.name in by_name for v in before):
        return [(v, by_name[v.name]) for v in before]
    return list(zip(before, after, strict=True))


def _add_output(
    metrics: ErrorMetrics,
    label: str,
    reference: Value,
    left: Mapping[str, Array],
    result: Value,
    right: Mapping[str, Array],
) -> None:
    """Add the arrays of one output to its ``metrics``.

    ``label``: names the inputs in an error.  ``reference``, ``result``: the output in the float model and in
    the quantized model.  ``left``, ``right``: the arrays that these models computed, by name.  A constant
    output is not computed: its own data are added.
    """
    first = left[reference.name] if reference.data is None else reference.data
    second = right[result.name] if result.data is None else result.data
    try:
        metrics.add(real_numbers(reference, first), real_numbers(result, second))
    except ShapeError as error:
        raise error.note(f"output %{reference.name} on {label} inputs") from None


def _bias_findings(model: Model) -> Iterator[QuantizationFinding]:
    """Yield a finding for each int32 bias that has elements at a limit of int32: these were clipped."""
    for op in model.main:
        for spec, value in zip(op.operands, op.inputs, strict=False):
            if value is None or value.data is None or value.dtype is not i32 or not is_quantized(value):
                continue
            count = int(np.count_nonzero(np.isin(value.data, i32.limits)))
            if count:
                yield QuantizationFinding(
                    f"{spec.name} %{value.name} of {op.code}",
                    f"{count} of {value.data.size} elements overflow int32",
                    "the scale of a bias is the scale of the input times that of the weights: use int16x8,"
                    " whose biases have 64 bits, or leave the operator float",
                )


def _layer_findings(layers: list[LayerError]) -> Iterator[QuantizationFinding]:
    """Yield a finding for each layer with many clipped elements, and for each layer with dead channels."""
    for layer in layers:
        place = f"%{layer.value.name} of {layer.op.code}"
        if layer.clipped >= MIN_CLIPPED:
            yield QuantizationFinding(
                place,
                f"{layer.clipped:.2%} of the elements are outside of the quantized range",
                "calibrate on data like this, or use the range estimator min_max",
            )
        if layer.dead_channels:
            yield QuantizationFinding(
                place,
                f"{layer.dead_channels} channels that vary in the float model are constant in this model",
                "the range of these channels is small against the range of the tensor: equalize the channels,"
                " or compute the operator in a higher precision",
            )
