# SPDX-License-Identifier: Apache-2.0
"""Techniques that choose the integers, the scales and the bias of one layer.

A technique is a function from LayerData to LayerFit.  All but ``round_nearest`` correct the bias: they give
each output the mean that it has in the float model (Nagel et al., "Data-Free Quantization Through Weight
Equalization and Bias Correction", ICCV 2019, section 4.2).  Layers are quantized in the order of execution,
so the correction includes the errors of earlier layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from circlekit.ir.value import Array
from circlekit.quant.plan import TensorForm
from circlekit.quant.techniques.gptq import (
    Factored,
    best_scales,
    damped,
    factored,
    gptq,
    refine,
    squared_errors,
)
from circlekit.quant.techniques.linear_layer import LinearLayer

MOST_COLUMNS = 1024
"""The largest number of weights of an output that GPTQ rounds together.

Layers with more weights per output are divided into parts, because the time of GPTQ grows with the cube of
this number.
"""

SHRINKAGES = np.linspace(1.0, 0.4, 31)
"""The factors that ``LayerData.clipped_scale`` tries: it multiplies the scales of the weights by them."""

ENLARGEMENTS = np.linspace(1.0, 1.08, 9)
"""GPTQ is repeated with the scales times each of these factors; each output keeps the best of its scales.

The error of an output with few weights depends much on how its weights happen to lie between the integers.
So it helps to try several similar scales.
"""

MOST_ENLARGED_DEPTH = 160
"""GPTQ is repeated only for layers with at most this many weights per output.

