# SPDX-License-Identifier: Apache-2.0
"""Errors of circlekit optimize: wrong passes, files, outputs and flags, and a closed standard output."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tflite

import circlekit
from circlekit.cli.optimize import optimize as main
from circlekit.ir.graph import Model
from circlekit.rewrite.base import PASSES, Context, Pass
from tests.closed_pipe import run_with_closed_pipe
from tests.faulty_passes import scale_weights_once
from tests.nets import TCONV_BATCH_NORM


class Wrong(Pass):
    """A faulty pass: it doubles the second operand of the first operator, once."""

    def run(self, model: Model, context: Context) -> int:
        return scale_weights_once(model, 2)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register the faulty pass ``wrong`` for one test."""
    monkeypatch.setattr(Wrong, "name", "wrong")
    monkeypatch.setitem(PASSES, "wrong", Wrong)
    return "wrong"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "in.ck"
    path.write_text(TCONV_BATCH_NORM)
    return path


def test_faulty_pass_is_named_and_nothing_is_written(
    wrong: str, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, record = tmp_path / "out.circle", tmp_path / "rec"
    flags = ["--fuse_batchnorm_with_tconv", f"--{wrong}", "--verify", "--record", str(record)]
    assert main([str(recipe), str(out), *flags]) == 1
    assert not out.exists()
    assert not record.exists()
    err = capsys.readouterr().err
    assert err.startswith("error: wrong changed output %y on ")
    assert " differ by " in err
    assert main([str(recipe), str(out), f"--{wrong}"]) == 0, "expected no check without --verify"


Make = Callable[[Path, Path], Any]


def truncated(path: Path, recipe: Path) -> None:
    circlekit.save(circlekit.load(recipe), path)
    path.write_bytes(path.read_bytes()[:300])


def index_out_of_range(path: Path, recipe: Path) -> None:
    """Write 1,000,000 as the index of the output; the tflite package says where in the file it is."""
    circlekit.save(circlekit.load(recipe), path)
    data = bytearray(path.read_bytes())
    graph = tflite.Model.GetRootAs(data).Subgraphs(0)
    at = graph._tab.Vector(graph._tab.Offset(8))
    data[at : at + 4] = (1_000_000).to_bytes(4, "little")
    path.write_bytes(data)


BAD: dict[str, tuple[Make, str]] = {
    "missing": (lambda path, recipe: None, "cannot be read: No such file"),
    "directory": (lambda path, recipe: path.mkdir(), "cannot be read: Is a directory"),
    "empty": (lambda path, recipe: path.write_bytes(b""), "not a model"),
    "zeros": (lambda path, recipe: path.write_bytes(b"\0" * 5000), "not a model"),
    "elf": (lambda path, recipe: path.write_bytes(Path(sys.executable).read_bytes()[:5000]), "not a model"),
    "truncated": (truncated, ""),
    "index": (index_out_of_range, r"subgraphs\[0\].outputs\[0\]: index 1000000"),
    "latin": (
        lambda path, recipe: path.write_bytes(b"graph \xe9()"),
        "is neither a model nor a text in UTF-8",
    ),
    "syntax": (lambda path, recipe: path.write_text("graph main("), r":1:12: "),
}


@pytest.mark.parametrize("kind", BAD)
def test_invalid_input_gives_a_short_error_and_exit_code_1(
    kind: str, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, sentence = BAD[kind]
    path = tmp_path / "bad.circle"
    make(path, recipe)
    before = sorted(tmp_path.rglob("*"))
    assert main([str(path), str(tmp_path / "out.circle"), "--O1"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    first, *rest = err.splitlines()
    assert first.startswith(f"error: {path}")
    assert "Traceback" not in err
    assert len(rest) <= 2
    assert re.search(sentence, first)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("output", "code", "sentence"),
    [
        ("no/such/out.circle", 1, "no/such does not exist"),
        ("out.onnx", 2, "expected the extension .circle or .tflite, or a format (--format)"),
        ("out.tflite --format circle", 2, "the extension is for tflite, but the format is circle"),
    ],
)
def test_invalid_output_is_refused_before_optimizing(
    output: str, code: int, sentence: str, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *flags = output.split()
    assert main(["missing.circle", str(tmp_path / name), *flags]) == code
    err = capsys.readouterr().err
    assert sentence in err
    assert "missing.circle" not in err, "expected the output to be checked first"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ["--fuse_batchnorm_with_tconf"],
            "unknown flag --fuse_batchnorm_with_tconf; did you mean --fuse_batchnorm_with_tconv",
        ),
        (["--verfy"], "unknown flag --verfy; did you mean --verify"),
        (["--zzzzzz"], "unknown flag --zzzzzz ("),
        (["--explain", "remove_deed"], "there is no pass 'remove_deed'; did you mean remove_dead"),
        (["--disable", "x"], "there is no pass 'x'"),
        (["--explain", "fuse_batchnorm"], "did you mean fuse_batchnorm_with_conv or fuse_batchnorm_with_dw"),
        (["--format", "tflit"], "expected one of tflite, circle, got 'tflit'; did you mean tflite?"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_exits_with_code_two(
    flags: list[str], sentence: str, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(recipe), str(tmp_path / "out.circle"), *flags]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert sentence in err
    assert err.count("\n") == 1, "one line"
    assert not (tmp_path / "out.circle").exists()


def test_mismatched_operands_are_refused_with_their_position(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "net.ck"
    source.write_text(
        """
        graph main(%x: f32[1,2,2,1]) -> %z {
          %y = Relu(%x)  : f32[1,2,2,1]
          %z = Conv2D(%y, const_w, [1.0, 2.0, 3.0, 4.0]) {padding: VALID}  : f32[1,2,2,3]
        }
    """.replace("const_w", "[[[[1.0]]], [[[2.0]]], [[[3.0]]]]")
    )
    assert main([str(source), str(tmp_path / "out.circle")]) == 1
    first, where, before, here, *rest = capsys.readouterr().err.splitlines()
    assert first == "error: expected bias of 3 elements, one per channel of the result, got 4"
    assert where == f"  at {source} > main > op 1 Conv2D"
    assert before.startswith("     0  %y = Relu(%x)")
    assert here.startswith("  >  1  %z = Conv2D(%y, ")
    assert not rest
    assert not (tmp_path / "out.circle").exists()


def test_missing_arguments_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "expected one or more models, and -o PATH" in capsys.readouterr().err


def test_verbose_prints_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["missing.circle", str(tmp_path / "out.circle"), "-V"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert "\nerror: missing.circle" in err


def test_an_operator_without_kernel_cannot_be_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.ck"
    source.write_text("""
        graph main(%x: f32[2]) -> %y {
          %y = Opaque(%x) {code: "CUSTOM", custom_code: "Unheard"} : f32[2]
        }
    """)
    assert main([str(source), str(tmp_path / "out.circle"), "--verify"]) == 1
    assert "custom operator Unheard has no kernel" in capsys.readouterr().err
    assert not (tmp_path / "out.circle").exists()
    assert main([str(source), str(tmp_path / "out.circle"), "--O1"]) == 0


# -- as a process ------------------------------------------------------------------------------


def test_closed_pipe_ends_the_command_without_error() -> None:
    code = (
        "import sys\nfrom circlekit.cli.optimize import optimize as main\nsys.exit(main(['--list-passes']))\n"
    )
    assert run_with_closed_pipe(code) == (141, b"")


@pytest.mark.parametrize(("where", "code", "message"), [(">/dev/full", 1, "No space left"), (">&-", 0, "")])
def test_a_stdout_that_cannot_be_written_is_an_error_but_a_closed_one_is_not(
    where: str, code: int, message: str, recipe: Path, tmp_path: Path
) -> None:
    code_text = "import sys; from circlekit.cli.optimize import optimize as main; sys.exit(main())"
    command = [sys.executable, "-c", code_text, str(recipe), str(tmp_path / "out.circle")]
    done = subprocess.run(
        ["sh", "-c", f'"$0" "$@" {where}', *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == code, "no line, or one"
    assert (tmp_path / "out.circle").exists()
