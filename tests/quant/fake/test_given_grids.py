# SPDX-License-Identifier: Apache-2.0
"""Models that round to grids, by FAKE_QUANT or by QUANTIZE and DEQUANTIZE, become integer models.

The results of the two models differ by at most one step of the result's grid.
"""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.ir.dtypes import f32, i16
from circlekit.ir.value import Quantization, Value
from circlekit.ops.convolution.conv import Conv2D
from circlekit.quant.plan import Plan
from circlekit.testing import is_available, run_litert, tflite_of
from tests.quant.fake.networks import X, conv, network

CONV = """
    %w = const f32[4,3,3,3] gaussian(0, 0.3)
    %v = FakeQuant(%w) {{min: -1.0, max: 1.0, num_bits: {bits}, narrow_range: {narrow}}}
    %o = Conv2D(%q, %v, [0.3, -0.2, 0.1, 0.05])  : f32[1,6,6,4]
"""
BODIES = {
    "layer": CONV,
    "sum": "%o = Add(%q, %q)",
    "moved": "%p = Pad(%q, [[0, 0], [1, 1], [1, 1], [0, 0]]) %o = Reshape(%p, [1, 192])",
    "joined": "%e = Concatenation(%q, %q, %q, %q) {{axis: 3}} %o = DepthToSpace(%e) {{block_size: 2}}",
    "fixed": "%o = Tanh(%q)",
    "largest": "%o = Maximum(%q, 0.3)",
    "global": "%o = AveragePool2D(%q) {{filter_height: 6, filter_width: 6}}",
    "mean": "%o = Mean(%q, [1, 2])",
    "average": "%o = AveragePool2D(%q) {{filter_height: 2, filter_width: 2, stride_h: 2, stride_w: 2}}",
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("bits", "narrow"), [(2, True), (4, False), (4, True), (7, True), (8, False)])
def test_results_differ_by_one_step_at_most(body: str, bits: int, narrow: bool) -> None:
    """The grids of operand and result differ, also where the integer kernel only copies, as in ``moved``."""
    flag = str(narrow).lower()
    low, high, out_bits = -1.4, 2.1, 6
    text = f"""
    graph main(%x: f32[1,6,6,3]) -> %y {{
      %q = FakeQuant(%x) {{min: -1.9, max: 1.1, num_bits: {bits}, narrow_range: {flag}}}
      {BODIES[body].format(bits=bits, narrow=flag)}
      %y = FakeQuant(%o) {{min: {low}, max: {high}, num_bits: {out_bits}, narrow_range: {flag}}}
    }}
    """
    model = circlekit.parse(text)
    data = [np.random.default_rng(bits).normal(0, 1.5, (1, 6, 6, 3)).astype(np.float32)]
    expected = circlekit.run(model, data)[0]
    report = circlekit.quantize(model, "int8")
    assert not report.floats
    result = circlekit.run(model, data)[0]
    step = (high - low) / (2**out_bits - 1 - narrow)
    assert np.abs(result - expected).max() < 1.01 * step
    if is_available() and body == "layer":
        np.testing.assert_array_equal(run_litert(tflite_of(model), data)[0], result)


COARSE = {
    "AVERAGE_POOL_2D": "%o = AveragePool2D(%q) {filter_height: 2, filter_width: 2, act: RELU6}",
    "RESIZE_BILINEAR": "%o = ResizeBilinear(%q, [12, 3])",
    "MAX_POOL_2D": "%o = MaxPool2D(%q) {filter_height: 2, filter_width: 2, act: RELU_N1_TO_1}",
    "PADV2": "%o = PadV2(%q, [[0, 0], [1, 1], [0, 0], [0, 0]], [0.3])",
    "MATRIX_DIAG": "%o = MatrixDiag(%q)",
    "REDUCE_PROD": "%o = ReduceProd(%q, [2])",
    "LOGISTIC": "%o = Logistic(%q)",
    "SOFTMAX": "%o = Softmax(%q)",
    "LOG_SOFTMAX": "%o = LogSoftmax(%q)",
    "ADD": "%o = Add(%q, 0.0)",
    "CONCATENATION": "%o = Concatenation(%q) {axis: 1}",
}
IN_INT16 = ("AVERAGE_POOL_2D", "RESIZE_BILINEAR", "MATRIX_DIAG", "REDUCE_PROD")


