# SPDX-License-Identifier: Apache-2.0
"""Techniques that choose integers, scales and bias of one layer.

Each is a function from LayerData to LayerFit.  All but ``round_nearest`` correct the bias: the mean of each
output becomes that of the float model (Nagel et al., "Data-Free Quantization Through Weight Equalization and
Bias Correction", ICCV 2019, section 4.2).  Because layers are done in the order of execution, the correction
includes what the layers before have left.
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
"""Deeper layers are divided: the time of GPTQ grows with the third power of the depth."""

SHRINKAGES = np.linspace(1.0, 0.4, 31)
"""Fractions of the range of weights that the clipping tries."""


@dataclass
class LayerData:
    """What is known about a layer: g groups, o outputs each, depth d in parts of c columns.

    ``weights`` [g,o,d], ``bias`` [g,o]: of the float model.  ``float_mean``, ``mean`` [g,d]: the mean rows
    that the weights multiply, in the float model and in the quantized one.  ``float_rows``, ``rows``
    [g,n,d]: some of these rows.  ``scale`` [g,o,d]: planned scales.
    ``limits``: the smallest and the largest integer.  ``block``: so many weights along d share a scale; 0:
    all.  ``is_per_channel``: each output has scales of its own.
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
        """Into how many parts the depth is divided; errors of one part are not corrected in another."""
        depth = self.weights.shape[2]
        return next(n for n in range(1, depth + 1) if depth % n == 0 and depth // n <= MOST_COLUMNS)

    @cached_property
    def hessian(self) -> Array:
        """The covariance (without bias: second moment) of the quantized model's rows, f64[g*parts,c,c]."""
        centered = self.split(self._centered(self.rows))
        return np.asarray(centered.swapaxes(1, 2) @ centered, np.float64)

    @cached_property
    def cross(self) -> Array:
        """The covariance of the float model's rows with the quantized model's, like ``hessian``."""
        left, right = (self.split(self._centered(rows)) for rows in (self.float_rows, self.rows))
        return np.asarray(left.swapaxes(1, 2) @ right, np.float64)

    @cached_property
    def clipped_scale(self) -> Array:
        """The scales with the least square error of weights, weighted by the variance of their inputs.

        One scale for the whole layer stays as it is.
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
    def factored(self) -> Factored:
        """What GPTQ needs of ``hessian``."""
        return factored(self.hessian)

    def _centered(self, rows: Array) -> Array:
        """Return ``rows`` less their mean if the layer has a bias, which can take it over; else ``rows``."""
        return np.asarray(rows - rows.mean(axis=1, keepdims=True)) if self.has_bias else rows

    def split(self, array: Array) -> Array:
        """Return [g,x,d] as [g*parts,x,d/parts]."""
        groups, size, depth = array.shape
        parts = array.reshape(groups, size, self.parts, depth // self.parts)
        return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(groups * self.parts, size, -1)

    def joined(self, array: Array) -> Array:
        """Return the array of which ``array`` is the ``split``."""
        groups = array.shape[0] // self.parts
        parts = array.reshape(groups, self.parts, array.shape[1], -1)
        return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(groups, array.shape[1], -1)

    def corrected_bias(self, weights: Array) -> Array:
        """Return the bias [g,o] with which ``weights`` give the means of the float model."""
        if not self.has_bias:
            return self.bias
        wanted = self.bias + np.einsum("god,gd->go", self.weights, self.float_mean)
        return np.asarray(wanted - np.einsum("god,gd->go", weights, self.mean))


def layer_data(layer: LinearLayer, form: TensorPlan, means: Array, rows: Array) -> LayerData:
    """Return the data of ``layer``, whose weights have the planned form ``form``.

    ``means`` [2, groups, depth] and ``rows`` [2, groups, n, depth]: of the float model, then of the
    quantized one.
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
    """A result: ``integers`` and their ``scale`` [g,o,d], ``bias`` [g,o] in real numbers."""

    integers: Array
    scale: Array
    bias: Array

    @property
    def weights(self) -> Array:
        return self.integers * self.scale


LayerTechnique = Callable[[LayerData], LayerFit]


def _fit(layer: LayerData, integers: Array, scale: Array) -> LayerFit:
    return LayerFit(integers, scale, layer.corrected_bias(integers * scale))


def round_nearest(layer: LayerData) -> LayerFit:
    """Round to nearest with the planned scales and keep the bias: what plain rules do."""
    return LayerFit(rounded(layer, layer.scale), layer.scale, layer.bias)


def correct_bias(layer: LayerData) -> LayerFit:
    """Round to nearest with the planned scales; correct the bias."""
    return _fit(layer, rounded(layer, layer.scale), layer.scale)


def clip_weights(layer: LayerData) -> LayerFit:
    """Round to nearest with the scales of least mean square error; correct the bias."""
    scale = layer.clipped_scale
    return _fit(layer, rounded(layer, scale), scale)


def round_by_gptq(layer: LayerData) -> LayerFit:
    """GPTQ on scales of least error; the bias takes part, because the covariance has no mean."""
    return _gptq_fit(layer, layer.weights, layer.clipped_scale)


def compensate(layer: LayerData) -> LayerFit:
    """GPTQ of the weights that give the float model's outputs for the quantized model's inputs.

    Least squares with a penalty for the distance to the weights: W (C + r I) (H + r I)^-1.  Source: Li et
    al., "GPTAQ: Efficient Finetuning-Free Quantization for Asymmetric Calibration", 2025.
    """
    penalty = 0.05
    left = damped(layer.hessian, penalty)
    change = np.linalg.solve(left, (layer.cross + (left - layer.hessian)).swapaxes(1, 2))
    target = layer.joined(layer.split(layer.weights) @ change.swapaxes(1, 2))
    return _gptq_fit(layer, target, layer.clipped_scale)


def rounded(layer: LayerData, scale: Array) -> Array:
    """Return the weights as integers of ``scale``, rounded to nearest."""
    return np.asarray(np.clip(np.rint(layer.weights / scale), *layer.limits))


def per_scale(numbers: Array, block: int) -> Array:
    """Return the sums over the weights that share a scale, repeated: [g,o,d], of blocks or of all d."""
    if not block:
        return np.broadcast_to(numbers.sum(axis=2, keepdims=True), numbers.shape)
    blocks = numbers.reshape(*numbers.shape[:2], -1, block).sum(axis=3)
    return np.repeat(blocks, block, axis=2)


def _gptq_fit(layer: LayerData, target: Array, scale: Array) -> LayerFit:
    wanted, hessian = layer.split(target), layer.hessian
    integers = gptq(wanted, layer.factored, layer.split(scale), layer.limits)
    if layer.is_per_channel and not layer.block and layer.parts == 1:
        scale = scale * best_scales(integers, wanted, damped(hessian, 0.01), scale)[..., None]
        scale = scale.astype(np.float32).astype(np.float64)
    integers = refine(integers, wanted, damped(hessian, 0.001), layer.split(scale), layer.limits)
    return _fit(layer, layer.joined(integers), scale)
