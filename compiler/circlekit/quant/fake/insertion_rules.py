# SPDX-License-Identifier: Apache-2.0
"""The places where TensorFlow's contrib.quantize inserts FAKE_QUANT operators, as pictures.

A layer is a convolution or a fully connected operator with constant weights.  Batch norms must have been
folded into the weights before.
A bypass is an ADD of another computed tensor to the result of a layer or of its activation.

In the pictures, ``$act`` stands for the allowed fused activations.  Attributes that a picture does not
mention may have any value.  The values have these names:

- ``x``: the data; ``w``: the weights; ``b`` or ``c``: the bias; ``s``: the output shape
- ``l``: the result of a layer before the bias; ``y``: the result with bias and activation
- ``o``: the other operand of an ADD or MUL; ``p``: the operand of an activation operator
- ``z``: the result of the ADD or MUL, or of the activation operator after it

Source: ``tensorflow/contrib/quantize/python/quantize.py`` of TensorFlow 1.15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.activation import Relu, Relu6, ReluN1To1
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.arithmetic.cast import Dequantize, FakeQuant
from circlekit.ops.quantized_values import followed_operand
from circlekit.rewrite.match import Match, Matcher
from circlekit.rewrite.picture import Picture, query

LAYERS = (
    "y = Conv2D|DepthwiseConv2D|FullyConnected(x: f32, w: const f32, b?: const) {act: $act}",
    "y = TransposeConv(s, w: const f32, x: f32, b?: const) {act: $act}",
    "l = Conv2D|DepthwiseConv2D|FullyConnected(x: f32, w: const f32) {act: NONE}"
    "  y = Add(l, c: const f32) {act: $act}",
    "l = TransposeConv(s, w: const f32, x: f32) {act: NONE}  y = Add(l, c: const f32) {act: $act}",
)
"""Layers; in the last two, an ADD adds the bias."""

ACTIVATION = "RELU|RELU6|RELU_N1_TO_1"
"""The fused activations that contrib.quantize knows."""

PLAIN = tuple(layer.replace("$act", "NONE") for layer in LAYERS)
"""Layers without a fused activation."""

ACTIVATED = (
    *(layer.replace("$act", ACTIVATION) for layer in LAYERS),
    *(f"{layer.replace('y = ', 'p = ')}  y = Relu|Relu6|ReluN1To1(p)" for layer in PLAIN),
)
"""Layers with an activation, fused or as an operator; ``y`` is the result of the activation."""

BYPASS = "  z = Add(y, o: f32) {act: $act}"
"""The ADD of a bypass: ``y`` is the result of the layer, ``o`` the other operand, ``z`` the result."""


@dataclass(frozen=True)
class InsertionRule:
    """One kind of place for FAKE_QUANT.

    ``name``: the last part of the names of the inserted values.  ``pictures``: texts of alternative pictures.
    ``at``: the name, in the picture, of the value to round.  ``is_weight``: whether that value is the weights
    of a layer.  ``unless``: a function that returns whether to ignore a match.
    """

    name: str
    pictures: tuple[str, ...]
    at: str
    is_weight: bool = False
    unless: Callable[[Match], bool] = lambda match: False

    @cached_property
    def _parsed(self) -> list[Picture]:
        """The parsed ``pictures``."""
        return [query(text, self.name) for text in self.pictures]

    def places(self, graph: Graph) -> Iterator[tuple[Value, Op]]:
        """Yield (value to round, first operator of the match) for each match in ``graph``."""
        for picture in self._parsed:
            matcher, first = Matcher(picture, quantized=False), picture.nodes[0].results[0]
            for op in list(graph):
                for match in matcher.matches(op):
                    if not self.unless(match):
                        yield match.value(self.at), match.ops[first]


def _is_bias(match: Match) -> bool:
    """Return whether the ADD of the bypass adds a constant: then it is not a bypass but a bias."""
    return match.value("o").is_const


def _is_bias_or_activated(match: Match) -> bool:
    """Return whether the ADD adds a bias, or an activation operator reads the result of the ADD."""
    return _is_bias(match) or any(isinstance(op, Relu | Relu6 | ReluN1To1) for op in match.value("z").users)


def _layer_continues(match: Match) -> bool:
    """Return whether an activation or an ADD reads the layer; then other rules decide what is rounded."""
    return any(isinstance(op, Relu | Relu6 | ReluN1To1 | Add) for op in match.value("y").users)


def _needs_no_rounding(match: Match) -> bool:
    """Return whether the ADD or MUL has no rounded operand, or its only user is an activation."""
    users = match.value("z").users
    if len(users) == 1 and isinstance(users[0], Relu | Relu6 | ReluN1To1):
        return True
    return not any(map(is_rounded, filter(None, match.ops["z"].inputs)))


def is_rounded(value: Value) -> bool:
    """Return whether ``value`` is rounded, or computed from a rounded value.

    Between ``value`` and the rounded value there may only be ADD, MUL, and operators whose result has the
    scale of their operand, such as RESHAPE.
    """
    seen, pending = {value}, [value]
    while pending:
        op = pending.pop().producer
        if op is None:
            continue
        if isinstance(op, FakeQuant | Dequantize):
            return True
        sources = op.inputs if isinstance(op, Add | Mul) else [followed_operand(op)]
        new = {source for source in sources if source is not None} - seen
        seen |= new
        pending += new
    return False


_BYPASSED = tuple(layer + BYPASS.replace("$act", "NONE") for layer in PLAIN)
"""Layers with a bypass, whose ADD has no fused activation."""
_BYPASSED_AND_ACTIVATED = (
    *(layer + BYPASS.replace("$act", ACTIVATION) for layer in PLAIN),
    *(f"{bypassed.replace('z = ', 'p = ')}  z = Relu|Relu6|ReluN1To1(p)" for bypassed in _BYPASSED),
)
"""Layers with a bypass and an activation after the ADD, fused or as an operator."""
_BYPASSED_IN_ANY_WAY = tuple(layer + BYPASS.replace("$act", "any") for layer in PLAIN)
"""Layers with a bypass, whose ADD may have any fused activation."""
_BYPASSED_AFTER_ACTIVATION = tuple(layer + BYPASS.replace("$act", "any") for layer in ACTIVATED)
"""Layers with an activation before the ADD of the bypass; the ADD may have any fused activation."""

RULES = (
    InsertionRule("act_quant", ACTIVATED, "y"),
    InsertionRule("act_quant", _BYPASSED_AND_ACTIVATED, "z", unless=_is_bias),
    InsertionRule("conv_quant", _BYPASSED_IN_ANY_WAY, "y", unless=_is_bias),
    InsertionRule("add_quant", _BYPASSED, "z", unless=_is_bias_or_activated),
    InsertionRule(
        "post_activation_bypass_quant", _BYPASSED_AFTER_ACTIVATION, "z", unless=_is_bias_or_activated
    ),
    InsertionRule("act_quant", PLAIN, "y", unless=_layer_continues),
    InsertionRule("weights_quant", (*PLAIN, *ACTIVATED[: len(LAYERS)]), "w", is_weight=True),
)
"""The rules for layers, in the order in which they are applied; all match the graph before any insertion."""

INTERMEDIATE = InsertionRule(
    "activation_quant", ("z = Add|Mul(x: f32, o: f32)",), "z", unless=_needs_no_rounding
)
"""The rule for sums and products of rounded values; it is applied after the other rules."""
