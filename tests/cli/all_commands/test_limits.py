# SPDX-License-Identifier: Apache-2.0
"""Untrusted models on the command line: limits, and names with control characters or paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
import numpy as np
import pytest

import circlekit.ops  # noqa: F401  # operators are declared by being imported
from circlekit.cli import (
    circle2circle,
    dump,
    inspection,
)
from circlekit.cli.one import tensor_commands
from circlekit.cli.output.terminal import printable, shortened
from circlekit.cli.recipes import chefs, circle_reduce
from circlekit.io.write.save import to_bytes
from circlekit.ir.text import parse_model

Main = Callable[[Sequence[str] | None], int]
Output = pytest.CaptureFixture[str]

LARGE = """
graph main(%x: f32[1024,1024]) -> %y {
  %y = Neg(%x) : f32[1024,1024]
}
"""


@pytest.fixture
def large(tmp_path: Path) -> str:
    path = tmp_path / "large.ck"
    path.write_text(LARGE)
    return str(path)


@pytest.mark.parametrize("main", [circle2circle.main, circle2circle.circle2tflite])
def test_too_large_run_is_refused(main: Main, large: str, tmp_path: Path, capsys: Output) -> None:
    target = str(tmp_path / ("out.circle" if main is circle2circle.main else "out.tflite"))
    assert main([large, target, "--verify", "--max-memory", "1M"]) in (1, 255)
    assert "the limit is 1.0 MiB (1048576 bytes)" in capsys.readouterr().err
    assert not Path(target).exists()
    assert main([large, target, "--verify", "--max-memory", "1G"]) == 0


def test_interpreter_names_the_too_large_value(large: str, tmp_path: Path, capsys: Output) -> None:
    np.zeros((1024, 1024), np.float32).tofile(tmp_path / "in0")
    arguments = [large, str(tmp_path / "in"), str(tmp_path / "out")]
    assert tensor_commands.circle_interpreter([*arguments, "--max_memory=3M"]) == 255
    error = capsys.readouterr().err
    assert error.startswith("ERROR: %y: f32[1024,1024] of NEG would take 4.0 MiB (4194304 bytes)")
    assert "> main > op 0 Neg" in error
    assert tensor_commands.circle_interpreter([*arguments, "--max-memory", "4M"]) == 0


def test_endless_loop_is_stopped(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "m.ck").write_text(
        "graph main(%x: i32[1]) -> %y {\n  %y = While(%x) {cond: @more, body: @same} : i32[1]\n}\n"
        "graph more(%a: i32[1]) -> %o {\n  %o = GreaterEqual(%a, [0]) : bool[1]\n}\n"
        "graph same(%b: i32[1]) -> %p {\n  %p = Abs(%b) : i32[1]\n}\n"
    )
    assert (
        circle2circle.main(
            [str(tmp_path / "m.ck"), str(tmp_path / "o.circle"), "--O1", "--verify", "--max-calls", "1000"]
        )
        == 255
    )
    assert "1001 times in one run, the limit is 1000" in capsys.readouterr().err


def test_too_large_recipe_is_refused(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "m.ck").write_text("graph main() -> %y {\n  %y = const f32[4194304] zeros\n}\n")
    arguments = [str(tmp_path / "m.ck"), str(tmp_path / "o.tflite")]
    assert chefs.tflchef_file([*arguments, "--max-memory", "64M"]) == 255
    assert "m.ck:2:27: 4194304 elements of zeros would take 112.0 MiB" in capsys.readouterr().err
    assert chefs.tflchef_file([*arguments, "--max-memory", "128M"]) == 0


@pytest.mark.parametrize("text", ["", "0", "12Q", "-1M", "lots"])
def test_invalid_sizes_are_refused(text: str, large: str, capsys: Output) -> None:
    assert circle2circle.main([large, "o.circle", f"--max-memory={text}"]) == 255
    assert "expected a size such as 512M" in capsys.readouterr().err


# -- names ---------------------------------------------------------------------------------------

NAMES = ["\x1b[31mred", "a\0b", "two\nlines", "\u202eright", "\udcff\udcfe", "../../x", "/tmp/x", "[bold]b"]


def named(name: str, path: Path) -> str:
    """Write a model in which graph, description and values are named after ``name``; return the path."""
    model = parse_model(
        "graph main(%x: f32[1,4]) -> %y {\n  %w = const f32[4] ones\n  %y = Add(%x, %w) : f32[1,4]\n}"
    )
    model.main.inputs[0].name, model.main.outputs[0].name = name + "i", name
    model.main.name = model.description = name
    model.main.ops[0].inputs[1].name = name + "w"  # type: ignore[union-attr]  # it is there
    path.write_bytes(to_bytes(model, "circle"))
    return str(path)


@pytest.mark.parametrize("name", NAMES)
def test_control_characters_in_names_are_escaped(name: str, tmp_path: Path, capsys: Output) -> None:
    file = named(name, tmp_path / "m.circle")
    runs: list[tuple[Main, list[str]]] = [
        (inspection.circle_verify, [file]),
        (inspection.circle_inspect, ["--tensor_shape", "--constants", file]),
        (dump.circledump, [file]),
        (inspection.circle_tensordump, ["--tensors", file]),
        (circle2circle.main, [file, str(tmp_path / "o.circle"), "--O1", "--explain", "fuse_add_with_conv"]),
        (circle_reduce.main, [file, "--tries", "1", "--", "true"]),
    ]
    for main, arguments in runs:
        assert main(arguments) == 0
        out, err = capsys.readouterr()
        assert not {c for c in out + err if not (c.isprintable() or c in "\n\t")}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_not_used_as_paths(name: str, tmp_path: Path) -> None:
    """Files appear in the requested folder, whatever the names of the values."""
    folder = tmp_path / "a" / "b"
    (folder / "rec").mkdir(parents=True)
    file = named(name, folder / "m.circle")
    record = ["--O1", "--record", str(folder / "rec")]
    assert circle2circle.main([file, str(folder / "o.circle"), *record]) == 0
    assert inspection.circle_tensordump(["--tensors_to_hdf5", str(folder / "t.h5"), file]) == 0
    inputs = str(folder / "rec" / "input.h5")
    assert tensor_commands.circle_interpreter(["--h5", file, inputs, str(folder / "o.h5")]) == 0
    with h5py.File(folder / "o.h5") as recorded:
        assert list(recorded["value"]) == ["0"]
    assert {p.name for p in tmp_path.iterdir()} == {"a"}
    assert {p.name for p in folder.parent.iterdir()} == {"b"}
    assert {p.name for p in folder.iterdir()} == {"m.circle", "o.circle", "o.h5", "rec", "t.h5"}


def test_escaping_of_unprintable_characters() -> None:
    assert printable("größe\n\t%x") == "größe\n\t%x"
    assert printable("\x1b[2J\x07\x9b\u202e\udcff") == r"\x1b[2J\x07\x9b\u202e\udcff"
    assert printable("a\nb", "") == r"a\nb"
    assert shortened("a" * 3000 + "\nb") == "a" * 2000 + "... (3000 characters)\nb"
