# SPDX-License-Identifier: Apache-2.0
"""Find orders of channels that the weights of a layer can absorb, so that less data has to be moved.

Channels are the indices of the last axis.  An order is an array with the old index of each new channel.  An
index map gives, for each position in a result, the position in the source that it copies: an offset plus the
sum of digit * stride, with one digit (a number below ``extent``) for each factor (extent, stride).

Example: a layer gives [N, 6], and the data movement transposes the 6 channels as a [2, 3] matrix.  The result
has the channels 0, 3, 1, 4, 2, 5 of the layer.  If the layer computes its channels in this order, nothing is
left to move.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import permutations

import numpy as np

from circlekit.index_maps.index_map import IndexMap, strides_of
from circlekit.index_maps.unknown_dim import dims_of, has_known_channels
from circlekit.index_maps.write_back import by_axis
from circlekit.ir.enums import WeightsFormat
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.reduction.reduce import Mean
from circlekit.passes.support.axes import taken

MAX_DIGITS = 4
"""An index map splits the channel number into digits.  With up to this many digits, all orders of the digits
are tried; with more digits, no order is tried."""

QUANTIZED_GROUPS: Mapping[type[Op], int] = {DepthwiseConv2D: 8, TransposeConv: 8, Mean: 16}
"""By class, the number of quantized channels that LiteRT's optimized kernel computes at a time.

It rounds the channels after the last full group in another way.
"""


def rounds_channels_alike(op: Op, channels: int) -> bool:
    """Return whether LiteRT rounds all channels of the result of ``op`` alike if it has ``channels``."""
    return op.output.quantization is None or channels % QUANTIZED_GROUPS.get(type(op), 1) == 0


def weights_of(op: Op | None) -> Value | None:
    """Return the weights, [outputs, ..., inputs], if ``op`` is a layer and their only user; else None.

    A layer is a FullyConnected, a Conv2D without groups or a TransposeConv.  Its weights must be constant,
    not sparse, not compressed, and in the format DEFAULT.  If they are quantized, this must be by scales
    and zero points.
    """
    weights: Value | None = None
    if isinstance(op, FullyConnected) and op.weights_format is WeightsFormat.DEFAULT:
        weights = op.weights if op.weights.shape else None
    elif isinstance(op, Conv2D | TransposeConv) and op.input.shape and op.filter.shape:
        weights = op.filter if op.input.shape[-1] == op.filter.shape[-1] else None  # without groups
    if weights is None or not weights.is_plain or weights.use_count != 1:
        return None
    return None if weights.quantization is not None and weights.quantization.details is not None else weights


def has_weights_alone(layer: Op) -> bool:
    """Return whether no other operator uses the weights and the bias of ``layer``.

    The bias, if there is one, must be constant and of rank 1; for the weights see ``weights_of``.
    """
    bias: Value | None = getattr(layer, "bias", None)
    has_own_bias = bias is None or (bias.is_plain and bias.use_count == 1 and bias.rank == 1)
    return has_own_bias and weights_of(layer) is not None


def orders_of_producer(index_map: IndexMap, source: Value, graph: Graph) -> Iterator[tuple[IndexMap, Array]]:
    """Yield (rest, order) for the orders in which the producer of ``source`` can compute its channels.

    ``index_map``: the map from ``source`` to the result of a data movement.
    ``rest``: the map that gives the same result if the producer computes its channels in this order.
    All of this must hold, else nothing is yielded:

    - The map is a permutation.  2 to MAX_DIGITS of its digits select the channel of ``source``; the others
      select indices of other axes.
    - The producer is a layer that ``rounds_channels_alike``, and no other operator uses its weights and its
      bias.
    - The data movement is the only use of ``source``, and ``source`` is not an output of the graph.
    """
    layer = source.producer
    if not has_known_channels(source):
        return
    weights, shape = weights_of(layer), dims_of(source)
    if weights is None or layer is None or source.use_count != 1 or graph.is_output(source):
        return
    if not has_weights_alone(layer) or weights.static_shape[0] != shape[-1]:
        return
    if not rounds_channels_alike(layer, shape[-1]):
        return
    found = index_map.on_axes(shape) if index_map.is_permutation else None
    if found is None:
        return
    last, strides, steps = len(shape) - 1, strides_of(shape), found[1]
    digits = [k for k, step in enumerate(steps) if step.axis == last]  # those that select the channel
    for order in permutations(digits) if 1 < len(digits) <= MAX_DIGITS else ():
        # in the new channel number, the last digit of ``order`` varies fastest
        new_strides = dict(zip(order, strides_of([steps[k].extent for k in order]), strict=True))
        factors = [
            (extent, new_strides[k] if axis == last else step * strides[axis])
            for k, (axis, extent, step) in enumerate(steps)
            if axis is not None  # always: a permutation repeats nothing
        ]
        channels = IndexMap.of(shape[-1], [steps[k][1:] for k in order])  # from new channels to old ones
        yield IndexMap.of(index_map.source_size, factors), channels.apply(np.arange(shape[-1]))


def orders_of_user(index_map: IndexMap, result: Value, graph: Graph) -> Iterator[tuple[IndexMap, Array]]:
    """Yield (rest, order) for the orders in which the user of ``result`` can read the channels.

    ``index_map``: the map from the source of a data movement to ``result``.
    ``rest``: the map to ``result`` with the channels of ``result`` in this order.
    All of this must hold, else nothing is yielded:

    - 2 to MAX_DIGITS digits of the map make the channels of ``result``.
    - The only use of ``result`` is as the input of a layer, and ``result`` is not an output of the graph.
    - No other operator uses the weights of this layer.
    """
    if not has_known_channels(result):
        return
    uses, shape = result.uses, dims_of(result)
    layer = uses[0][0] if len(uses) == 1 else None
    weights = weights_of(layer)
    if weights is None or layer is None or graph.is_output(result):
        return
    if getattr(layer, "input", None) is not result or weights.static_shape[-1] != shape[-1]:
        return
    rows, digits = by_axis(index_map.factors, (math.prod(shape[:-1]), shape[-1])) or ([], [])
    strides = strides_of([extent for extent, _ in digits])  # of the digits in the old channel number
    for order in permutations(range(len(digits))) if 1 < len(digits) <= MAX_DIGITS else ():
        channels = IndexMap.of(shape[-1], [(digits[k].extent, strides[k]) for k in order])
        rest = IndexMap.of(index_map.source_size, [*rows, *(digits[k] for k in order)], index_map.offset)
        yield rest, channels.apply(np.arange(shape[-1]))


def permute_outputs(graph: Graph, layer: Op, order: Array) -> None:
    """Let ``layer``, for which ``has_weights_alone`` is true, compute its output channels in ``order``."""
    for name in ("filter", "weights", "bias"):
        value = getattr(layer, name, None)
        if value is not None:
            setattr(layer, name, taken(graph, value, order, 0))


def permute_inputs(graph: Graph, layer: Op, order: Array) -> None:
    """Let ``layer``, for which ``weights_of`` returns weights, read its input channels in ``order``."""
    weights = weights_of(layer)
    assert weights is not None  # required of ``layer``
    index = layer.inputs.index(weights)
    layer.set_input(index, taken(graph, weights, order, len(weights.static_shape) - 1))
