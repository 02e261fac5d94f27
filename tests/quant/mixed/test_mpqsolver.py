# SPDX-License-Identifier: Apache-2.0
"""circle-mpqsolver and visq: what is raised, the files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.cli.quant.mpqsolver import main as mpqsolver
from circlekit.cli.quant.record_minmax import record_minmax
from circlekit.cli.quant.visq import visq
from circlekit.errors import ModelError
from circlekit.quant.calibration.interpreter_engine import sample_outputs
from circlekit.quant.calibration.sample_files import RandomSamples
from circlekit.quant.mixed import mpqsolver as solving
from circlekit.quant.mixed.mpqsolver import Solver, depths_of
from circlekit.quant.mixed.one_patterns import ONE_PATTERNS
from circlekit.quant.mixed.visq import COLORS, TensorErrors
from circlekit.quant.one.settings import Settings, layer_setting

CHAIN = """graph main(%x: f32[1,16]) -> %y {
  %v = const f32[16,16] gaussian(0, 0.3)
  %w = const f32[4,16] gaussian(0, 0.3)
  %b16 = const f32[16] gaussian(0, 0.1)
  %b4 = const f32[4] gaussian(0, 0.1)
  %a = FullyConnected(%x, %v, %b16) {act: RELU}
  %b = FullyConnected(%a, %v, %b16) {act: RELU}
  %y = FullyConnected(%b, %w, %b4)
}"""

NORM = """graph main(%x: f32[1,3,8]) -> %z {{
  %m = Mean(%x, [2]) {{keep_dims: true}}
  %s = Sub(%x, %m)
  %q = Mul(%s, %s)
  %v = Mean(%q, [{axis}]) {{keep_dims: true}}
  %e = Add(%v, {epsilon})
  %r = Rsqrt(%e)
  %z = Mul(%r, %s)
}}"""

SOFTMAX = """graph main(%x: f32[2,8]) -> %z {{
  %m = ReduceMax(%x, [{axis}]) {{keep_dims: true}}
  %s = Sub(%x, %m)
  %e = Exp(%s)
  %t = Sum(%e, [-1]) {{keep_dims: true}}
  %z = Div(%e, %t)
}}"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: net.circle, a chain of layers with recorded ranges, and data.npy."""
    monkeypatch.chdir(tmp_path)
    Path("net.ck").write_text(CHAIN)
    np.save("data.npy", np.random.default_rng(3).normal(0, 1, (4, 1, 16)).astype(np.float32))
    words = ["--input_model", "net.ck", "--output_model", "net.circle", "--input_data", "data.npy"]
    assert record_minmax(words) == 0
    return tmp_path


def solve(*words: str) -> int:
    return mpqsolver(["--input_model", "net.circle", "--output_model", "out.circle", *words])


def activation_dtypes(path: str) -> dict[str, str]:
    return {v.name: v.dtype.short for op in circlekit.load(path).main for v in op.results}


@pytest.mark.parametrize(("side", "raised"), [("true", [True, True, False]), ("false", [False, True, True])])
def test_bisection_raises_one_side(
    files: Path, capsys: pytest.CaptureFixture[str], side: str, raised: list[bool]
) -> None:
    words = ["--bisection", side, "--data", "data.npy", "--qerror_ratio", "0.6", "--granularity", "layer"]
    assert solve(*words, "--save_intermediate", "tried", "--output_dtype", "float32") == 0
    final = json.loads(Path("tried/FinalConfiguration.mpq.json").read_text())
    named = [layer["name"] for layer in final["layers"]]
    assert named == [name for name, is_raised in zip("aby", raised, strict=True) if is_raised]
    dtypes = activation_dtypes("out.circle")
    assert [dtypes[name] == "i16" for name in ("a", "b")] == raised[:2]
    lines = [line.split() for line in Path("tried/errors.mpq.txt").read_text().splitlines()]
    errors = {tag: float(error) for tag, error in lines}
    target = errors["Q16"] + 0.6 * (errors["Q8"] - errors["Q16"])
    tried = [  # all but Q8, Q16 and FINAL
        json.loads(Path(f"tried/Configuration_{n}.mpq.json").read_text()) for n in range(1, len(errors) - 2)
    ]
    error = min(errors[str(n)] for n, one in enumerate(tried, 1) if one["layers"] == final["layers"])
    assert error == errors["FINAL"] < target
    assert final["default_quantization_dtype"] == "uint8"
    # the errors in the file are rounded, so only the first digits of the target are compared
    assert f"target qerror ({target:g})"[:18] in capsys.readouterr().out


