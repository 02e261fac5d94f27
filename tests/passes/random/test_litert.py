# SPDX-License-Identifier: Apache-2.0
"""Random graphs compared with LiteRT: undefined results are distinguished from wrong ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.litert import run_litert, tflite_of
from circlekit.errors import UnsupportedError
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from tools.random_graphs.checks import Fault, Original
from tools.random_graphs.graphs import PARTS, Step, make
from tools.random_graphs.litert_check import check_litert
from tools.random_graphs.litert_undefined import undefined
from tools.random_graphs.splice import RECIPES, recipe_of_operator


def slice_of(shape: str, begin: str, end: str, attributes: str) -> Model:
    ones = [1] * (begin.count(",") + 1)
    text = f"""graph main(%x: f32{shape}) -> %y {{
      %y = StridedSlice(%x, {begin}, {end}, {ones}) {{{attributes}}}
    }}"""
    return parse_model(text)


def sum_of(dtype: str, scale: str) -> Model:
    text = f"""graph main(%x: {dtype}[2,3,4]{scale}) -> %y {{
      %y = Sum(%x, [1]) : {dtype}[2,4]{scale}
    }}"""
    return parse_model(text)


@pytest.mark.parametrize(
    ("shape", "begin", "end", "attributes", "sentence"),
    [
        ("[2,3,4]", "[0, 0]", "[2, 1]", "new_axis_mask: 4", "for no entry of begin"),
        ("[2,3,4]", "[0, 0]", "[2, 1]", "new_axis_mask: -2", "for no entry of begin"),
        ("[4,5]", "[1]", "[2]", "offset: true", "without an entry"),
        ("[2,1,1]", "[0, 0, 0]", "[2, 1, 1]", "new_axis_mask: 6, offset: true", "without an entry"),
        ("[4,5]", "[1, 1]", "[2, 5]", "offset: true", "beyond the axis"),
        ("[4,5]", "[-1, 1]", "[2, 2]", "offset: true", "beyond the axis"),
        ("[?,5]", "[1, 1]", "[2, 3]", "offset: true", "this one is not known"),
        ("[4,5]", "[1, 1]", "[2, 3]", "offset: true, end_mask: 2", "up to its end"),
    ],
)
def test_slices_undefined_in_litert(shape: str, begin: str, end: str, attributes: str, sentence: str) -> None:
    assert sentence in (undefined(slice_of(shape, begin, end, attributes)) or "")


@pytest.mark.parametrize(
    ("begin", "end", "attributes"),
    [
        ("[0, 0]", "[2, 1]", "new_axis_mask: 2"),
        ("[0, 0]", "[2, 1]", "shrink_axis_mask: 4, ellipsis_mask: 8"),
        ("[1, 1]", "[3, 4]", "offset: true"),
        ("[-2, 1]", "[2, 4]", "offset: true, begin_mask: 2"),
        ("[1, 1, 1]", "[1, 3, 4]", "offset: true, new_axis_mask: 1"),
        ("[1, 1]", "[9, 4]", "offset: true, shrink_axis_mask: 1"),
    ],
)
def test_slices_defined_in_litert(begin: str, end: str, attributes: str) -> None:
    """LiteRT agrees with our kernels, so results are compared."""
    model = slice_of("[4,5]", begin, end, attributes)
    assert undefined(model) is None
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    np.testing.assert_array_equal(
        run_litert(tflite_of(model), [x], Kernels.OPTIMIZED)[0], circlekit.run(model, [x])[0]
    )


def test_a_transposed_scalar_is_undefined() -> None:
    text = "graph main(%x: f32[]) -> %y { %p = const i32[0] []\n %y = Transpose(%x, %p) }"
    assert "scalar" in (undefined(parse_model(text)) or "")
    assert undefined(parse_model("graph main(%x: f32[1]) -> %y { %y = Transpose(%x, [0]) }")) is None


@pytest.mark.parametrize("dtype", ["i8", "i16"])
def test_narrow_integer_sums_equal_those_of_optimized_kernels(dtype: str) -> None:
    model = sum_of(dtype, " quant(scale: 0.5)")
    x = np.arange(-12, 12).reshape(2, 3, 4).astype(np.int16 if dtype == "i16" else np.int8)
    wanted = x.sum(1).astype(x.dtype)
    np.testing.assert_array_equal(run_litert(tflite_of(model), [x], Kernels.OPTIMIZED)[0], wanted)
    assert check_litert(Original(model, [x]), model)


def test_wrong_int16_sums_are_found() -> None:
    model, other = (sum_of("i16", f" quant(scale: {scale})") for scale in (0.5, 0.25))
    other.main.inputs[0].quantization = model.main.inputs[0].quantization
    x: Array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    with pytest.raises(Fault, match="values"):
        check_litert(Original(model, [x]), other)


# -- formats -----------------------------------------------------------------------------------


def test_formats_in_which_a_model_can_be_written(tmp_path: Path) -> None:
    formats = {}
    for name in ("bcq_fully_connected", "gru", "instance_norm", "relu"):
        model = parse_model((RECIPES / "ops" / f"{name}.ck").read_text(), name)
        inputs = [np.zeros(v.static_shape, np.float32) for v in model.main.inputs]
        original = Original(model, inputs)
        original.check_files(model, tmp_path)
        formats[name] = original.formats
    assert formats == {
        "bcq_fully_connected": ("circle",),
        "gru": ("circle", "tflite"),
        "instance_norm": ("circle", "tflite"),
        "relu": ("circle", "tflite"),
    }


def test_losing_a_format_is_a_fault(tmp_path: Path) -> None:
    names = ("relu", "bcq_fully_connected")
    relu, coded = (parse_model((RECIPES / "ops" / f"{name}.ck").read_text(), name) for name in names)
    original = Original(coded, [np.zeros(v.static_shape, np.float32) for v in coded.main.inputs])
    original.formats = Original(relu, [np.zeros(relu.main.inputs[0].static_shape, np.float32)]).formats
    with pytest.raises(Fault, match="UnsupportedError") as caught:
        original.check_files(coded, tmp_path)
    assert isinstance(caught.value.__cause__, UnsupportedError)


def test_models_with_operators_of_circle_are_circle() -> None:
    part = PARTS.index(recipe_of_operator)
    models = [make(seed, [Step(part, seed)])[0] for seed in range(200)]
    own = [m for m in models if any("tflite" not in op.formats for op in m.ops())]
    assert own
    assert {m.format for m in own} == {"circle"}
    assert {m.format for m in models} == {"circle", "tflite"}
