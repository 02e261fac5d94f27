# SPDX-License-Identifier: Apache-2.0
"""What an operator's kernels require of the scales and zero points of its operands and results.

A rule stands in the declaration of its operator (``Declaration.quantization_rule``).  It names operands and
results; which of them are quantized at all follows from their dtypes (indices and shapes are not), and which
dtypes have a kernel from the table of the target.  Source: LiteRT's 8-bit quantization specification, and the
kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from circlekit.ir.dtypes import DType, i8, i16, u8


@dataclass(frozen=True)
class Product:
    """The scale of a bias: ``constant`` times the scales of ``factors``, names of operands or inner tensors.

    The last factor is an operand with constant numbers.
    """

    factors: tuple[str, ...]
    constant: float = 1.0


@dataclass(frozen=True)
class InnerTensor:
    """A tensor inside of an operator: a file has its scale and zero point alone (an ``intermediate``).

    ``fixed_scale``: its only scale, with the zero point 0; None: that of its range.  ``follows_result``: it
    has scale and zero point of the first result.  ``is_negated``: the kernel adds the zero point to the
    stored integer where others subtract it.
    """

    name: str
    fixed_scale: float | None = None
    follows_result: bool = False
    is_negated: bool = False

    @property
    def has_range(self) -> bool:
        """Whether its scale follows from the range of its numbers."""
        return self.fixed_scale is None and not self.follows_result


@dataclass(frozen=True)
class QuantizationRule:
    """How an operator is quantized; by default every operand and result has the parameters of its own range.

    ``results_follow``: the operand whose scale and zero point every result takes, because the kernel moves or
    compares integers without scaling them.
    ``averages``: the kernel rounds means of integers to the steps of ``results_follow``.
    ``rounds_inside``: 8-bit kernels round what they compute in between to steps that may be far too coarse.
    ``operands_follow``: the operands that take scale and zero point of the first result, for the same reason;
    if that is not quantized (a comparison's bool), they share those of the union of their ranges.
    ``fixed``: the only scale and zero point of the results, by dtype.
    ``weights``: operands that hold weights, with the axis of their channels; None: one scale only.  Constant
    weights are symmetric, without the lowest integer.
    ``one_scale``: kernels take one scale of the weights, unless these are converted to floats before.
    ``slopes``: operands that, if they are constant, have the dtype of weights and one scale.
    ``bias``: the operand whose scale is that of ``data`` times that of the weights.
    ``data``: the operand that is multiplied with the weights.
    ``biases``: for operators with several products, the scale of each bias: the first product whose factors
    are all present.
    ``states``: operands that are variable tensors, which the kernel reads and writes.
    ``wide``: operands and inner tensors of int16 with zero point 0, whatever the dtype of activations.
    ``power_of_two``: operands whose scale is a power of two, with the least and the greatest exponent.
    ``summed``: constant operands whose products with int16 numbers the kernel adds in 32 bits.
    ``symmetric``: operands and results whose zero point must be 0, because the kernel ignores it.
    ``not_negative``: operands on which the kernel fails if an integer stands for a number below 0.
    ``not_zero``: operands on which the kernel fails if an integer stands for 0.
    ``table``: an operand whose rows are looked up; if it is constant, it may be stored like weights.
    ``attributes``: attributes that a quantized operator needs.
    ``least_step``: by dtype, the least scale of the result in units of the largest scale of an operand,
    because the kernel's last multiplier must be below 1.
    ``scales_below``: what the scales of all operands must be below, or else the kernel ends the program.
    ``mask_distance``: how far below all other numbers of its operand a number gives about 0.  Masks such as
    -inf are stored as numbers at this distance.
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
    scales_below: float = math.inf
    mask_distance: float = 0.0


OWN_RANGES = QuantizationRule()
"""Every operand and result has its own scale and zero point."""


def from_zero_to_one() -> Mapping[DType, tuple[float, int]]:
    """Return the fixed parameters of results in [0, 1)."""
    return {i8: (1 / 256, -128), u8: (1 / 256, 0), i16: (1 / 32768, 0)}


def from_minus_one_to_one() -> Mapping[DType, tuple[float, int]]:
    """Return the fixed parameters of results in [-1, 1)."""
    return {i8: (1 / 128, 0), u8: (1 / 128, 128), i16: (1 / 32768, 0)}
