# SPDX-License-Identifier: Apache-2.0
"""circle-eval-diff: ONE's lines, metrics computed by hand, and what it refuses."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.cli.quant import eval_diff
from circlekit.cli.quant.eval_diff import circle_eval_diff

NET = "graph main(%x: f32[1,6]) -> %y {{ %a = Neg(%x) : f32[1,6]\n %y = Add(%a, [[{}]]) : f32[1,6] }}"


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Return the flags of two models whose outputs differ by 0.5 in one element, and of two samples."""
    shifts = ("0.0, 0.0, 0.0, 0.0, 0.0, 0.0", "0.0, 0.0, 0.5, 0.0, 0.0, 0.0")
    found = []
    for which, shift in zip(("first", "second"), shifts, strict=True):
        circlekit.save(circlekit.parse(NET.format(shift)), tmp_path / f"{which}.circle")
        found += [f"--{which}_model", str(tmp_path / f"{which}.circle")]
        found += [f"--{which}_input_data", str(tmp_path / "data.npz")]
    records = np.array([[[1, 2, 4, 5, 6, 7]], [[-1, -2, -4, -5, -6, -7]]], np.float32)
    np.savez(tmp_path / "data.npz", x=records)
    return found


def test_metrics_by_hand(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["mae", "mape", "mpeir", "mse", "top1_match", "top5_match", "sqnr"]
    assert circle_eval_diff([*words, *(f"--print_{flag}" for flag in flags)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Evaluating 0'th data", "Evaluating 1'th data"]
    signal, noise = 2 * (1 + 4 + 16 + 25 + 36 + 49), 2 * 0.25
    # the outputs have the magnitudes 1, 2, 4, 5, 6 and 7; the second model adds 0.5 to the third
    assert [line for line in lines if " is " in line] == [
        f"MAE for y is {0.5 / 6:g}",
        f"MAPE for y is {100 * 0.5 / 4 / 6:g}%",
        f"MPEIR for y is {0.5 / (7 - 1):g}",
        "Mean Top-1 match ratio for y is 1",
        "Mean Top-5 match ratio for y is 1",
        f"MSE for y is {0.25 / 6:g}",
        f"SQNR for y is {10 * np.log10(signal / noise):g} dB",
    ]


@pytest.mark.parametrize(
    ("flags", "line"),
    [(["--print_sqnr"], "SQNR for y"), (["--print_topk_match", "1"], "Mean Top-1 match ratio for y")],
)
def test_the_default_metric_is_printed_only_if_no_other_is_asked_for(
    words: list[str], flags: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert circle_eval_diff([*words, *flags]) == 0
    lines = [each for each in capsys.readouterr().out.splitlines() if " is " in each]
    assert [each.partition(" is ")[0] for each in lines] == [line]


def test_layers_dumps_and_defaults(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = str(tmp_path / "dump")
    assert circle_eval_diff([*words, "--print_layers", "--dump_output_with_prefix", prefix]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows] == ["result", "a", "y"]
    assert rows[1][2] == "inf"
    assert np.fromfile(f"{prefix}.1.second.output0", np.float32).tolist() == [1, 2, 4.5, 5, 6, 7]
    assert circle_eval_diff([w for w in words if "data" not in w]) == 0
    assert "Mean Absolute Error (MAE)\nMAE for y is 0.0833" in capsys.readouterr().out


def test_faults(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert circle_eval_diff(words[:6]) == 255
    assert "ERROR: Input data path should be given for both" in capsys.readouterr().err
    assert circle_eval_diff([*words, "--input_data_format", "csv"]) == 255
    assert "Unsupported input data format 'csv'" in capsys.readouterr().err
    assert circle_eval_diff(["--first_model", "a.circle"]) == 255


def test_short_outputs_and_other_dtypes(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = "graph main(%x: f32[3]) -> %y { %y = Neg(%x) : f32[3] }"
    paths = [str(tmp_path / name) for name in ("short.circle", "integer.circle")]
    circlekit.save(circlekit.parse(short), paths[0])
    circlekit.save(circlekit.parse(short.replace("f32", "i32")), paths[1])
    flags = ["--print_top5_match", "--print_top1_match", "--first_model", paths[0], "--second_model"]
    assert circle_eval_diff([*flags, paths[0]]) == 0
    lines = capsys.readouterr().out.splitlines()
    ignored = "Top-5metric for y is ignored, because it has elements less than 5"
    assert [line for line in lines if " y is " in line] == [ignored, "Mean Top-1 match ratio for y is 1"]
    assert circle_eval_diff([*flags, paths[1]]) == 255
    assert "ERROR: Output dtype mismatch (y, y): f32 and i32" in capsys.readouterr().err
    np.savez(tmp_path / "data.npz", x=np.ones((1, 1, 6), np.float32))
    np.savez(tmp_path / "two.npz", x=np.ones((2, 1, 6), np.float32))
    assert circle_eval_diff([*words[:-1], str(tmp_path / "two.npz")]) == 255
    assert "ERROR: expected as many samples" in capsys.readouterr().err


def test_results_of_other_shapes_and_bools_have_no_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = []
    for which, shape, mixed in (("first", "1,6", "Abs(%x)"), ("second", "2,3", "Less(%x, [[0.0]])")):
        text = f"""graph main(%x: f32[1,6]) -> %y {{
          %r = Reshape(%x, [{shape}])
          %b = Greater(%x, [[0.0]])
          %m = {mixed}
          %y = Neg(%x)
        }}"""
        circlekit.save(circlekit.parse(text), tmp_path / f"{which}.circle")
        words += [f"--{which}_model", str(tmp_path / f"{which}.circle")]
    assert circle_eval_diff([*words, "--print_layers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {row[0]: row[2:] for line in lines if len(row := line.split()) > 2}
    unknown = ["-", "nan", "nan"]
    assert [rows[name] for name in "rbmy"] == [unknown, unknown, unknown, ["inf", "0", "0"]]


@pytest.mark.parametrize(("top", "matches"), [(2, [1.0]), (3, [])])
def test_the_top_k_match_needs_at_least_k_elements(top: int, matches: list[float]) -> None:
    model = circlekit.parse("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }")
    asked = argparse.Namespace(dump_output_with_prefix=None, print_topk_match=top, print_sqnr=False)
    summary = eval_diff._Summary((model, model), asked)
    summary.record(0, [np.array([1, 2], np.float32)], [np.array([3, 4], np.float32)])
    assert summary.matches == [matches]


@pytest.mark.parametrize(("dtype", "share"), [("str", ""), ("c64", ""), ("bool", "match ratio for y is 1")])
def test_strings_and_complex_numbers_have_no_top_k_match(
    dtype: str, share: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "model.circle")
    circlekit.save(circlekit.parse(f"graph main(%x: {dtype}[2]) -> %y {{ %y = Reshape(%x, [1, 2]) }}"), path)
    words = ["--first_model", path, "--second_model", path, "--print_topk_match", "1"]
    assert circle_eval_diff([*words, "--dump_output_with_prefix", str(tmp_path / "dump")]) == 0
    dump = (tmp_path / "dump.0.first.output0").read_bytes()
    assert dtype != "str" or dump[:4] == b"\2\0\0\0"  # a string tensor begins with the number of strings
    assert capsys.readouterr().out.splitlines()[-1].endswith(share or "Top-1 results of the models")


def test_numbers_of_a_quantized_model_are_compared_as_real_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second model has another scale, so other integers stand for the same numbers; one is rounded."""
    form = "i8[4] quant(scale: {0})) -> %y {{ %y = Neg(%x) : i8[4] quant(scale: {0}) }}"
    for which, scale, data in (("first", 0.5, [2, 4, -6, 3]), ("second", 1.0, [1, 2, -3, 2])):
        circlekit.save(circlekit.parse(f"graph main(%x: {form.format(scale)}"), tmp_path / f"{which}.circle")
        np.savez(tmp_path / f"{which}.npz", x=np.array([data], np.int8))
    words = [
        word
        for which in ("first", "second")
        for word in (
            *(f"--{which}_model", str(tmp_path / f"{which}.circle")),
            *(f"--{which}_input_data", str(tmp_path / f"{which}.npz")),
        )
    ]
    assert circle_eval_diff([*words, "--print_sqnr", "--print_layers"]) == 0
    # 1, 2, -3 and 1.5, which the second model has as 2; the mean square error is 0.5**2 / 4
    sqnr = 10 * np.log10((1 + 4 + 9 + 1.5**2) / 0.5**2)
    lines = capsys.readouterr().out.splitlines()
    assert f"SQNR for y is {sqnr:g} dB" in lines
    assert lines[-1].split()[:4] == ["y", "NEG", f"{sqnr:.1f}", "0.0625"]