def test_layers_in_no_pattern_have_the_quantized_dtype(files: Path) -> None:
    words = ["--patterns", "--quantized_dtype", "int16", "--granularity", "layer"]
    assert solve(*words, "--save_intermediate", "tried") == 0
    assert {activation_dtypes("out.circle")[name] for name in "ab"} == {"i16"}
    final = json.loads(Path("tried/FinalConfiguration.mpq.json").read_text())
    assert (final["default_quantization_dtype"], final["layers"]) == ("int16", [])


@pytest.mark.parametrize(("ratio", "dtype"), [("0", "i16"), ("1", "u8")])
def test_the_ends_of_the_ratio_are_one_dtype(files: Path, ratio: str, dtype: str) -> None:
    assert solve("--bisection", "true", "--data", "data.npy", "--qerror_ratio", ratio) == 0
    dtypes = activation_dtypes("out.circle")
    assert {dtypes[name] for name in "ab"} == {dtype}


@pytest.mark.parametrize(("errors", "part"), [({"a": 2, "y": 1}, "Q16"), ({"a": 1, "y": 2}, "Q8")])
def test_auto_raises_the_side_with_larger_errors(
    files: Path, capsys: pytest.CaptureFixture[str], errors: dict[str, float], part: str
) -> None:
    Path("e.json").write_text(json.dumps(TensorErrors("TAE", errors).document("net")))
    assert solve("--bisection", "auto", "--data", "data.npy", "--visq_file", "e.json") == 0
    assert f"Front part will be {part}," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ([1.0, 3.0, 2.0, 2.0, 2.0, 2.0], "aby"),  # an error that equals the target misses it
        ([1.0, 3.0, 1.9, 2.0, 2.0], "ab"),
        ([1.0, 3.0, 1.9, 1.9, 1.9], ""),
        ([1.0, 1.0], ""),
        ([3.0, 1.0], ""),
    ],
)
def test_as_few_depths_are_raised_as_the_target_needs(
    errors: list[float], raised: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors are those of int16, of uint8, and of one cut after the other.

    The target is halfway between the first two.
    """
    found = iter(errors)
    monkeypatch.setattr(solving, "_mean_absolute_error", lambda *_: next(found))
    monkeypatch.setattr(Solver, "quantized", lambda self, _: self.model)
    solver = Solver(circlekit.parse(CHAIN), Settings(layer_setting("uint8", "layer")), say=lambda _: None)
    samples = [[np.zeros((1, 16), np.float32)]]
    chosen = solver.bisect(samples, 0.5, is_int16_front=True, errors=None, observer=None)
    assert "".join(chosen.raised) == raised


@pytest.mark.parametrize(
    ("errors", "sums"),
    [({"a": 2, "y": 1}, "21"), ({"a": 1, "y": 1}, "11"), ({"b": 1}, "01"), ({"x": 1, "z": 9}, "10")],
)
def test_the_front_is_raised_only_if_its_errors_are_larger(errors: dict[str, float], sums: str) -> None:
    """%b, at the depth in the middle, belongs to the rear.  ``sums``: the errors of front and rear."""
    model, lines = circlekit.parse(CHAIN), list[str]()
    solver = Solver(model, Settings(layer_setting("uint8", "layer")), say=lines.append)
    assert solver._front(depths_of(model.main), errors) == (sums[0] > sums[1])
    assert lines[1:] == [
        f"Qerror of {side} half: {n}" for side, n in zip(("front", "rear"), sums, strict=True)
    ]


@pytest.mark.parametrize(("steps", "continues"), [(3, False), (1, True)])
def test_only_single_steps_continue_from_the_state_of_the_sample_before(steps: int, continues: bool) -> None:
    model = circlekit.parse(f"""graph main(%x: f32[1,{steps},2]) -> %y {{
      %h: f32[1,2] variable
      %w = const f32[2,2] gaussian(0, 1)
      %y = UnidirectionalSequenceRnn(%x, %w, %w, [0.1, 0.2], %h) {{act: TANH}}
    }}""")
    sample = [np.full((1, steps, 2), 0.5, np.float32)]
    (first,), (second,) = sample_outputs(model, [sample, sample])
    assert np.array_equal(first, second) is not continues


def test_patterns_need_known_axes() -> None:
    unknown_rank = "graph main(%x: f32[*]) -> %z" + SOFTMAX.format(axis=1).partition("%z")[2]
    computed = SOFTMAX.format(axis=1).replace("(%x: f32[2,8])", "(%x: f32[2,8], %i: i32[1])")
    for text in (unknown_rank, computed.replace("Sum(%e, [-1])", "Sum(%e, %i)")):
        assert not [op for pattern in ONE_PATTERNS.values() for op in pattern(circlekit.parse(text).main)]


def test_patterns_are_those_of_one() -> None:
    variance, exponent = (ONE_PATTERNS[name] for name in sorted(ONE_PATTERNS))

    def names(text: str) -> list[str]:
        graph = circlekit.parse(text).main
        return [op.results[0].name for pattern in (variance, exponent) for op in pattern(graph)]

    assert names(NORM.format(axis=-1, epsilon="0.001")) == ["q", "v", "e", "r"]
    assert names(NORM.format(axis=1, epsilon="0.001")) == []
    assert names(NORM.format(axis=2, epsilon="[[[0.1],[0.1],[0.1]]]")) == []
    assert names(SOFTMAX.format(axis=1)) == ["s", "e"]
    assert names(SOFTMAX.format(axis=0)) == []


def test_patterns_quantize(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("net.ck").write_text(NORM.format(axis=2, epsilon="0.001"))
    assert record_minmax(["--input_model", "net.ck", "--output_model", "net.circle"]) == 0
    words = ["--patterns", "--u8_layernorm_with_s16_variance"]
    assert solve(*words) == 0
    dtypes = activation_dtypes("out.circle")
    assert [name for name in "msqverz" if dtypes[name] == "i16"] == ["q", "v", "e", "r"]
    assert "int16 operators: 4 of 7" in capsys.readouterr().out
    assert solve(*words, "--quantized_dtype", "int16", "--granularity", "channel") == 0
    assert "int16 operators" not in capsys.readouterr().out  # all are


def test_depth_is_the_longest_way() -> None:
    """As in ONE, an operator with several results, here Split, counts twice."""
    text = """graph main(%x: f32[1,4]) -> %y {
      %a = Relu(%x)
      %b, %c = Split(1, %a) {num_splits: 2}
      %d = Concatenation(%b, %c, %b, %c) {axis: 1}
      %y = Concatenation(%x, %d) {axis: 1}
    }"""
    depths = {value.name: depth for value, depth in depths_of(circlekit.parse(text).main).items()}
    assert depths == {"x": 0, "a": 1, "b": 3, "c": 3, "d": 4, "y": 5}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Unrecognized solver"),
        (["--bisection", "true", "--patterns"], "only one method is allowed"),
        (["--bisection", "up", "--data", "data.npy"], "expected true, false or auto, got 'up'"),
        (["--bisection", "true"], "give --data"),
        (["--bisection", "auto", "--data", "data.npy"], "please provide visq_file"),
        (["--bisection", "auto", "--data", "data.npy", "--visq_file", "net.ck"], "Invalid visq file"),
        (["--bisection", "true", "--data", "data.npy", "--qerror_ratio", "2"], "must be in [0, 1]"),
        (["--patterns", "--quantized_dtype", "int4"], "Unsupported output type 'int4'"),
        (["--bisection", "true", "--quantized_dtype", "int4"], "Unsupported output type 'int4'"),
        *(
            (["--patterns", "--quantized_dtype", dtype, "--granularity", "tensor"], "granularity 'tensor'")
            for dtype in ("uint8", "int16")
        ),
    ],
)
def test_refusals(files: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert solve(*words) == 1
    assert message in capsys.readouterr().err
    assert not Path("out.circle").exists()


def test_visq_computes_one_s_metrics(files: Path) -> None:
    assert solve("--bisection", "true", "--data", "data.npy", "--qerror_ratio", "1") == 0
    outputs = {metric: f"{metric}.json" for metric in ("mpeir", "mse", "tae", "srmse")}
    words = [word for metric, path in outputs.items() for word in (f"--{metric}_output", path)]
    models = ["-f", "net.circle", "-q", "out.circle", "-d", "data.npy"]
    assert visq([*models, *words, "--dump_dot_graph", "-b", "2"]) == 0
    model, quantized = circlekit.load("net.circle"), circlekit.load("out.circle")
    form = quantized.main.outputs[0].quantization
    assert form is not None
    references, integers = (
        np.concatenate([circlekit.run(m, [x])[0] for x in inputs])
        for m, inputs in ((model, np.load("data.npy")), (quantized, _quantized_inputs(quantized)))
    )
    difference = references - (integers.astype(np.float64) - form.zero_point) * form.scale
    expected = {
        "MPEIR": np.mean(np.abs(difference).max(axis=1) / (np.ptp(references, axis=1) + 1e-6)),
        "MSE": np.square(difference).mean(),
        "TAE": np.abs(difference).sum(axis=1).mean(),
        "SRMSE": np.sqrt(np.square(difference).mean()) / form.scale[0],
    }
    for metric, error in expected.items():
        document = json.loads(Path(outputs[metric.lower()]).read_text())
        assert document["error"][0]["y"] == pytest.approx(error, abs=6e-5)
        assert list(document["error"][0]) == ["a", "b", "y"]
        assert (document["meta"]["metric"], document["meta"]["model"]) == (metric, "net.circle")
        assert [slot["c"] for slot in document["meta"]["colorscheme"]] == list(COLORS)
    assert '"a" -> "b";' in Path("mse.json.dot").read_text()


def _quantized_inputs(model: circlekit.Model) -> list[np.ndarray]:
    form = model.main.inputs[0].quantization
    assert form is not None
    data = np.load("data.npy") / form.scale + form.zero_point
    return list(np.clip(np.round(data), 0, 255).astype(np.uint8))


def test_visq_refuses(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = ["-f", "net.circle", "-q", "net.circle"]
    assert visq(models) == 255
    assert visq([*models, "--mse_output", "e.json"]) == 255
    assert "expected quantized results with the names and shapes" in capsys.readouterr().err
    assert not Path("e.json").exists()


def test_visq_without_data_has_one_seeded_random_sample(files: Path) -> None:
    assert solve("--bisection", "true", "--data", "data.npy", "--qerror_ratio", "1") == 0
    words = ["-f", "net.circle", "-q", "out.circle"]
    assert visq([*words, "--tae_output", "random.json"]) == 0
    (sample,) = RandomSamples(circlekit.load("net.circle"), 1, like_one=True)
    np.savez("one.npz", x=np.stack([sample[0]]))
    assert visq([*words, "--tae_output", "given.json", "-d", "one.npz"]) == 0
    assert Path("random.json").read_text() == Path("given.json").read_text()


def test_an_infinite_difference_of_outputs_is_an_error_without_a_warning() -> None:
    output = [np.array([np.inf, 1], np.float32)]
    with pytest.raises(ModelError, match="only finite ones"):
        solving._mean_absolute_error([output], [output])
