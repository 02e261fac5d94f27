# SPDX-License-Identifier: Apache-2.0
"""Multiply the channels between two layers by a Hadamard matrix, so that their magnitudes become similar.

Two layers can be rotated if all operators between them are linear, treat all channels of a block alike, and
mix no channels.  The first layer's weights and bias are multiplied by an orthogonal matrix, and the second
layer's weights by its transpose; the outputs of the model stay the same.  Examples are the value projection
and the output projection of attention, where a block is the channels of a head.  Such pairs are found by
trial: both layers are rotated, and the outputs of the model are compared.

Source: Ashkboos et al., "QuaRot: Outlier-Free 4-Bit Inference in Rotated LLMs", NeurIPS 2024, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from circlekit.errors import ModelError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.clone import clone
from circlekit.ir.core import Graph, Op
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.plan import key_of
from circlekit.quant.techniques.equalization import replace_constant
from circlekit.quant.techniques.linear_layer import LinearLayer, linear_layer

MAX_RUNS = 96
"""The default limit on the runs of the model in ``find_rotations``."""

LEAST_BLOCK = 4
"""The smallest number of channels of a rotated block."""

TOLERANCE = 1e-4
"""The allowed change of an output, relative to its largest element, if both layers are rotated."""

LEAST_EFFECT = 1e-2
"""The smallest change of an output, relative to its largest element, if only the first layer is rotated.

