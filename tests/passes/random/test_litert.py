# SPDX-License-Identifier: Apache-2.0
"""Random graphs compared with LiteRT: undefined results are distinguished from wrong ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.litert import run_litert, tflite_of
from circlekit.equivalence.litert_undefined import undefined
from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array
from circlekit.ops.arithmetic.binary import Sub
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.rewrite.base import PASSES, Context, GraphPass
from circlekit.targets.operator_form import form_of
from tools.random_graphs.checks import Fault, Original
from tools.random_graphs.graphs import PARTS, Step, make
from tools.random_graphs.litert_check import PassFile, litert_faults
from tools.random_graphs.retype import retype
from tools.random_graphs.splice import RECIPES, recipe_of_operator
from tools.random_graphs.target_check import check_target


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
        ("[2,3,4]", "[0, 0]", "[2, 1]", "new_axis_mask: 4", "beyond the 2 known entries"),
        ("[2,3,4]", "[0, 0]", "[2, 1]", "new_axis_mask: -2", "beyond the 2 known entries"),
        ("[4,5]", "[1]", "[2]", "offset: true", "without an entry"),
        ("[2,1,1]", "[0, 0, 0]", "[2, 1, 1]", "new_axis_mask: 6, offset: true", "without an entry"),
        ("[4,5]", "[1, 1]", "[2, 5]", "offset: true", "beyond the axis"),
        ("[4,5]", "[-1, 1]", "[2, 2]", "offset: true", "beyond the axis"),
        ("[?,5]", "[1, 1]", "[2, 3]", "offset: true", "a positive stride, got ? and 1"),
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
    assert litert_faults(Original(model, [x]), [PassFile("none", tflite_of(model))]) == []


def test_wrong_int16_sums_are_found() -> None:
    model, other = (sum_of("i16", f" quant(scale: {scale})") for scale in (0.5, 0.25))
    other.main.inputs[0].quantization = model.main.inputs[0].quantization
    x: Array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    (fault,) = litert_faults(Original(model, [x]), [PassFile("other", tflite_of(other))]) or []
    assert "values" in fault[1]


# -- other dtypes, and what passes make of them ----------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("int8", "i8q,i8qc,i32:i8q i8q:i8q"),
        ("uint8", "u8q,u8q,i32:u8q u8q:u8q"),
        ("int16x8", "i16q,i8qc,i64:i16q i16q:i16q"),
        ("dynamic_int8", "f32,i8qc,f32:f32 f32:f32"),
        (DType.FLOAT16, "f16:f32 f16:f32 f32,f32,f32:f32 f32:f32"),
    ],
)
def test_models_get_other_dtypes(kind: str | DType, types: str) -> None:
    """``types``: operands:results of each operator; q: quantized per tensor, qc: per channel."""
    text = """graph main(%x: f32[1,4,4,2]) -> %y {
        %w = const f32[3,3,3,2] gaussian(0, 1)
        %c = Conv2D(%x, %w, [0.1, 0.2, 0.3])
        %y = Relu(%c)
    }"""
    model = parse_model(text)
    inputs = [np.random.default_rng(0).normal(size=(1, 4, 4, 2)).astype(np.float32)]
    made = retype(model, inputs, kind, 1)
    assert made is not None
    assert " ".join(form_of(op) for op in made[0].main) == types
    circlekit.run(*made)


class Subtractions(GraphPass):
    """Replace the first ADD by a SUB.  A SUB of int16 makes LiteRT crash."""

    obeys_target = True

    def run_graph(self, graph: Graph, context: Context) -> int:
        adds = [op for op in graph if op.code == "ADD"][:1]
        for op in adds:
            sub = graph.insert_before(op, Sub(op.inputs[0], op.inputs[1]))
            sub.take_result(0, op.output)
            graph.remove(op)
        return len(adds)


@pytest.mark.parametrize(("dtype", "sentence"), [("i16", "LiteRT does not run it"), ("f32", "values")])
def test_results_that_litert_does_not_run_or_that_differ_are_found(
    dtype: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Subtractions, "name", "subtractions")
    monkeypatch.setitem(PASSES, "subtractions", Subtractions)
    model = parse_model(f"graph main(%x: {dtype}[4], %z: {dtype}[4]) -> %y {{\n%y = Add(%x, %z)\n}}")
    inputs = [np.arange(4).astype(model.main.inputs[0].dtype.numpy)] * 2
    found = check_target(5, model, inputs, ["subtractions", "remove_dead"])
    assert (found.litert, sorted(found.fired), len(found.findings)) == (True, ["no pass", "subtractions"], 1)
    assert found.findings[0].passes == ("subtractions",)
    assert sentence in found.findings[0].sentence


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
