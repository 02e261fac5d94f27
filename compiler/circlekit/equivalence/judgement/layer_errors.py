# SPDX-License-Identifier: Apache-2.0
"""The errors of the operators of a quantized model against the float model that it was made from.

Results with equal names in the two models are compared.  The error that an operator *adds* is its own
error, without the errors of its operands.  To measure this error, the float operator is computed on the real
numbers that the quantized operator reads, and its result is compared with that of the quantized operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from circlekit.equivalence.judgement.error_metrics import ErrorMetrics
from circlekit.equivalence.real_numbers import real_numbers
from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.cast import Dequantize, Quantize
from circlekit.ops.quantized_values import is_quantized


@dataclass
class LayerError:
    """The errors, over all records, of a result that has the same name in both models.

    The numbers of the quantized model are first divided by the factors by which equalization multiplied the
    channels.  These factors are estimated (``unscaled``).  So an error that multiplies a whole channel by one
    factor may not be counted.

    ``value``: the result in the quantized model.  ``op``: the operator that computes it there; a QUANTIZE or
    DEQUANTIZE that produces ``value`` is skipped.
    ``error``: the error against the float model.  ``added``: the error of this operator alone; empty if the
    models compute the result by different operators, or if the float operator cannot be computed.
    ``clipped_count``: the number of elements of the float result that are outside of the quantized range by
    more than the scale; 0 if the result is not quantized or has several scales.
    ``low``, ``high``: the smallest and the largest element of each channel (index of the last axis) in the
    float model.  ``quantized_low``, ``quantized_high``: the same in the quantized model.  The four arrays
    are empty if the result has a rank below 2.
    """

    value: Value
    op: Op
    error: ErrorMetrics = field(default_factory=ErrorMetrics)
    added: ErrorMetrics = field(default_factory=ErrorMetrics)
    clipped_count: int = 0
    low: Array = field(default_factory=lambda: np.zeros(0))
    high: Array = field(default_factory=lambda: np.zeros(0))
    quantized_low: Array = field(default_factory=lambda: np.zeros(0))
    quantized_high: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def quantized(self) -> Value | None:
        """The stored tensor: the operand of the DEQUANTIZE that produces ``value``, else ``value`` itself.

        None if the stored tensor is not quantized.
        """
        producer = self.value.producer
        value = producer.input if isinstance(producer, Dequantize) else self.value
        return value if is_quantized(value) else None

    @property
    def quantization(self) -> Quantization | None:
        """The quantization of the value ``quantized``; None if there is none."""
        return None if self.quantized is None else self.quantized.quantization

    @property
    def scale(self) -> float | None:
        """The first scale of the value ``quantized``; None if there is none."""
        return None if self.quantization is None else float(self.quantization.scale[0])

    @property
    def clipped(self) -> float:
        """The share of elements that are clipped, from 0 to 1."""
        return self.clipped_count / max(self.error.count + self.error.skipped, 1)

    @property
    def added_share(self) -> float:
        """The sum of squares of the added error, divided by the sum of squares of the float result.

        It is 0 if the float result is 0 everywhere.
        """
        return self.added.noise / self.error.signal if self.error.signal else 0.0

    @property
    def dead_channels(self) -> int:
        """The number of channels that vary in the float model and are constant in the quantized model.

        A channel varies if its range is more than 1 % of the largest range that a channel has.
        """
        extent = self.high - self.low
        varies = extent > 0.01 * extent.max(initial=0.0)
        return int(np.count_nonzero(varies & (self.quantized_low == self.quantized_high)))


class LayerErrors:
    """The errors of the results of the quantized model ``after`` that are also float32 results of ``before``.

    Results without an operator that computes them (see ``LayerError.op``) are left out.
    ``layers``: the errors of each remaining result, in the order of ``after``.  ``names``: the names of all
    values whose arrays ``add`` reads, from either model.
    """

    def __init__(self, before: Model, after: Model) -> None:
        self._float_results = {v.name: v for op in before.main for v in op.results}
        self.layers: list[LayerError] = []
        for value in (v for op in after.main for v in op.results):
            reference = self._float_results.get(value.name)
            op = _computing_op(value)
            if reference is not None and reference.dtype is DType.FLOAT32 and op is not None:
                self.layers.append(LayerError(value, op))
        operands = (v.name for layer in self.layers for v in layer.op.inputs if v is not None)
        self.names = {layer.value.name for layer in self.layers}.union(operands)

    def add(self, before: Mapping[str, Array], after: Mapping[str, Array]) -> None:
        """Add one record.  ``before``, ``after``: arrays of inputs and results of both models, by name."""
        # results of ``after`` as real numbers, without the factors of equalization (see ``unscaled``)
        numbers: dict[str, Array] = {}
        for layer in self.layers:
            name = layer.value.name
            if name not in before or name not in after or before[name].shape != after[name].shape:
                continue
            reference = before[name]
            numbers[name] = result = unscaled(reference, real_numbers(layer.value, after[name]))
            layer.error.add(reference, result)
            _add_range(layer, reference, result)
        for layer in self.layers:
            actual = numbers.get(layer.value.name)
            expected = None if actual is None else self._float_result(layer, after, numbers)
            if expected is not None and actual is not None and expected.shape == actual.shape:
                layer.added.add(expected, actual)

    def _float_result(
        self, layer: LayerError, after: Mapping[str, Array], numbers: Mapping[str, Array]
    ) -> Array | None:
        """Return the result of the float operator on the operands that the quantized operator reads.

        Constant operands are those of the float operator, so that their rounding counts as an added error.
        Return None if the two operators differ, or if the float operator cannot be computed.
        """
        reference = self._float_results[layer.value.name]
        op = reference.producer
        if op is None or type(op) is not type(layer.op) or len(op.inputs) != len(layer.op.inputs):
            return None
        operands: list[Array | None] = []
        for own, other in zip(op.inputs, layer.op.inputs, strict=True):
            if own is None or own.is_const or other is None:
                operands.append(None if own is None else own.data)
            elif other.name in numbers:
                operands.append(numbers[other.name].astype(np.float32))
            elif other.name in after:
                operands.append(_as_float(own, other, after[other.name]))
            else:
                return None
        try:
            return evaluate(op, operands)[reference.result_index]
        except CirclekitError:  # the operator calls graphs, lacks a kernel, or fails here
            return None


MIN_RESCALING = 1.5
"""If the factors of all channels are between 1 / MIN_RESCALING and MIN_RESCALING, they are ignored."""


def unscaled(reference: Array, result: Array) -> Array:
    """Return ``result`` without the factors by which equalization multiplied its channels (last axis).

    Equalization makes the ranges of channels similar, and the next operator undoes its factors, so they are
    no error.  They are estimated by least squares from ``reference``, on elements that are finite in both.
    Return ``result`` itself if

    - its rank is below 2, or it is empty,
    - all factors are near 1 (see MIN_RESCALING), or
    - dividing by the factors leaves a tenth or more of the squared difference from ``reference``.
    """
    if reference.ndim < 2 or not reference.size:
        return result
    a, b = (x.reshape(-1, x.shape[-1]).astype(np.float64) for x in (reference, result))
    with np.errstate(all="ignore"):
        is_finite = np.isfinite(a) & np.isfinite(b)
        a, finite = (np.where(is_finite, x, 0.0) for x in (a, b))
        factors = (a * finite).sum(0) / (a * a).sum(0)
        is_usable = np.isfinite(factors) & (factors > 0)
        factors = np.where(is_usable, factors, 1.0)
        if np.abs(np.log(factors)).max() < np.log(MIN_RESCALING):
            return result
        explains = ((finite / factors - a) ** 2).sum() < 0.1 * ((finite - a) ** 2).sum()
        return (b / factors).reshape(result.shape) if explains else result


def _as_float(own: Value, other: Value, array: Array) -> Array:
    """Return ``array`` as the operand ``own`` of the float operator.

    ``array``: the elements of ``other``, the operand of the quantized operator.  They are converted to real
    numbers if ``own`` is float32.
    """
    return real_numbers(other, array).astype(np.float32) if own.dtype is DType.FLOAT32 else array


def _computing_op(value: Value) -> Op | None:
    """Return the operator that computes ``value``; a QUANTIZE or DEQUANTIZE is skipped."""
    op = value.producer
    while isinstance(op, Quantize | Dequantize):
        op = op.input.producer
    return op


def _add_range(layer: LayerError, reference: Array, result: Array) -> None:
    """Count the clipped elements of one record in ``layer``, and extend the range of each channel."""
    stored = layer.quantized
    if stored is not None and stored.quantization is not None and stored.quantization.scale.size == 1:
        step = float(stored.quantization.scale[0])
        low, high = (float(real_numbers(stored, np.array(limit))) for limit in stored.dtype.limits)
        outside = (reference < low - step) | (reference > high + step)
        layer.clipped_count += int(np.count_nonzero(outside))
    if reference.ndim < 2 or not reference.size:
        return
    axes = tuple(range(reference.ndim - 1))
    layer.low = _extended(np.minimum, layer.low, reference.min(axis=axes))
    layer.high = _extended(np.maximum, layer.high, reference.max(axis=axes))
    layer.quantized_low = _extended(np.minimum, layer.quantized_low, result.min(axis=axes))
    layer.quantized_high = _extended(np.maximum, layer.quantized_high, result.max(axis=axes))


def _extended(extreme: np.ufunc, known: Array, new: Array) -> Array:
    """Return ``extreme`` (minimum or maximum) of ``known`` and ``new``.

    Return ``new`` for the first record, for which ``known`` is empty, and if the number of channels changed.
    """
    return new if known.shape != new.shape else np.asarray(extreme(known, new))
