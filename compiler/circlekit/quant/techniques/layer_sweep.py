# SPDX-License-Identifier: Apache-2.0
"""Choose integers and biases layer by layer, in the order of execution.

Two streams of samples run through the graph side by side: the float model, and the plan, simulated by floats
that are rounded to the planned steps.  At each layer the techniques get the inputs of both, so that each
sees the errors that all earlier layers have left.  Some samples are held back: the technique is kept whose
outputs on the held-back samples are nearest to the float model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from circlekit.ir.dtypes import i32
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.fused_activation import apply_activation
from circlekit.quant.apply import real_data, stored_data
from circlekit.quant.plan import OperatorPlan, Plan, TensorPlan, key_of
from circlekit.quant.scheme import SCHEMES
from circlekit.quant.techniques.layer_rounding import LayerFit, LayerTechnique, layer_data
from circlekit.quant.techniques.linear_layer import LinearLayer, linear_layer
from circlekit.quant.techniques.operator_runs import Column, OperatorRuns, last_uses
from circlekit.quant.weights import LARGEST_BIAS

ROWS_PER_DEPTH = 8
"""Rows that a covariance is estimated from, for each of its columns."""

LEAST_ROWS = 8192
"""Rows that a covariance is estimated from, at least."""

STREAMS = 2
"""The float model and the quantized one run side by side."""

Powers = tuple[float, float]
"""The powers of a signal and of its noise: sums of squares."""


@dataclass
class LayerChoice:
    """What was tried for a layer: errors in dB of its result on held-back samples, by technique."""

    name: str
    chosen: str
    errors: dict[str, float]


@dataclass
class Sweep:
    """One pass over the main graph of ``model``, which changes the integers and biases of ``plan``.

    ``samples``: inputs in the order of the graph's.  ``held``: number of the last samples, on which
    techniques are only compared; 0: all samples are used to fit and to compare.  ``techniques``: by name,
    what to try for each layer.  ``reference``: the float model's outputs for each sample, and perhaps more,
    if they are known; then, without techniques, the float model does not run.
    """

    model: Model
    plan: Plan
    samples: Sequence[Sequence[Array]]
    held: int
    techniques: Mapping[str, LayerTechnique]
    reference: Sequence[Sequence[Array]] = ()
    choices: list[LayerChoice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._float: dict[Value, list[Array]] = {}
        self._rounded: dict[Value, list[Array]] = {}
        self._forms: dict[Value, TensorPlan | None] = {}
        self._random = np.random.default_rng(0)
        self._runs = OperatorRuns(self.model, self.samples)
        self._runs_float = bool(self.techniques) or not self.reference

    def run(self) -> list[list[Powers]]:
        """Return the powers of signal and noise of each float output for each held-back sample."""
        graph = self.model.main
        for index, value in enumerate(graph.inputs):
            self._float[value] = self._rounded[value] = [sample[index] for sample in self.samples]
        last_use = last_uses(graph)
        with np.errstate(all="ignore"):
            for op in graph.ops:
                self._run(op)
                for value in {v for v in op.inputs if v is not None}:
                    if last_use[value] is op and not graph.is_output(value):
                        self._float.pop(value, None)
                        self._rounded.pop(value, None)
        return self.output_powers(len(self.samples) - self.held if self.held else 0)

    def output_powers(self, first: int = 0) -> list[list[Powers]]:
        """Return the powers after a run: for each sample from ``first`` on, those of each float output."""
        graph = self.model.main
        outputs = [(i, v) for i, v in enumerate(graph.outputs) if v.dtype.is_float and v in self._rounded]
        pairs = [list(zip(self._wanted(i, v), self._rounded[v], strict=True)) for i, v in outputs]
        return [[powers(*column[sample]) for column in pairs] for sample in range(first, len(self.samples))]

    def _wanted(self, index: int, output: Value) -> Sequence[Array]:
        """Return what the float model gives for an output."""
        if self._runs_float:
            return self._float[output]
        return [outputs[index] for outputs in self.reference[: len(self.samples)]]

    def _run(self, op: Op) -> None:
        plan = self.plan.main.operators.get(key_of(op))
        is_planned = plan is not None and not plan.is_float
        if self._runs_float:
            floats = self._runs.evaluate(op, [self._float_column(v) for v in op.inputs])
            if plan is not None and is_planned:
                self._fit(op, plan, floats)
            self._float.update((v, [r[i] for r in floats]) for i, v in enumerate(op.results))
        rounded = self._runs.evaluate(op, self._rounded_columns(op, plan if is_planned else None))
        for index, value in enumerate(op.results):
            self._rounded[value] = [results[index] for results in rounded]
            if plan is not None and is_planned and SCHEMES[plan.scheme].activations is not None:
                form = self.plan.main.tensors.get(value.name)
                self._forms[value] = form
                if form is not None:
                    self._rounded[value] = [fake_quantized(a, form) for a in self._rounded[value]]

    def _float_column(self, value: Value | None) -> Column:
        return None if value is None else value.array() if value.is_const else self._float[value]

    def _rounded_columns(self, op: Op, plan: OperatorPlan | None) -> list[Column]:
        columns: list[Column] = []
        for index, value in enumerate(op.inputs):
            if value is None or (value.is_const and plan is None):
                columns.append(self._float_column(value))
            elif value.is_const:
                assert plan is not None  # see above
                columns.append(self._constant(value, plan.operands.get(index)))
            else:
                columns.append(self._read(value, plan, index))
        return columns

    def _read(self, value: Value, plan: OperatorPlan | None, index: int) -> list[Array]:
        """Return the rounded samples of an operand in the form in which the operator reads it."""
        arrays = self._rounded[value]
        if plan is None or SCHEMES[plan.scheme].activations is None or not value.dtype.is_float:
            return arrays
        form = plan.operands.get(index) or self.plan.main.tensors.get(value.name)
        if form is None or form.same_as(self._forms.get(value)):
            return arrays
        return [fake_quantized(a, form) for a in arrays]

    def _constant(self, value: Value, form: TensorPlan | None) -> Array:
        """Return the numbers that the stored integers of a constant stand for."""
        replaced = self.plan.main.constants.get(value.name)
        if form is None:
            return value.array() if replaced is None else replaced
        return real_data(stored_data(value.array(), form) if replaced is None else replaced, form)

    # -- fitting --------------------------------------------------------------------------------

    def _fit(self, op: Op, plan: OperatorPlan, floats: Sequence[Sequence[Array]]) -> None:
        """Try the techniques on a layer, and store the best integers and bias in the plan."""
        layer = linear_layer(op)
        form = plan.operands.get(layer.weights_index) if layer is not None else None
        if (
            layer is None
            or form is None
            or form.dtype.is_float
            or any(form.zero_point)
            or not self.techniques
        ):
            return
        if layer.weights.use_count != 1 or (layer.bias is not None and layer.bias.use_count != 1):
            return  # other users need the same constant
        means = self._means(layer, plan, [r[0].shape for r in floats])
        if len(self.techniques) == 1:
            ((name, technique),) = self.techniques.items()
            fit = technique(layer_data(layer, form, means, np.zeros((2, layer.groups, 0, means.shape[2]))))
            if np.isfinite(fit.bias).all() and self._bias_fits(layer, plan, fit):
                self._store(layer, plan, form, fit, name)
            return
        fit_rows, held_rows = self._rows(layer, plan, [r[0].shape for r in floats])
        data = layer_data(layer, form, means, fit_rows)
        act = op.attribute_items()["act"]
        wanted = apply_activation(_products(held_rows[0], data.weights, data.bias), act)
        signal = float(np.square(wanted).sum())
        if not np.isfinite(signal):
            return  # overflow: there is nothing to fit to
        fits: dict[str, LayerFit] = {}
        errors: dict[str, float] = {}
        for name, technique in self.techniques.items():
            fit = technique(data)
            if not self._bias_fits(layer, plan, fit):
                continue
            actual = apply_activation(_products(held_rows[1], fit.weights, fit.bias), act)
            noise = float(np.square(actual - wanted).sum())
            fits[name] = fit
            errors[name] = float(10 * np.log10(max(noise, 1e-30) / max(signal, 1e-30)))
        if not fits:
            return
        chosen = min(errors, key=lambda name: errors[name])
        self.choices.append(LayerChoice(key_of(op), chosen, errors))
        self._store(layer, plan, form, fits[chosen], _reason(chosen, errors))

    def _means(self, layer: LinearLayer, plan: OperatorPlan, shapes: Sequence[tuple[int, ...]]) -> Array:
        """Return the mean rows to fit to: of the float model, of the plan; 0 without a bias."""
        count = len(self.samples) - self.held
        streams = self._float[layer.input], self._read(layer.input, plan, layer.input_index)
        means = [
            np.mean([layer.mean_row(a, s) for a, s in zip(arrays[:count], shapes, strict=False)], axis=0)
            for arrays in streams
        ]
        return np.stack(means) * (layer.bias is not None)

    def _rows(
        self, layer: LinearLayer, plan: OperatorPlan, shapes: Sequence[tuple[int, ...]]
    ) -> tuple[Array, Array]:
        """Return rows (of the float model, of the plan) to fit, and such rows to compare."""
        rounded = self._read(layer.input, plan, layer.input_index)
        depth = layer.matrices(layer.weights.array()).shape[2]
        limit = max(LEAST_ROWS // len(self.samples), ROWS_PER_DEPTH * depth // len(self.samples), 1)
        parts: list[Array] = []
        for sample, shape in enumerate(shapes):
            both = [layer.rows(a[sample], shape) for a in (self._float[layer.input], rounded)]
            step = -(-both[0].shape[1] // limit)
            start = int(self._random.integers(step))
            parts.append(np.stack([rows[:, start::step] for rows in both]))
        first = len(parts) - self.held
        return np.concatenate(parts[:first], axis=2), np.concatenate(parts[first:] or parts, axis=2)

    def _bias_fits(self, layer: LinearLayer, plan: OperatorPlan, fit: LayerFit) -> bool:
        """Return whether the bias stays below LARGEST_BIAS; biases of 64 bits and float ones always do."""
        form = plan.operands.get(layer.bias_index)
        if form is None:
            return True
        scale = fit.scale[..., 0] * self._data_scale(layer, plan)
        return bool(np.all(np.abs(fit.bias) < LARGEST_BIAS[i32] * scale)) or form.dtype.bits > 32

    def _data_scale(self, layer: LinearLayer, plan: OperatorPlan) -> float:
        form = plan.operands.get(layer.input_index) or self.plan.main.tensors[layer.input.name]
        return form.scale[0]

    def _store(
        self, layer: LinearLayer, plan: OperatorPlan, form: TensorPlan, fit: LayerFit, reason: str
    ) -> None:
        constants = self.plan.main.constants
        constants[layer.weights.name] = layer.from_matrices(fit.integers.astype(np.int8))
        scales = fit.scale.reshape(-1, fit.scale.shape[2])
        scales = scales[:, :: form.block].reshape(-1) if form.block else scales[:, 0]
        if len(form.scale) == 1:
            scales = scales[:1]
        steps = np.asarray(scales, np.float32)
        weights = replace(form, scale=tuple(steps.tolist()), reason=f"{form.reason}; {reason}")
        plan.operands[layer.weights_index] = weights
        if layer.bias is None:
            return
        bias = fit.bias.reshape(layer.bias.static_shape)
        bias_form = plan.operands.get(layer.bias_index)
        if bias_form is None:
            constants[layer.bias.name] = bias.astype(np.float32)
            return
        bias_scales = np.float32(self._data_scale(layer, plan)) * steps
        plan.operands[layer.bias_index] = replace(
            bias_form,
            scale=tuple(bias_scales.tolist()),
            reason=f"{bias_form.reason}; corrected with the weights",
        )
        integers = np.rint(bias.reshape(-1) / bias_scales.astype(np.float64))
        constants[layer.bias.name] = integers.astype(bias_form.dtype.numpy).reshape(bias.shape)


def fake_quantized(array: Array, form: TensorPlan) -> Array:
    """Return float numbers rounded to what integers of ``form``, which has one scale, stand for."""
    lowest, largest = form.dtype.limits
    out = np.asarray(np.rint(array / np.float32(form.scale[0])))
    np.clip(out, lowest - form.zero_point[0], largest - form.zero_point[0], out=out)
    return np.asarray(out * np.float32(form.scale[0]), np.float32)


def powers(reference: Array, actual: Array) -> Powers:
    """Return the sums of squares of ``reference``, where it is finite, and of the difference there."""
    finite = np.isfinite(reference)
    signal = float(np.square(reference[finite], dtype=np.float64).sum())
    return signal, float(np.square(reference[finite].astype(np.float64) - actual[finite]).sum())


def decibels(runs: Sequence[Sequence[Powers]], outliers: int = 0) -> float:
    """Return 10 log10(signal / noise), the mean over the outputs; runs on several samples are added.

    ``outliers``: so many runs with the largest noise do not count.
    """
    ratios = []
    for output in zip(*runs, strict=True):
        counted = sorted(output, key=lambda powers: powers[1])[: len(output) - outliers]
        signal, noise = (sum(numbers) for numbers in zip(*counted, strict=True))
        ratio = np.log10(max(signal, 1e-30)) - np.log10(max(noise, 1e-50))
        ratios.append(float(np.clip(10 * ratio, -200, 200)))
    return float(np.mean(ratios)) if ratios else 0.0


def stream_bytes(model: Model) -> int:
    """Return about how many bytes a sweep holds for each sample: twice what the largest operator touches."""
    touched = [(*op.inputs, *op.results) for op in model.main]
    elements = [
        sum(prod(d or 1 for d in v.shape or ()) for v in vs if v and not v.is_const) for vs in touched
    ]
    return 2 * STREAMS * 4 * max(elements, default=1) + 1


def _products(rows: Array, weights: Array, bias: Array) -> Array:
    return np.asarray(rows @ weights.swapaxes(1, 2).astype(np.float32) + bias[:, None].astype(np.float32))


def _reason(chosen: str, errors: Mapping[str, float]) -> str:
    others = ", ".join(f"{name} {error:.1f}" for name, error in errors.items() if name != chosen)
    return f"{chosen}: error {errors[chosen]:.1f} dB on held-back samples" + (others and f" ({others})")
