# SPDX-License-Identifier: Apache-2.0
"""Equalize the feature map between two layers, with the patterns of ONE's fm-equalize.

A pattern is a pair of layers.  The result of the first (front) reaches the second (back) through operators
that pass channels on: if a channel of the operand is scaled, the same channel of the result is scaled alike.
The front may also be another operator whose constants scale channels.  The weights and the bias of the front,
or these constants, are divided by one scale for each channel; the weights of the back are multiplied by the
same scales.  Then the channels of the feature map between front and back have similar magnitudes.
The scale of a channel is sqrt(largest activation) / sqrt(largest weight of the back for this channel).
Source: Xiao et al., "SmoothQuant", ICML 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from circlekit.errors import CirclekitError, ModelError, ShapeError, did_you_mean
from circlekit.interp.evaluate import evaluate
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.clone import copy_op
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.quant.techniques.channel_flow import channel_flows, magnitudes
from circlekit.quant.techniques.equalization import replace_constant, rescale
from circlekit.quant.techniques.linear_layer import LinearLayer, last_dimension, linear_layer
from circlekit.quant.weights import is_weight

SCALE_ONLY = "ScaleOnly"
"""The only ``type`` of patterns that ONE's tools apply."""

ALPHA = 0.5
"""The exponent in scales: (largest activation)^ALPHA / (largest weight)^(1 - ALPHA)."""

SMALLEST_SCALE = 1e-5
"""The smallest scale of a channel."""

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

PROBE_FACTORS = (2.0, 8.0)
"""Constants are multiplied by factors from 2 to 8, one for each channel, to see if they scale the result."""


@dataclass
class Pattern:
    """A front and a back, with a feature map between them.

    ``front``, ``back``: the names of their results.  ``act_scale``: the largest magnitude of each
    channel of the front's result; None before it is measured.
    """

    front: str
    back: str
    act_scale: list[float] | None = None

    def document(self) -> dict[str, object]:
        """Return the JSON object of the pattern in ONE's files."""
        scale = {} if self.act_scale is None else {"act_scale": self.act_scale}
        return {"front": self.front, "back": self.back, "type": SCALE_ONLY, **scale}


def find_patterns(model: Model, allow_copies: bool = False) -> list[Pattern]:
    """Return the patterns of the main graph, without ``act_scale``.

    ``allow_copies``: also return patterns whose front is an output or has several users; ``apply_patterns``
    copies such a front.
    """
    found = []
    for op in model.main:
        if _front_constants(op) is None:
            continue
        is_shared = model.main.is_output(op.output) or len(op.output.users) > 1
        if is_shared and not allow_copies:
            continue
        found += [Pattern(op.output.name, path[-1].output.name) for path in _paths(model.main, op)]
    return found


def _front_constants(op: Op) -> list[Value] | None:
    """Return the constants of ``op`` that scale the channels of its result; None if it cannot be a front."""
    if not _commutes_with_factors(op) or not op.results:
        return None
    layer = linear_layer(op)
    if layer is not None:
        return [layer.weights]
    return _scaling_constants(op)


def _commutes_with_factors(op: Op) -> bool:
    """Return whether ``op`` has a fused RELU or no fused activation; both commute with positive factors."""
    return getattr(op, "act", Activation.NONE) in (Activation.NONE, Activation.RELU)


def _scaling_constants(op: Op) -> list[Value] | None:
    """Return the constants of ``op`` if they scale the channels of its result, else None.

    All float32 constants must have one number for each channel.  ``op`` is run twice on random operands of
    each of several ``magnitudes``: if each channel of the constants is multiplied by a factor of its own, so
    must be the same channel of the result.
    """
    shape = op.output.shape
    constants = list(filter(is_weight, op.inputs))
    if not shape or not constants or any(v.shape != shape[-1:] for v in constants) or not op.pure:
        return None
    is_scaled = all(
        _scales_with(op, constants, magnitude * sign) for magnitude in magnitudes(op) for sign in (1, -1)
    )
    return constants if is_scaled else None


