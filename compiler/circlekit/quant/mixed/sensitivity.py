# SPDX-License-Identifier: Apache-2.0
"""Measure how much noise the quantization of each operator and each tensor adds to the outputs of a model.

A source of noise is the rounding of an operator's constants, or the rounding of a tensor.  For each source,
the float model is run with this source alone.  The noises of many sources are nearly independent, so the
power of their sum is predicted as the sum of their powers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import Inputs
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.resources.progress import progress
from circlekit.ir.value import Array, Value
from circlekit.ops.quantized_values import followed_operand
from circlekit.quant.apply import real_data, stored_data
from circlekit.quant.mixed.cone_runner import ConeRunner
from circlekit.quant.plan import GraphPlan, OperatorPlan, Plan, TensorForm, key_of
from circlekit.quant.techniques.noise import aligned
from circlekit.quant.weights import is_weight


@dataclass
class Sensitivity:
    """The power of the noise at the outputs of the main graph, relative to the power of the signal.

    ``constants``: by operator, the noise of its rounded constants.  ``tensors``: by tensor, the noise of its
    rounding.  The sum of all these numbers is the noise of the worst output, the output with most noise
    (``measure`` says how several outputs are combined).
    """

    constants: dict[Op, float] = field(default_factory=dict)
    tensors: dict[Value, float] = field(default_factory=dict)

    def remaining(self, raised: Iterable[Op], keeps_constants: bool = False) -> float:
        """Return the predicted noise that remains if the operators ``raised`` are raised.

        A tensor is no longer rounded if its producer and all its users are raised.
        ``keeps_constants``: raising does not change constants, only activations, as from int8 to int16x8.
        """
        chosen = set(raised)
        noise = sum(n for op, n in self.constants.items() if keeps_constants or op not in chosen)
        return noise + sum(n for value, n in self.tensors.items() if not is_raised(value, chosen))


def is_raised(value: Value, raised: Collection[Op]) -> bool:
    """Return whether the producer and all users of ``value`` are in ``raised``.

    If a user only moves the elements of ``value``, its results are not rounded again.  So the same must hold
    for these results.
    """
    if value.producer is not None and value.producer not in raised:
        return False
    waiting = [value]
    while waiting:
        for op in waiting.pop().users:
            if op not in raised:
                return False
            if followed_operand(op) is not None:
                waiting += op.results
    return True


def measure(model: Model, plan: Plan, samples: Sequence[Inputs], goal: float = 0.0) -> Sensitivity:
    """Return the noise over ``samples`` of all that ``plan`` rounds in the main graph.

    ``model``: the float model.  ``samples``: at least one.
    If there are several outputs, the noise of a source is the mean of its shares in the noises of the
    outputs, times the noise of the worst output.  So outputs with little and with much noise count the same.
    Example: a source makes half of the noise of one output and a quarter of that of the other.  If the worst
    output has the noise 0.08, the source has (1/2 + 1/4) / 2 * 0.08 = 0.03.
    Only outputs with more noise than ``goal``, relative to the signal, count.  If there are none, all outputs
    with noise count.
    The noise of a source is 0 if it is not finite, or if it cannot be computed: an operator that depends on
    the source calls other graphs, uses a resource variable or a hash table, or shares a variable tensor with
    another operator.
    Raise the errors of ``Interpreter.run``.
    """
    runner = ConeRunner(model)
    operators = _quantized_operators(model, plan.main)
    tensors = _rounded_tensors(model, plan.main)
    sources: list[Op | Value] = [*operators, *tensors]
    noises = {source: np.zeros(len(model.main.outputs)) for source in sources}
    power = np.zeros(len(model.main.outputs))
    progress().expect(len(samples) * len(noises))
    for sample in samples:
        reference = runner.run(sample)
        power += [_power(array[np.isfinite(array)]) for array in map(_numbers, reference)]
        for op, chosen in operators.items():
            noises[op] += _noise(runner, _changed_results(runner, op, chosen), reference)
            progress().advance()
        for value, form in tensors.items():
            change = {value: rounded(runner.values[value], form)} if value in runner.values else {}
            noises[value] += _noise(runner, change, reference)
            progress().advance()
    combined = _combined(noises, power, goal)
    return Sensitivity({op: combined[op] for op in operators}, {value: combined[value] for value in tensors})


def _combined(noises: Mapping[Op | Value, Array], power: Array, goal: float) -> dict[Op | Value, float]:
    """Return one number for the noise of each source; ``goal``: see ``measure``.

    ``noises``: by source, the power of its noise, one number for each output.  ``power``: the power of the
    signal of each output.  If that is 0, the noise itself stands for the relative noise.
    """
    relative = {source: noise / np.where(power, power, 1.0) for source, noise in noises.items()}
    total = np.sum([np.zeros(len(power)), *relative.values()], axis=0)
    counts = total > (goal if np.any(total > goal) else 0.0)
    weights = np.zeros(len(power))  # one for each output: with them, the noises add up to the worst total
    weights[counts] = total[counts].max(initial=0.0) / total[counts] / counts.sum()
    return {source: float(noise @ weights) for source, noise in relative.items()}


def rounded(array: Array, form: TensorForm) -> Array:
    """Return the float32 ``array`` rounded to the real numbers that ``form`` can store; NaN stays NaN."""
    is_nan = np.isnan(array)
    return np.where(is_nan, array, real_data(stored_data(np.where(is_nan, 0, array), form), form))


def _quantized_operators(model: Model, plan: GraphPlan) -> dict[Op, OperatorPlan]:
    """Return the operators of the main graph with rounded constants, and the plan of each."""
    found = {}
    for op in model.main:
        chosen = plan.operators.get(key_of(op))
        if chosen is not None and not chosen.is_float and any(_constant_operands(op, chosen)):
            found[op] = chosen
    return found


def _constant_operands(op: Op, plan: OperatorPlan) -> list[tuple[Value, TensorForm]]:
    """Return (constant, form) for each constant operand of ``op`` that ``plan`` rounds."""
    pairs = [(op.inputs[index], form) for index, form in plan.operands.items() if index < len(op.inputs)]
    return [(v, form) for v, form in pairs if is_weight(v)]


def _rounded_tensors(model: Model, plan: GraphPlan) -> dict[Value, TensorForm]:
    """Return the rounded tensors of the main graph with their forms.

    Tensors into which data movement copies another tensor are left out: they are not rounded again.
    """
    values = [
        *model.main.inputs,
        *(v for op in model.main if followed_operand(op) is None for v in op.results),
    ]
    return {v: plan.tensors[v.name] for v in values if v.dtype is f32 and v.name in plan.tensors}


def _changed_results(runner: ConeRunner, op: Op, plan: OperatorPlan) -> dict[Value, Array]:
    """Return the results of ``op`` with rounded constants; {} if they cannot be computed."""
    constants = {value: rounded(value.array(), form) for value, form in _constant_operands(op, plan)}
    try:
        return dict(zip(op.results, runner.results_of(op, constants), strict=True))
    except CirclekitError:
        return {}


def _noise(runner: ConeRunner, changes: dict[Value, Array], reference: Sequence[Array]) -> Array:
    """Return the power of the noise that ``changes`` of values cause, one number for each output.

    The power is 0 if it is not finite or cannot be computed.  ``reference``: the outputs without changes;
    their elements that are not finite do not count.
    """
    try:
        outputs = runner.outputs(changes) if changes else reference
    except CirclekitError:
        outputs = reference
    pairs = [aligned(_numbers(a), _numbers(b)) for a, b in zip(reference, outputs, strict=True)]
    with np.errstate(invalid="ignore"):  # inf - inf, which does not count
        return np.array([_power((b - a)[np.isfinite(a)]) for a, b in pairs])


def _power(vector: Array) -> float:
    """Return the sum of squares, or 0 if it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        power = float(np.vdot(vector, vector))
    return power if np.isfinite(power) else 0.0


def _numbers(array: Array) -> Array:
    """Return the elements as a float64 vector; for strings and complex numbers, a single 0."""
    return array.astype(np.float64).reshape(-1) if array.dtype.kind in "fiub" else np.zeros(1)
