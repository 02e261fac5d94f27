# SPDX-License-Identifier: Apache-2.0
"""PyTorch exports, optimized for XNNPACK: the delegate takes no smaller share of operators than before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import circlekit
from circlekit.equivalence.litert import run_interpreter
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.targets.delegation import find_delegation
from circlekit.targets.target import find_target
from tests.passes.kit import make_input
from tests.targets.exports import EXPORTS, TICO
from tools.bench.delegate import Delegation, delegation, start, written

TARGET = "litert-xnnpack"


def check(model: Model) -> None:
    """Check LiteRT on the optimized model: no more partitions, no smaller share delegated, close values."""
    before, after = written(model), written(model, ["O1"], TARGET)
    old, new = delegation(before), delegation(after)
    assert new.partitions <= old.partitions
    assert new.delegated * old.all >= old.delegated * new.all
    for content, found in ((before, old), (after, new)):
        assert_foreseen(content, found)
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    for expected, actual in zip(*(outputs(content, inputs) for content in (before, after)), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))


def assert_foreseen(content: bytes, found: Delegation) -> None:
    """Assert that the target's table and LiteRT agree on the numbers of partitions and operators."""
    foreseen = find_delegation(circlekit.load(content).main, find_target(TARGET))
    assert foreseen is not None
    assert (foreseen.partitions, foreseen.delegated, foreseen.operators) == found[:3]


def outputs(content: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return run_interpreter(start(content), [inputs])[0]


@pytest.mark.parametrize("name", EXPORTS)
def test_export_is_delegated(name: str) -> None:
    check(circlekit.parse(EXPORTS[name]))


@pytest.mark.parametrize("path", TICO, ids=lambda path: path.stem)
def test_export_of_tico_is_delegated(path: Path) -> None:
    check(circlekit.load(path))


WEIGHTS = {
    "f16": "%c = const f16[4,8] gaussian(0, 1)",
    "i8": "%c = const i8[4,8] quant(scale: 0.1, zero_point: 3) gaussian(0, 30)",
    "i8 per channel": "%c = const i8[4,8] quant(scale: [0.1, 0.2, 0.1, 0.3], axis: 0) gaussian(0, 30)",
    "u8": "%c = const u8[4,8] quant(scale: 0.1, zero_point: 128) constant(130)",
    "i16": "%c = const i16[4,8] quant(scale: 0.1) gaussian(0, 30)",
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize(
    "layer", ["FullyConnected(%x, %w) : f32[3,4]", "Add(%z, %w)", "Atan2(%z, %w)", "Relu(%z)"]
)
def test_weights_that_are_unpacked_count_as_constant(weights: str, layer: str) -> None:
    """XNNPACK unpacks float16 and int8 when it loads a model, unless one of LiteRT's kernels reads them."""
    model = circlekit.parse(
        f"""graph main(%x: f32[3,8], %z: f32[4,8]) -> %y, %v {{
          {weights}
          %w = Dequantize(%c)
          %y = {layer}
          %v = Mul(%z, %w)
        }}"""
    )
    content = to_bytes(model, "tflite")
    assert_foreseen(content, delegation(content))


@pytest.mark.parametrize("shape", [(3, 2), (1, 1, 1, 1, 1, 1, 6)])
def test_a_reshape_without_an_operand_for_the_shape(shape: tuple[int, ...]) -> None:
    model = circlekit.parse(
        f"""graph main(%x: f32[2,3]) -> %y {{
          %a = Relu(%x)
          %y = Reshape(%a) {{new_shape: {list(shape)}}}
        }}"""
    )
    content = to_bytes(model, "tflite")
    assert_foreseen(content, delegation(content))


def test_custom_operators_that_xnnpack_runs() -> None:
    options = "custom_options: array(u8, [1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0])"  # padding and strides
    code = 'code: "CUSTOM", custom_code: "Convolution2DTransposeBias"'
    model = circlekit.parse(
        f"""graph main(%x: f32[1,4,4,2]) -> %y {{
          %w = const f32[2,2,2,2] gaussian(0, 1)
          %b = const f32[2] zeros
          %y = Opaque(%x, %w, %b) {{{code}, extra: {{{options}}}}} : f32[1,8,8,2]
        }}"""
    )
    content = to_bytes(model, "tflite")
    assert_foreseen(content, delegation(content))
    assert find_target(TARGET).refusal(model.main.ops[0]) is None
    assert find_target("litert").refusal(model.main.ops[0]) is not None


@pytest.mark.parametrize("constant", ["f16[4] constant(1)", "i8[4] quant(scale: 0.5) constant(2)"])
@pytest.mark.parametrize(
    ("reader", "runs"),
    [
        ("Neg(%x)", False),  # XNNPACK fails
        ("Add(%x, %d)", False),  # it leaves %d unset
        ("Atan2(%x, %d)", True),  # LiteRT's kernel reads %d, so LiteRT also computes it
    ],
)
def test_xnnpack_sets_no_output_that_it_unpacks(reader: str, runs: bool, constant: str) -> None:
    model = circlekit.parse(
        f"""graph main(%x: f32[4]) -> %d, %y, %z {{
          %c = const {constant}
          %d = Dequantize(%c)
          %y = {reader}
          %z = Abs(%x)
        }}"""
    )
    assert (find_target(TARGET).refusal(model.main.ops[0]) is None) == runs
    try:
        found = outputs(to_bytes(model, "tflite"), [np.zeros(4, np.float32)])[0]
    except RuntimeError:
        found = np.zeros(4)
    assert bool((found == 1).all()) == runs