def _scales_with(op: Op, constants: Sequence[Value], magnitude: float) -> bool:
    """Return whether a factor for each channel of ``constants`` scales the channels of the result alike.

    Return False if a computed operand is not float32 with a known shape.  Computed operands get random
    numbers with the standard deviation |``magnitude``|.  A negative ``magnitude`` gives the same numbers with
    the opposite signs.
    """
    rng = np.random.default_rng(0)
    arrays: list[Array | None] = []
    for value in op.inputs:
        if value is None:
            arrays.append(None)
        elif value.is_const:
            arrays.append(value.data)
        elif value.is_static and value.dtype is f32:
            arrays.append((magnitude * rng.normal(size=value.static_shape)).astype(np.float32))
        else:
            return False
    factors = np.linspace(*PROBE_FACTORS, last_dimension(op.output), dtype=np.float32)
    scaled = [
        a * factors if a is not None and v in constants else a for v, a in zip(op.inputs, arrays, strict=True)
    ]
    try:
        before, after = evaluate(op, arrays)[0], evaluate(op, scaled)[0]
    except CirclekitError:
        return False
    # where large terms cancel, the rounding error is that of the largest elements
    error = 1e-6 * float(np.abs(after).max(initial=0))
    return np.allclose(after, before * factors, rtol=1e-3, atol=error)


def _path(graph: Graph, front: Op, user: Op) -> list[Op]:
    """Return the path from ``user``, which reads the result of ``front``, to a back, both included.

    Each operator before the back passes channels on, and the next operator of the path is its only user.
    Return [] if no back is reached in this way.
    """
    path, value = [user], front.output
    while True:
        layer = linear_layer(path[-1])
        if layer is not None:
            return path if layer.is_scalable else []
        op = path[-1]
        if not _passes_on(op, value) or len(op.output.users) != 1 or graph.is_output(op.output):
            return []
        value = op.output
        path.append(value.users[0])


def _passes_on(op: Op, value: Value) -> bool:
    """Return whether channel i of ``op``'s result comes from channel i of ``value``, for all i.

    ``value`` must be the only operand that is not a constant, and scaling it alone must scale the result.
    """
    others = [v for v in op.inputs if v is not None and v is not value and not v.is_const]
    if others or op.inputs.count(value) != 1 or len(op.results) != 1 or not _commutes_with_factors(op):
        return False
    # an ADD of a constant has two flows, because its constant would also need the factors: return False
    flows = [f for f in channel_flows(op) or [] if op.inputs[f.operand] is value or not f.is_alone]
    return len(flows) == 1 and np.array_equal(flows[0].channels, np.arange(last_dimension(value)))


def measure(model: Model, patterns: Sequence[Pattern], samples: Iterable[Sequence[Array]]) -> None:
    """Run ``model`` on ``samples`` and set ``act_scale`` of each pattern.

    The magnitudes are rounded to 6 decimals.  ``act_scale`` stays as it is if the main graph computes no
    float tensor with the name of the front that has channels and elements.
    ``samples``: arrays in the order of the graph's inputs.  Raise ModelError if there are patterns but no
    samples, and the errors of ``Interpreter.run``.
    """
    largest: dict[str, Array] = {}
    wanted = {pattern.front for pattern in patterns}

    def keep(op: Op, results: Sequence[Array]) -> None:
        """Update the largest magnitudes if ``op`` is a front; called graphs may use the same names."""
        if op.graph is not model.main or not results or (name := op.output.name) not in wanted:
            return
        array = results[0]
        if array.dtype.kind == "f" and array.ndim and array.size:
            rows = np.abs(array.reshape(-1, array.shape[-1])).max(axis=0)
            largest[name] = np.maximum(largest[name], rows) if name in largest else rows

    interpreter, has_samples = Interpreter(model), False
    for sample in samples:
        has_samples = True
        interpreter.reset()
        interpreter.run(list(sample), observe=keep)
    if patterns and not has_samples:
        raise ModelError("expected at least one sample on which magnitudes are measured, got none")
    for pattern in patterns:
        if pattern.front in largest:
            pattern.act_scale = [round(float(x), 6) for x in largest[pattern.front]]


