# SPDX-License-Identifier: Apache-2.0
"""Fake quantization: where FAKE_QUANT is inserted, with which ranges, and what is refused.

The expected places are those of TensorFlow 1.15, contrib/quantize/python/quantize.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.cast import FakeQuant
from circlekit.ops.convolution.conv import Conv2D
from circlekit.quant.calibration.statistics import TensorStatistics
from tests.quant.fake.networks import X, call, conv, network


def constant(model: circlekit.Model, name: str) -> Value:
    (value,) = (v for v in model.main.values() if v.name == name)
    return value


BYPASS = "%o: f32[2,4,4,3]"


@pytest.mark.parametrize(
    ("body", "inputs", "expected"),
    [
        (conv("%z", act="RELU6"), "", [("z", "act_quant"), ("w", "weights_quant")]),
        (conv("%y") + call("%z", "Relu(%y)"), "", [("z", "act_quant"), ("w", "weights_quant")]),
        (conv("%z"), "", [("z", "act_quant"), ("w", "weights_quant")]),
        (  # an ADD of another tensor: rounded before, and after its activation
            conv("%y") + call("%z", "Add(%y, %o)", "RELU"),
            BYPASS,
            [("z", "act_quant"), ("y", "conv_quant"), ("w", "weights_quant")],
        ),
        (
            conv("%y") + call("%a", "Add(%y, %o)") + call("%z", "Relu6(%a)"),
            BYPASS,
            [("z", "act_quant"), ("y", "conv_quant"), ("w", "weights_quant")],
        ),
        (
            conv("%y") + call("%z", "Add(%y, %o)"),
            BYPASS,
            [("y", "conv_quant"), ("z", "add_quant"), ("w", "weights_quant")],
        ),
        (  # the ADD of a bias is not a bypass
            conv("%y").replace(", %b", "") + call("%z", "Add(%y, %b)", "RELU"),
            "",
            [("z", "act_quant"), ("w", "weights_quant")],
        ),
        (
            conv("%y", act="RELU") + call("%z", "Add(%y, %o)"),
            BYPASS,
            [("y", "act_quant"), ("z", "post_activation_bypass_quant"), ("w", "weights_quant")],
        ),
        (  # a separate activation after this ADD: neither the ADD nor the activation is rounded
            conv("%y", act="RELU") + call("%a", "Add(%y, %o)") + call("%z", "Relu(%a)"),
            BYPASS,
            [("y", "act_quant"), ("w", "weights_quant")],
        ),
        (  # two layers: the weights and the result of each are rounded
            conv("%y") + conv("%z", "%y", "%v"),
            "",
            [("y", "act_quant"), ("z", "act_quant"), ("w", "weights_quant"), ("v", "weights_quant")],
        ),
        (  # products of rounded tensors are rounded, also after an operator that keeps the grid
            conv("%y", act="RELU")
            + "  %p = MaxPool2D(%y) {stride_w: 1, stride_h: 1, filter_width: 2, filter_height: 2}"
            + " : f32[2,4,4,3]\n"
            + call("%z", "Mul(%p, %o)"),
            BYPASS,
            [("y", "act_quant"), ("w", "weights_quant"), ("z", "activation_quant")],
        ),
        (call("%z", "Mul(%x, %o)"), BYPASS, []),
        # each ADD doubles the number of ways from %z back to %x
        (
            call("%a0", "Add(%x, %o)")
            + "".join(call(f"%a{n + 1}", f"Add(%a{n}, %a{n})") for n in range(2000))
            + call("%z", "Mul(%a2000, %o)"),
            BYPASS,
            [],
        ),
    ],
)
def test_fake_quant_is_inserted_where_tensorflow_inserts_it(
    body: str, inputs: str, expected: list[tuple[str, str]]
) -> None:
    model = network(body, ", ".join(filter(None, ["%x: f32[2,4,4,3]", inputs])))
    samples = [[X] * len(model.main.inputs)]
    done = circlekit.fake_quantize(model, samples=samples, optimize=False)
    assert [(item.value, item.rule) for item in done] == expected
    assert sum(op.code == "FAKE_QUANT" for op in model.main) == len(expected)
    assert [v.name for v in model.main.outputs] == ["z"]
    again = circlekit.fake_quantize(model, samples=samples, optimize=False)
    assert again == []


def test_a_rounding_at_the_end_of_a_long_chain_is_found() -> None:
    chain = "\n".join(f"%a{n + 1} = Reshape(%a{n}, [3])" for n in range(1500))
    model = circlekit.parse(f"""graph main(%a0: f32[3]) -> %y {{
    {chain}
    %y = FakeQuant(%a1500) {{min: -1.0, max: 1.0, num_bits: 8}}
    }}""")
    assert circlekit.fake_quantize(model, samples=[[X[0, 0, 0]]], inputs=True, optimize=False) == []


def fake_quant_ranges(model: circlekit.Model) -> dict[str, tuple[float, float]]:
    return {op.output.name: (op.min, op.max) for op in model.main if isinstance(op, FakeQuant)}


def test_shared_weights_are_rounded_once() -> None:
    model = network(conv("%y", act="RELU") + conv("%z", "%y", "%w", act="RELU"))
    done = circlekit.fake_quantize(model, samples=[[X]], optimize=False)
    assert [item.rule for item in done].count("weights_quant") == 1
    weights = [op.filter for op in model.main if isinstance(op, Conv2D)]
    assert all(isinstance(value.producer, FakeQuant) for value in weights)


def test_values_are_those_of_rounded_weights_and_activations() -> None:
    """One layer by numpy: the weights are rounded to 4 bits; the result is clipped and rounded to 8 bits."""
    model = network(conv("%z"))
    weights, bias = (constant(model, name).array() for name in ("w", "b"))
    circlekit.fake_quantize(model, samples=[[X]], weight_bits=4, activation_bits=8, optimize=False)
    step = (weights.max() - weights.min()) / 14  # a narrow range has 15 of the 16 levels
    low = -np.rint(-weights.min() / step) * step  # the range is moved so that 0 is a level
    levels = np.rint((np.clip(weights, low, low + 14 * step) - low) / step)
    y = np.einsum("nhwi,oi->nhwo", X, (levels * step + low).reshape(3, 3)) + bias
    lowest, highest = fake_quant_ranges(model)["z"]
    got = circlekit.run(model, [X])[0]
    # half a step for the rounding of the result, half a step for moving its range
    assert np.abs(got - np.clip(y, lowest, highest)).max() <= 1.01 * (highest - lowest) / 255


@pytest.mark.parametrize(("narrow", "low"), [(True, -2.0), (False, -2.0 * 256 / 254)])
def test_symmetric_ranges(narrow: bool, low: float) -> None:
    """The integers are -127 to 127 if narrow, else -128 to 127; the ends of the range have the same ratio."""
    model = network(conv("%z"))
    calibration = circlekit.calibrate(model, [[X]])
    calibration.main["z"] = TensorStatistics(-0.5, 2.0, 1, minima=[-0.5], maxima=[2.0])
    circlekit.fake_quantize(
        model, calibration=calibration, symmetric=True, narrow_range=narrow, optimize=False
    )
    ranges = fake_quant_ranges(model)
    assert ranges["z"] == pytest.approx((low, 2.0))
    assert ranges["w/weights_quant"][0] == -ranges["w/weights_quant"][1]


def moving_average(start: float, extremes: Sequence[float], decay: float) -> float:
    for extreme in extremes:
        start = start * decay + extreme * (1 - decay)
    return start


@pytest.mark.parametrize("init", [None, (-6.0, 6.0)])
def test_moving_averages_of_ranges(init: tuple[float, float] | None) -> None:
    """Without an initial range the weights of the samples are divided by their sum, as in TensorFlow."""
    samples = [[X * scale] for scale in (1.0, 3.0, 2.0)]
    outputs = [circlekit.run(network(conv("%z")), sample)[0] for sample in samples]
    model = network(conv("%z"))
    circlekit.fake_quantize(model, samples=samples, ema_decay=0.5, init_range=init, optimize=False)
    start, divisor = (init, 1.0) if init is not None else ((0.0, 0.0), 1 - 0.5**3)
    ends = [y.min() for y in outputs], [y.max() for y in outputs]
    expected = [moving_average(s, extremes, 0.5) / divisor for s, extremes in zip(start, ends, strict=True)]
    assert fake_quant_ranges(model)["z"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("decay", [None, 0.5])
@pytest.mark.parametrize("minima", [[], [-1.0, -3.0]])
def test_edited_ranges_are_taken_as_they_are(decay: float | None, minima: list[float]) -> None:
    """A calibration needs only ``min`` and ``max``."""
    model = network(conv("%z"))
    edited = TensorStatistics(min=-2.0, max=100.0, minima=minima, maxima=[-x for x in minima])
    calibration = circlekit.Calibration([{"z": edited}])
    circlekit.fake_quantize(model, calibration=calibration, ema_decay=decay, optimize=False)
    assert fake_quant_ranges(model)["z"] == (-2.0, 100.0)


def test_weights_per_channel_are_pairs_of_quantize_and_dequantize() -> None:
    model = network(conv("%z"))
    weights = constant(model, "w").array()
    circlekit.fake_quantize(model, samples=[[X]], per_channel=True, weight_bits=3, optimize=False)
    kinds = [op.code for op in model.main]
    assert kinds == ["QUANTIZE", "DEQUANTIZE", "CONV_2D", "FAKE_QUANT"]
    scale = np.abs(weights).max(axis=(1, 2, 3)) / 3
    quantization = model.main.ops[0].output.quantization
    assert quantization is not None
    assert quantization.scale == pytest.approx(scale)
    rounded = np.rint(weights / scale.reshape(3, 1, 1, 1)) * scale.reshape(3, 1, 1, 1)
    model.main.outputs = [model.main.ops[1].output]
    assert circlekit.run(model, [X])[0] == pytest.approx(rounded, abs=1e-6)


def test_scope_selects_layers_and_inputs_adds_the_input() -> None:
    body = conv("%left/y", act="RELU") + conv("%z", "%left/y", "%v")
    done = circlekit.fake_quantize(network(body), samples=[[X]], scope="^left/", optimize=False)
    assert [(item.value, item.rule) for item in done] == [("left/y", "act_quant"), ("w", "weights_quant")]
    body = conv("%c").replace(", %b", "") + call("%sum", "Add(%c, %b)") + call("%z", "Relu(%sum)")
    for scope, expected in (("sum", []), ("^c$", ["w"])):  # the name of the convolution counts for weights
        for per_channel in (False, True):
            done = circlekit.fake_quantize(
                network(body), samples=[[X]], scope=scope, per_channel=per_channel, optimize=False
            )
            assert [item.value for item in done] == expected
    done = circlekit.fake_quantize(network(body), samples=[[X]], inputs=True, optimize=False)
    assert (done[0].value, done[0].rule, done[0].low, done[0].high) == ("x", "input_quant", -1.0, 1.0)


def test_inputs_of_called_graphs_are_no_inputs_of_the_model() -> None:
    model = circlekit.parse("""
    graph main(%x: f32[2,4]) -> %y { %n, %y = While(0, %x) {cond: @cond, body: @body} }
    graph cond(%i: i32[], %a: f32[2,4]) -> %c { %c = Less(%i, 3) }
    graph body(%i: i32[], %a: f32[2,4]) -> %k, %b { %k = Add(%i, 1)  %b = Mul(%a, 0.5) }""")
    sample = [np.ones((2, 4), np.float32)]
    done = circlekit.fake_quantize(model, samples=[sample], inputs=True, optimize=False)
    assert [item.value for item in done if item.rule == "input_quant"] == ["x"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"quant_delay": 100}, "quant_delay has a meaning only in training: it counts training steps"),
        ({"is_training": True}, "is_training has a meaning only in training"),
        ({"bits": 8}, "no option bits"),
        ({"weight_bits": 9}, "weight_bits: expected an integer from 2 to 8, got 9"),
        ({"weight_bits": "4"}, "weight_bits: expected an integer from 2 to 8, got '4'"),
        ({"activation_bits": 4.0}, "activation_bits: expected an integer from 2 to 8, got 4.0"),
        ({"ema_decay": 1.0}, "ema_decay: expected 0 or more, less than 1"),
        ({"ema_decay": "0.9"}, "ema_decay: expected 0 or more, less than 1, got '0.9'"),
        ({"init_range": (-1.0, 1.0)}, "expected ema_decay"),
        *(
            ({"ema_decay": 0.9, "init_range": ends}, "finite numbers with min <= max, got ")
            for ends in (3, (1, 2, 3), (1.0, -1.0), (float("nan"), 1.0), ("0", "1"), (0, 10**400))
        ),
        ({"ema_decay": 10**400}, "ema_decay: expected 0 or more, less than 1, got 1000"),
        *(
            ({"scope": scope}, "is not a regular expression")
            for scope in ("(", "a{99999999999999999999}", "(" * 5000 + ")" * 5000)
        ),
        *(({"scope": scope}, "is not a regular expression") for scope in (5, 0, b"x")),
        *(
            ({name: value}, f"{name}: expected True or False, got {value!r}")
            for name in ("symmetric", "narrow_range", "per_channel", "inputs")
            for value in ("no", 1, None)
        ),
    ],
)
def test_refused_options(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnsupportedError, match=sentence.replace("(", r"\(")):
        circlekit.fake_quantize(network(conv("%z")), samples=[[X]], **options)


def test_ranges_are_needed_and_finite() -> None:
    model = network(conv("%z"))
    with pytest.raises(ModelError, match=r"exactly one of samples and calibration, .*, got neither"):
        circlekit.fake_quantize(model)
    calibration = circlekit.calibrate(model, [[X]])
    del calibration.main["z"]
    with pytest.raises(ModelError, match="%z has no range: the calibration has no statistics"):
        circlekit.fake_quantize(model, calibration=calibration, optimize=False)
    with pytest.raises(ModelError, match="%z has no range: no finite number was observed"):
        circlekit.fake_quantize(model, samples=[[np.full_like(X, np.inf)]], optimize=False)
    broken = network(conv("%z"))
    constant(broken, "w").data = np.full((3, 1, 1, 3), np.nan, np.float32)
    with pytest.raises(ModelError, match="%w has numbers that are NaN or infinite"):
        circlekit.fake_quantize(broken, calibration=circlekit.calibrate(model, [[X]]), optimize=False)


@pytest.mark.parametrize(("sign", "low", "high"), [(1, 0.0, 3.0), (-1, -3.0, 0.0)])
@pytest.mark.parametrize("per_channel", [False, True])
def test_the_range_of_weights_includes_zero(sign: int, low: float, high: float, per_channel: bool) -> None:
    model = circlekit.parse(f"""
    graph main(%x: f32[1,2]) -> %y {{
      %w = const f32[2,2] [{sign * 2.0}, {sign * 3.0}, {sign * 2.5}, {sign * 2.0}]
      %y = FullyConnected(%x, %w)
    }}""")
    found = circlekit.fake_quantize(model, samples=[[np.ones((1, 2), np.float32)]], per_channel=per_channel)
    (weights,) = (item for item in found if item.rule == "weights_quant")
    assert (weights.low, weights.high) == ((-3.0, 3.0) if per_channel else (low, high))
    assert weights.channels == (2 if per_channel else 0)


@pytest.mark.parametrize("number", [0.0, 1e-40])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_weights_and_activations_of_zeros_stay_zeros(
    number: float, symmetric: bool, per_channel: bool
) -> None:
    """FAKE_QUANT divides by the width of its range; numbers too small for that become zeros."""
    model = circlekit.parse(f"""
    graph main(%x: f32[1,2]) -> %y, %z {{
      %w = const f32[2,2] [{number}, {number}, {number}, 0.0]
      %y = FullyConnected(%x, %w, [3.0, 1.0])
      %v = const f32[2,2] [1.0, 2.0, 3.0, 4.0]
      %z = FullyConnected(%x, %v, [-99.0, -99.0]) {{act: RELU}}
    }}""")
    x = np.ones((1, 2), np.float32)
    circlekit.fake_quantize(model, samples=[[x]], symmetric=symmetric, per_channel=per_channel)
    results = circlekit.run(model, [x])
    np.testing.assert_allclose(results[0], [[3, 1]], atol=3 / 127)
    np.testing.assert_array_equal(results[1], 0)


WIDEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("options", "numbers", "ends"),
    [
        ({}, (-1.7e38, 1.6e38), (-1.7e38, 1.6e38)),  # near miss: the width is a float32
        ({}, (-3.4e38, 1.7e38), (-2 / 3 * WIDEST, 1 / 3 * WIDEST)),
        ({}, (0.0, WIDEST), (0.0, WIDEST)),
        ({"symmetric": True}, (0.0, 3.4e38), (-128 / 255 * WIDEST, 127 / 255 * WIDEST)),
        ({"symmetric": True, "narrow_range": True}, (-3.4e38, 0.0), (-WIDEST / 2, WIDEST / 2)),
        ({"per_channel": True}, (0.0, WIDEST), (0.0, WIDEST)),
    ],
)
def test_a_range_wider_than_float32_is_made_narrower(
    options: dict[str, Any], numbers: tuple[float, float], ends: tuple[float, float]
) -> None:
    """FAKE_QUANT computes the width in float32; infinity would make NaN of all numbers."""
    model = circlekit.parse(f"""
    graph main(%x: f32[1,2]) -> %y {{
      %w = const f32[1,2] [{numbers[0]}, {numbers[1]}]
      %y = FullyConnected(%x, %w)
    }}""")
    calibration = circlekit.calibrate(model, [[np.ones((1, 2), np.float32)]])
    calibration.main["x"] = calibration.main["y"] = TensorStatistics(min=numbers[0], max=numbers[1])
    circlekit.fake_quantize(model, calibration=calibration, inputs=True, optimize=False, **options)
    assert fake_quant_ranges(model)["x/input_quant"] == pytest.approx(ends, rel=1e-5)
    (layer,) = (op for op in model.main if op.code == "FULLY_CONNECTED")
    model.main.outputs = [value for value in layer.inputs[:2] if value is not None]  # rounded x and weights
    x = np.array([numbers], np.float32)
    for result in circlekit.run(model, [x]):
        np.testing.assert_allclose(result[x != 0], x[x != 0], rtol=0.51)
        np.testing.assert_array_equal(result[x == 0], 0)
