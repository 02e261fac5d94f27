# SPDX-License-Identifier: Apache-2.0
"""circlekit compare with a quantized model: errors of outputs and operators, and the flags for them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from circlekit.cli.compare import compare_command
from circlekit.cli.output import quantization_errors

Output = pytest.CaptureFixture[str]


def test_a_quantized_model_is_compared_as_real_numbers(tmp_path: Path, capsys: Output) -> None:
    """The largest difference is at most half a step of the input plus half a step of the output."""
    form = "i8[64] quant(scale: 0.05, zero_point: 3)"
    body = f"%r = Dequantize(%x) : f32[64]\n%n = Neg(%r)\n%y = Quantize(%n) : {form}"
    (tmp_path / "float.ck").write_text("graph main(%x: f32[64]) -> %y { %y = Neg(%x) }")
    (tmp_path / "int8.ck").write_text(f"graph main(%x: {form}) -> %y {{\n{body}\n}}")
    np.save(tmp_path / "x.npy", np.linspace(-5, 5, 64, dtype=np.float32))
    words = [*(str(tmp_path / name) for name in ("float.ck", "int8.ck")), "--json"]
    assert compare_command([*words, "--inputs", str(tmp_path / "x.npy"), "--per-layer"]) == 1
    document = json.loads(capsys.readouterr().out)
    (output,) = document["outputs"]
    assert 0 < output["difference"] <= 0.05 + 1e-6
    assert output["relative"] == pytest.approx(output["difference"] / 5)
    assert output["cosine"] > 0.999
    assert len(document["interface"]) == 2
    assert [layer["name"] for layer in document["quantization"]["layers"]] == ["y"]
    judged = [*words, "--values-only", "--tolerance"]
    assert compare_command([*judged, "0.06", "--inputs", str(tmp_path / "x.npy")]) == 0
    assert json.loads(capsys.readouterr().out)["interface"] == []
    assert compare_command([*judged, "0.01", "--inputs", str(tmp_path / "x.npy")]) == 1


def test_errors_of_a_quantized_model(tmp_path: Path, capsys: Output) -> None:
    """--min-sqnr decides instead of equality, and --csv has a row for each operator."""
    form = "i8[64] quant(scale: 0.05)"
    (tmp_path / "float.ck").write_text("graph main(%x: f32[64]) -> %y { %y = Neg(%x) }")
    body = f"%q = Quantize(%x) : {form}\n%n = Neg(%q) : {form}\n%y = Dequantize(%n) : f32[64]"
    (tmp_path / "int8.ck").write_text(f"graph main(%x: f32[64]) -> %y {{\n{body}\n}}")
    x = np.linspace(-5, 5, 64, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    words = [*(str(tmp_path / name) for name in ("float.ck", "int8.ck")), "--inputs", str(tmp_path / "x.npy")]
    sqnr = 10 * np.log10(np.sum(x**2) / np.sum((np.rint(x / 0.05) * 0.05 - x) ** 2))
    table = str(tmp_path / "layers.csv")
    assert compare_command([*words, "--min-sqnr", f"{sqnr - 0.1}", "--csv", table]) == 0
    assert f"{sqnr:.1f}" in capsys.readouterr().out
    assert compare_command([*words, "--min-sqnr", f"{sqnr + 0.1}"]) == 1
    assert Path(table).read_text().splitlines()[1].startswith("NEG,0,64,")


def test_models_with_other_inputs_have_no_errors(tmp_path: Path, capsys: Output) -> None:
    form = "i8[32] quant(scale: 0.05)"
    (tmp_path / "float.ck").write_text("graph main(%x: f32[64]) -> %y { %y = Neg(%x) }")
    (tmp_path / "int8.ck").write_text(f"graph main(%other: {form}) -> %y {{\n%y = Abs(%other) : {form}\n}}")
    assert compare_command([str(tmp_path / "float.ck"), str(tmp_path / "int8.ck")]) == 1
    shown = capsys.readouterr().out
    assert "no outputs were compared" in shown
    assert "SQNR" not in shown


def test_an_output_that_is_no_longer_finite_fails_the_limit_of_the_sqnr(tmp_path: Path) -> None:
    """The input 0.01 is rounded to 0, so its logarithm is -inf; the logarithm of -1 is NaN in both models."""
    (tmp_path / "float.ck").write_text("graph main(%x: f32[2]) -> %y { %y = Log(%x) }")
    steps = "%q = Quantize(%x) : i8[2] quant(scale: 0.05)  %r = Dequantize(%q) : f32[2]  %y = Log(%r)"
    (tmp_path / "int8.ck").write_text(f"graph main(%x: f32[2]) -> %y {{ {steps} }}")
    words = [*(str(tmp_path / name) for name in ("float.ck", "int8.ck")), "--min-sqnr", "20"]
    for first, code in ((0.01, 1), (-1.0, 0)):
        np.save(tmp_path / "x.npy", np.array([first, 3.0], np.float32))
        assert compare_command([*words, "--inputs", str(tmp_path / "x.npy")]) == code


@pytest.mark.parametrize(("x", "code"), [(0.01, 1), (0.5, 0)])
def test_an_error_where_the_float_output_is_zero_fails_the_limit_of_the_sqnr(
    x: float, code: int, tmp_path: Path
) -> None:
    """Only 0.01 is rounded by the quantization; 0.5 is a multiple of the scale."""
    (tmp_path / "float.ck").write_text("graph main(%x: f32[2]) -> %y { %y = Sub(%x, %x) }")
    steps = "%q = Quantize(%x) : i8[2] quant(scale: 0.25)  %r = Dequantize(%q) : f32[2]  %y = Sub(%x, %r)"
    (tmp_path / "int8.ck").write_text(f"graph main(%x: f32[2]) -> %y {{ {steps} }}")
    words = [*(str(tmp_path / name) for name in ("float.ck", "int8.ck")), "--min-sqnr", "20"]
    np.save(tmp_path / "x.npy", np.array([x, 0.25], np.float32))
    assert compare_command([*words, "--inputs", str(tmp_path / "x.npy")]) == code


@pytest.mark.parametrize("more", [0, 1, 2])
def test_many_layers_are_printed_in_part(more: int, tmp_path: Path, capsys: Output) -> None:
    """With --per-layer, the table of a quantized model's operators has MAX_PRINTED_LAYERS rows."""
    size = quantization_errors.MAX_PRINTED_LAYERS + more
    form = "i8[4] quant(scale: 0.05)"
    chain = "\n".join(f"%v{n + 1} = Neg(%v{n})" for n in range(size))
    (tmp_path / "float.ck").write_text(f"graph main(%v0: f32[4]) -> %v{size} {{\n{chain}\n}}")
    steps = [f"%q = Quantize(%v0) : {form}", f"%v1 = Neg(%q) : {form}"]
    steps += [f"%v{n + 1} = Neg(%v{n}) : {form}" for n in range(1, size - 1)]
    steps += [f"%last = Neg(%v{size - 1}) : {form}", f"%v{size} = Dequantize(%last) : f32[4]"]
    text = "\n".join(steps)
    (tmp_path / "int8.ck").write_text(f"graph main(%v0: f32[4]) -> %v{size} {{\n{text}\n}}")
    words = [str(tmp_path / "float.ck"), str(tmp_path / "int8.ck")]
    compare_command([*words, "--per-layer"])
    lines = capsys.readouterr().out.splitlines()
    found = [line for line in lines if " more operator" in line]
    noun = "operator" if more == 1 else "operators"
    assert found == ([f"... and {more} more {noun}; --csv and --json list all"] if more else [])
    start = lines.index("operators, by the error that each adds to its result")
    rows = [line for line in lines[start:] if line.startswith("NEG")]
    assert len(rows) == quantization_errors.MAX_PRINTED_LAYERS
    compare_command(words)
    assert "operators, by the error that each adds to its result" not in capsys.readouterr().out


