# SPDX-License-Identifier: Apache-2.0
"""Choose the integers and scales of weights and biases layer by layer, in the order of execution.

Each operator runs on all samples twice: as in the float model, and as planned.  The planned run is simulated
with floats that are rounded to the planned forms.  Each technique gets the inputs of a layer from both runs,
so that it knows the errors of earlier layers.  Some samples are held back: techniques do not get them.  Each
layer gets the technique whose outputs for the held-back samples are closest to those of the float model.

A layer has g groups.  Each group multiplies rows [n,d] by the transposed weights [o,d]: there are n rows of d
inputs, and o outputs with d weights each.  Docstrings use these letters in shapes (see ``LinearLayer``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.dimensions import element_count
from circlekit.ops.fused_activation import apply_activation
from circlekit.quant.apply import real_data, stored_data
from circlekit.quant.plan import OperatorPlan, Plan, TensorForm, key_of
from circlekit.quant.scheme import SCHEMES
from circlekit.quant.techniques.layer_rounding import LayerData, LayerFit, LayerTechnique, layer_data
from circlekit.quant.techniques.linear_layer import LinearLayer, linear_layer
from circlekit.quant.techniques.noise import Outcome, powers
from circlekit.quant.techniques.operator_runs import Column, OperatorRuns, fixed_column, last_uses
from circlekit.quant.techniques.planned_layer import PlannedLayer

ROWS_PER_DEPTH, LEAST_ROW_LIMIT = 8, 8192
"""About max(ROWS_PER_DEPTH * d, LEAST_ROW_LIMIT) rows of a layer are used at most.