With more weights, the scale changes the errors little.
"""

MOST_NOISE = 0.25
"""``compensate`` does not change the weights of a layer whose ``LayerData.input_noise`` is above this."""


@dataclass
class LayerData:
    """A layer as matrix products, one for each group (see ``linear_layer``), and samples of its input.

    The letters in shapes: g groups; o outputs of a group; d weights of an output (the depth); n sampled rows
    (vectors of d inputs); p ``parts``.
    ``weights`` [g,o,d], ``bias`` [g,o]: those of the float model, as float64.
    ``float_mean``, ``mean`` [g,d]: the mean of all rows in the float model and in the quantized model.
    ``float_rows``, ``rows`` [g,n,d]: some rows of the float model, and the same rows of the quantized model.
    ``scale`` [g,o,d]: the planned scale of each weight, repeated for weights that share it.  ``limits``: the
    smallest and the largest integer.
    ``block``: the number of neighboring weights of an output that share a scale; 0: all of them.
    ``is_per_channel``: whether each output has its own scales.
    ``has_bias``: whether the layer has a bias.  If not, ``bias`` is 0 and is not corrected.
    """

    weights: Array
    bias: Array
    float_mean: Array
    mean: Array
    float_rows: Array
    rows: Array
    scale: Array
    limits: tuple[int, int]
    block: int = 0
    is_per_channel: bool = True
    has_bias: bool = True

    @cached_property
    def parts(self) -> int:
        """The number of parts into which the depth is divided.

        GPTQ does not correct errors of one part by weights of another part.
        """
        depth = self.weights.shape[2]
        return next(n for n in range(1, depth + 1) if depth % n == 0 and depth // n <= MOST_COLUMNS)

    @cached_property
    def hessian(self) -> Array:
        """The covariance of the quantized model's rows, multiplied by n, as float64[g*p,d/p,d/p].

        If the layer has no bias, no mean is subtracted: the result is the sum of the rows' outer products.
        """
        centered = self.split(self._centered(self.rows))
        return np.asarray(centered.swapaxes(1, 2) @ centered, np.float64)

    @cached_property
    def cross(self) -> Array:
        """The covariance of float rows with rows of the quantized model, made and shaped like ``hessian``."""
        left, right = (self.split(self._centered(rows)) for rows in (self.float_rows, self.rows))
        return np.asarray(left.swapaxes(1, 2) @ right, np.float64)

    @property
    def input_noise(self) -> float:
        """The noise of the inputs divided by their signal, both as sums of squares.

        The noise is the difference between the rows of both models; the signal is the float rows minus their
        mean.
        """
        signal = self.float_rows - self.float_rows.mean(axis=1, keepdims=True)
        noise = self.rows - self.float_rows
        return float(np.square(noise).sum() / max(np.square(signal).sum(), 1e-30))

    @cached_property
    def clipped_scale(self) -> Array:
        """The scales [g,o,d], among ``scale * SHRINKAGES``, with the least squared error of the weights.

        Errors are weighted by the variances of the inputs.  The scale stays unless ``is_per_channel``.
        """
        if not self.is_per_channel:
            return self.scale
        importance = self.joined(np.diagonal(self.hessian, axis1=1, axis2=2)[:, None])
        # inputs that hardly vary in the samples count a little, too
        importance = importance + 1e-3 * importance.mean(axis=2, keepdims=True) + 1e-30
        best = np.full(self.scale.shape, np.inf)
        scale = np.array(self.scale)
        for shrinkage in SHRINKAGES:
            tried = self.scale * shrinkage
            error = np.square(rounded(self, tried) * tried - self.weights) * importance
            total = per_scale(error, self.block)
            is_better = total < best
            best[is_better], scale[is_better] = total[is_better], tried[is_better]
        return scale

    @cached_property
    def gptq_fit(self) -> LayerFit:
        """The layer rounded by GPTQ with ``clipped_scale``; cached because two techniques use it."""
        return _gptq_fit(self, self.weights, self.clipped_scale)

    @cached_property
    def factored(self) -> Factored:
        """``hessian``, factored for GPTQ."""
        return factored(self.hessian)

    def _centered(self, rows: Array) -> Array:
        """Return ``rows`` minus their mean if the layer has a bias; the bias corrects errors of the mean."""
        return np.asarray(rows - rows.mean(axis=1, keepdims=True)) if self.has_bias else rows

    def split(self, array: Array) -> Array:
        """Return ``array`` [g,x,d] as [g*p,x,d/p]."""
        groups, size, depth = array.shape
        parts = array.reshape(groups, size, self.parts, depth // self.parts)
        return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(groups * self.parts, size, -1)

    def joined(self, array: Array) -> Array:
        """Return ``array`` [g*p,x,d/p] as [g,x,d]: the inverse of ``split``."""
        groups = array.shape[0] // self.parts
        parts = array.reshape(groups, self.parts, array.shape[1], -1)
        return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(groups, array.shape[1], -1)

    def corrected_bias(self, weights: Array) -> Array:
        """Return the bias [g,o] with which ``weights`` [g,o,d] give the mean outputs of the float model."""
        if not self.has_bias:
            return self.bias
        wanted = self.bias + np.einsum("god,gd->go", self.weights, self.float_mean)
        return np.asarray(wanted - np.einsum("god,gd->go", weights, self.mean))


def layer_data(layer: LinearLayer, form: TensorForm, means: Array, rows: Array) -> LayerData:
    """Return the LayerData of ``layer``.

    ``form``: the planned form of its weights.
    ``means`` [2,g,d]: the mean of all rows, first of the float model, then of the quantized model.
    ``rows`` [2,g,n,d]: some rows of both models, in the same order.
    """
    weights = layer.matrices(layer.weights.array()).astype(np.float64)
    shape = weights.shape
    has_bias = layer.bias is not None
    bias = np.zeros(shape[:2]) if layer.bias is None else layer.bias.array().reshape(shape[:2])
    is_per_channel = form.block > 0 or len(form.scale) == shape[0] * shape[1]
    if form.block:
        scale = np.repeat(form.scales.reshape(*shape[:2], -1), form.block, axis=2)
    else:
        scale_shape = (*shape[:2], 1) if is_per_channel else (1, 1, 1)
        scale = np.broadcast_to(form.scales.reshape(scale_shape), shape)
    (float_mean, mean), (float_rows, rounded_rows) = means, rows
    lowest, largest = form.dtype.limits
    return LayerData(
        weights,
        bias.astype(np.float64),
        float_mean,
        mean,
        float_rows,
        rounded_rows,
        scale.astype(np.float64),
        (lowest + form.narrow, largest),
        form.block,
        is_per_channel,
        has_bias,
    )


@dataclass
class LayerFit:
    """A quantized layer: ``integers`` [g,o,d] as float64, their ``scale`` [g,o,d], a real ``bias`` [g,o]."""

    integers: Array
    scale: Array
    bias: Array

    @property
    def weights(self) -> Array:
        """The real numbers [g,o,d] for which the integers stand."""
        return self.integers * self.scale


LayerTechnique = Callable[[LayerData], LayerFit]
"""A function that chooses the integers, the scales and the bias of a layer."""


def _fit(layer: LayerData, integers: Array, scale: Array) -> LayerFit:
    """Return the layer with ``integers`` and ``scale``, both [g,o,d], and a corrected bias."""
    return LayerFit(integers, scale, layer.corrected_bias(integers * scale))


def round_nearest(layer: LayerData) -> LayerFit:
    """Round to nearest with the planned scales; keep the bias."""
    return LayerFit(rounded(layer, layer.scale), layer.scale, layer.bias)


def correct_bias(layer: LayerData) -> LayerFit:
    """Round to nearest with the planned scales; correct the bias."""
    return _fit(layer, rounded(layer, layer.scale), layer.scale)


def clip_weights(layer: LayerData) -> LayerFit:
    """Round to nearest with the scales of least squared error; correct the bias."""
    scale = layer.clipped_scale
    return _fit(layer, rounded(layer, scale), scale)


def round_by_gptq(layer: LayerData) -> LayerFit:
    """Round by GPTQ with the scales of least squared error; correct the bias."""
    return layer.gptq_fit


def compensate(layer: LayerData) -> LayerFit:
    """Change the weights so that they compensate the errors of their inputs, then round them by GPTQ.

    With the inputs of the quantized model, the changed weights give outputs near those of the float model.
    Least squares, with a penalty r for the distance from the weights W, finds them:
    W (C + r I) (H + r I)^-1, where H is ``hessian``, C is ``cross``, and r is a small part (``penalty``) of
    the mean of H's diagonal.  Source: Li et al., "GPTAQ: Efficient Finetuning-Free Quantization for
    Asymmetric Calibration", 2025.

    Least squares on noisy inputs makes weights smaller (regression dilution), and the effect adds up over the
    layers.  So with more noise than MOST_NOISE the weights are not changed before rounding.
    """
    if layer.input_noise > MOST_NOISE:
        return round_by_gptq(layer)
    penalty = 0.05
    damped_hessian = damped(layer.hessian, penalty)  # H + r I
    damped_cross = layer.cross + (damped_hessian - layer.hessian)  # C + r I
    # the transpose of (C + r I) (H + r I)^-1
    change = np.linalg.solve(damped_hessian, damped_cross.swapaxes(1, 2))
    target = layer.joined(layer.split(layer.weights) @ change.swapaxes(1, 2))
    return _gptq_fit(layer, target, layer.clipped_scale)


def rounded(layer: LayerData, scale: Array) -> Array:
    """Return the integers [g,o,d], as float64, of the weights rounded to nearest with ``scale`` [g,o,d]."""
    return np.asarray(np.clip(np.rint(layer.weights / scale), *layer.limits))


def per_scale(numbers: Array, block: int) -> Array:
    """Return for each element of ``numbers`` [g,o,d] the sum of all elements that share its scale.

    ``block``: see LayerData.
    """
    if not block:
        return np.broadcast_to(numbers.sum(axis=2, keepdims=True), numbers.shape)
    blocks = numbers.reshape(*numbers.shape[:2], -1, block).sum(axis=3)
    return np.repeat(blocks, block, axis=2)


def _gptq_fit(layer: LayerData, target: Array, scale: Array) -> LayerFit:
    """Round ``target`` [g,o,d] by GPTQ with ``scale``, adapt scales where possible, and refine the integers.

    Scales are adapted if each output has a single scale of its own and the depth has one part.  Then, up to
    a depth of MOST_ENLARGED_DEPTH, ``scale`` times each of ENLARGEMENTS is tried, and each output keeps the
    best scale.
    ``target``: the weights of ``layer``, or changed weights.
    """
    wanted, hessian = layer.split(target), layer.hessian
    fine = damped(hessian, 0.001)  # less damping than for GPTQ: here the error itself counts
    if not layer.is_per_channel or layer.block or layer.parts > 1:
        integers = gptq(wanted, layer.factored, layer.split(scale), layer.limits)
        integers = refine(integers, wanted, fine, layer.split(scale), layer.limits)
        return _fit(layer, layer.joined(integers), scale)
    factors = ENLARGEMENTS if target.shape[2] <= MOST_ENLARGED_DEPTH else ENLARGEMENTS[:1]
    wanted = np.tile(target, (1, factors.size, 1))  # all outputs once for each factor: [g, factors * o, d]
    scales = np.concatenate([scale * factor for factor in factors], axis=1)
    integers = gptq(wanted, layer.factored, scales, layer.limits)
    scales = scales * best_scales(integers, wanted, damped(hessian, 0.01), scales)[..., None]
    scales = scales.astype(np.float32).astype(np.float64)  # as a file stores them
    integers = refine(integers, wanted, fine, scales, layer.limits)
    by_factor = (target.shape[0], factors.size, *target.shape[1:])
    errors = squared_errors(integers, wanted, fine, scales).reshape(by_factor[:3])
    best = errors.argmin(axis=1)[:, None, :, None]
    integers, scales = (
        np.take_along_axis(array.reshape(by_factor), best, 1)[:, 0] for array in (integers, scales)
    )
    return _fit(layer, integers, scales)