@pytest.mark.parametrize("code", COARSE)
def test_results_are_within_one_step_if_the_8_bit_kernel_is_coarser_than_their_grid(code: str) -> None:
    """The kernel runs in int16, reads the finer grid, or stays float; the result is within one step."""
    text = f"""
    graph main(%x: f32[1,6,6,3]) -> %y {{
      %q = FakeQuant(%x) {{min: -2.5, max: 3.5, num_bits: 8, narrow_range: false}}
      {COARSE[code]}
      %f = FakeQuant(%o) {{min: -0.2, max: 0.4, num_bits: 8, narrow_range: false}}
      %r = Relu(%f)
      %y = FakeQuant(%r) {{min: -0.2, max: 0.4, num_bits: 8, narrow_range: false}}
    }}
    """
    model = circlekit.parse(text)
    data = [np.random.default_rng(5).normal(0, 1.5, (1, 6, 6, 3)).astype(np.float32)]
    expected = circlekit.run(model, data)[0]
    report = circlekit.quantize(model, "int8")
    kinds = {op.code: op.scheme for op in report.plan.main.operators.values()}
    assert (kinds.get(code) == "int16x8") == (code in IN_INT16)
    again = circlekit.parse(text)
    circlekit.quantize(again, plan=Plan.from_json(report.plan.to_json()))
    assert str(again) == str(model)
    result = circlekit.run(model, data)[0]
    assert np.abs(result - expected).max() < 1.01 * 0.6 / 255
    if is_available():
        np.testing.assert_array_equal(run_litert(tflite_of(model), data)[0], result)


def test_a_tensor_with_two_grids_is_quantized_twice() -> None:
    text = """
    graph main(%x: f32[1,8]) -> %y, %z {
      %a = FakeQuant(%x) {min: -2.0, max: 2.0, num_bits: 8, narrow_range: false}
      %b = FakeQuant(%x) {min: -1.0, max: 0.3, num_bits: 8, narrow_range: false}
      %y = Relu(%a)
      %z = Relu(%b)
    }
    """
    model = circlekit.parse(text)
    data = [np.linspace(-3, 3, 8, dtype=np.float32)[None]]
    expected = circlekit.run(model, data)
    assert not circlekit.quantize(model, "int8").floats
    for left, right, step in zip(circlekit.run(model, data), expected, (4 / 255, 1.3 / 255), strict=True):
        assert np.abs(left - right).max() < 1.01 * step


@pytest.mark.parametrize("body", ["%z = Sin(%s)", "%z = Add(%s, %x)", "%z = Add(%s, %q)"])
@pytest.mark.parametrize("scheme", ["int8", "int16x8", "uint8"])
def test_users_of_a_tensor_that_others_round_read_numbers_beyond_the_grid(scheme: str, body: str) -> None:
    text = f"""
    graph main(%x: f32[1,8]) -> %y, %z, %s {{
      %t = Tanh(%x)
      %s = Mul(%t, 3.0)
      %q = FakeQuant(%s) {{min: -1.0, max: 1.0, num_bits: 8}}
      %y = Relu(%q)
      {body}
    }}
    """
    model = circlekit.parse(text)
    data = [np.linspace(-3, 3, 8, dtype=np.float32)[None]]
    expected = circlekit.run(model, data)
    circlekit.quantize(model, scheme, [data])
    for left, right in zip(circlekit.run(model, data), expected, strict=True):
        assert np.abs(left - right).max() < 0.05  # clipping would be an error of 2


def test_8_bits_cover_the_observed_part_of_a_wide_grid_of_16_bits() -> None:
    """8 bits that cover the whole grid, -300 to 300, would have steps of 2.4."""
    model = circlekit.parse("""
    graph main(%x: f32[1,8]) -> %y {
      %q = FakeQuant(%x) {min: -300.0, max: 300.0, num_bits: 16}
      %a = Mul(%q, 0.5)
      %r = FakeQuant(%a) {min: -200.0, max: 200.0, num_bits: 15}
      %y = Add(%r, %q)
    }
    """)
    data = [np.linspace(-3, 2, 8, dtype=np.float32)[None]]
    expected = circlekit.run(model, data)[0]
    assert not circlekit.quantize(model, "int8", [data]).floats
    np.testing.assert_allclose(circlekit.run(model, data)[0], expected, atol=0.08)


