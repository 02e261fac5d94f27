# SPDX-License-Identifier: Apache-2.0
"""Center the constants of a layer, so that each row of its result has a mean of 0.

A row is a vector along the last axis; to center it means to subtract its mean from each of its elements.  A
layer is linear in its constants (weights and bias, or the table of a Gather), so centered constants give
centered rows.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.resources.scratch_files import moved_to_file
from circlekit.ir.shape_inference import misfit
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.conv import Conv2D, TransposeConv
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.gather import Gather
from circlekit.passes.support.scaled_layer import layer_refusal, parameters_of

Layer = Conv2D | TransposeConv | FullyConnected | Gather
"""The operators that are layers here.

The weights are centered over the output channels; the bias is one row.  Of a Gather, the rows of the table
are centered.
"""


def center_layer(graph: Graph, layer: Layer) -> None:
    """Replace the weights and the bias of ``layer``, or its table, by centered ones.

    ``centering_refusal(layer)`` must be None.
    """
    weights, *_ = constants = parameters_of(layer)
    for index, value in enumerate(layer.inputs):
        if value is None or value not in constants:
            continue
        # weights have the output channels along axis 0; a table and a bias have them along the last axis
        channels_last = isinstance(layer, Gather) or value is not weights
        array = centered(value.array(), -1 if channels_last else 0)
        name = graph.unique_name(f"{layer.output.name}/centered")
        layer.set_input(index, Value.constant(name, moved_to_file(array)))


def centering_refusal(layer: Layer) -> str | None:
    """Return why the constants of ``layer`` cannot be centered; None if they can."""
    result = layer.output
    if (sentence := misfit(layer)) is not None:
        return f"%{result.name}: {sentence}"
    weights, *_ = constants = parameters_of(layer)
    if isinstance(layer, Gather) and not (layer.axis == 0 and layer.batch_dims == 0 and weights.rank == 2):
        return f"%{result.name}: expected a Gather of rows of a matrix"
    if (sentence := layer_refusal(layer)) is not None:
        return sentence
    for value in constants:
        if not np.abs(value.array()).max(initial=0) <= np.finfo(np.float32).max / 2:  # also for NaN
            return f"%{value.name}: expected finite numbers up to half the largest f32"
    if isinstance(layer, Conv2D) and (layer.input.shape or (None,))[-1] != weights.static_shape[-1]:
        found = "groups or an unknown number of channels"
        return f"%{result.name}: expected a convolution of all channels, got {found}"
    return None


def centered(array: Array, axis: int) -> Array:
    """Return ``array`` minus its mean over ``axis``; the mean is computed in float64."""
    mean = array.mean(axis, dtype=np.float64, keepdims=True)
    result: Array = np.subtract(array, mean.astype(array.dtype))
    return result