def test_an_infinite_sqnr_is_aligned_and_null_in_json(tmp_path: Path, capsys: Output) -> None:
    """The int8 model computes exactly the numbers of the float model, so its SQNR is infinite."""
    form = "i8[4] quant(scale: 0.5)"
    (tmp_path / "float.ck").write_text("graph main(%x: f32[4]) -> %y { %n = Neg(%x)  %y = Abs(%n) }")
    steps = f"%q = Quantize(%x) : {form}  %n = Neg(%q) : {form}  %a = Abs(%n) : {form}"
    text = f"graph main(%x: f32[4]) -> %y {{ {steps}  %y = Dequantize(%a) : f32[4] }}"
    (tmp_path / "int8.ck").write_text(text)
    np.save(tmp_path / "x.npy", np.array([1, -2, 3.5, 0], np.float32))
    words = [*(str(tmp_path / name) for name in ("float.ck", "int8.ck")), "--inputs", str(tmp_path / "x.npy")]
    assert compare_command([*words, "--per-layer"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("quantization error of the outputs") + 1
    heading, row = lines[start : start + 2]
    first = heading.split("  ")[0]  # SQNR dB: the number below it ends in the same column
    assert row.index(row.split()[0]) + len(row.split()[0]) == heading.index(first.strip()) + len(
        first.strip()
    )
    assert compare_command([*words, "--json"]) == 0
    (output,) = json.loads(capsys.readouterr().out)["quantization"]["outputs"]
    assert (output["name"], output["sqnr_db"], output["mse"]) == ("y", None, 0)