def test_a_layer_whose_8_bit_steps_are_coarser_than_the_grid_computes_in_int16() -> None:
    """%t is an output, so it has a wider range than the grid of %y."""
    model = circlekit.parse("""
    graph main(%x: f32[1,8]) -> %t, %y {
      %w = const f32[8,8] gaussian(0, 1)
      %v = FakeQuant(%w) {min: -3.0, max: 3.0, num_bits: 8, narrow_range: true}
      %q = FakeQuant(%x) {min: -4.0, max: 4.0, num_bits: 8}
      %t = FullyConnected(%q, %v, [0.5, -0.5, 0.25, 1.0, 2.0, 3.0, -1.0, 0.0])
      %y = FakeQuant(%t) {min: -1.0, max: 1.0, num_bits: 8}
    }
    """)
    data = [np.linspace(-3, 3, 8, dtype=np.float32)[None]]
    raw, rounded = circlekit.run(model, data)
    report = circlekit.quantize(model, "int8", [data])
    assert [op.scheme for op in report.plan.main.operators.values()] == ["int16x8", "int8"]
    results = run_litert(tflite_of(model), data) if is_available() else circlekit.run(model, data)
    np.testing.assert_allclose(results[0], raw, atol=0.03)
    np.testing.assert_allclose(results[1], rounded, atol=1.01 * 2 / 255)


def test_tensors_that_others_round_need_no_samples() -> None:
    """Without samples, the range of the grid is taken for the range of the tensor."""
    model = circlekit.parse("""
    graph main(%x: f32[1,8]) -> %y, %z {
      %q = FakeQuant(%x) {min: -1.0, max: 1.0, num_bits: 8}
      %y = Relu(%q)
      %z = Add(%x, %q)
    }
    """)
    report = circlekit.quantize(model, "int8")
    assert [op.code for op in report.floats] == ["ADD"]  # its result has no range
    assert "MINIMUM" not in [op.code for op in model.main]  # it would clip nothing
    add = next(op for op in model.main if op.code == "ADD")
    assert add.inputs[0] is model.main.inputs[0]  # not rounded


def test_a_grid_of_all_integers_is_not_clipped() -> None:
    """TANH has a fixed form; the QUANTIZE after it clips to the grid, so no MINIMUM is needed."""
    model = circlekit.parse("""
    graph main(%x: f32[1,8]) -> %y {
      %q = FakeQuant(%x) {min: -3.0, max: 2.5, num_bits: 8}
      %o = Tanh(%q)
      %y = FakeQuant(%o) {min: -0.9, max: 0.9, num_bits: 8}
    }
    """)
    circlekit.quantize(model, "int8")
    assert [op.code for op in model.main] == ["QUANTIZE", "TANH", "QUANTIZE", "DEQUANTIZE"]


@pytest.mark.parametrize("is_read", [False, True])
def test_float_operators_keep_the_rounding_of_their_results(is_read: bool) -> None:
    """The rounded result is an output, or another operator reads it."""
    text = f"""
    graph main(%x: f32[1,8]) -> %{"y" if is_read else "q"} {{
      %e = Exp(%x)
      %q = FakeQuant(%e) {{min: 0.0, max: 1.5, num_bits: 8, narrow_range: false}}
      %y = Sign(%q)
    }}
    """
    model = circlekit.parse(text)
    data = [np.linspace(-6, 2, 8, dtype=np.float32)[None]]
    expected = circlekit.run(model, data)[0]
    report = circlekit.quantize(model, "int8", operators={"EXP": "float"})
    assert report.floats
    np.testing.assert_allclose(circlekit.run(model, data)[0], expected, atol=1e-5)


@pytest.mark.parametrize("low", [-0.5, 0.0])
@pytest.mark.parametrize("result", ["%q", "%y", "%q, %y"])
@pytest.mark.parametrize("outputs", ["float", "integer"])
def test_results_of_float_operators_stay_in_grids_of_16_bits(outputs: str, result: str, low: float) -> None:
    """The int16 form of [0, 0.5] has a zero point, with which LiteRT has no DEQUANTIZE."""
    text = f"""
    graph main(%x: f32[1,8]) -> {result} {{
      %e = Sin(%x)
      %q = FakeQuant(%e) {{min: {low}, max: 0.5, num_bits: 16}}
      %y = Exp(%q)
    }}
    """
    model = circlekit.parse(text)
    data = [np.linspace(-6, 2, 8, dtype=np.float32)[None]]
    expected = circlekit.run(model, data)
    circlekit.quantize(model, "int8", [data], operators={"re:.*": "float"}, outputs=outputs)
    assert "QUANTIZE" not in [op.code for op in model.main] or low
    results = run_litert(tflite_of(model), data) if is_available() else circlekit.run(model, data)
    for array, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(array, wanted, atol=1e-4)