If the change is smaller, a trial with both layers proves nothing.
"""


class Rotation(NamedTuple):
    """A rotation of the channels between two layers.

    ``first``, ``second``: the names of the layers' results.
    ``start``: the output channel of the first layer that is input channel 0 of the second layer.
    ``block``: the number of channels that are rotated together, a power of 2.
    """

    first: str
    second: str
    start: int
    block: int


def find_rotations(model: Model, sample: Sequence[Array], runs: int = MAX_RUNS) -> list[Rotation]:
    """Return rotations that each change the outputs of ``model`` for ``sample`` by less than TOLERANCE.

    They are in the order of their first layers; no two of them have the same second layer.
    ``sample``: arrays in the order of the graph's inputs.  ``runs``: about how often the model may be run.
    """
    found: list[Rotation] = []
    expected, tries = Interpreter(model).run(sample), 0
    for first, second, start in _pairs(model.main):
        if tries >= runs or any(rotation.second == key_of(second.op) for rotation in found):
            continue
        channels = _matrix(second).shape[1]
        block = channels & -channels  # the largest power of 2 that divides the channels
        rotation = Rotation(key_of(first.op), key_of(second.op), start, block)
        tries += 1
        if _change(model, rotation, sample, expected, only_first=True) < LEAST_EFFECT:
            continue  # the outputs hardly depend on these channels, so a trial proves nothing
        while block >= LEAST_BLOCK:
            tries += 1
            rotation = rotation._replace(block=block)
            if _change(model, rotation, sample, expected) < TOLERANCE:
                found.append(rotation)
                break
            block //= 2
    return found


def rotate(model: Model, rotations: Sequence[Rotation], only_first: bool = False) -> None:
    """Rotate the weights of layers of the main graph in place.

    ``only_first``: do not rotate the second layers, for a trial.
    Raise ModelError if a layer is absent or cannot be rotated (``_is_rotatable``), or if the channels of the
    layers do not fit the rotation.
    """
    linear = (layer for op in model.main if (layer := linear_layer(op)) is not None)
    layers = {key_of(layer.op): layer for layer in linear if _is_rotatable(layer)}
    for rotation in rotations:
        absent = [f"%{name}" for name in (rotation.first, rotation.second) if name not in layers]
        if absent:
            raise ModelError(f"no layer to rotate is named {' or '.join(absent)}")
        first, second = layers[rotation.first], layers[rotation.second]
        weights, channels = _matrix(first), _matrix(second).shape[1]
        names = f"%{rotation.first} and %{rotation.second}"
        if not 0 <= rotation.start <= len(weights) - channels:
            last = rotation.start + channels - 1
            raise ModelError(
                f"expected {channels} of the {len(weights)} channels of %{rotation.first}, which "
                f"%{rotation.second} reads, got channels {rotation.start} to {last}"
            )
        if rotation.block < 1 or rotation.block & (rotation.block - 1) or channels % rotation.block:
            raise ModelError(
                f"expected a power of 2 that divides {channels}, the channels between {names},"
                f" got block {rotation.block}"
            )
        matrix = hadamard(rotation.block)
        part = slice(rotation.start, rotation.start + channels)
        weights[part] = _in_blocks(weights[part].T, matrix).T  # a row of weights makes an output channel
        replace_constant(first.op, first.weights, weights)
        if first.bias is not None:
            bias = first.bias.array().astype(np.float64).reshape(1, -1)
            bias[:, part] = _in_blocks(bias[:, part], matrix)
            replace_constant(first.op, first.bias, bias)
        if not only_first:
            replace_constant(second.op, second.weights, _in_blocks(_matrix(second), matrix))


def hadamard(size: int) -> Array:
    """Return Sylvester's Hadamard matrix, scaled to be orthogonal, as float64[size, size].

    It is symmetric.  ``size``: a power of 2.
    """
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]]) / np.sqrt(2)
    return matrix


def _pairs(graph: Graph) -> Iterator[tuple[LinearLayer, LinearLayer, int]]:
    """Yield (first layer, second layer, start) for each rotation that may be possible; see ``Rotation``.

    The first layer may have a multiple of the second layer's channels, such as query, key and value in a row;
    then each ``start`` is tried.  LEAST_BLOCK must divide the number of the second layer's channels.
    """
    layers = [layer for op in graph if (layer := linear_layer(op)) is not None and _is_rotatable(layer)]
    by_op = {layer.op: layer for layer in layers}
    for first in layers:
        if first.op.attribute_items()["act"] is not Activation.NONE:
            continue
        outputs = _matrix(first).shape[0]
        for op in _reached(first.op):
            second = by_op.get(op)
            channels = 0 if second is None else _matrix(second).shape[1]
            if second is None or outputs % channels or channels & -channels < LEAST_BLOCK:
                continue
            for start in range(0, outputs, channels):
                yield first, second, start


def _reached(first: Op) -> list[Op]:
    """Return the layers that ``first`` reaches, directly or through operators that are not layers."""
    seen: set[Op] = set()
    found: list[Op] = []
    waiting = [first]
    while waiting:
        for value in waiting.pop(0).results:
            for user in value.users:
                if user in seen:
                    continue
                seen.add(user)
                (found if linear_layer(user) is not None else waiting).append(user)
    return found


def _is_rotatable(layer: LinearLayer) -> bool:
    """Return whether ``layer`` has one group, mixes no positions, and is the only user of its constants.

    It mixes no positions if an output has one weight for each input channel, as in a 1x1 convolution.
    """
    constants = [value for value in (layer.weights, layer.bias) if value is not None]
    is_plain = layer.groups == 1 and not layer.is_depthwise
    return is_plain and layer.channels == _matrix(layer).shape[1] and all(v.use_count == 1 for v in constants)


def _matrix(layer: LinearLayer) -> Array:
    """Return the weights [outputs, inputs] of a layer with one group, as float64."""
    matrix: Array = layer.matrices(layer.weights.array())[0].astype(np.float64)
    return matrix


def _in_blocks(rows: Array, matrix: Array) -> Array:
    """Return ``rows`` [n, channels] with each block of channels multiplied by ``matrix`` [block, block]."""
    return np.asarray((rows.reshape(len(rows), -1, len(matrix)) @ matrix).reshape(rows.shape))


def _change(
    model: Model,
    rotation: Rotation,
    sample: Sequence[Array],
    expected: Sequence[Array],
    only_first: bool = False,
) -> float:
    """Return the largest change that ``rotation`` causes in an output of ``model``.

    The change of an output is divided by the largest magnitude in that output before the rotation.
    ``expected``: the outputs of ``model`` for ``sample``.  ``only_first``: see ``rotate``.
    Return infinity if a change is not finite, or if an output that is not float changes.
    """
    rotated = clone(model)
    rotate(rotated, [rotation], only_first)
    largest = 0.0
    for before, after in zip(expected, Interpreter(rotated).run(sample), strict=True):
        if before.dtype.kind != "f":
            largest = max(largest, 0.0 if np.array_equal(before, after) else np.inf)
            continue
        scale = float(np.abs(before).max(initial=0)) or 1.0
        change = float(np.abs(after.astype(np.float64) - before).max(initial=0)) / scale
        largest = max(largest, change if np.isfinite(change) else np.inf)
    return largest
