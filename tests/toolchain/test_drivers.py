# SPDX-License-Identifier: Apache-2.0
"""Each driver alone: help, versions, data sets, packages, quantization, inference, first configurations."""

from __future__ import annotations

import errno
import json
import re
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, patch

import h5py
import numpy as np
import pytest

import circlekit
from circlekit.equivalence.sandbox import run_forked
from circlekit.toolchain.configuration import read_configuration
from circlekit.toolchain.driver import guarded
from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.installation import ENTRY_POINTS
from circlekit.toolchain.option import Option
from circlekit.toolchain.session import Session
from tests.cli.scripts import SCRIPTS

TOOLCHAIN = {name: path for name, path in SCRIPTS.items() if path.startswith("circlekit.toolchain")}


@pytest.mark.parametrize("name", TOOLCHAIN)
def test_every_driver_has_help_and_a_version(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``main()`` reads sys.argv, ``main(words)`` does not.

    Drivers with the standard options have --version.
    """
    module, function = TOOLCHAIN[name].split(":")
    main = getattr(import_module(module), function)
    word, expected = ("x", "x version ") if name == "one-version" else ("--help", f"usage: {name} ")
    monkeypatch.setattr(sys, "argv", [name, word])
    assert main() == 0
    assert capsys.readouterr().out.startswith(expected)
    monkeypatch.setattr(sys, "argv", [name, "--odd"])
    assert main([word]) == 0
    assert capsys.readouterr().out.startswith(expected)
    if name in all_drivers() and all_drivers()[name].standard:
        assert main(["--version"]) == 0
        assert capsys.readouterr().out.startswith(f"{name} version ")


def test_every_driver_is_a_command() -> None:
    assert all_drivers().keys() <= TOOLCHAIN.keys()


def test_the_keys_of_a_driver_are_distinct() -> None:
    for driver in all_drivers().values():
        keys = [option.key for option in driver.options]
        assert len(keys) == len(set(keys)), driver.name


def call(name: str, *words: str) -> int:
    return all_drivers()[name](words)


def test_data_sets_hold_the_files_of_a_list(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = [np.arange(4, dtype=np.float32), np.ones((2, 2), np.int32)]
    for number, array in enumerate(arrays):
        np.save(f"{number}.npy", array)
        array.tofile(f"{number}.raw")
    Path("npy.txt").write_text("0.npy 1.npy\n\n1.npy 0.npy\n")
    Path("raw.txt").write_text("0.raw\n1.raw\n")
    assert not call("one-create-quant-dataset", "-i", "numpy", "-l", "npy.txt", "-p", "npy.h5")
    assert not call("rawdata2hdf5", "-l", "raw.txt", "-o", "raw.h5")
    assert capsys.readouterr().out.splitlines() == [
        "Numpy data have been packaged to npy.h5", "Number of packaged data: 2",
        "Raw data have been packaged to raw.h5", "Number of packaged data: 2",
    ]  # fmt: skip
    with h5py.File("npy.h5") as file:
        np.testing.assert_array_equal(file["value/1/0"], arrays[1])
        assert file["value/0"].attrs["desc"] == "0.npy,1.npy"
    with h5py.File("raw.h5") as file:
        assert file["value"].attrs["rawData"] == "1"
        assert file["value/0/0"][:].tobytes() == arrays[0].tobytes()
    Path("bad.txt").write_text("none.raw\n")
    assert call("rawdata2hdf5", "-l", "bad.txt", "-o", "bad.h5") == 255
    assert "rawdata2hdf5: FileNotFoundError: No such file. none.raw" in capsys.readouterr().err
    assert call("rawdata2hdf5", "-l", "raw.txt", "-o", str(work)) == 255
    assert f"expected the name of a file, got the directory {work}" in capsys.readouterr().err
    assert call("rawdata2hdf5", "-l", "raw.txt", "-o", "/dev/null") == 255
    assert "/dev/null cannot be written: expected a file" in capsys.readouterr().err
    assert call("rawdata2hdf5", "-l", "raw.txt", "-o", "0.raw") == 255
    assert "0.raw is an input; choose another file to write" in capsys.readouterr().err
    Path("kept").write_text("kept")
    for path in ("kept\0.h5", ""):
        assert call("rawdata2hdf5", "-l", "raw.txt", "-o", path) == 255
        assert "cannot be written" in capsys.readouterr().err
    assert Path("kept").read_text() == "kept"
    with patch("h5py.File", side_effect=OSError(errno.ENOSPC, "Unable to create file (\ntime = now)")):
        assert call("rawdata2hdf5", "-l", "raw.txt", "-o", "bad.h5") == 255
    full = "rawdata2hdf5: OSError: bad.h5 cannot be written: No space left on device\n"
    assert capsys.readouterr().err == full
    assert not Path("bad.h5").exists()


@pytest.mark.parametrize("reader", ["pathlib.Path.read_text", "numpy.fromfile"])
def test_a_list_or_raw_file_that_cannot_be_read(
    reader: str, work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("0.raw").write_bytes(b"1234")
    Path("raw.txt").write_text("0.raw\n")
    monkeypatch.setattr(reader, Mock(side_effect=OSError("no permission")))
    assert call("rawdata2hdf5", "-l", "raw.txt", "-o", "bad.h5") == 255
    assert re.search(r"rawdata2hdf5: .*raw.*: no permission", capsys.readouterr().err)
    assert not Path("bad.h5").exists()


def test_files_without_an_array_of_numbers_are_refused(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("a.npz", np.ones(2))
    np.save("text.npy", np.array(["a", "b"]))
    Path("empty.npy").touch()
    reasons = {
        "a.npz": "check it is a numpy file",
        "text.npy": "numbers or bools, got <U1",
        "empty.npy": "numpy file",
    }
    for name, reason in reasons.items():
        Path("list.txt").write_text(f"{name}\n")
        assert call("one-create-quant-dataset", "-i", "numpy", "-l", "list.txt", "-p", "out.h5") == 255
        assert re.match(f"one-create-quant-dataset: RuntimeError: {name}.*{reason}", capsys.readouterr().err)
        assert not list(work.glob("out.h5*"))


def test_quantized_models_are_evaluated(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "-i net.tflite -o q.circle --granularity channel --evaluate_result --print_mae --print_top1_match"
    assert call("one-quantize", *words.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert float(next(line for line in lines if line.startswith("MAE for z is ")).split()[-1]) < 0.1
    assert (
        float(next(li for li in lines if li.startswith("Mean Top-1 match ratio for z is ")).split()[-1]) <= 1
    )


def test_quantization_parameters_are_set(work: Path) -> None:
    assert call("one-quantize", "-i", "net.tflite", "-o", "q.circle") == 0
    words = "-i q.circle -o f.circle --force_quantparam --tensor_name x --scale 0.5 --zero_point 3"
    assert call("one-quantize", *words.split()) == 0
    quantization = circlekit.load("f.circle").main.inputs[0].quantization
    assert quantization is not None
    assert (quantization.scale.tolist(), quantization.zero_point.tolist()) == ([0.5], [3])


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ("--mode average", 2, "one-quantize: error: Unsupported mode: 'average'"),
        ("--mode moving_average --moving_avg_batch 0.1", 2, "moving_avg_batch must be integer"),
        ("--max_percentile 101", 255, "record-minmax: ERROR: Percentile must be ranged from 0 to 100"),
        ("--requantize --quantized_dtype uint8", 2, "following arguments are required: --input_model_dtype"),
        ("--input_dtype float64", 255, "circle_quantizer: ERROR: Unsupported input type 'float64'"),
        ("--input_data net.tflite", 255, "record-minmax: ERROR: Given data file is not HDF5: net.tflite"),
        ("--input_data . --input_data_format list", 255, "record-minmax: ERROR: Cannot open file: "),
        (
            "--input_data net.tflite --input_data_format dir",
            255,
            "record-minmax: ERROR: Cannot open directory",
        ),
        ("--granularity layered", 255, "circle_quantizer: ERROR: Unsupported granularity 'layered'"),
    ],
)
def test_wrong_options_of_a_quantization(
    work: Path, capsys: pytest.CaptureFixture[str], words: str, code: int, expected: str
) -> None:
    assert call("one-quantize", "-i", "net.tflite", "-o", "q.circle", *words.split()) == code
    assert expected in capsys.readouterr().err
    assert not Path("q.circle").exists()


def test_a_package_connects_several_models(work: Path) -> None:
    """The first model's output, tensor 5 of the original, is the second model's input."""

    def link(inputs: list[int], outputs: list[int], own: dict[str, list[list[int]]]) -> str:
        sides = {"inputs": inputs, "outputs": outputs}
        return json.dumps(
            {
                "org-model-io": {side: {"new-indices": new} for side, new in sides.items()},
                "new-model-io": {
                    side: {"org-indices": org, "new-indices": new} for side, (org, new) in own.items()
                },
            }
        )

    for name in "ab":
        circlekit.save(circlekit.load("net.tflite"), f"{name}.circle")
    Path("a.json").write_text(link([0], [-1], {"inputs": [[0], [0]], "outputs": [[5], [2]]}))
    Path("b.json").write_text(link([-1], [3], {"inputs": [[5], [1]], "outputs": [[9], [3]]}))
    words = "-o out -p net -m a.circle b.circle -i a.json b.json"
    assert call("model2nnpkg", *words.split()) == 0
    manifest = json.loads(Path("out/net/metadata/MANIFEST").read_text())
    assert manifest["pkg-inputs"] == ["0:0:0"]
    assert manifest["pkg-outputs"] == ["1:0:0"]
    assert manifest["model-connect"] == [{"from": "0:0:0", "to": ["1:0:0"]}]
    words = "-o out -m b.circle a.circle -i b.json a.json"
    assert call("model2nnpkg", *words.split()) == 0
    assert Path("out/b/metadata/MANIFEST").exists()  # named after the first model


def test_a_model_that_cannot_be_packed(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("sample").touch()
    assert call("one-pack", "-i", "sample", "-o", "out") == 1
    assert "modelfile does not have extension" in capsys.readouterr().err
    assert call("one-pack", "-i", "none.circle", "-o", "out") == 1
    assert "none.circle does not exist" in capsys.readouterr().err
    assert not Path("out").exists()


def test_inference_with_our_interpreter_and_runtimes(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).normal(size=(1, 4, 4, 2)).astype(np.float32)
    np.savez("in.npz", x=x)
    words = "-d circlekit-infer -- net.tflite --inputs in.npz --output out.npz"
    assert call("one-infer", *words.split()) == 0
    (expected,) = circlekit.run(circlekit.load("net.tflite"), [x])
    np.testing.assert_array_equal(np.load("out.npz")["0/z"], expected)
    for runtime, package in (("litert", "ai_edge_litert"), ("onert", "onert")):
        infer = partial(call, "one-infer", "-d", f"{runtime}-infer", *words.split()[2:])
        if _has(package):  # in a process of its own: onert hangs in a fork of a process in which it has run
            assert list(run_forked(lambda: [infer()], 60.0)) == [0]  # noqa: B023  # called before the next
            np.testing.assert_allclose(np.load("out.npz")["0/z"], expected, rtol=1e-5, atol=1e-6)
        else:
            assert infer() == 255
            assert f"{runtime}-infer: ERROR: " in capsys.readouterr().err
    assert call("one-infer", "-d", "none-infer", "--", "a") == 255
    assert capsys.readouterr().err.startswith("one-infer: FileNotFoundError: none-infer not found")


def test_a_package_provides_programs_of_a_backend(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    point = SimpleNamespace(name="npu-profile", load=lambda: called.append)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == ENTRY_POINTS else [])
    assert call("one-profile", "-b", "npu", "--", "a", "-b") == 0
    assert called == [["a", "-b"]]


@pytest.mark.parametrize(
    ("code", "expected", "error"), [(0, 0, ""), (None, 0, ""), (3, 3, ""), ("no device", 1, "no device\n")]
)
def test_a_program_of_a_package_may_end_with_an_exit(
    code: object, expected: int, error: str,
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """argparse, for example, exits for -h.  The next program runs only after a success."""
    called: list[str] = []

    def exit_of(name: str) -> Callable[[list[str]], None]:
        def program(words: list[str]) -> None:
            called.append(name)
            sys.exit(code)  # type: ignore[arg-type]  # as a user may write it

        return program

    points = [SimpleNamespace(name=f"{n}-profile", load=lambda n=n: exit_of(n)) for n in ("npu", "cpu")]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == ENTRY_POINTS else [])
    Path("c.cfg").write_text("[one-profile]\nbackends=npu,cpu\nnpu=x\ncpu=y\n")
    assert call("one-profile", "-C", "c.cfg") == expected
    assert called == (["npu"] if expected else ["npu", "cpu"])
    assert capsys.readouterr().err == error


def test_a_first_configuration_runs(
    work: Path, program: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("one-init", "-i", "net.tflite", "-o", "net.cfg", "-b", "npu") == 255
    assert "npu-init not found" in capsys.readouterr().err
    assert not Path("net.cfg").exists()
    program("npu-init")
    assert call("one-init", "-i", "net.tflite", "-o", "net.cfg", "-b", "npu", "--", "x") == 0
    assert Path("called.txt").read_text().startswith("npu-init x")
    sections = read_configuration("net.cfg").sections
    assert sections["one-quantize"] == {"input_path": "net.opt.circle", "output_path": "net.q.circle"}
    assert sections["one-codegen"]["backend"] == "npu"


def test_a_missing_converter_is_named(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The script of the importer runs in a Python of ONE that has no packages.

    Converters that are installed here are not tested.
    """
    python = work.parent / "bin/venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    missing = [
        n for n, p in (("pytorch", "tico"), ("onnx", "onnx2tf")) if p not in sys.modules and not _has(p)
    ]
    if not missing:
        pytest.skip("all converters are installed")
    for kind in missing:
        assert call(f"one-import-{kind}", "-i", "a", "-o", "b.circle") == 255
        error = capsys.readouterr().err
        assert f"is not installed in {python}: pip install 'circlekit[{kind}]'" in error