@pytest.mark.parametrize(
    "line", ["%y = Relu(%q)", "%y = Reshape(%q, [1, 8])", "%r = Relu(%q) %y = Relu6(%r)"]
)
@pytest.mark.parametrize("samples", [True, False])
def test_a_grid_stays_if_passes_remove_its_tensor(samples: bool, line: str) -> None:
    """The last operator has no effect, and passes give its name to the result of the layer."""
    model = circlekit.parse(f"""
    graph main(%x: f32[1,8]) -> %y {{
      %w = const f32[8,8] gaussian(0, 1)
      %v = FakeQuant(%w) {{min: -3.0, max: 3.0, num_bits: 8, narrow_range: true}}
      %p = FakeQuant(%x) {{min: -4.0, max: 4.0, num_bits: 8}}
      %t = FullyConnected(%p, %v, none) {{act: RELU}}
      %q = FakeQuant(%t) {{min: 0.0, max: 1.0, num_bits: 8}}
      {line}
    }}
    """)
    data = [np.linspace(-3, 3, 8, dtype=np.float32)[None]]
    expected = circlekit.run(model, data)[0]
    assert not circlekit.quantize(model, "int8", [data] if samples else None).floats
    results = run_litert(tflite_of(model), data) if is_available() else circlekit.run(model, data)
    np.testing.assert_allclose(results[0], expected, atol=1.01 / 255)


@pytest.mark.parametrize("low", [-0.5, 0.0])
@pytest.mark.parametrize("last", ["Exp", "Abs"])
def test_inputs_in_grids_that_litert_cannot_dequantize_stay_float(last: str, low: float) -> None:
    """The int16 form of [0, 0.5] has a zero point; the float input is then rounded and clipped as before."""
    text = f"""
    graph main(%x: f32[1,8]) -> %y {{
      %q = FakeQuant(%x) {{min: {low}, max: 0.5, num_bits: 16}}
      %y = {last}(%q)
    }}
    """
    model = circlekit.parse(text)
    data = [np.linspace(-1, 1, 8, dtype=np.float32)[None]]
    (expected,) = circlekit.run(model, data)
    circlekit.quantize(model, "int16x8", [data], inputs="integer")
    (x,) = model.main.inputs
    assert x.dtype is (i16 if low else f32)
    if x.quantization is not None:
        data = [np.clip(np.rint(data[0] / x.quantization.scale), -32768, 32767).astype(np.int16)]
    (result,) = run_litert(tflite_of(model), data) if is_available() else circlekit.run(model, data)
    np.testing.assert_allclose(result, expected, atol=1e-4)


def test_a_kernel_that_cannot_reach_the_grid_stays_float() -> None:
    text = """
    graph main(%x: f32[1,8]) -> %y {
      %q = FakeQuant(%x) {min: -3.0, max: 2.5, num_bits: 2, narrow_range: false}
      %o = HardSwish(%q)
      %y = FakeQuant(%o) {min: -0.5, max: 0.6, num_bits: 8, narrow_range: false}
    }
    """
    report = circlekit.quantize(circlekit.parse(text), "int8")
    assert any("finer than the kernel can compute" in op.reason for op in report.floats)


KERNELS = {
    "a bias of few steps": """
      %w = const f32[1,3,3,3] gaussian(0, 0.3)
      %v = FakeQuant(%w) {min: -1.0, max: 1.0, num_bits: 2, narrow_range: true}
      %o = DepthwiseConv2D(%q, %v, [0.3, -0.2, 0.1]) {padding: SAME, depth_multiplier: 1}""",
    "a constant": "%o = Sub([[0.3, -0.7, 1.1]], %q)",
    "a difference on steps of its kernel": "%o = SquaredDifference(%q, [[0.3, -0.7, 1.1]])",
    "weights of a resize": "%o = ResizeBilinear(%q, [9, 9])",
    "a comparison": "%c = Greater(%q, %p) %o = SelectV2(%c, %q, %p)",
    "a function of a clipped tensor": "%r = Relu(%q) %o = Sqrt(%r)",
    "scattered numbers": "%r = Reshape(%p, [2, 54]) %o = ScatterNd([[0], [2]], %r, [4, 54])",
}


@pytest.mark.parametrize("body", KERNELS)
@pytest.mark.parametrize("bits", [2, 6])
def test_kernels_that_miss_the_grid_get_finer_numbers(body: str, bits: int) -> None:
    """The kernel reads a finer grid, runs in int16, or stays float; the result is within one step.

    LiteRT gives the same result.
    """
    text = f"""
    graph main(%x: f32[1,6,6,3]) -> %y {{
      %q = FakeQuant(%x) {{min: -1.2, max: 1.8, num_bits: {bits}, narrow_range: true}}
      %p = FakeQuant(%x) {{min: -0.21, max: 2.1, num_bits: 8, narrow_range: false}}
      {KERNELS[body]}
      %y = FakeQuant(%o) {{min: -0.35, max: 0.45, num_bits: 8, narrow_range: true}}
    }}
    """
    model = circlekit.parse(text)
    data = [np.random.default_rng(bits).normal(0, 1.5, (1, 6, 6, 3)).astype(np.float32)]
    expected = circlekit.run(model, data)[0]
    report = circlekit.quantize(model, "int8")
    result = circlekit.run(model, data)[0]
    assert np.abs(result - expected).max() < 1.01 * 0.8 / 254
    assert all("misses the grid" in op.reason or "no " in op.reason for op in report.floats)
    if is_available():
        np.testing.assert_allclose(run_litert(tflite_of(model), data)[0], result, atol=1e-6)