def apply_patterns(model: Model, patterns: Sequence[Pattern]) -> None:
    """Equalize the layers of each pattern in place; the outputs of ``model`` stay equal up to rounding.

    A front whose result has several users, or is an output of the graph, is copied for its back.
    Raise ModelError for an unknown name, for a pattern without ``act_scale``, or if channels do not pass from
    front to back; ShapeError if ``act_scale`` has a wrong number of channels.  After an
    error, the patterns before the wrong one are applied.
    """
    by_name = {op.output.name: op for op in model.main if op.results}
    for pattern in patterns:
        for name in (pattern.front, pattern.back):
            if name not in by_name:
                hint = did_you_mean(name, by_name, 3)
                raise ModelError(f"Invalid names in front or back of the given patterns: {name!r}{hint}")
        if pattern.act_scale is None:
            raise ModelError(f"act_scale is missing in the pattern of {pattern.front} and {pattern.back}")
        magnitudes = np.array(pattern.act_scale, np.float64)
        _apply(model.main, by_name[pattern.front], by_name[pattern.back], magnitudes)


def _apply(graph: Graph, front: Op, back: Op, magnitudes: Array) -> None:
    """Equalize one pair of layers; copy the front first if others read its result.

    ``magnitudes``: ``Pattern.act_scale`` as an array.  Errors: see ``apply_patterns``.
    """
    path = next((p for p in _paths(graph, front) if p[-1] is back), None)
    layer, constants = linear_layer(back), _front_constants(front)
    if path is None or layer is None or constants is None:
        raise ModelError(f"Cannot find front node: no channels flow from {front!r} to {back!r}")
    size = front.output.known_shape[-1]
    if magnitudes.shape != (size,):
        counts = f"{magnitudes.size} != {size}"
        raise ShapeError(f"Mismatch between 'act_scale' size and 'filter' input channel size {counts}")
    if len(front.output.users) > 1 or graph.is_output(front.output):
        copy = copy_op(front)
        graph.insert_after(front, copy)
        for index in [i for i, v in enumerate(path[0].inputs) if v is front.output]:
            path[0].set_input(index, copy.output)
        front = copy
    scales = _scales(layer, magnitudes)
    ones = np.ones(last_dimension(back.output))
    source = linear_layer(front)
    if source is not None:
        rescale(source, np.ones(source.channels), scales)
    else:
        for constant in _front_constants(front) or []:  # ``front`` may be the copy by now
            replace_constant(front, constant, constant.array() / scales)
    rescale(layer, scales, ones)


def _paths(graph: Graph, front: Op) -> Iterator[list[Op]]:
    """Return an iterator over the paths (see ``_path``) from the users of ``front`` to a back."""
    return (path for user in front.output.users if (path := _path(graph, front, user)))


def _scales(layer: LinearLayer, magnitudes: Array) -> Array:
    """Return the scale of each input channel of the back ``layer``, at least SMALLEST_SCALE.

    The scale of a channel is 1 if all its activations, or all its weights, are 0, or if the formula gives no
    finite number.
    ``magnitudes``: the largest activation of each channel.
    """
    largest = np.abs(layer.matrices(layer.weights.array())).max(axis=1)  # [groups, depth]
    groups, depth = largest.shape
    channels = magnitudes.size // groups  # of a group; depth = filter rows * filter columns * channels
    weights = largest.reshape(groups, depth // channels, channels).max(axis=1).reshape(-1)
    with np.errstate(all="ignore"):
        scales = np.maximum(magnitudes**ALPHA / weights ** (1 - ALPHA), SMALLEST_SCALE)
    return np.where((magnitudes > 0) & np.isfinite(scales), scales, 1.0)


def patterns_of(document: object) -> list[Pattern]:
    """Return the patterns in a JSON document of fm-equalize; raise ModelError for any other document.

    The document is a list of objects like
    ``{"front": "a", "back": "b", "type": "ScaleOnly", "act_scale": [1.5]}``; ``act_scale`` may be missing.
    """
    if not isinstance(document, list):
        raise ModelError("expected a JSON list of patterns")
    found = []
    for item in document:
        if not isinstance(item, Mapping):
            raise ModelError("expected a JSON object for each pattern")
        for key in ("front", "back", "type"):
            if not isinstance(item.get(key), str):
                raise ModelError(f"{key} is missing in a pattern")
        if item["type"] != SCALE_ONLY:
            raise ModelError(f"Unsupported EqualizePattern type: {item['type']}")
        scale = item.get("act_scale")
        if scale is not None and not (
            isinstance(scale, list)
            and all(type(x) in (int, float) for x in scale)
            and all(abs(x) <= LARGEST_FLOAT32 or abs(x) == math.inf for x in scale)  # False for NaN
        ):
            raise ModelError("act_scale's element is not fp32")
        found.append(Pattern(item["front"], item["back"], scale))
    return found
