# SPDX-License-Identifier: Apache-2.0
"""Choose integers and biases layer by layer, in the order of execution.

Each operator runs on all samples twice: as in the float model, and as planned, which is simulated with floats
that are rounded to the planned forms.  At each layer the techniques get the inputs of both, so that they see
the errors of all earlier layers.  Some samples are held back from the techniques: the one is kept whose
outputs on these samples are nearest to those of the float model.
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
from circlekit.quant.techniques.layer_rounding import LayerData, LayerFit, LayerTechnique, layer_data
from circlekit.quant.techniques.linear_layer import LinearLayer, linear_layer
from circlekit.quant.techniques.noise import Outcome, powers
from circlekit.quant.techniques.operator_runs import Column, OperatorRuns, fixed_column, last_uses
from circlekit.quant.weights import LARGEST_BIAS

ROWS_PER_DEPTH = 8
"""A covariance is estimated from this many rows for each of its columns, at least from LEAST_ROWS."""

LEAST_ROWS = 8192
"""See ROWS_PER_DEPTH."""

STREAMS = 2
"""The number of models whose arrays are in memory: the float and the simulated quantized one."""


@dataclass
class LayerChoice:
    """The techniques that were tried for a layer.

    ``name``: of its result.  ``chosen``: the technique that was kept.  ``errors``: for each technique the
    noise of the result on held-back samples, in dB relative to the signal.
    """

    name: str
    chosen: str
    errors: dict[str, float]


@dataclass
class Sweep:
    """One pass over the main graph of the float ``model``, which changes integers and biases in ``plan``.

    ``samples``: arrays in the order of the graph's inputs.  ``held``: number of samples at the end that are
    held back; 0: techniques are fitted to all samples and compared on them.  ``techniques``: those to try for
    each layer, by name; with a single one it is not compared.  ``reference``: the outputs of the float model
    for at least these samples, if they are known; then, without techniques, the float model does not run.
    ``choices``: what was chosen, after ``run``.
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

    def run(self) -> Outcome:
        """Sweep; return the powers of signal and noise of the float outputs for each held-back sample."""
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
        return self._outcome(len(self.samples) - self.held if self.held else 0)

    def _outcome(self, first: int) -> Outcome:
        """Return the powers of each float output, for each sample from ``first`` on."""
        graph = self.model.main
        outputs = [(i, v) for i, v in enumerate(graph.outputs) if v.dtype.is_float and v in self._rounded]
        pairs = [list(zip(self._wanted(i, v), self._rounded[v], strict=True)) for i, v in outputs]
        return [[powers(*column[sample]) for column in pairs] for sample in range(first, len(self.samples))]

    def _wanted(self, index: int, output: Value) -> Sequence[Array]:
        """Return the float model's arrays of an output, for each sample; ``index``: of the output."""
        if self._runs_float:
            return self._float[output]
        return [outputs[index] for outputs in self.reference[: len(self.samples)]]

    def _run(self, op: Op) -> None:
        """Run ``op`` in the float model, fit it if it is a layer, and run it as planned."""
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
        return self._float[value] if value in self._float else fixed_column(value)

    def _rounded_columns(self, op: Op, plan: OperatorPlan | None) -> list[Column]:
        """Return the operands of ``op`` in the quantized model; ``plan``: None if it stays float."""
        columns: list[Column] = []
        for index, value in enumerate(op.inputs):
            if value is None or value.is_variable or (value.is_const and plan is None):
                columns.append(fixed_column(value))
            elif value.is_const:
                assert plan is not None  # see above
                columns.append(self._constant(value, plan.operands.get(index)))
            else:
                columns.append(self._read(value, plan, index))
        return columns

    def _read(self, value: Value, plan: OperatorPlan | None, index: int) -> list[Array]:
        """Return the arrays of an operand in the form in which the operator reads it, for each sample."""
        arrays = self._rounded[value]
        if plan is None or SCHEMES[plan.scheme].activations is None or not value.dtype.is_float:
            return arrays
        form = plan.operands.get(index) or self.plan.main.tensors.get(value.name)
        if form is None or form.same_as(self._forms.get(value)):
            return arrays
        return [fake_quantized(a, form) for a in arrays]

    def _constant(self, value: Value, form: TensorPlan | None) -> Array:
        """Return the real numbers of a constant in ``form``; None: it stays float."""
        replaced = self.plan.main.constants.get(value.name)
        if form is None:
            return value.array() if replaced is None else replaced
        return real_data(stored_data(value.array(), form) if replaced is None else replaced, form)

    # -- fitting --------------------------------------------------------------------------------

    def _fit(self, op: Op, plan: OperatorPlan, floats: Sequence[Sequence[Array]]) -> None:
        """Try the techniques on ``op`` if it is a layer, and store the best integers and bias in the plan.

        ``floats``: its results in the float model, for each sample.
        """
        layer = linear_layer(op)
        form = plan.operands.get(layer.weights_index) if layer is not None else None
        if layer is None or form is None or not self._is_fittable(layer, form):
            return
        shapes = [results[0].shape for results in floats]
        means = self._means(layer, plan, shapes)
        if len(self.techniques) == 1:
            ((name, technique),) = self.techniques.items()
            fit = technique(layer_data(layer, form, means, np.zeros((2, layer.groups, 0, means.shape[2]))))
            if np.isfinite(fit.bias).all() and self._bias_fits(layer, plan, fit):
                self._store(layer, plan, form, fit, name)
            return
        fit_rows, held_rows = self._rows(layer, plan, shapes)
        fits, errors = self._compared(layer, plan, layer_data(layer, form, means, fit_rows), held_rows)
        if fits:
            chosen = min(errors, key=lambda name: errors[name])
            self.choices.append(LayerChoice(key_of(op), chosen, errors))
            self._store(layer, plan, form, fits[chosen], _reason(chosen, errors))

    def _is_fittable(self, layer: LinearLayer, form: TensorPlan) -> bool:
        """Return whether techniques can change the constants: weights of this form, with a single user."""
        is_symmetric_integer = not form.dtype.is_float and not any(form.zero_point)
        constants = [value for value in (layer.weights, layer.bias) if value is not None]
        return bool(self.techniques) and is_symmetric_integer and all(v.use_count == 1 for v in constants)

    def _compared(
        self, layer: LinearLayer, plan: OperatorPlan, data: LayerData, rows: Array
    ) -> tuple[dict[str, LayerFit], dict[str, float]]:
        """Return the fit of each technique to ``data``, and its error in dB on ``rows``, by name.

        ``rows``: as ``_rows`` returns them.  Techniques whose bias does not fit are left out, and all of them
        if the signal is not finite.
        """
        act = layer.op.attribute_items()["act"]
        wanted = apply_activation(_products(rows[0], data.weights, data.bias), act)
        signal = float(np.square(wanted).sum())
        fits: dict[str, LayerFit] = {}
        errors: dict[str, float] = {}
        for name, technique in self.techniques.items() if np.isfinite(signal) else ():
            fit = technique(data)
            if not self._bias_fits(layer, plan, fit):
                continue
            actual = apply_activation(_products(rows[1], fit.weights, fit.bias), act)
            noise = float(np.square(actual - wanted).sum())
            fits[name] = fit
            errors[name] = float(10 * np.log10(max(noise, 1e-30) / max(signal, 1e-30)))
        return fits, errors

    def _means(self, layer: LinearLayer, plan: OperatorPlan, shapes: Sequence[tuple[int, ...]]) -> Array:
        """Return the mean rows [2, groups, depth] of the samples that are not held back.

        First those of the float model, then of the quantized one; all 0 for a layer without bias.
        ``shapes``: of the results, for each sample.
        """
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
        """Return some rows [2, groups, n, depth] to fit to, and such rows of the held-back samples.

        First those of the float model, then of the quantized one.  ``shapes``: as for ``_means``.
        """
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
        """Return whether the integers of the bias stay below LARGEST_BIAS; int64 and floats always fit."""
        form = plan.operands.get(layer.bias_index)
        if form is None:
            return True
        scale = fit.scale[..., 0] * self._data_scale(layer, plan)
        return bool(np.all(np.abs(fit.bias) < LARGEST_BIAS[i32] * scale)) or form.dtype.bits > 32

    def _data_scale(self, layer: LinearLayer, plan: OperatorPlan) -> float:
        """Return the scale of the layer's input."""
        form = plan.operands.get(layer.input_index) or self.plan.main.tensors[layer.input.name]
        return form.scale[0]

    def _store(
        self, layer: LinearLayer, plan: OperatorPlan, form: TensorPlan, fit: LayerFit, reason: str
    ) -> None:
        """Write integers, scales and bias of ``fit`` into the plan; ``form``: that of the weights so far."""
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
    """Return ``array`` rounded to numbers that integers of ``form`` stand for; ``form`` has one scale."""
    lowest, largest = form.dtype.limits
    out = np.asarray(np.rint(array / np.float32(form.scale[0])))
    np.clip(out, lowest - form.zero_point[0], largest - form.zero_point[0], out=out)
    return np.asarray(out * np.float32(form.scale[0]), np.float32)


def stream_bytes(model: Model) -> int:
    """Return about how many bytes a sweep holds per sample.

    It is twice the size of all operands and results of the operator for which that is largest.
    """
    touched = [(*op.inputs, *op.results) for op in model.main]
    elements = [
        sum(prod(d or 1 for d in v.shape or ()) for v in vs if v and not v.is_const) for vs in touched
    ]
    return 2 * STREAMS * 4 * max(elements, default=1) + 1


def _products(rows: Array, weights: Array, bias: Array) -> Array:
    """Return the outputs [g,n,o] of a layer for ``rows`` [g,n,d]."""
    return np.asarray(rows @ weights.swapaxes(1, 2).astype(np.float32) + bias[:, None].astype(np.float32))


def _reason(chosen: str, errors: Mapping[str, float]) -> str:
    """Return why the technique ``chosen`` was kept, for the plan."""
    others = ", ".join(f"{name} {error:.1f}" for name, error in errors.items() if name != chosen)
    return f"{chosen}: error {errors[chosen]:.1f} dB on held-back samples" + (others and f" ({others})")
