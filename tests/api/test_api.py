# SPDX-License-Identifier: Apache-2.0
"""The public names and what they promise."""

from __future__ import annotations

import html
import inspect
import io
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlekit
import circlekit.errors
from circlekit.api.options import Options
from circlekit.api.rewriting import convert_model
from circlekit.api.structure_checks import blaming_model
from circlekit.errors import (
    CirclekitError,
    EquivalenceError,
    FileError,
    ModelError,
    RewriteError,
    UnsupportedError,
)
from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model, print_model
from circlekit.quant.auto import TECHNIQUES
from circlekit.rewrite.base import PASSES, Context, Pass
from tests.nets import TCONV_BATCH_NORM

RECIPE = """signature "serve" @main (image: %x) -> (result: %y)""" + TCONV_BATCH_NORM


class Halve(Pass):
    """Wrong on purpose: halves the weights of the first operator, once, in models of one format."""

    format = "circle"

    def run(self, model: circlekit.Model, context: Context) -> int:
        if context.format != self.format or model.extra.pop("halved", None):
            return 0
        model.extra["halved"] = True
        weights = model.main.ops[0].inputs[1]
        assert weights is not None
        weights.data = weights.array() / np.float32(2)
        model.main.epoch += 1
        return 1


@pytest.fixture
def halve(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(Halve, "name", "halve")
    monkeypatch.setitem(PASSES, "halve", Halve)
    return "halve"


@pytest.fixture
def model() -> circlekit.Model:
    return parse_model(RECIPE)


def test_every_public_name_is_there_and_documented() -> None:
    assert set(circlekit.__all__) <= set(dir(circlekit))
    for name in circlekit.__all__:
        assert getattr(circlekit, name).__doc__, name
    with pytest.raises(AttributeError, match="has no attribute 'lod'; did you mean load"):
        circlekit.lod  # type: ignore[attr-defined]  # noqa: B018  # to read it is the test


def test_a_type_checker_finds_a_name_that_does_not_exist(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    package = tmp_path / "circlekit" / "__init__.py"  # a copy, because mypy refuses files of site-packages
    package.parent.mkdir()
    package.write_text(Path(circlekit.__file__ or "").read_text())
    (tmp_path / "user.py").write_text(
        "import circlekit\n\n"
        + "".join(f"print(circlekit.{name})\n" for name in [*circlekit.__all__, "__version__"])
        + "circlekit.optimise\n"
    )
    command = [sys.executable, "-m", "mypy", "--follow-imports=skip", "--cache-dir", str(tmp_path / "cache")]
    result = subprocess.run([*command, "user.py", package], cwd=tmp_path, capture_output=True, text=True)
    assert 'error: Module has no attribute "optimise"' in result.stdout
    assert "Found 1 error in 1 file" in result.stdout, result.stdout


def test_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", {"circlekit": "9.8.7"}.__getitem__)
    assert circlekit.__version__ == "9.8.7"


def test_the_public_surface_is_pinned() -> None:
    """A change here is a change for users: it belongs into CHANGELOG.md."""
    classes = ["Calibration", "CirclekitError", "Graph", "Interpreter", "Kernels", "Model"]
    classes += ["Op", "Pass", "Report", "Rewrite", "Value"]
    functions = sorted(set(circlekit.__all__) - {*classes, "passes"})
    signatures = {name: str(inspect.signature(getattr(circlekit, name))) for name in functions}
    assert signatures == {
        "calibrate": "(model: 'Model', samples: 'Samples', *, channels: 'Channels' = False, "
        "histograms: 'Histograms' = False, engine: 'str' = 'circlekit', processes: 'int | None' = None, "
        "client: 'Any' = None, state: 'FilePath | None' = None) -> 'Calibration'",
        "check": "(model: 'Model', target: 'TargetChoice' = None) -> 'list[Finding]'",
        "compare": "(a: 'Model', b: 'Model', inputs: 'Inputs | FilePath | None' = None) -> 'Comparison'",
        "condition": signatures["condition"],
        "convert": "(source: 'ModelFile', target: 'FilePath | BinaryIO', options: 'Options | None' = None, "
        "format: 'str | None' = None, *, is_strict: 'bool' = True) -> 'Report'",
        "explain": "(model: 'Model', passes: 'str' = 'all', format: 'str | None' = None, "
        "settings: 'Mapping[str, Any] | None' = None, target: 'TargetChoice' = None) -> 'list[Explanation]'",
        "explain_op": "(model: 'Model', which: 'str', format: 'str | None' = None, "
        "settings: 'Mapping[str, Any] | None' = None, target: 'TargetChoice' = None) "
        "-> 'list[OpExplanation]'",
        "extract": "(model: 'Model', inputs: 'Iterable[str]' = (), outputs: 'Iterable[str]' = ()) -> 'Model'",
        "fake_quantize": "(model: 'Model', *, samples: 'Samples | None' = None, "
        "calibration: 'Calibration | None' = None, optimize: 'bool' = True, **options: 'Any') "
        "-> 'list[Inserted]'",
        "load": "(source: 'ModelFile') -> 'Model'",
        "merge": "(models: 'Iterable[Model]', connect: 'Mapping[str, str] | None' = None, "
        "outputs: 'Iterable[str]' = ()) -> 'Model'",
        "optimize": "(model: 'Model', passes: 'str | Iterable[str] | Pipeline' = 'O1', "
        "verify: 'bool' = False, record: 'FilePath | None' = None, explain: 'str | None' = None, "
        "disable: 'Iterable[str]' = (), format: 'str | None' = None, "
        "bisect: 'FilePath | None' = None, settings: 'Mapping[str, Any] | None' = None, "
        "inputs: 'Inputs | FilePath | None' = None, target: 'TargetChoice' = None) -> 'Report'",
        "limited": "(memory: 'int | str | None' = None, calls: 'int | None' = None) -> 'Iterator[Limits]'",
        "parse": "(text: 'str') -> 'Model'",
        "partition": "(model: 'Model', table: 'PartTable | FilePath', fewest: 'bool' = False) -> 'Partition'",
        "quantize": "(model: 'Model', scheme: 'str' = 'int8', samples: 'Samples | None' = None, *, "
        "calibration: 'Calibration | None' = None, plan: 'Plan | FilePath | None' = None, "
        "operators: 'Mapping[str, str] | None' = None, "
        "only: 'Iterable[str] | None' = None, inputs: 'str' = 'float', outputs: 'str' = 'float', "
        "estimator: 'str' = 'min_max', passes: 'str | Iterable[str]' = 'O1', target: 'str' = 'litert', "
        "auto: 'bool' = True, seconds: 'float' = 60.0, without: 'Iterable[str]' = (), "
        "target_sqnr: 'float | None' = None, budget: 'str | None' = None, "
        "raise_to: 'str' = 'float') -> 'QuantizationReport'",
        "read_pipeline": "(path: 'FilePath') -> 'Pipeline'",
        "register_custom": "(name: 'str', kernel: 'CustomKernel') -> 'None'",
        "resize": "(model: 'Model', shapes: 'Shapes') -> 'Model'",
        "run": "(model: 'Model', inputs: 'Inputs') -> 'list[Array]'",
        "save": "(model: 'Model', path: 'FilePath', format: 'str | None' = None) -> 'None'",
        "select": "(model: 'Model', ids: 'Iterable[int]' = (), names: 'Iterable[str]' = ()) -> 'Model'",
    }
    assert circlekit.__all__ == sorted([*classes, *functions, "passes"])


def test_passes_are_listed_by_name() -> None:
    found = circlekit.passes()
    assert found["fuse_batchnorm_with_tconv"].name == "fuse_batchnorm_with_tconv"
    assert list(found) == sorted(found)


def test_load_takes_a_path_bytes_and_a_file_object(model: circlekit.Model, tmp_path: Path) -> None:
    path = tmp_path / "a.tflite"
    circlekit.save(model, path)
    content = path.read_bytes()
    for source in (path, str(path), content, bytearray(content), memoryview(content), io.BytesIO(content)):
        assert circlekit.compare(model, circlekit.load(source)).equal
    with path.open("rb") as file:
        assert circlekit.load(file).source == str(path)
    assert circlekit.load(RECIPE.encode()).main.ops[0].code == "TRANSPOSE_CONV"
    assert circlekit.load(content).source == "<bytes>"


def test_bytes_of_a_recipe_cannot_name_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    text = 'graph main(%x: f32[2]) -> %y { %w = const f32[2] file("w.bin", 0, 8) %y = Add(%x, %w) }'
    (tmp_path / "a.ck").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert circlekit.load("a.ck").main.ops[0].code == "ADD"
    with pytest.raises(CirclekitError, match="without references to files"):
        circlekit.load(text.encode())


def test_print_then_parse_gives_the_same_model(model: circlekit.Model) -> None:
    assert difference(circlekit.parse(print_model(model)), model) is None


MISTAKES: dict[str, tuple[Callable[[circlekit.Model, Path], object], str]] = {
    "path of another type": (lambda m, _: circlekit.load(3), "cannot load int: expected a path, bytes or a"),  # type: ignore[arg-type]
    "text file object": (lambda m, _: circlekit.load(io.StringIO("x")), "opened in text mode"),  # type: ignore[arg-type]
    "arguments swapped": (lambda m, p: circlekit.save(p, m), "expected a Model, got PosixPath"),  # type: ignore[arg-type]
    "extension": (
        lambda m, p: circlekit.save(m, p / "a.onnx"),
        "a.onnx: unknown extension .onnx; expected .tflite, .lite, .circle, or pass a format",
    ),
    "format": (
        lambda m, p: circlekit.save(m, p / "a.circle", "onnx"),
        "expected format tflite or circle, got 'onnx'",
    ),
    "options of another type": (
        lambda m, p: circlekit.convert(p / "a.circle", p / "b.circle", "O1"),  # type: ignore[arg-type]
        "expected circlekit.api.options.Options, got str",
    ),
    "array instead of list": (
        lambda m, _: circlekit.run(m, np.zeros(3)),  # type: ignore[arg-type]
        "inputs: expected a list of arrays, or a dict by input name, got ndarray",
    ),
    "path to optimize": (lambda m, _: circlekit.optimize("a.circle"), "expected a Model, got str"),  # type: ignore[arg-type]
    "path to compare": (lambda m, _: circlekit.compare(m, "a.circle"), "expected a Model, got str"),  # type: ignore[arg-type]
    "model to parse": (lambda m, _: circlekit.parse(m), "expected a string, got Model"),  # type: ignore[arg-type]
    "path of no file": (lambda m, _: circlekit.save(m, None), "cannot save to NoneType: expected a path"),  # type: ignore[arg-type]
    "no model to run": (lambda m, _: circlekit.Interpreter(3), "expected a Model, got int"),  # type: ignore[arg-type]
    "no passes": (
        lambda m, _: circlekit.optimize(m, None),  # type: ignore[arg-type]
        "expected the name of a pass, or several names, got NoneType",
    ),
    "class of a pass": (
        lambda m, _: circlekit.optimize(m, [circlekit.Pass]),  # type: ignore[list-item]
        "expected the name of a pass, got ABCMeta",
    ),
    "number to disable": (
        lambda m, _: circlekit.optimize(m, disable=[3]),  # type: ignore[list-item]
        "expected the name of a pass, got int",
    ),
    "list to explain": (
        lambda m, _: circlekit.explain(m, ["fold_mul"]),  # type: ignore[arg-type]
        "expected the name of a pass, got list",
    ),
    "pipeline to explain": (
        lambda m, _: circlekit.explain(m, "O1"),
        "expected the name of a pass, got the pipeline O1",
    ),
    "format to explain": (
        lambda m, _: circlekit.explain(m, format="onnx"),
        "expected format tflite or circle, got 'onnx'",
    ),
    "operator to explain": (
        lambda m, _: circlekit.explain_op(m, 3),  # type: ignore[arg-type]
        "expected the name of an operator or result, got int",
    ),
    "number of a target": (
        lambda m, _: circlekit.optimize(m, target=5),  # type: ignore[arg-type]
        "expected targets, or their names, got int",
    ),
    "number in targets": (
        lambda m, _: circlekit.optimize(m, target=[5]),  # type: ignore[list-item]
        "expected the name of a target, got int",
    ),
    "number of a scheme": (
        lambda m, _: circlekit.quantize(m, 3),  # type: ignore[arg-type]
        "expected the name of a scheme, got int",
    ),
    "attribute": (
        lambda m, _: setattr(m.main.ops[0], "strid_h", 2),
        "TransposeConv has no attribute strid_h; did you mean stride_h?",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_a_sentence(mistake: str, model: circlekit.Model, tmp_path: Path) -> None:
    call, sentence = MISTAKES[mistake]
    with pytest.raises(CirclekitError) as error:
        call(model, tmp_path)
    assert sentence in error.value.message


def test_one_name_needs_no_list(model: circlekit.Model) -> None:
    report = circlekit.optimize(parse_model(RECIPE), disable="fuse_batchnorm_with_tconv")
    assert "fuse_batchnorm_with_tconv" not in report.changes
    model.main.outputs[0].name = "out"  # more than one letter
    assert len(circlekit.extract(model, outputs="out").main) == 3
    assert len(circlekit.select(model, names="out").main) == 1
    assert circlekit.merge([model], outputs="out").main.outputs[0].name == "out"


def test_optimize_reports_what_it_did(model: circlekit.Model) -> None:
    report = circlekit.optimize(model, verify=True)
    assert [op.code for op in model.graphs[0].ops] == ["TRANSPOSE_CONV"]
    assert report.changes["fuse_batchnorm_with_tconv"] == 1
    assert report.before.ops == {"ADD": 1, "MUL": 1, "TRANSPOSE_CONV": 1}
    assert report.after.ops == {"TRANSPOSE_CONV": 1}
    assert (report.before.op_count, report.after.op_count) == (3, 1)
    # 54 weights; before, 3 factors and 3 addends; after, 3 biases
    assert (report.before.parameters, report.after.parameters) == (54 + 6, 54 + 3)
    assert report.before.macs == report.after.macs == 4 * 4 * 2 * 9 * 3  # elements of %x, taps, channels
    # the arena: %x has 128 bytes, each result [1,8,8,3] has 768
    assert str(report).splitlines() == [
        "                   before  after",
        "ADD                     1      0",
        "MUL                     1      0",
        "TRANSPOSE_CONV          1      1",
        "operators               3      1",
        "parameters             60     57",
        "MACs                  864    864",
        "peak arena, bytes   1,664    896",
        "",
        *(f"{name}: {count}" for name, count in report.changes.items()),
        *report.verdicts(),
        *filter(None, map(str, report.targets)),
    ]
    assert report.changes
    assert report.verified


def test_optimize_keeps_values_and_interface(model: circlekit.Model) -> None:
    before = parse_model(RECIPE)
    circlekit.optimize(model)
    found = circlekit.compare(before, model)
    assert found.equal, str(found)
    assert not found.interface


def test_optimize_takes_names_of_passes_and_pipelines(model: circlekit.Model) -> None:
    report = circlekit.optimize(model, ["fuse_mul_with_tconv"])
    assert report.changes == {"fuse_mul_with_tconv": 1}
    assert circlekit.optimize(model, []).changes == {}
    assert (
        circlekit.optimize(model, "O1", disable=["fuse_add_with_tconv"]).changes.get("fuse_add_with_tconv")
        is None
    )


def test_a_wrong_pass_is_named(model: circlekit.Model, halve: str) -> None:
    with pytest.raises(EquivalenceError, match=r"^halve changed output %y on \w+ inputs: \[0,\d,\d,\d\]: "):
        circlekit.optimize(model, ["fuse_batchnorm_with_tconv", halve], verify=True)


def test_without_verify_values_are_not_compared(model: circlekit.Model, halve: str) -> None:
    assert circlekit.optimize(model, [halve]).changes == {"halve": 1}


def test_record_implies_verify_and_leaves_nothing_on_failure(
    model: circlekit.Model, halve: str, tmp_path: Path
) -> None:
    with pytest.raises(EquivalenceError):
        circlekit.optimize(model, [halve], record=tmp_path / "rec")
    assert not (tmp_path / "rec").exists()
    circlekit.optimize(parse_model(RECIPE), record=tmp_path / "rec")
    assert (tmp_path / "rec" / "opt.expected.h5").exists()


@pytest.mark.parametrize("format", ["circle", "tflite"])
def test_bisect_writes_the_smallest_model_that_shows_the_fault(
    format: str, model: circlekit.Model, halve: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Halve, "format", format)
    circlekit.save(model, tmp_path / "net.circle")
    small = tmp_path / "small.ck"
    sentence = f"wrote a model of 1 operator that shows it to {small}"
    passes = ["fuse_mul_with_tconv", halve]
    with pytest.raises(EquivalenceError, match="halve") as error:
        circlekit.optimize(model, passes, bisect=small, format=None if format == "circle" else format)
    assert sentence in str(error.value)
    assert [op.code for op in circlekit.load(small).main] == ["TRANSPOSE_CONV"]
    options = Options([halve], bisect=small)
    with pytest.raises(EquivalenceError, match="halve") as error:
        circlekit.convert(tmp_path / "net.circle", tmp_path / f"out.{format}", options)
    assert sentence in str(error.value)
    assert not (tmp_path / f"out.{format}").exists()


def test_bisect_of_another_error_keeps_the_error(model: circlekit.Model, tmp_path: Path) -> None:
    model.main.ops[1].set_input(0, model.main.ops[2].output)
    with pytest.raises(circlekit.errors.ModelError):
        circlekit.optimize(model, bisect=tmp_path / "small.ck")
    assert not (tmp_path / "small.ck").exists()


def test_bad_requests_are_refused_before_the_work(model: circlekit.Model, tmp_path: Path) -> None:
    epoch = model.main.epoch
    with pytest.raises(RewriteError, match="no pass or pipeline 'O9'"):
        circlekit.optimize(model, "O9")
    with pytest.raises(RewriteError, match="no pass 'fuse_x'"):
        circlekit.optimize(model, explain="fuse_x")
    with pytest.raises(FileError, match="does not exist"):
        circlekit.optimize(model, record=tmp_path / "no" / "rec")
    with pytest.raises(UnsupportedError, match=r"expected format tflite or circle, got .onnx."):
        circlekit.optimize(model, format="onnx")
    assert model.main.epoch == epoch


def test_repr_and_str_and_html_of_models_graphs_operators_and_values(model: circlekit.Model) -> None:
    main = "<Graph main(%x: f32[1,4,4,2]) -> (%y: f32[1,8,8,3]): 3 operators>"
    assert repr(model) == f"<Model text (circle): {main}>"
    assert repr(model.main) == main
    assert repr(model.main.ops[0]) == "<TransposeConv %t: f32[1,8,8,3]>"
    assert repr(model.main.ops[0].output) == "%t: f32[1,8,8,3]"
    assert str(model.main.ops[1]) == "%m = Mul(%t, [2.0, 1.5, 0.5]) : f32[1,8,8,3]"
    assert str(model).startswith('model circle\nsignature "serve" @main')
    weights = next(line for line in str(model).splitlines() if "%w = " in line)
    assert re.fullmatch(r"  %w = const f32\[3,3,3,2\] \[(-?0\.\d+, ){4}\.\.\. 54 elements\]", weights)
    assert str(model.main) in str(model)
    assert model._repr_html_() == f"<pre>{html.escape(str(model))}</pre>"
    assert model.main.ops[0].output.users == [model.main.ops[1]]
    assert model != parse_model(RECIPE), "a model is itself; circlekit.compare compares"


def test_an_operator_without_results_has_no_macs() -> None:
    model = parse_model("graph main(%x: f32[2,3]) -> %y { %y = FullyConnected(%x, [[1.0, 2.0, 3.0]]) }")
    model.main.ops[0].results.clear()
    assert circlekit.optimize(model).before.macs == 0


@pytest.mark.parametrize(
    ("is_valid", "raised", "error"),
    [
        (True, IndexError, IndexError),
        (False, IndexError, circlekit.errors.ModelError),
        (False, MemoryError, MemoryError),
        (False, FileError, FileError),
    ],
)
def test_an_internal_error_on_an_invalid_model_becomes_a_model_error(
    is_valid: bool, raised: type[Exception], error: type[Exception], model: circlekit.Model
) -> None:
    if not is_valid:
        model.main.ops[0].set_input(0, model.main.ops[0].output)
    with pytest.raises(error), blaming_model(model, "net.circle"):
        raise raised("by hand")


def test_explain_gives_the_refusals_of_a_pass_without_changing_the_model() -> None:
    model = parse_model(RECIPE.replace("[2.0, 1.5, 0.5])", "[2.0, 1.5, 0.5]) {act: RELU}"))
    report = circlekit.optimize(model, [], explain="fuse_batchnorm_with_tconv")
    assert [refusal.sentence for refusal in report.refusals] == ["%m: act is RELU, expected NONE"]
    assert len(model.main.ops) == 3
    model = parse_model(RECIPE)
    assert circlekit.optimize(model, [], explain="fuse_batchnorm_with_tconv").refusals == []
    assert len(model.main.ops) == 3, "the pass that is explained was not asked to run"


def test_load_tells_files_apart_by_content(model: circlekit.Model, tmp_path: Path) -> None:
    (tmp_path / "a.circle").write_text(RECIPE)
    circlekit.save(model, tmp_path / "b.ck", "tflite")
    circlekit.save(model, tmp_path / "c.circle")
    for name, fmt in (("a.circle", "circle"), ("b.ck", "tflite"), ("c.circle", "circle")):
        loaded = circlekit.load(tmp_path / name)
        assert loaded.format == fmt
        assert loaded.source == str(tmp_path / name)
        assert circlekit.compare(model, loaded).equal


def test_save_leaves_the_model_as_it_is(model: circlekit.Model, tmp_path: Path) -> None:
    circlekit.optimize(model)
    circlekit.save(model, tmp_path / "a.circle")
    assert [op.code for op in model.main.ops] == ["TRANSPOSE_CONV"]
    assert [op.code for op in circlekit.load(tmp_path / "a.circle").main.ops] == ["TRANSPOSE_CONV", "RELU"]
    circlekit.save(model, tmp_path / "a.tflite")
    assert [op.code for op in circlekit.load(tmp_path / "a.tflite").main.ops] == ["TRANSPOSE_CONV"]


def test_run_takes_inputs_by_order_or_name(model: circlekit.Model) -> None:
    x = np.ones((1, 4, 4, 2), np.float32)
    (by_order,) = circlekit.run(model, [x])
    (by_name,) = circlekit.run(model, {"x": x})
    assert by_order.shape == (1, 8, 8, 3)
    assert np.array_equal(by_order, by_name)


CHAIN = """
graph main(%x: f32[1,4]) -> %y {
  %w = const f32[4,4] gaussian(0, 1)
  %a = FullyConnected(%x, %w)
  %b = Relu(%a)
  %y = Softmax(%b)
}
"""
TAIL = "graph main(%y: f32[1,4]) -> %z { %z = Neg(%y) }"
Read = Callable[[list[Any]], Iterable[Any]]
"""``iter`` or ``list``."""


def quantized(model: circlekit.Model, without: Iterable[str]) -> str:
    report = circlekit.quantize(model, samples=[[np.ones((1, 4), np.float32)]] * 2, without=without)
    return print_model(model) + str(report.notes)


@pytest.mark.parametrize(
    "call",
    [
        lambda m, read: circlekit.optimize(m, read(["fuse_activation_function"])).changes,
        lambda m, read: circlekit.optimize(m, disable=read(["fuse_activation_function"])).changes,
        lambda m, read: convert_model(m, Options(passes=read(["O1"])), "circle")[1].changes,
        lambda m, read: convert_model(m, Options(["O1"], read(["remove_dead"])), "circle")[1].changes,
        lambda m, read: quantized(m, read(list(TECHNIQUES))),
        lambda m, read: (
            circlekit.calibrate(
                m, read([[np.ones((1, 4), np.float32)]]), channels=read(["a"]), histograms=read(["b"])
            ).graphs
        ),
        lambda m, read: str(circlekit.select(m, read([0]), read(["b"]))),
        lambda m, read: str(circlekit.extract(m, read(["a"]), read(["b"]))),
        lambda m, read: str(circlekit.extract(m, read([]), read([]))),
        lambda m, read: str(circlekit.resize(m, read([read([2, 4])]))),
        lambda m, read: str(circlekit.merge(read([m, circlekit.parse(TAIL)]), outputs=read(["z"]))),
    ],
)
def test_iterators_in_place_of_lists(call: Callable[[circlekit.Model, Read], Any]) -> None:
    assert str(call(circlekit.parse(CHAIN), iter)) == str(call(circlekit.parse(CHAIN), list))


def test_an_iterator_is_no_record(model: circlekit.Model) -> None:
    """An iterator of arrays could be used for one run only."""
    inputs = iter([np.zeros((1, 2, 2, 1), np.float32)])
    for call in (
        lambda: circlekit.run(model, inputs),  # type: ignore[arg-type]
        lambda: circlekit.compare(model, model, inputs),  # type: ignore[arg-type]
        lambda: circlekit.optimize(model, inputs=inputs),  # type: ignore[arg-type]
    ):
        with pytest.raises(ModelError, match="inputs: expected a list of arrays, or a dict by input name"):
            call()


def test_a_pass_that_fails_on_an_invalid_model_says_what_is_wrong_with_it() -> None:
    model = circlekit.parse(
        "graph main(%x: f32[1,4,4,4]) -> %y { %y = DepthToSpace(%x) {block_size: 0}: f32[1,8,8,1] }"
    )
    sentence = "the passes failed on an invalid model: block_size: expected at least 1, got 0"
    with pytest.raises(circlekit.errors.ModelError, match=sentence):
        circlekit.optimize(model, "O1")


def test_a_convolution_of_rank_3_is_not_taken_for_a_grouped_one() -> None:
    conv = "%w = const f32[4,1,1,1] ones\n %y = Conv2D(%x, %w): f32[1,4,4,4]"
    model = circlekit.parse(f"graph main(%x: f32[4,4,2]) -> %y {{ {conv} }}")
    assert circlekit.optimize(model, "O1", target="onert").changes == {}
