# SPDX-License-Identifier: Apache-2.0
"""Techniques that choose integers, scales and bias of one layer.

Each is a function from LayerData to LayerFit.  All but ``round_nearest`` correct the bias: the mean of each
output becomes that of the float model (Nagel et al., "Data-Free Quantization Through Weight Equalization and
Bias Correction", ICCV 2019, section 4.2).  Layers are quantized in the order of execution, so that the
correction also covers the errors of earlier layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from circlekit.ir.value import Array
from circlekit.quant.plan import TensorPlan
from circlekit.quant.techniques.gptq import Factored, best_scales, damped, factored, gptq, refine
from circlekit.quant.techniques.linear_layer import LinearLayer

MOST_COLUMNS = 1024
"""Layers of a larger depth are divided, because the time of GPTQ grows with its third power."""

SHRINKAGES = np.linspace(1.0, 0.4, 31)
"""Factors of the range of weights that ``clip_weights`` tries."""

MOST_NOISE = 0.25
"""Inputs of a layer with more noise than this part of the signal do not change its weights."""


@dataclass
class LayerData:
    """A layer with its inputs: g groups, o outputs of each, depth d, divided into parts of c columns.

    ``weights`` [g,o,d], ``bias`` [g,o]: of the float model, float64.  ``float_mean``, ``mean`` [g,d]: the
    means of the rows that the weights multiply, in the float model and in the quantized one.  ``float_rows``,
    ``rows`` [g,n,d]: some of these rows.  ``scale`` [g,o,d]: the planned scale of each weight.
    ``limits``: the smallest and the largest integer.  ``block``: number of weights along d that share a
    scale; 0: all of them.  ``is_per_channel``: whether each output has its own scales.
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
        """The number of parts of the depth; errors of one part are not corrected by weights of another."""
        depth = self.weights.shape[2]
        return next(n for n in range(1, depth + 1) if depth % n == 0 and depth // n <= MOST_COLUMNS)

    @cached_property
    def hessian(self) -> Array:
        """The covariance of the quantized model's rows times their number, float64[g*parts,c,c].

        For a layer without bias it is the second moment.
        """
        centered = self.split(self._centered(self.rows))
        return np.asarray(centered.swapaxes(1, 2) @ centered, np.float64)

    @cached_property
    def cross(self) -> Array:
        """The covariance between the rows of the float and of the quantized model, like ``hessian``."""
        left, right = (self.split(self._centered(rows)) for rows in (self.float_rows, self.rows))
        return np.asarray(left.swapaxes(1, 2) @ right, np.float64)

    @property
    def input_noise(self) -> float:
        """The noise of the quantized model's rows, relative to the variance of the float ones."""
        signal = self.float_rows - self.float_rows.mean(axis=1, keepdims=True)
        noise = self.rows - self.float_rows
        return float(np.square(noise).sum() / max(np.square(signal).sum(), 1e-30))

    @cached_property
    def clipped_scale(self) -> Array:
        """The scales [g,o,d] with the least squared error of weights, weighted by the inputs' variance.

        A single scale for the whole layer stays as it is.
        """
        if not self.is_per_channel:
            return self.scale
        importance = self.joined(np.diagonal(self.hessian, axis1=1, axis2=2)[:, None])
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
        """The layer rounded by GPTQ with ``clipped_scale``; more than one technique may ask for it."""
        return _gptq_fit(self, self.weights, self.clipped_scale)

    @cached_property
    def factored(self) -> Factored:
        """The factored ``hessian``, for GPTQ."""
        return factored(self.hessian)

    def _centered(self, rows: Array) -> Array:
        """Return ``rows``, minus their mean if the layer has a bias, which corrects the mean."""
        return np.asarray(rows - rows.mean(axis=1, keepdims=True)) if self.has_bias else rows

    def split(self, array: Array) -> Array:
        """Return [g,x,d] as [g*parts,x,d/parts]."""
        groups, size, depth = array.shape
        parts = array.reshape(groups, size, self.parts, depth // self.parts)
        return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(groups * self.parts, size, -1)

    def joined(self, array: Array) -> Array:
        """Return the array whose ``split`` is ``array``."""
        groups = array.shape[0] // self.parts
        parts = array.reshape(groups, self.parts, array.shape[1], -1)
        return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(groups, array.shape[1], -1)

    def corrected_bias(self, weights: Array) -> Array:
        """Return the bias [g,o] with which ``weights`` give outputs with the means of the float model."""
        if not self.has_bias:
            return self.bias
        wanted = self.bias + np.einsum("god,gd->go", self.weights, self.float_mean)
        return np.asarray(wanted - np.einsum("god,gd->go", weights, self.mean))


def layer_data(layer: LinearLayer, form: TensorPlan, means: Array, rows: Array) -> LayerData:
    """Return the data of ``layer``, whose weights have the planned form ``form``.

    ``means`` [2, groups, depth], ``rows`` [2, groups, n, depth]: the means of the rows that the weights
    multiply, and some of these rows: first of the float model, then of the quantized one.
    """
    weights = layer.matrices(layer.weights.array()).astype(np.float64)
    shape = weights.shape
    has_bias = layer.bias is not None
    bias = np.zeros(shape[:2]) if layer.bias is None else layer.bias.array().reshape(shape[:2])
    if form.block:
        scale = np.repeat(form.scales.reshape(*shape[:2], -1), form.block, axis=2)
    else:
        scale = np.broadcast_to(
            form.scales.reshape((*shape[:2], 1) if len(form.scale) > 1 else (1, 1, 1)), shape
        )
    lowest, largest = form.dtype.limits
    return LayerData(
        weights,
        bias.astype(np.float64),
        means[0],
        means[1],
        rows[0],
        rows[1],
        scale.astype(np.float64),
        (lowest + form.narrow, largest),
        form.block,
        len(form.scale) > 1,
        has_bias,
    )


@dataclass
class LayerFit:
    """A quantized layer: ``integers`` and their ``scale`` [g,o,d], and ``bias`` [g,o] as real numbers."""

    integers: Array
    scale: Array
    bias: Array

    @property
    def weights(self) -> Array:
        """The real numbers [g,o,d] that the integers stand for."""
        return self.integers * self.scale


LayerTechnique = Callable[[LayerData], LayerFit]
"""Quantizes a layer."""


def _fit(layer: LayerData, integers: Array, scale: Array) -> LayerFit:
    """Return the layer with these integers and scales [g,o,d], and a corrected bias."""
    return LayerFit(integers, scale, layer.corrected_bias(integers * scale))


def round_nearest(layer: LayerData) -> LayerFit:
    """Round to nearest with the planned scales and keep the bias, as plain rules do."""
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
    """Round by GPTQ other weights: those that give the float outputs for the inputs of the quantized model.

    They are found by least squares with a penalty r for the distance to the weights W: W (C + r I) (H + r
    I)^-1, where H is ``hessian`` and C is ``cross``.  Source: Li et al., "GPTAQ: Efficient Finetuning-Free
    Quantization for Asymmetric Calibration", 2025.

    Least squares on noisy inputs makes weights smaller (regression dilution), which adds up over layers, so
    with more noise than MOST_NOISE the weights W are rounded.
    """
    if layer.input_noise > MOST_NOISE:
        return round_by_gptq(layer)
    penalty = 0.05
    left = damped(layer.hessian, penalty)
    change = np.linalg.solve(left, (layer.cross + (left - layer.hessian)).swapaxes(1, 2))
    target = layer.joined(layer.split(layer.weights) @ change.swapaxes(1, 2))
    return _gptq_fit(layer, target, layer.clipped_scale)


def rounded(layer: LayerData, scale: Array) -> Array:
    """Return the integers [g,o,d] of the weights for ``scale``, rounded to nearest."""
    return np.asarray(np.clip(np.rint(layer.weights / scale), *layer.limits))


def per_scale(numbers: Array, block: int) -> Array:
    """Return for each element of ``numbers`` [g,o,d] the sum over the weights that share its scale.

    ``block``: as in LayerData.
    """
    if not block:
        return np.broadcast_to(numbers.sum(axis=2, keepdims=True), numbers.shape)
    blocks = numbers.reshape(*numbers.shape[:2], -1, block).sum(axis=3)
    return np.repeat(blocks, block, axis=2)


def _gptq_fit(layer: LayerData, target: Array, scale: Array) -> LayerFit:
    """Return the layer with the weights ``target`` [g,o,d] rounded by GPTQ, then refined."""
    wanted, hessian = layer.split(target), layer.hessian
    integers = gptq(wanted, layer.factored, layer.split(scale), layer.limits)
    if layer.is_per_channel and not layer.block and layer.parts == 1:
        scale = scale * best_scales(integers, wanted, damped(hessian, 0.01), scale)[..., None]
        scale = scale.astype(np.float32).astype(np.float64)
    integers = refine(integers, wanted, damped(hessian, 0.001), layer.split(scale), layer.limits)
    return _fit(layer, layer.joined(integers), scale)
