# SPDX-License-Identifier: Apache-2.0
"""Write the weights, scales and bias of one layer, as a technique chose them, into the plan.

A technique is one of ``layer_rounding``, such as GPTQ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlekit.quant.plan import GraphPlan, OperatorPlan, TensorForm
from circlekit.quant.techniques.layer_rounding import LayerFit
from circlekit.quant.techniques.linear_layer import LinearLayer
from circlekit.quant.weights import LARGEST_BIAS


@dataclass(frozen=True)
class PlannedLayer:
    """A layer and its plans.

    ``operator``: the plan of its operator.  ``graph``: the plan of its graph.  ``form``: the planned form of
    its weights, signed integers of at most 8 bits.

    The arrays of a ``LayerFit`` have the shape [g,o,d], the bias [g,o]: g groups, o outputs of a group, d
    weights of an output.
    """

    layer: LinearLayer
    operator: OperatorPlan
    graph: GraphPlan
    form: TensorForm

    def bias_fits(self, fit: LayerFit) -> bool:
        """Return whether the bias of ``fit`` fits its planned form.

        The magnitudes of a quantized bias, as integers, must be below LARGEST_BIAS.  A float bias always
        fits.
        """
        form = self.operator.operands.get(self.layer.bias_index)
        if form is None:
            return True
        # the scale of the bias; each output has one, because weights with a quantized bias have no blocks
        scale = fit.scale[..., 0] * self._data_scale()
        return bool(np.all(np.abs(fit.bias) < LARGEST_BIAS[form.dtype] * scale))

    def store(self, fit: LayerFit, reason: str) -> None:
        """Write the integers, scales and bias of ``fit`` into the plan.

        ``fit``: one for which ``bias_fits`` returns True; the integers of any other bias would be wrong.
        ``reason``: the text to add to the reason of the form of the weights.
        """
        layer, form, constants = self.layer, self.form, self.graph.constants
        constants[layer.weights.name] = layer.from_matrices(fit.integers.astype(np.int8))
        scales = fit.scale.reshape(-1, fit.scale.shape[2])
        # ``fit`` repeats a scale for all weights that share it; the form lists it once
        scales = scales[:, :: form.block].reshape(-1) if form.block else scales[:, 0]
        if len(form.scale) == 1:
            scales = scales[:1]
        steps = np.asarray(scales, np.float32)
        weights = replace(form, scale=tuple(steps.tolist()), reason=f"{form.reason}; {reason}")
        self.operator.operands[layer.weights_index] = weights
        if layer.bias is None:
            return
        bias = fit.bias.reshape(layer.bias.static_shape)
        bias_form = self.operator.operands.get(layer.bias_index)
        if bias_form is None:
            constants[layer.bias.name] = bias.astype(np.float32)
            return
        bias_scales = np.float32(self._data_scale()) * steps
        self.operator.operands[layer.bias_index] = replace(
            bias_form,
            scale=tuple(bias_scales.tolist()),
            reason=f"{bias_form.reason}; corrected with the weights",
        )
        integers = np.rint(bias.reshape(-1) / bias_scales.astype(np.float64))
        constants[layer.bias.name] = integers.astype(bias_form.dtype.numpy).reshape(bias.shape)

    def _data_scale(self) -> float:
        """Return the scale of the form in which the layer reads its input."""
        form = self.operator.operands.get(self.layer.input_index)
        return (form or self.graph.tensors[self.layer.input.name]).scale[0]
