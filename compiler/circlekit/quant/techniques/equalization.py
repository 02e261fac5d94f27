# SPDX-License-Identifier: Apache-2.0
"""Channel equalization: scale the channels of activations so that all of them have similar ranges.

A quantized activation has one scale, so a channel with a small range uses few of the integers.  Equalization
divides such a channel by a factor of at most 1: it divides the weights and the bias of the layer that
produces the channel.  The weights of the layers that read the channel are multiplied by the factor.  The
operators between these layers pass channels on (see ``channel_flow``).  The outputs of the model stay the
same, except where a scaled channel exceeds the bound of a RELU6: the factors are chosen as if there were no
such bound, and the operator stays a RELU6.

Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV 2019,
section 4.1.  There the factors follow from the ranges of weights; here from those of activations, because
weights have a scale for each channel anyway.  Two ideas are from Xiao et al., "SmoothQuant", ICML 2023: the
exponent of the factors (``strength``), and that the constant of a MUL (such as the scale of a layer
normalization) is divided by the factors, like the weights of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from circlekit.ir.core import Graph, Op, Value
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.quant.calibration import Calibration
from circlekit.quant.techniques.channel_flow import channel_flows
from circlekit.quant.techniques.linear_layer import LinearLayer, last_dimension, linear_layer
from circlekit.quant.weights import is_computed_float, is_weight, present_operand

SMALLEST_FACTOR = 2.0**-6
"""The smallest factor of a channel; smaller factors would only make rounding errors of weights larger."""

NO_CLASS = 0
"""The node (see ``_Classes``) that is the root of all channels that must not be scaled: their factor is 1."""


@dataclass
class _Product:
    """A MUL by a constant that has one number for each channel.

    The constant is changed with the factors, so the operand and the result may have different factors.
    """

    op: Op
    operand: Value
    constant: Value


class _Classes:
    """Classes of channels that must have the same factor, as disjoint sets (union-find).

    A node is a number; each channel of each value has one.
    ``parent``: the parent of each node; a root is its own parent.
    ``first``: for each value the node of its channel 0.
    """

    def __init__(self) -> None:
        self.parent = [NO_CLASS]
        self.first: dict[Value, int] = {}

    def nodes(self, value: Value) -> Array:
        """Return the nodes of the channels of ``value``; make them at the first call."""
        size = last_dimension(value)
        if value not in self.first:
            self.first[value] = len(self.parent)
            self.parent += range(len(self.parent), len(self.parent) + size)
        return np.arange(self.first[value], self.first[value] + size)

    def root(self, node: int) -> int:
        """Return the class of ``node``: the root of its set."""
        while self.parent[node] != node:
            self.parent[node] = self.parent[self.parent[node]]  # makes later searches shorter
            node = self.parent[node]
        return node

    def join(self, left: Array, right: Array) -> None:
        """Join the class of ``left[i]`` with the class of ``right[i]``, for each i; both hold nodes."""
        for a, b in zip(left.tolist(), right.tolist(), strict=True):
            low, high = sorted((self.root(a), self.root(b)))
            self.parent[high] = low  # so NO_CLASS, the lowest, is the root of every class joined with it

    def fix(self, value: Value) -> None:
        """Give all channels of ``value`` the factor 1."""
        nodes = self.nodes(value)
        self.join(nodes, np.full_like(nodes, NO_CLASS))

    def of(self, value: Value) -> Array:
        """Return the class of each channel of ``value``."""
        return np.array([self.root(n) for n in self.nodes(value).tolist()])


def equalize(model: Model, magnitudes: Mapping[str, Array], strength: float = 1.0) -> list[str]:
    """Equalize the channels of the main graph's tensors in place.

    Return a sentence for each changed layer, with the number of scaled channels of its result (0 if only its
    input is scaled), and for each changed MUL by a constant.
    ``magnitudes``: by name of the tensor, the largest observed magnitude of each channel (last axis).
    ``strength``: the exponent of the factors, from 0 (no change) to 1 (equal ranges).
    """
    graph = model.main
    classes, layers, products, constants = _classes_of(graph)
    factors = _factors(classes, magnitudes, strength)
    if not np.any(factors != 1):
        return []
    changed = []

    def factors_of(value: Value) -> Array:
        """Return the factor of each channel of ``value``."""
        return np.asarray(factors[classes.of(value)])

    for layer in layers:
        before, after = factors_of(layer.input), factors_of(layer.op.output)
        if np.any(before != 1) or np.any(after != 1):
            rescale(layer, before, after)
            changed.append(
                f"%{layer.op.output.name}: {int(np.sum(after != 1))} of {after.size} channels scaled"
            )
    for product in products:  # the operand is divided already; the result shall be divided by its own factors
        factor = factors_of(product.operand) / factors_of(product.op.output)
        replace_constant(product.op, product.constant, product.constant.array() * factor)
        if np.any(factor != 1):
            count = f"{int(np.sum(factor != 1))} of {factor.size}"
            changed.append(f"%{product.op.output.name}: {count} numbers of its constant scaled")
    for op, addend in constants:
        replace_constant(op, addend, addend.array() / factors_of(addend))
    return changed


def _classes_of(graph: Graph) -> tuple[_Classes, list[LinearLayer], list[_Product], list[tuple[Op, Value]]]:
    """Return (classes of all channels, layers, MULs by constants, other constants).

    The other constants, given as (operator, constant), are to be divided by the factors of their channels.
    """
    classes = _Classes()
    layers: list[LinearLayer] = []
    products: list[_Product] = []
    constants: list[tuple[Op, Value]] = []
    for value in (*graph.inputs, *graph.outputs):
        classes.fix(value)
    for op in graph:
        layer = linear_layer(op)
        if layer is not None and _is_free(layer):  # its input and its result may have different factors
            layers.append(layer)
            if op.attribute_items()["act"] not in (Activation.NONE, Activation.RELU, Activation.RELU6):
                classes.fix(op.output)
            classes.nodes(op.output)  # makes the nodes, so that ``_factors`` sees the value
            classes.nodes(layer.input)
            continue
        product = _product(op) if layer is None else None
        if product is not None:
            products.append(product)
            classes.nodes(op.output)
            classes.nodes(product.operand)
        elif layer is not None or not _join_channels(op, classes, constants):
            # a layer that is not free, or an operator that does not pass channels on
            for touched in (*op.inputs, *op.results):
                if is_computed_float(touched):
                    classes.fix(touched)
    return classes, layers, products, constants


def _join_channels(op: Op, classes: _Classes, constants: list[tuple[Op, Value]]) -> bool:
    """Join the class of each result channel with the classes of the operand channels from which it comes.

    If an operand with such channels is a constant, as in x + constant, add (op, constant) to ``constants``.
    Return False if ``op`` does not pass channels on; the caller must then give its values the factor 1.
    """
    flows = channel_flows(op)
    if flows is None or getattr(op, "act", Activation.NONE) not in (
        Activation.NONE, Activation.RELU, Activation.RELU6,
    ):  # fmt: skip
        return False
    if flows[0].is_alone:
        # As in a MUL, scaling one operand scales the result; the other operands keep the factor 1.  The
        # scaled one is the first that has the shape of the result and is not a constant.
        flows = [
            f
            for f in flows
            if (v := op.inputs[f.operand]) and v.shape == op.results[f.result].shape and not v.is_const
        ]
        operands = {f.operand for f in flows}
        if not operands:
            return False
        scaled = min(operands)
        for index, value in enumerate(op.inputs):
            if index != scaled and is_computed_float(value):
                classes.fix(value)
        if op.inputs.count(op.inputs[scaled]) > 1:
            return False  # as in x * x, which would be scaled twice
        flows = [f for f in flows if f.operand == scaled]
    for flow in flows:
        value = present_operand(op, flow.operand)
        if value.is_const:
            if value.use_count != 1 or not value.is_plain:
                return False
            if (op, value) not in constants:
                constants.append((op, value))
        used = flow.channels >= 0
        classes.join(classes.nodes(value)[flow.channels[used]], classes.nodes(op.results[flow.result])[used])
    return True


def _product(op: Op) -> _Product | None:
    """Return ``op`` as a product if it multiplies by a constant with a number for each channel, else None."""
    if len(op.inputs) != 2 or len(op.results) != 1 or getattr(op, "act", None) is not Activation.NONE:
        return None
    for operand, constant in ((0, 1), (1, 0)):
        data, other = op.inputs[operand], op.inputs[constant]
        if (
            is_computed_float(data)
            and is_weight(other)
            and last_dimension(other) == other.numel == last_dimension(op.output)
            and other.use_count == 1
            and data.shape == op.output.shape
        ):
            flows = channel_flows(op) or []
            # scaling either operand alone scales the result: so ``op`` multiplies
            if {f.operand for f in flows if f.is_alone} == {operand, constant}:
                return _Product(op, data, other)
    return None


def _is_free(layer: LinearLayer) -> bool:
    """Return whether the weights can be scaled by channel, and no other operator reads weights or bias."""
    bias = layer.bias
    return layer.is_scalable and layer.weights.use_count == 1 and (bias is None or bias.use_count == 1)


def _factors(classes: _Classes, magnitudes: Mapping[str, Array], strength: float) -> Array:
    """Return the factor of each class, indexed by the node of its root.

    For each channel of a class, divide the largest magnitude of the channel by that of its tensor.  The
    factor is the largest quotient, clipped to SMALLEST_FACTOR or more, to the power ``strength``, rounded to
    a power of 2^(1/8).  It is 1 if the magnitudes are unknown, 0 or not finite.
    """
    share = np.zeros(len(classes.parent))
    for value in classes.first:
        channels = magnitudes.get(value.name)
        if channels is None or channels.size != last_dimension(value):
            continue
        largest = float(channels.max(initial=0))
        if largest > 0 and np.isfinite(largest):
            np.maximum.at(share, classes.of(value), channels / largest)
    share[share == 0] = 1.0
    factors = np.clip(share, SMALLEST_FACTOR, 1.0) ** strength
    factors = np.exp2(np.round(np.log2(factors) * 8) / 8)  # rounded, to be the same on every machine
    factors[NO_CLASS] = 1.0
    return factors


def rescale(layer: LinearLayer, before: Array, after: Array) -> None:
    """Change the constants of ``layer`` for a scaled input and a scaled result.

    ``before``: for each channel of the input, the factor by which the input was divided; multiply the weights
    by it.  ``after``: for each channel of the result, the factor by which the result shall be divided; divide
    weights and bias by it.
    """
    matrices = layer.matrices(layer.weights.array())
    groups, outputs, depth = matrices.shape
    if layer.is_depthwise:
        inner = before.reshape(groups, 1, 1)
    else:  # the depth is the filter's rows, columns and, last, channels of a group
        per_group = before.reshape(groups, 1, -1)
        inner = np.tile(per_group, depth // per_group.shape[2])
    scaled = matrices * inner / after.reshape(groups, outputs, 1)
    replace_constant(layer.op, layer.weights, layer.from_matrices(scaled))
    if layer.bias is not None:
        replace_constant(layer.op, layer.bias, layer.bias.array() / after.reshape(layer.bias.static_shape))


def replace_constant(op: Op, constant: Value, numbers: Array) -> None:
    """Let ``op`` read ``numbers`` in place of ``constant``; other users of ``constant`` keep the old numbers.

    ``numbers``: as many as in ``constant``; they are converted to float32 and to the shape of ``constant``.
    """
    new = Value.constant(constant.name, np.asarray(numbers, np.float32).reshape(constant.static_shape))
    op.set_input(op.inputs.index(constant), new)


def channel_magnitudes(calibration: Calibration) -> dict[str, Array]:
    """Return the largest magnitude of each channel, by name of the main graph's tensors.

    Tensors without statistics per channel in ``calibration`` are missing.
    """
    return {
        name: np.maximum(-tensor.channels.minima, tensor.channels.maxima).astype(np.float64)
        for name, tensor in calibration.main.items()
        if tensor.channels is not None
    }