def form_of(value: Value) -> Quantization:
    assert value.quantization is not None
    return value.quantization


FAKE_QUANT = "{min: %s, max: %s, num_bits: %d, narrow_range: %s} : f32[2,4,4,3]\n"


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("narrow", ["true", "false"])
def test_ranges_of_fake_quant_become_the_parameters_of_integers(bits: int, narrow: str) -> None:
    """The results differ by at most one step from those with FAKE_QUANT, and are clipped at the same place.

    LiteRT, the oracle of the kernel of FAKE_QUANT, does not run narrow ranges.
    """
    body = f"  %q = FakeQuant(%x) {FAKE_QUANT % (-1.0, 1.5, bits, narrow)}"
    body += f"  %u = FakeQuant(%w) {{min: -2.0, max: 2.0, num_bits: {bits}, narrow_range: true}}"
    body += f" : f32[3,1,1,3]\n{conv('%y', '%q', '%u')}"
    body += f"  %z = FakeQuant(%y) {FAKE_QUANT % (-1.5, 2.0, bits, narrow)}"
    model = network(body)
    x = 2 * X  # partly outside of the range
    expected = circlekit.run(model, [x])[0]
    circlekit.quantize(model, "int8")
    assert {v.dtype.short for op in model.main if op.code == "CONV_2D" for v in op.results} == {"i8"}
    assert not any(op.code == "FAKE_QUANT" for op in model.main)
    step = 3.5 / (2**bits - 1 - (narrow == "true"))
    got = circlekit.run(model, [x])[0]
    assert np.abs(got - expected).max() <= 1.001 * step
    assert got.max() <= 2.0 + step / 2  # clipped, after the range was moved by up to half a step


def test_pairs_of_quantize_and_dequantize_become_the_parameters_of_integers() -> None:
    """As exports of PyTorch have them: uint8 for activations, int8 per channel for weights.

    Activations become int8: 128 is subtracted from the zero points 128 and 100.
    """
    form = "u8[2,4,4,3] quant(scale: 0.0078125, zero_point: 128)"
    body = f"  %xq = Quantize(%x) : {form}\n  %xd = Dequantize(%xq) : f32[2,4,4,3]\n"
    body += "  %wq = Quantize(%w) : i8[3,1,1,3] quant(scale: [0.02, 0.03, 0.04], axis: 0)\n"
    body += f"  %wd = Dequantize(%wq) : f32[3,1,1,3]\n{conv('%y', '%xd', '%wd')}"
    body += "  %zq = Quantize(%y) : u8[2,4,4,3] quant(scale: 0.03125, zero_point: 100)\n"
    body += "  %z = Dequantize(%zq) : f32[2,4,4,3]\n"
    model = network(body)
    expected = circlekit.run(model, [X])[0]
    circlekit.quantize(model, "int8")
    (layer,) = (op for op in model.main if isinstance(op, Conv2D))
    data, weights, result = (form_of(v) for v in (layer.input, layer.filter, layer.output))
    assert (data.scale.tolist(), data.zero_point.tolist()) == ([0.0078125], [0])
    assert weights.scale == pytest.approx([0.02, 0.03, 0.04])
    assert (result.scale.tolist(), result.zero_point.tolist()) == ([0.03125], [-28])
    assert np.abs(circlekit.run(model, [X])[0] - expected).max() <= 1.001 * 0.03125


def test_ranges_follow_through_functions_and_joins() -> None:
    """LEAKY_RELU and CONCATENATION have no rounding of their own, but their ranges follow."""
    body = f"  %q = FakeQuant(%x) {FAKE_QUANT % (-1.0, 1.5, 8, 'false')}"
    body += "  %l = LeakyRelu(%q) {alpha: 0.5} : f32[2,4,4,3]\n"
    body += "  %z = Concatenation(%q, %l) {axis: 3} : f32[2,4,4,6]\n"
    model = network(body)
    report = circlekit.quantize(model, "int8")
    assert not any(op.is_float for op in report.plan.main.operators.values())
