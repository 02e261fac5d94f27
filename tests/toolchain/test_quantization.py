# SPDX-License-Identifier: Apache-2.0
"""one-quantize: the command lines of ONE's programs in its log, and the effect of each option."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.toolchain.drivers import all_drivers


def call(words: str, source: str = "net.tflite", target: str = "q.circle") -> int:
    return all_drivers()["one-quantize"](["-i", source, "-o", target, *words.split()])


def logged(target: str = "q.circle") -> dict[str, str]:
    """Return the command lines in the log by their first words; absolute paths are cut to file names."""
    found = {}
    for line in Path(f"{target}.log").read_text().splitlines():
        words = [Path(word).name if word.startswith("/") else word for word in line.split()]
        if line.startswith(("circle-", "record-minmax")):
            found[" ".join(words[: 2 if words[0] == "circle-quantizer" else 1])] = " ".join(words)
    return found


def interface_dtypes(path: str = "q.circle") -> list[str]:
    """Return the dtypes of the inputs, then of the outputs."""
    graph = circlekit.load(path).main
    return [value.dtype.short for value in (*graph.inputs, *graph.outputs)]


RECORD = (
    "--min_percentile 1.0 --max_percentile 99.0 "
    "--moving_avg_batch 16 --moving_avg_const 0.1 --mode percentile"
)


@pytest.mark.parametrize(
    ("options", "config", "words", "last_flags"),
    [
        ("", None, "float32 uint8 layer", ""),
        ("--input_dtype float32", None, "float32 uint8 layer", ""),
        ("--quantized_dtype int16 --granularity channel", None, "float32 int16 channel", ""),
        ("--granularity channel", {"default_quantization_dtype": "int16"}, "float32 int16 channel", ""),
        ("", {"default_quantization_dtype": "int16", "default_granularity": "channel"},
         "float32 int16 channel", ""),
        ("--quantized_dtype uint8", {"default_quantization_dtype": "int16", "default_granularity": "channel"},
         "float32 uint8 channel", ""),
        ("--save_min_max --TF-style_maxpool", None, "float32 uint8 layer",
         " --TF-style_maxpool --save_min_max"),
        ("--input_type float32 --output_type int16", None, "float32 uint8 layer",
         " --input_type float32 --output_type int16"),
    ],
)  # fmt: skip
def test_programs_of_a_quantization(
    work: Path, options: str, config: dict[str, str] | None, words: str, last_flags: str
) -> None:
    given = ""
    if config is not None:
        Path("c.json").write_text(json.dumps({**config, "layers": []}))
        given = " --config c.json"
    assert call(f"{options}{' --quant_config c.json' if given else ''}") == 0
    rounded, recorded = "net.weights_fake_quant.circle", "net.minmax_recorded.circle"
    assert logged() == {
        "circle-quantizer --quantize_dequantize_weights":
            f"circle-quantizer --quantize_dequantize_weights {words}{given} net.tflite {rounded}",
        "record-minmax": f"record-minmax --input_model {rounded} --output_model {recorded} {RECORD}",
        "circle-quantizer --quantize_with_minmax":
            f"circle-quantizer --quantize_with_minmax {words}{last_flags}{given} {recorded} q.circle",
    }  # fmt: skip
    inner = "i16" if "int16" in words else "u8"
    if last_flags.startswith(" --input"):
        assert interface_dtypes() == ["f32", "i16"]
    else:
        assert interface_dtypes() == [inner, inner]
    (weights,) = (value for value in circlekit.load("q.circle").main.values() if value.name == "w")
    assert weights.quantization is not None
    assert len(weights.quantization.scale) == (3 if "channel" in words else 1)
    has_range = circlekit.load("q.circle").main.inputs[0].quantization.min is not None  # type: ignore[union-attr]
    assert has_range == ("save_min_max" in options)


@pytest.mark.parametrize("options", ["", "--quantized_dtype uint8 --granularity channel"])
def test_a_configuration_from_a_pipe(work: Path, options: str) -> None:
    layer = {"name": "m", "dtype": "int16", "granularity": "channel"}
    config = {"layers": [layer], "default_granularity": "channel"}
    Path("c.json").write_text(json.dumps(config))
    assert call(f"{options} --quant_config c.json", target="file.circle") == 0
    reader, writer = os.pipe()
    os.write(writer, json.dumps(config).encode())
    os.close(writer)
    try:
        assert call(f"{options} --quant_config /dev/fd/{reader}", target="pipe.circle") == 0
    finally:
        os.close(reader)
    assert Path("pipe.circle").read_bytes() == Path("file.circle").read_bytes()


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'"\xff"', b'{"layers": 1}', b'{"layers": [{"name": 1}]}']
)
def test_a_wrong_configuration_is_refused(
    work: Path, capsys: pytest.CaptureFixture[str], text: bytes
) -> None:
    Path("c.json").write_bytes(text)
    assert call("--quant_config c.json") == 255
    assert re.match(r"one-quantize: ParseError: c\.json: ", capsys.readouterr().err)
    assert not Path("q.circle").exists()
    assert call("--quant_config none.json") == 255
    assert capsys.readouterr().err.startswith("one-quantize: FileError: none.json: cannot be read")


def test_profile_data_is_written_if_asked(work: Path) -> None:
    assert call("") == 0
    assert "generate_profile_data" not in Path("q.circle.log").read_text()
    plain = circlekit.load("q.circle")
    assert call("--generate_profile_data") == 0
    steps = logged()
    assert steps["circle-quantizer --quantize_dequantize_weights"].endswith(" --generate_profile_data")
    assert steps["circle-quantizer --quantize_with_minmax"].endswith(" --generate_profile_data")
    assert len(plain.metadata) < len(circlekit.load("q.circle").metadata)


def input_range(path: str = "q.circle") -> tuple[float, float]:
    """Return the smallest and largest real number of the grid of the input, in uint8."""
    quantization = circlekit.load(path).main.inputs[0].quantization
    assert quantization is not None
    scale, zero = float(quantization.scale[0]), int(quantization.zero_point[0])
    return -zero * scale, (255 - zero) * scale


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--min_percentile 0 --max_percentile 100", (-8, 4)),
        ("--min_percentile 50 --max_percentile 50", (-4, 2)),
        ("--mode moving_average --moving_avg_batch 1 --moving_avg_const 0.5", (-5.5, 2.75)),  # -2, -3, -5.5
        ("--mode moving_average --moving_avg_batch 3", (-8, 4)),
    ],
)
def test_estimators_of_ranges(work: Path, options: str, expected: tuple[float, float]) -> None:
    samples = np.zeros((3, 1, 4, 4, 2), np.float32)
    samples[:, 0, 0, 0] = [[-2, 1], [-4, 2], [-8, 4]]
    np.save("in.npy", samples)
    assert call(f"{options} --input_data in.npy") == 0
    np.testing.assert_allclose(input_range(), expected, atol=0.03)
    assert "--input_data in.npy" in logged()["record-minmax"]


def test_intermediate_models_are_kept_if_asked(work: Path) -> None:
    assert call("--evaluate_result") == 0
    assert {path.name for path in work.glob("*.circle")} == {"q.circle"}
    assert call("--evaluate_result --save_intermediate") == 0
    ends = ("weights_fake_quant", "minmax_recorded", "fake_quant")
    assert {path.name for path in work.glob("*.circle")} == {
        "q.circle",
        *(f"net.{end}.circle" for end in ends),
    }
    assert interface_dtypes("net.fake_quant.circle")[0] == "f32"


@pytest.mark.parametrize("data", [None, "in.npy"])
def test_an_evaluation_has_the_metrics_and_samples_that_are_asked_for(
    work: Path, capsys: pytest.CaptureFixture[str], data: str | None
) -> None:
    np.save("in.npy", np.random.default_rng(0).normal(size=(2, 1, 4, 4, 2)).astype(np.float32))
    given = f" --test_data {data}" if data else ""
    assert call(f"--evaluate_result --print_mse --print_mae{given}") == 0
    words = "circle-eval-diff --first_model net.tflite --second_model net.fake_quant.circle"
    words += f" --first_input_data {data} --second_input_data {data}" if data else ""
    assert logged()["circle-eval-diff"] == f"{words} --print_mae --print_mse"
    printed = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("Evaluating ") for line in printed) == (2 if data else 3)
    names = [line.split(" for z is ")[0] for line in printed if " for z is " in line]
    assert names == ["MAE", "MSE"]


# -- changes of quantized models -----------------------------------------------------------------


@pytest.fixture
def quantized(work: Path) -> Path:
    assert call("", target="first.circle") == 0
    return work


def grids(path: str) -> dict[str, tuple[float, int]]:
    """Return {name of a value: (scale, zero point)} for values with one scale."""
    found = {}
    for value in circlekit.load(path).main.values():
        if value.quantization is not None and len(value.quantization.scale) == 1:
            found[value.name] = (float(value.quantization.scale[0]), int(value.quantization.zero_point[0]))
    return found


@pytest.mark.parametrize(
    ("options", "words", "changed"),
    [
        (
            "--force_quantparam --tensor_name x z --scale 0.5 2 --zero_point 3 128",
            "--force_quantparam x 0.5 3 --force_quantparam z 2 128",
            {"x": (0.5, 3), "z": (2.0, 128)},
        ),
        (
            "--copy_quantparam --src_tensor_name x --dst_tensor_name z",
            "--copy_quantparam x z",
            {"z": None},
        ),
    ],
)
def test_grids_are_changed(
    quantized: Path, options: str, words: str, changed: dict[str, tuple[float, int] | None]
) -> None:
    before = grids("first.circle")
    assert call(options, "first.circle") == 0
    assert list(logged().values()) == [f"circle-quantizer {words} first.circle q.circle"]
    expected = {name: grid or before["x"] for name, grid in changed.items()}
    assert grids("q.circle") == {**before, **expected}


def test_a_quantized_model_becomes_float(quantized: Path) -> None:
    assert (
        call("--fake_quantize --requantize --input_dtype int8 --quantized_dtype uint8", "first.circle") == 0
    )
    assert list(logged().values()) == ["circle-quantizer --fake_quantize first.circle q.circle"]
    assert interface_dtypes() == ["f32", "f32"]


GRID = "quant(scale: 0.5, zero_point: 3)"
INT8 = f"graph main(%x: i8[2] {GRID}) -> %y {{\n%y = Reshape(%x, [2,1]) : i8[2,1] {GRID}\n}}\n"


@pytest.mark.parametrize(
    ("dtypes", "message"),
    [
        ("--input_model_dtype int8 --quantized_dtype uint8", ""),
        ("--input_dtype INT8 --quantized_dtype UINT8", ""),
        ("--input_model_dtype int8 --input_dtype float32 --quantized_dtype uint8", ""),
        ("--input_model_dtype int8 --quantized_dtype int16", "Unsupported output type 'int16'"),
        ("--input_model_dtype uint8 --quantized_dtype uint8", "Unsupported input type 'uint8'"),
    ],
)
def test_int8_becomes_uint8(
    work: Path, dtypes: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    circlekit.save(circlekit.parse(INT8), "i8.circle")
    code = call(f"--requantize {dtypes}", "i8.circle")
    assert (code, message in capsys.readouterr().err) == (255 if message else 0, True)
    if not message:
        first, second = dtypes.split()[1], dtypes.split()[-1]
        words = f"circle-quantizer --requantize {first} {second} i8.circle q.circle"
        assert list(logged().values()) == [words]
        assert interface_dtypes() == ["u8", "u8"]
        assert grids("q.circle")["x"] == (0.5, 131)  # 3 + 128
