# SPDX-License-Identifier: Apache-2.0
"""circlekit compare: equal and different models and files; its numbers are those that numpy computes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import h5py
import numpy as np
import pytest

from circlekit.cli.compare import MAX_LABELS, _worst_of_each, compare_command
from circlekit.equivalence.array_comparison import Difference, Outcome
from circlekit.equivalence.data_files.output_files import write_outputs
from tests.cli.call_command import call_command

TEXT = """
graph main(%x: f32[2,3]) -> %y, %z {
  %a = Mul(%x, [1.0, 2.0, 3.0]) : f32[2,3]
  %b = Add(%a, 1.0)             : f32[2,3]
  %y = Neg(%b)                  : f32[2,3]
  %z = Abs(%x)                  : f32[2,3]
}
"""
X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)

Output = pytest.CaptureFixture[str]


@pytest.fixture
def nets(tmp_path: Path) -> list[str]:
    """Return the paths of three models: ``net``; ``same``, with equal values; ``other``, with another %b, %y.

    Also write X to x.npy beside the models.
    """
    same = TEXT.replace("%b = Add(%a, 1.0)", "%b = Sub(%a, -1.0)")
    other = TEXT.replace("Add(%a, 1.0)", "Add(%a, 1.5)")
    for name, text in (("net", TEXT), ("same", same), ("other", other)):
        (tmp_path / f"{name}.ck").write_text(text)
    np.save(tmp_path / "x.npy", X)
    return [str(tmp_path / f"{name}.ck") for name in ("net", "same", "other")]


def test_equal_models(nets: list[str]) -> None:
    done = call_command("circlekit", "compare", *nets[:2])
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[2].startswith("inputs  normal, boundary, ")
    assert lines[2].endswith("(seeded)")
    assert lines[-1] == "exactly equal"


def test_different_models(nets: list[str], tmp_path: Path) -> None:
    data = str(tmp_path / "x.npy")
    done = call_command("circlekit", "compare", nets[0], nets[2], "--inputs", data, "--json", "--per-layer")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    before, after = -(X * [1, 2, 3] + 1), -(X * [1, 2, 3] + 1.5)
    y, z = document["outputs"]
    rmse = np.sqrt(np.mean((before - after) ** 2))
    assert y["difference"] == np.abs(before - after).max()
    assert y["psnr_db"] == pytest.approx(20 * np.log10((before.max() - before.min()) / rmse))
    assert y["cosine"] == pytest.approx(
        np.vdot(before, after) / np.linalg.norm(before) / np.linalg.norm(after)
    )
    assert [(o["name"], o["inputs"], o["equal"]) for o in (y, z)] == [
        ("y", "given", False),
        ("z", "given", True),
    ]
    assert document["equal"] is False
    assert document["first_difference"] == "b"
    assert [layer["equal"] for layer in document["layers"]] == [True, False, False, True]  # a, b, y, z


def test_the_first_different_layer_is_shown(nets: list[str], capsys: Output) -> None:
    assert compare_command([nets[0], nets[2], "--per-layer"]) == 1
    out = capsys.readouterr().out
    assert "results of operators with the same name in both models: 4, of which 2 differ" in out
    assert "first difference: output %b on normal inputs" in out
    assert "%b = Add(%a, 1.5)" in out
    assert out.splitlines()[-1] == "different"


def test_a_tolerance_is_for_all_elements_of_an_output(tmp_path: Path) -> None:
    """By default, the output differs in its small number; its largest difference is in the large one."""
    body = "%a = Mul(%x, 1000.0) %b = Mul(%x, 1.0) %y = Concatenation(%a, %b) {axis: 0}"
    text = f"graph main(%x: f32[1]) -> %y {{ {body} }}"
    (tmp_path / "a.ck").write_text(text)
    (tmp_path / "b.ck").write_text(text.replace("1000.0", "1000.004").replace("1.0)", "1.0005)"))
    (tmp_path / "x.raw").write_bytes(np.float32(1).tobytes())
    files = [str(tmp_path / name) for name in ("a.ck", "b.ck")]
    data = ["--inputs", str(tmp_path / "x.raw")]
    assert compare_command([*files, *data]) == 1
    assert compare_command([*files, *data, "--tolerance", "0.005"]) == 0
    assert compare_command([*files, *data, "--tolerance", "0.001"]) == 1


def test_the_tolerance_is_absolute(nets: list[str], capsys: Output) -> None:
    assert compare_command([nets[0], nets[2], "--tolerance", "0.51"]) == 0
    assert "allowed 0.51" in capsys.readouterr().out.splitlines()[-1]
    assert compare_command([nets[0], nets[2], "--tolerance", "0.49", "-q"]) == 1
    assert capsys.readouterr().out == ""


def test_other_names_are_compared_by_position(nets: list[str], tmp_path: Path, capsys: Output) -> None:
    renamed = tmp_path / "renamed.ck"
    renamed.write_text(TEXT.replace("%x", "%in").replace("%y", "%first").replace("%z", "%second"))
    assert compare_command([nets[0], str(renamed)]) == 1
    out = capsys.readouterr().out
    assert "interface: output 0 was %y: f32[2,3], is %first: f32[2,3]" in out
    assert "no outputs were compared" in out
    assert compare_command([nets[0], str(renamed), "--by-position"]) == 0


def test_files_of_arrays(tmp_path: Path, capsys: Output) -> None:
    np.savez(tmp_path / "a.npz", y=X, z=X)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        for index, (name, array) in enumerate({"y:0": X, "z": X + np.float32(0.25)}.items()):
            file[f"value/{index}"] = array
            file.require_group("name").attrs[str(index)] = name
    done = call_command("circlekit", "compare", str(tmp_path / "a.npz"), str(tmp_path / "b.h5"))
    assert done.returncode == 1
    rows = {line.split()[-1]: line.split() for line in done.stdout.splitlines() if "%" in line}
    assert rows["%y"][:2] == ["equal", "0"]
    assert rows["%z"][:2] == ["DIFFERENT", "0.25"]
    np.savez(tmp_path / "c.npz", y=X)
    assert compare_command([str(tmp_path / "a.npz"), str(tmp_path / "c.npz")]) == 1
    assert f"missing in {tmp_path / 'c.npz'}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("after", "words", "code", "sentence"),
    [
        ("missing.circle", [], 1, "missing.circle: cannot be read"),
        ("x.npy", [], 2, "expected two models or two files of arrays"),
        ("same.ck", ["--inputs", "none"], 1, "none: no such file or folder"),
        ("same.ck", ["--tolerance", "-1"], 2, "expected a finite number that is not negative"),
    ],
)
def test_mistakes_end_with_an_error(
    after: str, words: list[str], code: int, sentence: str, nets: list[str], tmp_path: Path, capsys: Output
) -> None:
    assert compare_command([nets[0], str(tmp_path / after), *words]) == code
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--min-sqnr", "--csv"])
@pytest.mark.parametrize("name", ["net.ck", "x.npy"])
def test_flags_for_quantized_models_are_refused_before_any_work(
    name: str, flag: str, nets: list[str], tmp_path: Path, capsys: Output
) -> None:
    """The file missing.npy does not exist: the flags are refused before it would be opened."""
    words = [str(tmp_path / name), str(tmp_path / "missing.npy")]
    if name == "net.ck":
        words = [nets[0], nets[1], "--inputs", str(tmp_path / "missing.npy")]
    assert compare_command([*words, flag, "20"]) == 2
    assert "--csv and --min-sqnr are for a float model and its quantized form" in capsys.readouterr().err


@pytest.mark.parametrize("count", [1, MAX_LABELS, MAX_LABELS + 2])
def test_many_records_are_named_in_part(count: int, nets: list[str], tmp_path: Path, capsys: Output) -> None:
    np.save(tmp_path / "many.npy", np.stack([X] * count))
    assert compare_command([*nets[:2], "--inputs", str(tmp_path / "many.npy")]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("inputs")]
    assert line.count("record_") == (0 if count == 1 else MAX_LABELS)
    assert line.endswith("and 2 more") == (count > MAX_LABELS)


def test_layers_are_compared_if_asked_and_if_outputs_can_be(
    nets: list[str], tmp_path: Path, capsys: Output
) -> None:
    sentence = "results of operators with the same name in both models"
    assert compare_command([nets[0], nets[2]]) == 1
    assert sentence not in capsys.readouterr().out
    (tmp_path / "renamed.ck").write_text(TEXT.replace("%x", "%in"))
    compare_command([nets[0], str(tmp_path / "renamed.ck"), "--per-layer"])
    out = capsys.readouterr().out
    assert "no outputs were compared" in out
    assert sentence not in out


@pytest.mark.parametrize("columns", [50, 70])
def test_texts_are_as_wide_as_the_terminal(
    columns: int, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    names = ", ".join(["%x"] * 40)
    body = f"%y = Concatenation({names}) {{axis: 0}} : f32[80]\n%z = Neg(%y)"
    text = f"graph main(%x: f32[2]) -> %z {{\n{body}\n}}"
    other = text.replace("(%x, ", "(%n, ").replace("%y =", "%n = Neg(%x)\n%y =", 1)
    for name, content in (("a", text), ("b", other)):
        (tmp_path / f"{name}.ck").write_text(content)
    assert compare_command([str(tmp_path / "a.ck"), str(tmp_path / "b.ck"), "--per-layer"]) == 1
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines if line.startswith("  ") and line.count("%x") > 4]
    assert len(shown) >= 2
    assert columns - 5 <= max(map(len, shown)) <= columns


def test_by_position_ignores_signatures_if_the_first_model_has_none(tmp_path: Path) -> None:
    text = "graph main(%x: f32[2]) -> %y { %y = Neg(%x) }"
    (tmp_path / "a.ck").write_text(text)
    (tmp_path / "b.ck").write_text('signature "s" @main (p: %x) -> (q: %y)\n' + text)
    (tmp_path / "c.ck").write_text('signature "s" @main (p: %x) -> (r: %y)\n' + text)
    files = {name: str(tmp_path / f"{name}.ck") for name in "abc"}
    assert compare_command([files["a"], files["b"]]) == 1
    assert compare_command([files["a"], files["b"], "--by-position"]) == 0
    assert compare_command([files["b"], files["c"], "--by-position"]) == 1


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
@pytest.mark.parametrize(
    ("after", "code"), [([b"ab", b"c"], 0), ([b"ab", b"d"], 1), ([b"ab", b"dddd"], 1), ([b"ab"], 1)]
)
def test_files_of_strings(after: list[bytes], code: int, suffix: str, tmp_path: Path, capsys: Output) -> None:
    paths = [str(tmp_path / f"{name}{suffix}") for name in ("before", "after")]
    for path, texts in zip(paths, ([b"ab", b"c"], after), strict=True):
        write_outputs(path, ["s"], {"": [np.array(texts, object)]})
    assert compare_command(paths) == code
    assert ("exactly equal" in capsys.readouterr().out) == (code == 0)


def test_json_of_arrays_that_cannot_be_compared(tmp_path: Path, capsys: Output) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones(2), y=np.ones(2))
    np.savez(tmp_path / "b.npz", x=np.ones(2), y=np.ones(3))
    assert compare_command([str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--json"]) == 1
    x, y = json.loads(capsys.readouterr().out)["outputs"]
    assert (x["equal"], x["index"], x["difference"]) == (True, [0], 0)
    assert (y["equal"], y["index"], y["difference"]) == (False, None, None)
    assert (x["reason"], y["reason"]) == (None, "shapes [2] and [3] differ")


@pytest.mark.parametrize("words", [["--inputs", "x.npy"], ["--per-layer"], ["--by-position"]])
def test_files_of_arrays_have_no_inputs_and_no_layers(words: list[str], capsys: Output) -> None:
    assert compare_command(["a.npz", "b.npz", *words]) == 2
    assert "are for models" in capsys.readouterr().err


def test_arrays_of_other_shapes_have_a_reason_in_place_of_numbers(tmp_path: Path, capsys: Output) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([1.0, 2.0]), y=np.ones(2), z=np.arange(2.0))
    np.savez(tmp_path / "b.npz", x=np.array([1.0, 2.5]), y=np.ones(3), z=np.arange(2.0))
    files = [str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]
    assert compare_command([*files, "--tolerance", "0.5"]) == 1
    rows = {
        line.split("%")[1][0]: line.split() for line in capsys.readouterr().out.splitlines() if "%" in line
    }
    # verdict, difference, allowed, relative; the fifth column is the PSNR
    assert rows["x"][:4] == ["equal", "0.5", "0.5", "0.25"]
    assert rows["y"][:3] == ["DIFFERENT", "%y:", "shapes"]
    assert (rows["z"][0], rows["z"][4]) == ("equal", "inf")
    assert compare_command([*files, "--tolerance", "0.4"]) == 1
    x = next(line for line in capsys.readouterr().out.splitlines() if "%x" in line)
    assert x.split()[:3] == ["DIFFERENT", "0.5", "0.4"]


def test_flags_for_quantized_models_need_one(nets: list[str], tmp_path: Path, capsys: Output) -> None:
    for words in (["--csv", str(tmp_path / "layers.csv")], ["--min-sqnr", "3"]):
        assert compare_command([*nets[:2], *words]) == 2
        assert "are for a float model and its quantized form" in capsys.readouterr().err
    assert not (tmp_path / "layers.csv").exists()


def test_the_first_different_layer_of_an_operator_with_several_results(
    tmp_path: Path, capsys: Output
) -> None:
    text = "graph main(%x: f32[4]) -> %b { %a, %b = Split(0, %x) {num_splits: 2} : f32[2], f32[2] }"
    (tmp_path / "a.ck").write_text(text)
    other = text.replace("{ %a", "{ %n = Add(%x, [0.0, 0.0, 1.0, 1.0])  %a").replace("(0, %x)", "(0, %n)")
    for name, content in (("a", text), ("b", other)):
        (tmp_path / f"{name}.ck").write_text(content)
    assert compare_command([str(tmp_path / "a.ck"), str(tmp_path / "b.ck"), "--per-layer"]) == 1
    assert "  %a, %b = Split(0, %n)" in capsys.readouterr().out


def test_the_worst_inputs_of_each_output_are_shown() -> None:
    def outcome(name: str, inputs: str, difference: float) -> Outcome:
        worst = Difference((0,), 0.0, difference, difference, math.inf, tolerance=1.0)
        return Outcome(name, worst, inputs=inputs)

    outcomes = [
        outcome("a", "1", 2.0),
        outcome("b", "1", 0.5),
        outcome("a", "2", 3.0),
        outcome("b", "2", 0.5),
    ]
    found = [(each.name, each.inputs) for each in _worst_of_each(outcomes)]
    assert found == [("a", "2"), ("b", "1")]
