# SPDX-License-Identifier: Apache-2.0
"""Rules for scales and zero points: what an operator's kernels require of its operands and results.

A rule stands in the declaration of its operator (``Declaration.quantization_rule``).  It does not say which
operands and results are quantized: that follows from their dtypes (indices and shapes are not quantized).
Nor does it say for which dtypes there are kernels: that stands in the table of the target.  Source: LiteRT's
8-bit quantization specification, and its kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from circlekit.ir.dtypes import DType, i8, i16, u8


@dataclass(frozen=True)
class Product:
    """The scale of a bias: ``constant`` times the scales of all ``factors``.

    A factor is the name of an operand or an inner tensor; the last factor names the weights, a constant.
    """

    factors: tuple[str, ...]
    constant: float = 1.0


@dataclass(frozen=True)
class InnerTensor:
    """A tensor inside an operator, such as the sums of a gate of an LSTM.

    It is neither an operand nor a result.  A file stores at most its scale and zero point, in the
    ``intermediates`` of the operator.

    ``fixed_scale``: the only scale that the kernel takes, with the zero point 0; None: any scale.
    ``follows_result``: the tensor has the scale and zero point of the first result.
    ``negates_zero_point``: the kernel adds the zero point to the stored integer; other kernels subtract it.
    """

    name: str
    fixed_scale: float | None = None
    follows_result: bool = False
    negates_zero_point: bool = False

    @property
    def has_range(self) -> bool:
        """Whether the scale of the tensor follows from the range of its numbers, found by calibration."""
        return self.fixed_scale is None and not self.follows_result


@dataclass(frozen=True)
class QuantizationRule:
    """How an operator is quantized.

    By default the range of each operand and result determines its scale and zero point.

    ``results_follow``: the operand whose scale and zero point every result has, because the kernel moves or
    compares integers without scaling them.
    ``averages``: the kernel computes means of the integers of the operand that ``results_follow`` names, and
    rounds them to integers of the same scale.
    ``rounds_inside``: 8-bit kernels round intermediate results to steps that may be far too coarse, so int16
    is preferred.
    ``operands_follow``: the operands that have the scale and zero point of the first result, because the
    kernel does not scale them.  If that result is not quantized (the bool of a comparison), these operands
    share the scale and zero point of the union of their ranges.
    ``fixed``: by dtype, the only scale and zero point that the results may have.
    ``weights``: the operands that hold weights, each with the axis of its channels; None instead of an axis
    means that the kernel takes one scale only.  Constant weights do not use the lowest integer; signed ones
    have the zero point 0.
    ``one_scale``: integer kernels take one scale for the weights.  The axis in ``weights`` is then only for
    weights that a DEQUANTIZE converts to float: these may have one scale for each channel.
    ``slopes``: the operands that, if they are constant, have the dtype of weights and one scale.
    ``bias``: the operand whose scale is the scale of ``data`` times that of the weights.
    ``data``: the operand that is multiplied by the weights.
    ``biases``: for operators with several matrix products: the possible scales of each bias, by its name.
    The first product whose factors are all present gives the scale.
    ``states``: the operands that are variables, which the kernel reads and writes.
    ``wide``: the operands and inner tensors that are int16 with zero point 0 for every dtype of activations.
    ``power_of_two``: the states whose scale is a power of two, with the least and the greatest exponent.
    ``summed``: the constant operands whose products with int16 numbers the kernel sums up in 32 bits; the
    sum must not overflow.
    ``symmetric``: the operands and results whose zero point must be 0, because the kernel ignores it.
    ``not_negative``: the operands on which the kernel fails if an integer stands for a number below 0.
    ``not_zero``: the operands on which the kernel fails if an integer stands for 0.
    ``table``: the operand whose rows are looked up; if it is constant, it may be stored like weights.
    ``attributes``: the attributes, with values, that a quantized operator must have.
    ``least_step``: by dtype, the smallest allowed ratio of the result's scale to the largest scale of an
    operand.  From this ratio on, the last multiplier of the kernel is below 1.
    ``least_square_step``: by dtype, the smallest allowed ratio of the result's scale to the square of the
    largest scale of an operand, for the same reason.
    ``scales_below``: the scale of every operand must be less than this; otherwise the kernel gives wrong
    results or ends the process.
    ``mask_distance``: a number that lies this far below all other numbers of its operand gives a result of
    about 0 (SOFTMAX).  Masks such as -inf are stored as numbers at this distance.  0: there are no masks.
    """

    results_follow: str | None = None
    averages: bool = False
    rounds_inside: bool = False
    operands_follow: tuple[str, ...] = ()
    fixed: Mapping[DType, tuple[float, int]] = field(default_factory=dict)
    weights: Mapping[str, int | None] = field(default_factory=dict)
    one_scale: bool = False
    slopes: tuple[str, ...] = ()
    bias: str | None = None
    data: str = "input"
    biases: Mapping[str, tuple[Product, ...]] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()
    power_of_two: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    summed: tuple[str, ...] = ()
    symmetric: tuple[str, ...] = ()
    not_negative: tuple[str, ...] = ()
    not_zero: tuple[str, ...] = ()
    table: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    least_step: Mapping[DType, float] = field(default_factory=dict)
    least_square_step: Mapping[DType, float] = field(default_factory=dict)
    scales_below: float = math.inf
    mask_distance: float = 0.0


OWN_RANGES = QuantizationRule()
"""The rule of operators whose operands and results each have a scale and zero point of their own."""


def from_zero_to_one() -> Mapping[DType, tuple[float, int]]:
    """Return, by dtype, the scale and zero point of results in [0, 1)."""
    return {i8: (1 / 256, -128), u8: (1 / 256, 0), i16: (1 / 32768, 0)}


def from_minus_one_to_one() -> Mapping[DType, tuple[float, int]]:
    """Return, by dtype, the scale and zero point of results in [-1, 1)."""
    return {i8: (1 / 128, 0), u8: (1 / 128, 128), i16: (1 / 32768, 0)}