They are the rows of all samples, also of those that are held back.  If there are more rows, every k-th row of
a sample is used, with the smallest k that keeps the limit; so at least about half of the limit is used.
"""

STREAMS = 2
"""The number of models whose arrays are in memory: the float model and the simulated quantized model."""


@dataclass
class LayerChoice:
    """The technique that was chosen for a layer.

    ``name``: the name of the layer's result.  ``chosen``: the name of the technique.  ``errors``: for each
    technique whose bias fits, the noise of the result in dB relative to the signal, on the held-back samples;
    on all samples if none is held back.
    """

    name: str
    chosen: str
    errors: dict[str, float]


@dataclass
class Sweep:
    """One sweep over the main graph of the float ``model``; it changes weights and biases in ``plan``.

    ``samples``: arrays in the order of the graph's inputs.
    ``held``: the number of samples at the end that are held back from fitting and used for comparing.  0: all
    samples are used for both.  Must be less than the number of samples if there are techniques.
    ``techniques``: by name, those to try for each layer.  Without techniques, the plan does not change.  A
    single technique is used without a comparison.  It gets a LayerData with means but without rows, so it
    must need no rows.
    ``reference``: the outputs of the float model for ``samples``; empty if they are not known.  If they are
    given and there are no techniques, the float model is not run.
    ``choices``: filled by ``run`` with the technique of each layer, if several techniques were compared.
    """

    model: Model
    plan: Plan
    samples: Sequence[Sequence[Array]]
    held: int
    techniques: Mapping[str, LayerTechnique]
    reference: Sequence[Sequence[Array]] = ()
    choices: list[LayerChoice] = field(default_factory=list)

    def __post_init__(self) -> None:
        # arrays of each value for all samples: in the float model, and in the simulated quantized model
        self._float: dict[Value, list[Array]] = {}
        self._rounded: dict[Value, list[Array]] = {}
        self._forms: dict[Value, TensorForm | None] = {}  # the form to which ``_rounded`` is rounded
        self._random = np.random.default_rng(0)
        self._runs = OperatorRuns(self.model, self.samples)
        self._needs_float_run = bool(self.techniques) or not self.reference

    def run(self) -> Outcome:
        """Run the sweep; return the powers of signal and noise of each computed float output.

        The result has an element for each held-back sample, or for each sample if none is held back.
        """
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
        """Return the result of ``run``, for each sample from ``first`` on."""
        graph = self.model.main
        outputs = [(i, v) for i, v in enumerate(graph.outputs) if v.dtype.is_float and v in self._rounded]
        pairs = [list(zip(self._wanted(i, v), self._rounded[v], strict=True)) for i, v in outputs]
        return [[powers(*column[sample]) for column in pairs] for sample in range(first, len(self.samples))]

    def _wanted(self, index: int, output: Value) -> Sequence[Array]:
        """Return the arrays of ``output`` (number ``index``) in the float model for each sample."""
        if self._needs_float_run:
            return self._float[output]
        return [outputs[index] for outputs in self.reference[: len(self.samples)]]

    def _run(self, op: Op) -> None:
        """Run ``op`` as in the float model; if it is a layer, choose its constants; run it as planned."""
        plan = self.plan.main.operators.get(key_of(op))
        if plan is not None and plan.is_float:
            plan = None
        if self._needs_float_run:
            floats = self._runs.evaluate(op, [self._float_column(v) for v in op.inputs])
            if plan is not None:
                self._fit(op, plan, floats)
            self._float.update((v, [r[i] for r in floats]) for i, v in enumerate(op.results))
        rounded = self._runs.evaluate(op, self._rounded_columns(op, plan))
        for index, value in enumerate(op.results):
            self._rounded[value] = [results[index] for results in rounded]
            if plan is not None and SCHEMES[plan.scheme].activations is not None:  # else they stay float
                form = self.plan.main.tensors.get(value.name)
                self._forms[value] = form
                if form is not None:
                    self._rounded[value] = [fake_quantized(a, form) for a in self._rounded[value]]

    def _float_column(self, value: Value | None) -> Column:
        """Return the operand ``value`` in the float model: its arrays for all samples, or one fixed array."""
        return self._float[value] if value in self._float else fixed_column(value)

    def _rounded_columns(self, op: Op, plan: OperatorPlan | None) -> list[Column]:
        """Return the operands of ``op`` in the quantized model; ``plan``: None if ``op`` stays float."""
        columns: list[Column] = []
        for index, value in enumerate(op.inputs):
            if value is None or value.is_variable or (value.is_const and plan is None):
                columns.append(fixed_column(value))
            elif value.is_const:
                assert plan is not None  # the first branch handles constants of float operators
                columns.append(self._constant(value, plan.operands.get(index)))
            else:
                columns.append(self._read(value, plan, index))
        return columns

    def _read(self, value: Value, plan: OperatorPlan | None, index: int) -> list[Array]:
        """Return ``value`` for each sample, rounded to the form in which the operator of ``plan`` reads it.

        ``plan``: None if the operator stays float.  ``index``: the index of the operand.
        """
        arrays = self._rounded[value]
        if plan is None or SCHEMES[plan.scheme].activations is None:
            return arrays
        form = plan.operands.get(index) or self.plan.main.tensors.get(value.name)
        if form is None or form.same_as(self._forms.get(value)):
            return arrays
        return [fake_quantized(a, form) for a in arrays]

    def _constant(self, value: Value, form: TensorForm | None) -> Array:
        """Return the constant ``value`` as the real numbers of its integers in ``form``.

        ``form`` None: the constant stays float.
        """
        replaced = self.plan.main.constants.get(value.name)
        if form is None:
            return constant_elements(value) if replaced is None else replaced
        return real_data(stored_data(value.array(), form) if replaced is None else replaced, form)

    # -- fitting --------------------------------------------------------------------------------

    def _fit(self, op: Op, plan: OperatorPlan, floats: Sequence[Sequence[Array]]) -> None:
        """Try the techniques if ``op`` is a layer, and store the best integers, scales and bias in the plan.

        Do nothing if its input is a constant, or if ``_is_fittable`` is false for it.  Also do nothing if its
        weights have no planned form, or if its result has no elements for some sample.
        ``plan``: the plan of ``op``.  ``floats``: for each sample, the results of ``op`` in the float model.
        """
        layer = linear_layer(op)
        if layer is None or layer.input.is_const:
            return
        form, shapes = plan.operands.get(layer.weights_index), [results[0].shape for results in floats]
        if form is None or not self._is_fittable(layer, form) or any(0 in shape for shape in shapes):
            return
        planned = PlannedLayer(layer, plan, self.plan.main, form)
        means = self._means(planned, shapes)
        if len(self.techniques) == 1:
            ((name, technique),) = self.techniques.items()
            fit = technique(layer_data(layer, form, means, np.zeros((2, layer.groups, 0, means.shape[2]))))
            if np.isfinite(fit.bias).all() and planned.bias_fits(fit):
                planned.store(fit, name)
            return
        fit_rows, held_rows = self._rows(planned, shapes)
        fits, errors = self._compared(planned, layer_data(layer, form, means, fit_rows), held_rows)
        if fits:
            chosen = min(errors, key=lambda name: errors[name])
            self.choices.append(LayerChoice(key_of(op), chosen, errors))
            planned.store(fits[chosen], _reason(chosen, errors, self.held))

    def _is_fittable(self, layer: LinearLayer, form: TensorForm) -> bool:
        """Return whether there are techniques and they can change the constants of ``layer``.

        The planned ``form`` of the weights must have an integer dtype and zero points of 0; no other operator
        may read the weights or the bias.
        """
        is_symmetric_integer = not form.dtype.is_float and not any(form.zero_point)
        constants = [value for value in (layer.weights, layer.bias) if value is not None]
        return bool(self.techniques) and is_symmetric_integer and all(v.use_count == 1 for v in constants)

    def _compared(
        self, planned: PlannedLayer, data: LayerData, rows: Array
    ) -> tuple[dict[str, LayerFit], dict[str, float]]:
        """Return (the fits to ``data``, their errors on ``rows`` in dB), both by name of the technique.

        ``rows`` [2,g,n,d]: rows of the float model and of the quantized model.
        Techniques whose bias does not fit are left out.  If the signal or the Hessian is not finite, no
        technique is tried.
        """
        act = planned.layer.op.attribute_items()["act"]
        wanted = apply_activation(_products(rows[0], data.weights, data.bias), act)
        signal = float(np.square(wanted).sum())
        fits: dict[str, LayerFit] = {}
        errors: dict[str, float] = {}
        is_finite = np.isfinite(signal) and np.isfinite(data.hessian).all()
        for name, technique in self.techniques.items() if is_finite else ():
            fit = technique(data)
            if not planned.bias_fits(fit):
                continue
            actual = apply_activation(_products(rows[1], fit.weights, fit.bias), act)
            noise = float(np.square(actual - wanted).sum())
            fits[name] = fit
            errors[name] = float(10 * np.log10(max(noise, 1e-30) / max(signal, 1e-30)))
        return fits, errors

    def _means(self, planned: PlannedLayer, shapes: Sequence[tuple[int, ...]]) -> Array:
        """Return two mean rows [2,g,d], of the float and of the quantized model.

        The means are over the samples that are not held back.  They only serve to correct the bias; so both
        are 0 if the layer has no bias.
        ``shapes``: the shape of the result for each sample.
        """
        layer, count = planned.layer, len(self.samples) - self.held
        streams = self._float[layer.input], self._read(layer.input, planned.operator, layer.input_index)
        means = [
            np.mean([layer.mean_row(a, s) for a, s in zip(arrays[:count], shapes, strict=False)], axis=0)
            for arrays in streams
        ]
        return np.stack(means) * (layer.bias is not None)

    def _rows(self, planned: PlannedLayer, shapes: Sequence[tuple[int, ...]]) -> tuple[Array, Array]:
        """Return (rows to fit to, rows of the held-back samples), both [2,g,n,d].

        The first index is the model: 0 the float model, 1 the quantized model.  If no sample is held back,
        the second array has the rows of all samples.  ``shapes``: see ``_means``.
        """
        layer = planned.layer
        rounded = self._read(layer.input, planned.operator, layer.input_index)
        depth = layer.matrices(layer.weights.array()).shape[2]
        limit = max(LEAST_ROW_LIMIT // len(self.samples), ROWS_PER_DEPTH * depth // len(self.samples), 1)
        parts: list[Array] = []
        for sample, shape in enumerate(shapes):
            both = [layer.rows(a[sample], shape) for a in (self._float[layer.input], rounded)]
            step = -(-both[0].shape[1] // limit)  # take every step-th row: at most ``limit`` of a sample
            start = int(self._random.integers(step))
            parts.append(np.stack([rows[:, start::step] for rows in both]))
        first = len(parts) - self.held
        return np.concatenate(parts[:first], axis=2), np.concatenate(parts[first:] or parts, axis=2)


def fake_quantized(array: Array, form: TensorForm) -> Array:
    """Return ``array`` rounded to the real numbers that ``form``, which has one scale, can store."""
    lowest, largest = form.dtype.limits
    with np.errstate(over="ignore"):  # infinity is clipped
        out = np.asarray(np.rint(array / np.float32(form.scale[0])))
    np.clip(out, lowest - form.zero_point[0], largest - form.zero_point[0], out=out)
    return np.asarray(out * np.float32(form.scale[0]), np.float32)


def stream_bytes(model: Model) -> int:
    """Return an estimate of how many bytes a sweep holds in memory for each sample, at least 1.

    It counts the operator whose operands and results have the most bytes, in both models, and doubles that.
    """
    touched = [(*op.inputs, *op.results) for op in model.main]
    elements = [sum(element_count(v.shape) for v in vs if v and not v.is_const) for vs in touched]
    return 2 * STREAMS * 4 * max(elements, default=1) + 1  # 4 bytes: float32


def _products(rows: Array, weights: Array, bias: Array) -> Array:
    """Return the outputs [g,n,o] of a layer without activation; ``weights`` [g,o,d], ``bias`` [g,o]."""
    return np.asarray(rows @ weights.swapaxes(1, 2).astype(np.float32) + bias[:, None].astype(np.float32))


def _reason(chosen: str, errors: Mapping[str, float], held: int) -> str:
    """Return why ``chosen`` is the best technique; see LayerChoice for ``errors``, Sweep for ``held``."""
    others = ", ".join(f"{name} {error:.1f}" for name, error in errors.items() if name != chosen)
    where = "held-back samples" if held else "all samples"
    return f"{chosen}: error {errors[chosen]:.1f} dB on {where}" + (others and f" ({others})")
