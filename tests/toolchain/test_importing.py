# SPDX-License-Identifier: Apache-2.0
"""The import drivers, with a stand-in for the Python that has the converters."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.io.write.save import to_bytes
from circlekit.toolchain import importers
from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.drivers.importing import EXTENSION, KINDS, one_import, onnx2circle
from tests.toolchain.conftest import model_bytes

PYTHON = """#!/bin/sh
script=$(basename "$1"); shift
echo "$script $*" >> called.txt
[ -e fail ] && { echo broken >&2; exit 9; }
case $script in
tensorflow_model.py) cp net.tflite "$3" ;;
onnx_model.py) cp net.tflite "$2" && cp record.npz "$3" ;;
*) cp net.circle "$2" ;;
esac
"""

Calls = Callable[[], list[list[str]]]


@cache
def written() -> dict[str, bytes]:
    """Return what the converters write, by the name of the file: a model, and its inputs and outputs."""
    model = circlekit.load(model_bytes())
    x = np.random.default_rng(0).normal(size=(1, 4, 4, 2)).astype(np.float32)
    (z,) = circlekit.run(model, [x])
    record = io.BytesIO()
    np.savez(record, inputs=np.array(["image"]), outputs=np.array(["result"]), in0=x, out0=z)
    return {"net.circle": to_bytes(model, "circle"), "record.npz": record.getvalue()}


@pytest.fixture
def calls(work: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Install the stand-in; return a function that returns the words of each new call of the stand-in."""
    monkeypatch.setattr(importers, "find_spec", lambda name: None)
    python = work.parent / "bin/venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    for name, content in written().items():
        Path(name).write_bytes(content)

    def made() -> list[list[str]]:
        path = Path("called.txt")
        found = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    return made


def call(name: str, words: str) -> int:
    return all_drivers()[name](words.split())


def equal_models(first: str, second: str) -> bool:
    return bool(circlekit.compare(circlekit.load(first), circlekit.load(second)))


# -- TensorFlow ----------------------------------------------------------------------------------

KEEP = "--experimental_disable_batchmatmul_unfold"


@pytest.mark.parametrize(
    ("flags", "kind", "more"),
    [
        ("", "graph_def", []),
        ("--v2 --graph_def", "graph_def", []),
        ("--saved_model", "saved_model", []),
        ("--model_format keras_model", "keras_model", []),
        ("-I a,b -s 1,2:3 -O c", "graph_def",
         ["--input_arrays", "a,b", "--input_shapes", "1,2:3", "--output_arrays", "c"]),
        (KEEP, "graph_def", ["--keep_batchmatmul"]),
    ],
)  # fmt: skip
def test_tensorflow_models_become_circle(calls: Calls, flags: str, kind: str, more: list[str]) -> None:
    assert call("one-import-tf", f"-i in.pb -o out.circle {flags}") == 0
    ((script, *words),) = calls()
    assert (script, words[0], words[1]) == ("tensorflow_model.py", kind, "in.pb")
    assert (Path(words[2]).name, words[3:]) == ("out.tflite", more)
    assert not Path(words[2]).exists()
    assert equal_models("out.circle", "net.tflite")
    log = Path("out.circle.log").read_text().splitlines()
    assert log[0].startswith(f"tf2tfliteV2.py --{kind} --input_path in.pb --output_path {words[2]}")
    assert log[1] == f"tflite2circle {words[2]} out.circle"


def test_intermediate_tflite_files_are_kept_if_asked(calls: Calls, work: Path) -> None:
    assert call("one-import-tf", "-i in.pb -o out.circle --save_intermediate") == 0
    assert calls()[0][3] == str(work / "out.tflite")
    assert equal_models("out.tflite", "net.tflite")


