# SPDX-License-Identifier: Apache-2.0
"""From one file to another: formats, paths, options, steps, and what is refused before any work."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest

import circlekit
from circlekit.api.models import read, refuse_overwriting, target_format
from circlekit.api.options import Options
from circlekit.api.structure_checks import check_structure
from circlekit.errors import (
    CirclekitError,
    FileError,
    FormatWarning,
    ModelError,
    ParseError,
    RewriteError,
    ShapeError,
    UnsupportedError,
)
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Signature
from circlekit.ir.resources.progress import Progress, watched
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array
from circlekit.passes.engine.pass_settings import all_options
from circlekit.rewrite.base import PASSES, Context, Option, Pass

NET = """
graph main(%x: f32[2,3]) -> %z {
  %y = Mul(%x, [1.0, 1.0, 1.0])
  %z = Relu(%y)
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.ck"
    path.write_text(NET)
    return path


def test_an_extension_may_be_that_of_the_other_format(net: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="the extension is for tflite, but the format is circle"):
        circlekit.convert(net, tmp_path / "a.tflite", format="circle")
    circlekit.convert(net, tmp_path / "a.tflite", format="circle", is_strict=False)
    circlekit.convert(net, tmp_path / "b.tflite", is_strict=False)
    assert [circlekit.load(tmp_path / f"{name}.tflite").format for name in "ab"] == ["circle", "tflite"]
    with pytest.raises(UnsupportedError, match="expected format tflite or circle, got 'onnx'"):
        circlekit.convert(net, tmp_path / "a.tflite", format="onnx", is_strict=False)


@pytest.mark.parametrize(
    ("name", "format", "expected"),
    [
        ("a.circle", None, "circle"),
        ("a.lite", None, "tflite"),
        ("a.bin", "circle", "circle"),
        ("a.tflite", "tflite", "tflite"),
        ("a.bin", None, "a.bin: expected the extension .circle or .tflite, or a format (--format)"),
        ("a.tflite", "circle", "a.tflite: the extension is for tflite, but the format is circle"),
        ("", "circle", "a file without a name cannot be written"),
        ("a.bin", "onnx", "expected format tflite or circle, got 'onnx'"),
    ],
)
def test_the_format_to_write_follows_from_extension_and_argument(
    name: str, format: str | None, expected: str
) -> None:
    if " " not in expected:
        assert target_format(name, format) == expected
        return
    with pytest.raises((FileError, UnsupportedError)) as error:
        target_format(name, format)
    assert error.value.message == expected


def test_save_prefers_the_argument_to_the_extension_and_to_the_model(tmp_path: Path) -> None:
    model = parse_model(NET)
    for name, format, magic in (
        ("a.tflite", None, b"TFL3"),
        ("a", None, b"CIR0"),
        ("a.bin", "tflite", b"TFL3"),
        ("a.circle", "tflite", b"TFL3"),
    ):
        circlekit.save(model, tmp_path / name, format)
        assert (tmp_path / name).read_bytes()[4:8] == magic
    with pytest.raises(FileError, match=r"unknown extension \.bin"):
        circlekit.save(model, tmp_path / "b.bin")


@pytest.mark.parametrize("byte", [0, 8, 11, 31])
def test_a_control_character_makes_a_file_no_text(byte: int) -> None:
    with pytest.raises(CirclekitError, match="not a model"):
        circlekit.load(b" " * 100 + bytes([byte]))


def test_tabs_and_line_ends_are_text_and_read_returns_no_bytes_of_a_text(net: Path, tmp_path: Path) -> None:
    assert read(b"\t\r\n" + NET.encode() + b" " * 5000)[1] is None
    circlekit.save(circlekit.load(net), tmp_path / "net.circle")
    assert bytes(read(tmp_path / "net.circle")[1] or b"") == (tmp_path / "net.circle").read_bytes()
    model, content = read(net)
    assert (model.source, content) == (str(net), None)


def test_a_name_is_taken_from_a_file_object(net: Path) -> None:
    with net.open("rb") as file:
        assert circlekit.load(file).source == str(net)


def test_two_paths_of_one_file_are_refused(net: Path, tmp_path: Path) -> None:
    (tmp_path / "link.ck").symlink_to(net)
    with pytest.raises(FileError, match=r"link.ck is an input; choose another file to write"):
        refuse_overwriting(net, tmp_path / "link.ck")
    refuse_overwriting(net, tmp_path / "absent.ck")
    refuse_overwriting(tmp_path / "absent.ck", net)


class Steps(Progress):
    """Records the steps, and whether the work of each added up to its total."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.left = 0
        self.files: list[str] = []

    def begin(self, step: str, total: int = 0, unit: str = "") -> None:
        assert not self.left, self.steps[-1]
        self.steps.append(step)
        self.left = total

    def expect(self, amount: int) -> None:
        self.left += amount

    def advance(self, amount: int = 1, remark: str = "") -> None:
        self.left -= amount

    def finish_file(self, path: str) -> None:
        self.files.append(path)


def test_the_steps_of_a_conversion(net: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.circle"
    name = "remove_unnecessary_mul"  # it runs again until nothing changes
    with watched(Steps()) as watcher:
        report = circlekit.convert(net, target, Options([name], verify=True))
    first = ["reading the model", "running the original", f"running {name}", f"verifying {name}"]
    last = ["verifying the legalization for circle", "writing out.circle"]
    assert watcher.steps == [*first, *watcher.steps[4:-2], *last]
    assert watcher.steps.count(f"verifying {name}") == 1
    assert watcher.left == 0
    assert watcher.files == [str(target)]
    assert report.verified
    assert (report.before.op_count, report.after.op_count) == (2, 1)
    with watched(Steps()) as watcher:
        report = circlekit.convert(net, target, Options())
    assert watcher.steps == ["reading the model", "writing out.circle"]
    assert not report.verified
    assert report.after.op_count == 2


def test_a_profile_names_the_operators_of_the_input(net: Path, tmp_path: Path) -> None:
    for profile in (False, True):
        options = Options(["remove_unnecessary_mul"], profile=profile)
        circlekit.convert(net, tmp_path / "out.circle", options)
        metadata = dict(circlekit.load(tmp_path / "out.circle").metadata)
        assert ("ONE_op_table" in metadata) is profile
    table = metadata["ONE_source_table"]
    assert b"y\0" in bytes(table)  # the operator that the pass removed


def test_an_activation_is_kept_on_request(tmp_path: Path) -> None:
    source, target = tmp_path / "net.ck", tmp_path / "out.circle"
    call = "TransposeConv([1,4,4,1], [[[[1.0]]]], %x) {act: RELU} : f32[1,4,4,1]"
    source.write_text(f"graph main(%x: f32[1,4,4,1]) -> %y {{ %y = {call} }}")
    for keep, codes in ((False, ["TRANSPOSE_CONV", "RELU"]), (True, ["TRANSPOSE_CONV"])):
        circlekit.convert(source, target, Options(keep_activations=keep))
        assert [op.code for op in circlekit.load(target).main] == codes


@pytest.mark.parametrize("option", ["verify", "record", "bisect"])
def test_options_that_verify(option: str, net: Path, tmp_path: Path) -> None:
    value = {"verify": True, "record": tmp_path / "record", "bisect": tmp_path / "small.ck"}[option]
    report = circlekit.optimize(circlekit.load(net), **{option: value})  # type: ignore[arg-type]
    assert report.verified
    assert (tmp_path / "record" / "expected.h5").exists() is (option == "record")
    circlekit.convert(net, tmp_path / "out.circle", Options(**{option: value}))  # type: ignore[arg-type]
    assert (tmp_path / "record" / "opt.expected.h5").exists() is (option == "record")
    assert not circlekit.optimize(circlekit.load(net)).verified


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (Options(["nothing"]), "there is no pass or pipeline 'nothing'"),
        (Options(disable=["nothing"]), "there is no pass 'nothing'"),
        (Options(explain="nothing"), "there is no pass 'nothing'"),
        (Options(settings={"nothing": 1}), "there is no setting of a pass 'nothing'"),
        (
            Options(["fold_cast"], settings={"change_outputs": "z"}),
            "change_outputs is a setting of the pass change_outputs, which does not run",
        ),
    ],
)
def test_options_are_checked_first(options: Options, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(RewriteError, match=sentence):
        circlekit.convert(tmp_path / "absent.circle", tmp_path / "out.circle", options)


def test_a_setting_of_a_pass_that_runs(net: Path, tmp_path: Path) -> None:
    options = Options(["change_outputs"], settings={"change_outputs": ["y"]})
    circlekit.convert(net, tmp_path / "out.circle", options)
    assert [v.name for v in circlekit.load(tmp_path / "out.circle").main.outputs] == ["y"]


def test_a_pipeline_file_and_the_caller_can_both_disable_passes(net: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('passes = ["O1"]\ndisable = ["remove_unnecessary_mul", "fold_constants"]\n')
    pipeline = circlekit.read_pipeline(path)
    report = circlekit.optimize(circlekit.load(net), pipeline, disable=["fuse_activation_function"])
    assert not report.changes.keys() & {"remove_unnecessary_mul", "fuse_activation_function"}
    path.write_bytes(b"\xff")
    with pytest.raises(ParseError, match=r"p.toml: expected text in UTF-8"):
        circlekit.read_pipeline(path)


def test_the_error_for_a_structure_counts_all_findings() -> None:
    model = parse_model("graph main(%x: f32[2]) -> %y { %y = Relu(%x) }")
    check_structure(model, "net")
    model.main.ops[0].set_input(0, model.main.ops[0].output)
    with pytest.raises(ModelError, match=r"^net: .*: %y is used before operator 0 produces it$"):
        check_structure(model, "net")
    model.main.outputs = (*model.main.outputs, circlekit.Value("lost", model.main.inputs[0].dtype, (2,)))
    with pytest.raises(ModelError, match=r"^net: .* \(and 1 more\)"):
        check_structure(model, "net")
    misfit = "graph main(%x: f32[2], %k: f32[3]) -> %y { %y = Add(%x, %k) : f32[2] }"
    with pytest.raises(ShapeError):
        check_structure(parse_model(misfit), "net")


def test_an_invalid_model_is_converted_only_without_validation(tmp_path: Path) -> None:
    source, target = tmp_path / "net.ck", tmp_path / "out.circle"
    source.write_text("graph main(%x: f32[2], %k: f32[3]) -> %y { %y = Add(%x, %k) : f32[2] }")
    with pytest.raises(ShapeError):
        circlekit.convert(source, target)
    assert not target.exists()
    circlekit.convert(source, target, Options(validate=False))
    assert target.exists()


def test_records_of_a_setting_are_read_from_a_file(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sees(Pass):
        """Note the records that the pass was given."""

        options = (Option("samples", "a file", metavar="FILE", records=True),)

        def run(self, model: circlekit.Model, context: Context) -> int:
            seen.append(context.settings["samples"])
            return 0

    seen: list[list[list[Array]]] = []
    monkeypatch.setattr(Sees, "name", "sees")
    monkeypatch.setitem(PASSES, "sees", Sees)
    assert all_options()["samples"].records
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["value/0/0"] = np.array([1, 2], np.float32)
    circlekit.optimize(circlekit.load(net), ["sees"], settings={"samples": tmp_path / "a.h5"})
    circlekit.explain(circlekit.load(net), "sees", settings={"samples": str(tmp_path / "a.h5")})
    assert len(seen) > 1
    for records in seen:
        assert [[array.tolist() for array in record] for record in records] == [[[1.0, 2.0]]]


TRANSPOSED = """
model circle
graph main(%x: f32[1,4,4,4]) -> %y {
  %v = const f32[4,3,3,4] gaussian(0, 1)
  %w = const f32[4,3,3,4] gaussian(0, 2)
  %b = const f32[4] gaussian(0, 1)
  %a = TransposeConv([1,8,8,4], %v, %x, %b) {stride_h: 2, stride_w: 2}
  %r = Relu(%a)
  %y = TransposeConv([1,16,16,4], %w, %r, %b) {stride_h: 2, stride_w: 2}
}
"""


@pytest.mark.parametrize("target", [None, "luci", "onert"])
def test_an_optimized_file_stays_the_same(target: str | None, tmp_path: Path) -> None:
    """For onert, each layer becomes operators that share constants; for luci, the RELU is not fused."""
    paths = [tmp_path / f"{name}.circle" for name in "abc"]
    circlekit.save(parse_model(TRANSPOSED), paths[0])
    for source, out in pairwise(paths):
        circlekit.convert(source, out, Options(["O1"], target=target))
    assert paths[1].read_bytes() == paths[2].read_bytes()


def loosely_packed(net: Path, tmp_path: Path) -> Path:
    """Return a file of the model with unused bytes at its end, which circlekit would not write."""
    circlekit.save(circlekit.load(net), tmp_path / "loose.circle")
    with (tmp_path / "loose.circle").open("ab") as file:
        file.write(b"\0" * 64)
    return tmp_path / "loose.circle"


def test_a_file_that_nothing_changes_is_copied(net: Path, tmp_path: Path) -> None:
    loose, target = loosely_packed(net, tmp_path), tmp_path / "out.circle"
    for passes in ([], ["fuse_gelu"]):
        report = circlekit.convert(loose, target, Options(passes))
        assert report.unchanged
        assert target.read_bytes() == loose.read_bytes()
        assert report.before.file_size == report.after.file_size == loose.stat().st_size
    for options, name in (
        (Options(["remove_unnecessary_mul"]), "out.circle"),
        (Options(profile=True), "out.circle"),
        (Options(), "out.tflite"),
    ):
        report = circlekit.convert(loose, tmp_path / name, options)
        assert not report.unchanged
        assert report.after.file_size == (tmp_path / name).stat().st_size
    assert not circlekit.convert(net, target).unchanged


def test_a_file_with_something_that_is_lost_is_not_copied(net: Path, tmp_path: Path) -> None:
    """A signature has two entries of the same name; a warning says that the first is lost."""
    model = circlekit.load(net)
    values = {"a": model.main.inputs[0], "b": model.main.inputs[0]}
    model.signatures = [Signature("s", model.main, values, {})]
    content = to_bytes(model).replace(b"\1\0\0\0b\0", b"\1\0\0\0a\0")
    with pytest.warns(FormatWarning, match="'a' is listed twice; the first is lost"):
        report = circlekit.convert(content, tmp_path / "out.circle")
    assert not report.unchanged
    assert circlekit.convert(to_bytes(model), tmp_path / "out.circle").unchanged


def test_a_stream_gets_the_format_of_the_input(net: Path, tmp_path: Path) -> None:
    circlekit.save(circlekit.load(net), tmp_path / "net.tflite")
    for format, expected in ((None, "tflite"), ("circle", "circle")):
        stream = io.BytesIO()
        report = circlekit.convert((tmp_path / "net.tflite").read_bytes(), stream, format=format)
        assert circlekit.load(stream.getvalue()).format == report.after.format == expected
        assert (report.source, report.target) == ("<bytes>", "<stream>")
        assert report.after.file_size == len(stream.getvalue())
    with pytest.raises(UnsupportedError, match="got 'onnx'"):
        circlekit.convert(net, io.BytesIO(), format="onnx")


def test_a_report_describes_files_and_interface(net: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.tflite"
    report = circlekit.convert(net, target, Options(["remove_unnecessary_mul"], verify=True))
    assert (report.source, report.target) == (str(net), str(target))
    assert (report.before.format, report.after.format) == ("circle", "tflite")
    assert [str(port) for port in report.after.inputs] == ["%x: f32[2,3]"]
    assert [d.output for d in report.differences] == [port.name for port in report.after.outputs]
    assert report.seconds > 0
    assert json.loads(json.dumps(report.document())) == report.document()


@pytest.mark.parametrize(
    ("name", "format"), [("a.tflite", "tflite"), ("a.circle", "circle"), ("a.ck", None), ("a.recipe", None)]
)
def test_an_error_says_that_a_file_named_like_a_model_is_a_text(
    tmp_path: Path, name: str, format: str | None
) -> None:
    path = tmp_path / name
    path.write_text("no model")
    with pytest.raises(ParseError) as caught:
        circlekit.load(path)
    begin = f"{path}: expected a {format} file, got a text; as a recipe: {path}:1:1: expected"
    assert caught.value.message.startswith(begin) == (format is not None)
    assert ("got a text" in caught.value.message) == (format is not None)