def _has(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package) is not None


def test_an_option_refuses_a_text_that_it_cannot_parse() -> None:
    option = Option("scale", parse=float)
    with pytest.raises(ValueError, match="could not convert"):
        option.read("large")


def test_bcq_takes_the_model_format_of_ones_template(tmp_path: Path) -> None:
    file = tmp_path / "c.cfg"
    file.write_text("[one-import-bcq]\ninput_path=a.pb\noutput_path=b.circle\nmodel_format=graph_def\n")
    values = all_drivers()["one-import-bcq"].resolve(["-C", str(file)], Session()).values
    assert values["model_format"] == "graph_def"


@pytest.mark.parametrize(
    "names", [["tensor_name", "scale", "zero_point"], ["src_tensor_name", "dst_tensor_name"]]
)
def test_repeated_options_come_in_equal_numbers(
    names: list[str], work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mode = "--force_quantparam" if len(names) == 3 else "--copy_quantparam"
    words = ["-i", "net.tflite", "-o", "q.circle", mode]
    for number, name in enumerate(names):
        words += [f"--{name}", "1"] * (1 + (number == 0))
    assert call("one-quantize", *words) == 2
    listed = (
        "tensor_name, scale, and zero_point" if len(names) == 3 else "src_tensor_name and dst_tensor_name"
    )
    assert f"The same number of {listed} should be given." in capsys.readouterr().err
    assert call("one-quantize", *words[:5]) == 2
    missing = " ".join(f"--{name}" for name in names)
    assert f"the following arguments are required: {missing}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ("", "--input_model_dtype --quantized_dtype"),
        ("--input_model_dtype int8", "--quantized_dtype"),
        ("--input_dtype int8", "--quantized_dtype"),
        ("--quantized_dtype uint8", "--input_model_dtype"),
    ],
)
def test_a_requantization_needs_both_dtypes(
    words: str, missing: str, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("one-quantize", "-i", "net.tflite", "-o", "q.circle", "--requantize", *words.split()) == 2
    assert f"the following arguments are required: {missing}" in capsys.readouterr().err


@pytest.mark.parametrize("flag", [None, "-V", "--verbose"])
def test_a_defect_is_one_line_and_with_a_flag_its_traceback(
    flag: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(sys, "argv", ["one-x", *([flag] if flag else [])])
    assert guarded("one-x", lambda: None, fail) == 255
    error = capsys.readouterr().err
    assert error.splitlines()[-1] == "one-x: ZeroDivisionError: odd"
    assert ("Traceback" in error) == (flag is not None)