def test_the_converter_is_asked_for_binary_coded_weights_with_metadata(calls: Calls) -> None:
    assert call("one-import-bcq", "-i in.pb -o out.circle -I a -O c --v1") == 0
    ((script, *words),) = calls()
    assert (script, words[:2]) == ("tensorflow_model.py", ["graph_def", "in.pb"])
    assert Path(words[2]).name == "in_withmeta.tflite"
    assert words[3:] == ["--input_arrays", "a", "--output_arrays", "c", "--bcq"]
    assert equal_models("out.circle", "net.tflite")


def test_a_converter_that_fails(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    Path("fail").touch()
    for name in ("one-import-tf", "one-import-bcq", "one-import-onnx", "one-import-pytorch"):
        assert call(name, "-i in -o out.circle") == 9
        assert capsys.readouterr().err == "broken\n"
        assert not Path("out.circle").exists()


def test_the_python_of_this_process_is_preferred(
    calls: Calls, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = work.parent / "own"
    own.write_text("#!/bin/sh\necho own > called.txt\nexit 5\n")
    own.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(own))
    # this Python has the converter
    monkeypatch.setattr(importers, "find_spec", lambda name: name)
    assert call("one-import-pytorch", "-i a -o b.circle") == 5
    assert calls() == [["own"]]
    # only the environment beside the commands has it
    monkeypatch.setattr(importers, "find_spec", lambda name: None)
    assert call("one-import-pytorch", "-i a -o b.circle") == 0
    assert calls()[0][0] == "pytorch_model.py"
    # there is no such environment: this Python runs the script, which then fails
    (work.parent / "bin/venv/bin/python").unlink()
    assert call("one-import-pytorch", "-i a -o b.circle") == 5
    assert calls() == [["own"]]


def test_pytorch_models_become_circle(calls: Calls) -> None:
    assert call("one-import-pytorch", "-i in.pt2 -o out.circle") == 0
    ((script, source, target),) = calls()
    assert (script, source) == ("pytorch_model.py", "in.pt2")
    assert Path(target).name == "model.circle"
    assert not Path(target).parent.exists()
    assert equal_models("out.circle", "net.tflite")
    assert Path("out.circle.log").read_text().splitlines()[0] == "tico in.pt2 out.circle"


# -- ONNX ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "more"),
    [
        ("", []),
        ("--unroll_rnn", ["--unroll"]),
        ("--unroll_lstm", ["--unroll"]),
        ("--dynamic_batch_to_single_batch", ["--single_batch"]),
        (KEEP, ["--keep_batchmatmul"]),
        ("-V", ["--verbose"]),
        ("--keep_io_order", []),
    ],
)
def test_onnx_models_become_circle(calls: Calls, flags: str, more: list[str]) -> None:
    for main, words in (
        (all_drivers()["one-import-onnx"], f"-i in.onnx -o out.circle {flags}"),
        (onnx2circle, f"{flags} in.onnx out.circle"),
    ):
        assert main(words.split()) == 0
        ((script, *given),) = calls()
        assert (script, given[0], given[3:]) == ("onnx_model.py", "in.onnx", more)
        assert [Path(path).name for path in given[1:3]] == ["out.tflite", "out.npz"]
        model = circlekit.load("out.circle")
        names = [value.name for value in (*model.main.inputs, *model.main.outputs)]
        assert names == ["image", "result"]
        Path("out.circle").unlink()


