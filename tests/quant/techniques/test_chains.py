# SPDX-License-Identifier: Apache-2.0
"""Techniques that scale channels between layers keep the outputs of random chains of operators."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np

import circlekit
from circlekit.api.one_tools import equalize_feature_maps
from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.clone import clone
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.ir.verifier import check
from circlekit.quant.calibration import collect
from circlekit.quant.techniques.channel_flow import channel_flows
from circlekit.quant.techniques.equalization import channel_magnitudes, equalize
from circlekit.quant.techniques.linear_layer import linear_layer

LAYERS = {
    "Conv2D(%x, %{n}w, %{n}b) {{act: {act}}}": "6,2,2,6",
    "Conv2D(%x, %{n}w, %{n}b) {{act: {act}, padding: SAME, stride_h: 2}}": "6,3,1,3",
    "DepthwiseConv2D(%x, %{n}w, %{n}b) {{act: {act}, depth_multiplier: 1}}": "1,2,3,6",
    "TransposeConv([1,4,4,6], %{n}w, %x, %{n}b) {{padding: SAME}}": "6,2,2,6",
    "FullyConnected(%x, %{n}w, %{n}b) {{act: {act}, keep_num_dims: true}}": "6,6",
}
"""Layers on %x [1, H, W, 6], with the shapes of their weights."""

MIDDLE = [
    "Relu(%x)",
    "Relu6(%x)",
    "LeakyRelu(%x) {{alpha: 0.25}}",
    "PRelu(%x, %{n}b)",
    "Mul(%x, %{n}b)",
    "Mul(%{n}b, %x) {{act: RELU}}",
    "Add(%x, %{n}b)",
    "Add(%x, %x) {{act: RELU}}",
    "Sub(%x, %{n}b)",
    "Add(%x, %first)",
    "Mul(%x, %first)",
    "Maximum(%x, %first)",
    "Pad(%x, [[0,0],[1,0],[0,1],[0,0]])",
    "MaxPool2D(%x) {{filter_height: 2, filter_width: 2}}",
    "AveragePool2D(%x) {{filter_height: 2, filter_width: 1, padding: SAME}}",
    "Transpose(%x, [0,2,1,3])",
    "ReverseV2(%x, [3])",
    "Gather(%x, [5,4,3,2,1,0]) {{axis: 3}}",
    "Slice(%x, [0,0,0,0], [-1,-1,-1,-1])",
    "ResizeNearestNeighbor(%x, [4, 4])",
    "Neg(%x)",
    "Tanh(%x)",
    "Mean(%x, [1]) {{keep_dims: true}}",
]


NAMES = "abcde"

CHAINS = 16
"""The number of random chains in a test."""


def chain(seed: int) -> Model:
    """Return a layer, up to three other operators, and a layer, all drawn at random."""
    rng = random.Random(seed)
    while True:
        with suppress(CirclekitError):  # the shapes of two operands do not fit: draw again
            return _drawn(rng)


def _drawn(rng: random.Random) -> Model:
    lines: list[str] = []
    x, first, layers = "%x0", "%x0", list(LAYERS)
    bodies = [rng.choice(layers), *rng.choices(MIDDLE, k=rng.randint(0, 3)), rng.choice(layers)]
    for n, body in enumerate(bodies):
        if body in LAYERS:
            lines.append(f"%{NAMES[n]}w = const f32[{LAYERS[body]}] gaussian(0, 0.5)")
        lines.append(f"%{NAMES[n]}b = const f32[6] gaussian(0.3, 0.5)")
        line = body.format(n=NAMES[n], act=rng.choice(["NONE", "RELU"]))
        line = line.replace("%x,", f"{x},").replace("%x)", f"{x})").replace("%first", first)
        lines.append(f"%r{n} = {line}")
        x, first = f"%r{n}", first if n else "%r0"
    return circlekit.parse(f"graph main(%x0: f32[1,4,4,6]) -> {x} {{\n" + "\n".join(lines) + "\n}")


def samples(seed: int) -> list[list[Array]]:
    rng = np.random.default_rng(seed)
    return [[rng.normal(0, 1, (1, 4, 4, 6)).astype(np.float32)] for _ in range(2)]


def expect_equal(model: Model, before: Model, given: list[list[Array]]) -> None:
    check(model)
    for sample in given:
        (expected,), (found,) = circlekit.run(before, sample), circlekit.run(model, sample)
        np.testing.assert_allclose(found, expected, atol=1e-5 * float(np.abs(expected).max()))


def test_scaled_channels_keep_the_outputs() -> None:
    """Most chains have channels that can be scaled; more than a quarter have patterns of fm-equalize."""
    scaled, patterns = 0, 0
    for seed in range(CHAINS):
        before, given = chain(seed), samples(seed)
        model = clone(before)
        scaled += bool(equalize(model, channel_magnitudes(collect(model, given, channels=True))))
        expect_equal(model, before, given)
        model = clone(before)
        patterns += bool(equalize_feature_maps(model, given, allow_copies=True))
        expect_equal(model, before, given)
    assert scaled > CHAINS / 2
    assert patterns > CHAINS / 4


def _numbers(value: Value | None, rng: np.random.Generator) -> Array | None:
    if value is None or value.is_const:
        return None if value is None else value.array()
    return rng.normal(0, 1, value.static_shape).astype(np.float32)


def test_scaled_operands_of_flows_give_scaled_results() -> None:
    """Scale the operands of all flows, as ADD needs it; or of one flow that ``is_alone``, as in MUL."""
    measured = 0
    for seed in range(CHAINS):
        for op in chain(seed).main:
            rng = np.random.default_rng(seed)
            arrays = [_numbers(value, rng) for value in op.inputs]
            flows = channel_flows(op) or []
            for chosen in [[f] for f in flows if f.is_alone] or ([flows] if flows else []):
                factors = rng.uniform(0.5, 2, 6)
                scaled, wanted = list(arrays), np.ones(6)
                for flow in chosen:
                    operand = arrays[flow.operand]
                    assert operand is not None
                    scaled[flow.operand] = (operand * factors).astype(np.float32)
                    used = flow.channels >= 0
                    wanted[used] = factors[flow.channels[used]]
                before, after = evaluate(op, arrays)[0], evaluate(op, scaled)[0]
                np.testing.assert_allclose(after, before * wanted, rtol=1e-3, atol=1e-4)
                measured += 1
    assert measured > CHAINS / 2


def test_rows_times_matrices_are_the_results_of_layers() -> None:
    """``rows`` [groups, n, depth] times transposed ``matrices`` [groups, outputs, depth] are the results.

    ``mean_row`` equals the mean of the rows, and ``from_matrices`` undoes ``matrices``.
    """
    for seed in range(CHAINS):
        model = chain(seed)
        layer = linear_layer(model.main.ops[0])
        assert layer is not None
        layer.op.attribute_values = layer.op.attribute_values | {"act": Activation.NONE}
        (data,), output = samples(seed)[0], layer.op.output.static_shape
        rows, weights = layer.rows(data, output), layer.weights.array()
        matrices = layer.matrices(weights)
        products = (rows @ matrices.swapaxes(1, 2)).transpose(1, 0, 2).reshape(output)
        bias = layer.bias.array() if layer.bias is not None else 0
        rng = np.random.default_rng(0)
        operands = [data if v is layer.input else _numbers(v, rng) for v in layer.op.inputs]
        np.testing.assert_allclose(products + bias, evaluate(layer.op, operands)[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(layer.mean_row(data, output), rows.mean(axis=1), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(layer.from_matrices(matrices), weights)


def test_channels_do_not_flow_if_their_number_is_unknown_or_there_is_no_element() -> None:
    for shape, line in (("2,?", "Reshape(%x, [2,-1])"), ("0,4", "Relu(%x)"), ("2,0", "Relu(%x)")):
        model = circlekit.parse(f"graph main(%x: f32[{shape}]) -> %y {{\n  %y = {line}\n}}")
        assert channel_flows(model.main.ops[0]) is None
        assert equalize(model, {"x": np.ones(4), "y": np.ones(4)}) == []
