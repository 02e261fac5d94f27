# SPDX-License-Identifier: Apache-2.0
"""circlekit optimize with the flags of circle2circle: passes, files and output."""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pytest

import circlekit
from circlekit.cli.optimize import optimize as main
from tests.nets import TCONV_BATCH_NORM

NEAR_MISS = TCONV_BATCH_NORM.replace("[2.0, 1.5, 0.5])", "[2.0, 1.5, 0.5]) {act: RELU}")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "in.ck"
    path.write_text(TCONV_BATCH_NORM)
    return path


def codes(path: Path) -> list[str]:
    return [op.code for op in circlekit.load(path).graphs[0].ops]


def test_o1_fuses_and_reports(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(recipe), str(tmp_path / "out.circle"), "--O1", "--verify"]) == 0
    assert codes(tmp_path / "out.circle") == ["TRANSPOSE_CONV", "RELU"]
    out, err = capsys.readouterr()
    rows = {line.split("  ")[0]: line.split()[-2:] for line in out.splitlines()}
    assert rows["TRANSPOSE_CONV"] == ["1", "1"]
    assert rows["MUL"] == ["1", "0"]
    assert rows["operators"] == ["3", "2"]
    assert rows["file size, bytes"][-1] == f"{(tmp_path / 'out.circle').stat().st_size:,}"
    assert rows["parameters"] == ["60", "57"]
    assert rows["MACs"][0] == rows["MACs"][1] != "0"
    found = re.search(r"^verified: equal within ([\d.e-]+), allowed ([\d.e-]+)$", out, re.MULTILINE)
    assert found is not None
    assert 0 < float(found[1]) < float(found[2]) < 1e-2
    assert err == ""


def test_without_passes_it_copies(recipe: Path, tmp_path: Path) -> None:
    assert main([str(recipe), str(tmp_path / "a.circle")]) == 0
    assert codes(tmp_path / "a.circle") == ["TRANSPOSE_CONV", "MUL", "ADD"]
    assert main([str(tmp_path / "a.circle"), str(tmp_path / "b.circle")]) == 0
    assert (tmp_path / "b.circle").read_bytes() == (tmp_path / "a.circle").read_bytes()


@pytest.mark.parametrize(
    "flags",
    [
        ["--fuse_batchnorm_with_tconv"],
        ["--fuse-batchnorm-with-tconv"],
        ["--O1", "--disable", "remove_dead"],
        ["--passes", "fuse_batchnorm_with_tconv", "--passes", "remove_dead"],
        ["--remove_dead", "--fuse_batchnorm_with_tconv"],
        ["--fuse_batchnorm_with_tconv", "--remove_dead"],
    ],
    ids=" ".join,
)
def test_passes_are_chosen_by_flags(recipe: Path, tmp_path: Path, flags: list[str]) -> None:
    assert main([*flags, str(recipe), str(tmp_path / "out.tflite")]) == 0
    assert codes(tmp_path / "out.tflite")[0] == "TRANSPOSE_CONV"
    assert "MUL" not in codes(tmp_path / "out.tflite")


def test_disable_removes_a_pass(recipe: Path, tmp_path: Path) -> None:
    flags = ["--fuse_batchnorm_with_tconv", "--disable", "fuse-batchnorm-with-tconv"]
    assert main([*flags, str(recipe), str(tmp_path / "out.circle")]) == 0
    assert "MUL" in codes(tmp_path / "out.circle")


def test_the_order_of_flags_has_no_effect(recipe: Path, tmp_path: Path) -> None:
    flags = ["--fuse_batchnorm_with_tconv", "--remove_dead", "--fold_constants"]
    assert main([str(recipe), str(tmp_path / "a.circle"), *flags]) == 0
    assert main([*flags[::-1], str(recipe), str(tmp_path / "b.circle")]) == 0
    assert (tmp_path / "a.circle").read_bytes() == (tmp_path / "b.circle").read_bytes()


def test_flags_may_stand_between_the_files(recipe: Path, tmp_path: Path) -> None:
    assert main([str(recipe), "--O1", str(tmp_path / "out.circle")]) == 0
    assert codes(tmp_path / "out.circle") == ["TRANSPOSE_CONV", "RELU"]


def test_input_and_output_may_be_one_path(recipe: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.circle"
    assert main([str(recipe), str(path)]) == 0
    assert main([str(path), str(path), "--O1"]) == 0
    assert codes(path) == ["TRANSPOSE_CONV", "RELU"]


def test_format_option_replaces_a_missing_extension(recipe: Path, tmp_path: Path) -> None:
    assert main([str(recipe), str(tmp_path / "out"), "--format", "tflite"]) == 0
    assert (tmp_path / "out").read_bytes()[4:8] == b"TFL3"


def test_explain_prints_operator_and_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.ck").write_text(NEAR_MISS)
    flags = ["--explain", "fuse_batchnorm_with_tconv"]
    assert main([str(tmp_path / "in.ck"), str(tmp_path / "out.circle"), *flags]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fuse_batchnorm_with_tconv rewrote nothing; the nearest miss:"
    assert lines[1].startswith("  %y = Add(%m, ")
    assert "    %m: act is RELU, expected NONE" in lines


def test_passes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-passes"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n  fuse_batchnorm_with_tconv ") == 1
    assert re.search(r"^in O1, phase \d+: clean up\n(  .*\n)*  remove_duplicate_const ", out, re.MULTILINE)


def test_passes_are_listed_with_descriptions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-passes", "--verbose"]) == 0
    out = capsys.readouterr().out.partition("## fuse_batchnorm_with_tconv\n")[2].partition("\n## ")[0]
    assert "- in O1\n" in out
    assert "\nbefore\n    y = TransposeConv(" in out
    assert "\nafter\n    z = TransposeConv(" in out


def test_record_contains_the_compared_values(recipe: Path, tmp_path: Path) -> None:
    assert main([str(recipe), str(tmp_path / "out.circle"), "--O1", "--record", str(tmp_path / "rec")]) == 0
    files = sorted(str(p.relative_to(tmp_path / "rec")) for p in (tmp_path / "rec").rglob("*.h5"))
    names = ["expected.h5", "input.h5", "opt.expected.h5"]
    assert files == sorted(
        [
            *names,
            *(f"{kind}/{name}" for kind in ("boundary", "zero", "positive", "negative") for name in names),
        ]
    )
    with h5py.File(tmp_path / "rec" / "input.h5") as file:
        assert file["name"].attrs["0"] in (b"x", "x")
        given = file["value/0"][()]
    (result,) = circlekit.run(circlekit.load(tmp_path / "out.circle"), [given])
    with h5py.File(tmp_path / "rec" / "opt.expected.h5") as file:
        assert np.array_equal(file["value/0"][()], result)
    (before,) = circlekit.run(circlekit.load(recipe), [given])
    with h5py.File(tmp_path / "rec" / "expected.h5") as file:
        assert np.array_equal(file["value/0"][()], before)


def test_records_are_the_same_bytes_each_time(recipe: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        flags = ["--O1", "--record", str(tmp_path / name)]
        assert main([str(recipe), str(tmp_path / "out.circle"), *flags]) == 0
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / n).glob("*.h5")} for n in ("one", "two"))
    assert one == two
