# SPDX-License-Identifier: Apache-2.0
"""circle-quantizer: every mode writes a model; wrong words end with ONE's exit code and message."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.api.models import load, parse, save
from circlekit.cli.quant.circle_quantizer import main
from circlekit.ir.dtypes import i8, i16, u8

MODEL = """graph main(%x: f32[1,2] quant(min: -1.0, max: 1.0)) -> %y {
  %w = const f32[2,2] [0.25, 0.25, 1.0, -1.0]
  %y = FullyConnected(%x, %w) : f32[1,2] quant(min: -4.0, max: 4.0)
}"""

INT8 = """graph main(%x: i8[2] quant(scale: 0.5, zero_point: -3)) -> %y {
  %y = Relu(%x) : i8[2] quant(scale: 0.5, zero_point: -3)
}"""

ONNX = """graph main(%x: f32[2]) -> %y {
  %z = const u8[] 3
  %q = Opaque(%x, 0.5, %z) {code: "CUSTOM", custom_code: "ONNXQuantizeLinear"} : u8[2]
  %d = Opaque(%q, 0.5, %z) {code: "CUSTOM", custom_code: "ONNXDequantizeLinear"} : f32[2]
  %y = Reshape(%d, [1, 2]) : f32[1,2]
}"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    save(parse(MODEL), tmp_path / "in.circle")
    save(parse(INT8), tmp_path / "int8.circle")
    save(parse(ONNX), tmp_path / "onnx.circle")
    (tmp_path / "text").write_text("#!/bin/sh\n")
    (tmp_path / "mixed.json").write_text(
        '{"layers": [{"name": "y", "dtype": "int16", "granularity": "channel"}]}'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "--quantize_dequantize_weights float32 uint8 layer in.circle",
        "--quantize_dequantize_weights float32 int16 channel --config mixed.json in.circle",
        "--quantize_with_minmax float32 uint8 layer in.circle",
        "--quantize_with_minmax float32 uint8 channel --config mixed.json in.circle",
        "--quantize_with_minmax float32 int16 channel --input_type uint8 --output_type float32 in.circle",
        "--quantize_with_minmax float32 uint8 layer --TF-style_maxpool --save_min_max in.circle",
        "--quantize_with_minmax float32 uint8 layer --generate_profile_data in.circle",
        "--quantize_weights float32 int4 channel in.circle",
        "--requantize int8 uint8 int8.circle",
        "--force_quantparam x 2.3 33 --force_quantparam y 0.5 -4 in.circle",
        "--copy_quantparam x y int8.circle",
        "--fake_quantize int8.circle",
        "--quantize_onnx_fq_model onnx.circle",
    ],
)
def test_every_mode_writes_a_circle_file(
    folder: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "any.name"]) == 0
    assert load("any.name").format == "circle"
    assert capsys.readouterr().out == ""  # ONE's program prints nothing, too


def test_float16_weights_are_quantized_too(folder: Path) -> None:
    text = MODEL.replace("%w = const f32", "%h = const f16").replace(
        "  %y", "  %w = Dequantize(%h) : f32[2,2]\n  %y"
    )
    save(parse(text), "half.circle")
    for mode, source, target in (
        ("--quantize_dequantize_weights", "half.circle", "rounded.circle"),
        ("--quantize_with_minmax", "half.circle", "out.circle"),
    ):
        assert main([mode, "float32", "uint8", "channel", source, target]) == 0
    (op,) = load("out.circle").main
    weights = op.inputs[1]
    assert weights is not None
    assert weights.dtype is u8


def test_the_result_has_the_requested_dtypes(folder: Path) -> None:
    options = ["--config", "mixed.json", "--output_type", "int16"]
    assert (
        main(["--quantize_with_minmax", "float32", "uint8", "layer", *options, "in.circle", "out.tflite"])
        == 0
    )
    model = load("out.tflite")
    assert (model.format, [v.dtype for v in (*model.main.inputs, *model.main.outputs)]) == (
        "tflite",
        [u8, i16],
    )
    assert main(["--requantize", "int8", "uint8", "int8.circle", "int8.circle"]) == 0
    assert i8 not in {v.dtype for v in load("int8.circle").main.values()}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("in.circle", 255, "expected exactly one of"),
        ("--fake_quantize --requantize int8 uint8 in.circle", 255, "expected exactly one of"),
        ("--force_quantparam x a 1 in.circle", 255, "expected a number and an integer"),
        ("--quantize_with_minmax float32 uint8 in.circle", 255, "ERROR"),
        ("--quantize_with_minmax float64 uint8 layer in.circle", 255, "Unsupported input type"),
        ("--quantize_with_minmax float32 uint16 layer in.circle", 255, "Unsupported output type"),
        ("--quantize_with_minmax float32 uint8 layered in.circle", 255, "Unsupported granularity"),
        (
            "--quantize_with_minmax float32 int16 layer in.circle",
            255,
            "Layer-wise quantization only",
        ),
        ("--quantize_weights float32 uint8 channel in.circle", 255, "Unsupported output type"),
        ("--quantize_weights float32 int8 layer in.circle", 255, "Unsupported granularity"),
        ("--requantize uint8 int8 in.circle", 255, "Unsupported input type"),
        ("--requantize int8 int16 in.circle", 255, "Unsupported output type"),
        (
            "--quantize_with_minmax float32 uint8 layer --input_type float64 in.circle",
            255,
            "Unsupported input type",
        ),
        (
            "--quantize_with_minmax float32 uint8 layer --input_type uint8,uint8 in.circle",
            255,
            "Invalid number of input dtype",
        ),
        (
            "--quantize_with_minmax float32 uint8 layer --config text in.circle",
            255,
            "Failed to decode",
        ),
        ("--fake_quantize text", 1, "Invalid input file 'text'"),
        ("--fake_quantize none.circle", 1, "Failed to open file: none.circle"),
        ("--fake_quantize in.circle /", 255, "Failed to export '/'"),
    ],
)
def test_wrong_words_are_errors(
    folder: Path, words: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = [] if words.endswith("/") else ["out.circle"]
    assert main([*words.split(), *output]) == code
    assert message in capsys.readouterr().err
    assert not (folder / "out.circle").exists()
