# SPDX-License-Identifier: Apache-2.0
"""The public names, their signatures, their texts, and what they say about arguments of wrong types."""

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
from circlekit.api import structure
from circlekit.api.options import Options
from circlekit.api.rewriting import convert_model
from circlekit.errors import CirclekitError
from circlekit.ir.text import parse_model, print_model
from circlekit.quant.technique_search import TECHNIQUES
from tests.api.conftest import RECIPE


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
    """A change here is a change for users: mention it in CHANGELOG.md."""
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
        "extract": "(model: 'Model', inputs: 'str | Iterable[str]' = (), "
        "outputs: 'str | Iterable[str]' = ()) -> 'Model'",
        "fake_quantize": "(model: 'Model', *, samples: 'Samples | None' = None, "
        "calibration: 'Calibration | None' = None, optimize: 'bool' = True, **options: 'Any') "
        "-> 'list[Inserted]'",
        "load": "(source: 'ModelFile') -> 'Model'",
        "merge": "(models: 'Iterable[Model]', connect: 'Mapping[str, str] | None' = None, "
        "outputs: 'str | Iterable[str]' = ()) -> 'Model'",
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
        "select": "(model: 'Model', ids: 'Iterable[int]' = (), names: 'str | Iterable[str]' = ()) -> 'Model'",
        "verify": "(model: 'Model') -> 'None'",
    }
    assert circlekit.__all__ == sorted([*classes, *functions, "passes"])


def test_passes_are_listed_by_name() -> None:
    found = circlekit.passes()
    assert found["fuse_batchnorm_with_tconv"].name == "fuse_batchnorm_with_tconv"
    assert list(found) == sorted(found)


def closed() -> io.BytesIO:
    """Return a file object that is closed."""
    stream = io.BytesIO(RECIPE.encode())
    stream.close()
    return stream


X = [np.zeros((1, 2), np.float32)]
MISTAKES: dict[str, tuple[Callable[[circlekit.Model, Path], object], str]] = {
    "path of another type": (lambda m, _: circlekit.load(3), "cannot load int: expected a path, bytes or a"),  # type: ignore[arg-type]
    "text file object": (lambda m, _: circlekit.load(io.StringIO("x")), "opened in text mode"),  # type: ignore[arg-type]
    "closed file object": (
        lambda m, _: circlekit.load(closed()),
        "<file object>: cannot be read: I/O operation",
    ),
    "file object to write": (
        lambda m, _: circlekit.load(io.BufferedWriter(io.BytesIO())),
        "<file object>: cannot be read: read",
    ),
    "text stream to write": (
        lambda m, p: circlekit.convert(b"x", io.StringIO()),  # type: ignore[arg-type]
        "the stream to write is opened in text mode; open it with mode 'wb'",
    ),
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
    "record in a number": (lambda m, _: circlekit.optimize(m, record=3), "expected a path, got int"),  # type: ignore[arg-type]
    "plan of another type": (lambda m, _: circlekit.quantize(m, plan=[]), "expected a path, got list"),  # type: ignore[arg-type]
    "pipeline of another type": (lambda *_: circlekit.read_pipeline(b"x"), "expected a path, got bytes"),  # type: ignore[arg-type]
    "state of another type": (
        lambda m, _: circlekit.calibrate(m, [X], state=3),  # type: ignore[arg-type]
        "expected a path, got int",
    ),
    "engine of another type": (
        lambda m, _: circlekit.calibrate(m, [X], engine=[]),  # type: ignore[arg-type]
        "expected the name of an engine, got list",
    ),
    "processes of another type": (
        lambda m, _: circlekit.calibrate(m, [X], processes="2"),  # type: ignore[arg-type]
        "processes: expected an integer of at least 1, got '2'",
    ),
    "seconds of another type": (
        lambda m, _: circlekit.quantize(m, [X], seconds="1"),  # type: ignore[arg-type]
        "seconds: expected a finite number of 0 or more, got '1'",
    ),
    "SQNR of another type": (
        lambda m, _: circlekit.quantize(m, [X], target_sqnr="1"),  # type: ignore[arg-type]
        "target_sqnr: expected a finite number, got '1'",
    ),
    "calibration of another type": (
        lambda m, _: circlekit.fake_quantize(m, calibration="a.json"),  # type: ignore[arg-type]
        "calibration: expected a Calibration, got str",
    ),
    "target of another type": (
        lambda m, p: circlekit.convert(p / "a.circle", b"x"),  # type: ignore[arg-type]
        "cannot write to bytes: expected a path or a binary file object",
    ),
    "condition that is no method": (lambda *_: circlekit.condition(3), "expected a method, got 3"),  # type: ignore[type-var]
    "inputs that are no list": (lambda *_: circlekit.Graph("g", 3), "expected a list of inputs, got int"),  # type: ignore[arg-type]
    "one model to merge": (lambda m, _: structure.merge(m), "expected several Models, got Model"),  # type: ignore[arg-type]
    "number of parts": (
        lambda m, _: structure.partition(m, 3),  # type: ignore[arg-type]
        "expected a PartTable or the path of a part file, got int",
    ),
    "path to compare": (lambda m, _: circlekit.compare(m, "a.circle"), "expected a Model, got str"),  # type: ignore[arg-type]
    "model to parse": (lambda m, _: circlekit.parse(m), "expected a string, got Model"),  # type: ignore[arg-type]
    "path of no file": (lambda m, _: circlekit.save(m, None), "cannot save to NoneType: expected a path"),  # type: ignore[arg-type]
    "no model to run": (lambda m, _: circlekit.Interpreter(3), "expected a Model, got int"),  # type: ignore[arg-type]
    "no passes": (
        lambda m, _: circlekit.optimize(m, None),  # type: ignore[arg-type]
        "expected the name of a pass, or several names, got NoneType",
    ),
    "bytes in place of passes": (
        lambda m, _: circlekit.optimize(m, b""),  # type: ignore[arg-type]
        "expected the name of a pass, or several names, got bytes",
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
    "array to explain": (
        lambda m, _: circlekit.explain(m, np.zeros(2)),  # type: ignore[arg-type]
        "expected the name of a pass, got ndarray",
    ),
    "array to explain after passes": (
        lambda m, _: circlekit.optimize(m, explain=np.zeros(2)),  # type: ignore[arg-type]
        "expected the name of a pass, got ndarray",
    ),
    "array of settings": (
        lambda m, _: circlekit.explain(m, settings=np.zeros(2)),  # type: ignore[arg-type]
        "expected a mapping from settings to values, got ndarray",
    ),
    "matrix of targets": (
        lambda m, _: circlekit.check(m, np.zeros((2, 2))),
        "expected the name of a target, got ndarray",
    ),
    "number of a file to bisect into": (
        lambda m, _: circlekit.optimize(m, bisect=3),  # type: ignore[arg-type]
        "expected a path, got int",
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
    model.main.outputs[0].name = "out"  # read as a list of letters, it would begin with o, an unknown name
    assert len(circlekit.extract(model, outputs="out").main) == 3
    assert len(circlekit.select(model, names="out").main) == 1
    assert circlekit.merge([model], outputs="out").main.outputs[0].name == "out"


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
