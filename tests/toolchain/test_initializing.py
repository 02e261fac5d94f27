# SPDX-License-Identifier: Apache-2.0
"""one-init and one-version: the first configuration of a model, options that are refused, versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import circlekit
from circlekit.toolchain.configuration import read_configuration
from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.drivers.initializing import one_version


def call(words: str) -> int:
    return all_drivers()["one-init"](["-o", "net.cfg", *words.split()])


@pytest.mark.parametrize(
    ("words", "kind", "source"),
    [
        ("-i dir/net.v1.onnx", "onnx", "dir/net.v1.onnx"),
        ("-i dir/net.tflite", "tflite", "dir/net.tflite"),
        ("-i dir/net -m tflite", "tflite", "dir/net"),
        ("-i dir/net.tflite -m onnx", "onnx", "dir/net.tflite"),
        ("-i dir/net.q.tvn -m onnx --", "onnx", "dir/net.q.tvn"),
        ("-i dir/net.b.circle -m tflite", "tflite", "dir/net.b.circle"),
        ("-i dir/50%(a)s%.onnx", "onnx", "dir/50%(a)s%.onnx"),
    ],
)
def test_steps_of_a_first_configuration(work: Path, words: str, kind: str, source: str) -> None:
    assert call(words) == 0
    names = [f"one-import-{kind}", "one-optimize", "one-quantize"]
    stem = source.partition(".")[0]
    paths = [source, f"{stem}.circle", f"{stem}.opt.circle", f"{stem}.q.circle"]
    assert read_configuration("net.cfg").sections == {
        "onecc": {**dict.fromkeys(names, "True"), "include": "O1"},
        **{
            name: {"input_path": before, "output_path": after}
            for name, before, after in zip(names, paths, paths[1:], strict=False)
        },
    }


@pytest.mark.parametrize(
    ("words", "options"),
    [("", []), ("--nchw_to_nhwc_input_shape", ["nchw_to_nhwc_input_shape"]),
     ("--nchw_to_nhwc_output_shape", ["nchw_to_nhwc_output_shape"])],
)  # fmt: skip
def test_layouts_of_a_first_configuration(work: Path, words: str, options: list[str]) -> None:
    assert call(f"-i net.onnx --convert_nchw_to_nhwc {words}") == 0
    keys = read_configuration("net.cfg").sections["one-optimize"].items() - {
        ("input_path", "net.circle"), ("output_path", "net.opt.circle"),
    }  # fmt: skip
    assert keys == {(name, "True") for name in ("convert_nchw_to_nhwc", *options)}


def test_a_backend_runs_its_program_and_gets_a_step(work: Path, program: Callable[[str], None]) -> None:
    program("npu-init")
    assert call("-i net.tflite -b npu -- -x y") == 0
    assert Path("called.txt").read_text() == "npu-init -x y \n"
    sections = read_configuration("net.cfg").sections
    assert sections["one-codegen"] == {"backend": "npu", "command": "-o net.q.tvn net.q.circle"}
    assert sections["onecc"]["one-codegen"] == "True"
    assert call("-i net.tflite -b npu -- fail") == 7  # the exit code of the backend's program


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-i net.tflite -m caffe", 'Allowed value for --model_type: "onnx" or "tflite"'),
        ("-i net.caffe", 'following file extensions are supported: ".onnx" ".tflite"'),
        ("-i onnx", 'following file extensions are supported: ".onnx" ".tflite"'),
        ("-i net.onnx --nchw_to_nhwc_input_shape", "arguments are required: --convert_nchw_to_nhwc"),
        ("-i net.onnx --nchw_to_nhwc_output_shape", "arguments are required: --convert_nchw_to_nhwc"),
        ("-i net.onnx -- -x", "expected --backend, got ['-x']"),
        ("-i net.circle -m tflite", "net.circle is an input, but a step would write it"),
        ("-i net.q.circle -m tflite", "net.q.circle is an input, but a step would write it"),
        ("-i net.q.tvn -m tflite -b npu", "net.q.tvn is an input, but a step would write it"),
    ],
)
def test_wrong_options(work: Path, words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(words) == 2
    assert message in capsys.readouterr().err
    assert not Path("net.cfg").exists()


def test_a_path_that_a_command_would_split_is_refused(
    work: Path, program: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    program("npu-init")
    words = ["-i", "my net.tflite", "-o", "net.cfg"]
    assert all_drivers()["one-init"]([*words, "-b", "npu"]) == 2
    assert "expected a path without spaces" in capsys.readouterr().err
    assert not Path("net.cfg").exists()
    assert not Path("called.txt").exists()
    assert all_drivers()["one-init"](words) == 0


@pytest.mark.parametrize(
    ("names", "first"),
    [([], circlekit.__version__), (["onecc"], "onecc version {}\n"), (["a", "b"], "a b version {}\n")],
)
def test_versions(names: list[str], first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert one_version(names) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(first.format(circlekit.__version__))
    assert names or printed == first