@pytest.mark.parametrize("words", ["", "a", "a b c", "--odd a"])
def test_onnx2circle_needs_two_paths(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert onnx2circle(words.split()) == 255
    printed = capsys.readouterr()
    assert (printed.out, printed.err.split()[:2]) == ("", ["usage:", "onnx2circle"])


@pytest.mark.parametrize("words", ["-h", "--help", "a b -h"])
def test_onnx2circle_has_help(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert onnx2circle(words.split()) == 0
    assert capsys.readouterr().out.startswith("usage: onnx2circle")


def test_onnx2circle_reports_wrong_flags(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert onnx2circle(["a", "b", "--odd"]) == 2
    assert "unrecognized arguments: --odd" in capsys.readouterr().err


OWN, EXTENDED = ["onnx_model.py"], [EXTENSION]
FORCE, DISABLE = "ONE_IMPORT_ONNX_EXT_FORCE", "ONE_IMPORT_ONNX_EXT_DISABLE"


@pytest.mark.parametrize(
    ("flags", "variables", "is_installed", "fails", "code", "programs"),
    [
        ("", {}, True, False, 0, OWN),
        ("", {}, True, True, 0, [*OWN, *EXTENDED]),
        ("", {}, False, True, 9, OWN),
        ("--disable_ext", {}, True, True, 9, OWN),
        ("", {DISABLE: "1"}, True, True, 9, OWN),
        ("", {DISABLE: "Y"}, True, True, 9, OWN),
        ("", {DISABLE: "0"}, True, True, 0, [*OWN, *EXTENDED]),
        ("--force_ext", {}, True, False, 0, EXTENDED),
        ("", {FORCE: "1"}, True, False, 0, EXTENDED),
        ("", {FORCE: "0"}, True, False, 0, OWN),
        ("--force_ext", {}, False, False, 0, OWN),
        ("", {FORCE: "1"}, False, True, 9, OWN),
    ],
)
def test_a_program_of_the_user_converts_what_onnx2tf_cannot(
    calls: Calls,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: str,
    variables: dict[str, str],
    is_installed: bool,
    fails: bool,
    code: int,
    programs: list[str],
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    if is_installed:
        path = work.parent / "bin" / EXTENSION
        path.write_text('#!/bin/sh\necho "$(basename "$0") $*" >> called.txt\n')
        path.chmod(0o755)
    if fails:
        Path("fail").touch()
    words = "-i in.onnx -o out.circle --unroll_rnn --dynamic_batch_to_single_batch"
    assert call("one-import-onnx", f"{words} {flags}") == code
    made = calls()
    assert [words[0] for words in made] == programs
    if programs[-1] == EXTENSION:
        assert made[-1][1:] == ["--unroll_rnn", "in.onnx", "out.circle"]
    is_forced = "--force_ext" in flags or variables.get(FORCE) == "1"
    said = capsys.readouterr().out
    assert ("is not installed" in said) == (is_forced and not is_installed)
    assert ("Fallback" in said) == (programs == [*OWN, *EXTENDED])
    assert ("has no effect" in said) == (programs[-1] == EXTENSION)


# -- one-import ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "out", "error"),
    [
        ("-v", 0, "one-import version ", ""),
        ("--version", 0, "one-import version ", ""),
        ("-v tflite", 0, "one-import version ", ""),
        ("tflite -v", 0, "one-import-tflite version ", ""),
        ("-h", 0, "usage: one-import ", ""),
        ("--help", 0, "usage: one-import ", ""),
        ("-h caffe", 0, "usage: one-import ", ""),
        ("onnx -h", 0, "usage: one-import-onnx ", ""),
        ("-h onnx", 0, "usage: one-import-onnx ", ""),
        ("", 2, "", "got nothing"),
        ("caffe -i a", 2, "", "got caffe -i a"),
        ("caffe -h", 2, "", "got caffe -h"),
        ("tflite -i none -o out.circle", 255, "", "Failed to open file: none"),
        ("-i net.tflite tflite -o out.circle", 0, "", ""),
    ],
)
def test_one_import_chooses_a_driver(
    work: Path, capsys: pytest.CaptureFixture[str], words: str, code: int, out: str, error: str
) -> None:
    assert one_import(words.split()) == code
    printed = capsys.readouterr()
    assert printed.out.startswith(out)
    assert error in printed.err
    assert bool(printed.err) == bool(code)
    assert Path("out.circle").exists() == (words.startswith("-i"))


def test_every_import_driver_has_a_kind() -> None:
    names = {name for name in all_drivers() if name.startswith("one-import-")}
    assert {f"one-import-{kind}" for kind in KINDS} == names
