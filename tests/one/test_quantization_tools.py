# SPDX-License-Identifier: Apache-2.0
"""minmax-embedder, q-implant, fm-equalize and dalgona on the recipes of ONE's own tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import circlekit
from circlekit.api.one_tools import analyze, embed_ranges, equalize_feature_maps, implant
from circlekit.cli.quant.dalgona import dalgona
from circlekit.cli.quant.fm_equalize import fm_equalize, fme_apply, fme_detect
from circlekit.cli.quant.minmax_embedder import minmax_embedder
from circlekit.cli.quant.q_implant import q_implant
from circlekit.equivalence.analysis_hooks import AnalysisError
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.errors import FormatError, ModelError, ShapeError
from circlekit.interp.interpreter import run
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Model
from circlekit.ir.value import Value
from circlekit.ir.verifier import check
from circlekit.quant.techniques.feature_map_equalization import find_patterns
from circlekit.recipes.load import load_recipe


def recipe(shared: Path, name: str) -> Model:
    return load_recipe(shared / "peer/one/TensorFlowLiteRecipes" / name / "test.recipe")


# -- minmax-embedder ---------------------------------------------------------------------------


def range_of(value: Value) -> list[float]:
    """Return the recorded min and max."""
    form = value.quantization
    assert form is not None
    assert form.min is not None
    assert form.max is not None
    return [*form.min.tolist(), *form.max.tolist()]


def write_dump(path: Path, model: Model, runs: int, prefix: bool = True) -> None:
    """Write a dump with min run * 10000 + number * 10, and max 7 above it, as ONE's test generates it."""
    run_, model_, subg, op = ("run_", "model_", "subg_", "op_") if prefix else ("", "", "", "")
    with h5py.File(path, "w") as file:
        for index in range(runs):
            group = file.create_group(f"value/{run_}{index}/{model_}0/{subg}0")
            for kind, count in ((op, len(model.main)), ("input_", len(model.main.inputs))):
                for number in range(count):
                    low = index * 10000 + number * 10
                    group.create_dataset(f"{kind}{number}", data=np.array([low, low + 7], ">f4"))


@pytest.mark.parametrize("name", ["Abs_000", "Add_000", "Net_Conv_Relu6_000"])
def test_embedded_ranges_of_ones_rows(name: str, shared: Path, tmp_path: Path) -> None:
    model = recipe(shared, name)
    write_dump(tmp_path / "minmax.h5", model, 2)
    circlekit.save(model, tmp_path / "in.circle")
    target = str(tmp_path / "out.circle")
    words = ["--min_percentile", "0", "--max_percentile", "100", "-o", target]
    assert minmax_embedder([*words, str(tmp_path / "in.circle"), str(tmp_path / "minmax.h5")]) == 0
    main = circlekit.load(target).main
    for values in (main.inputs, [op.output for op in main]):
        for number, value in enumerate(values):
            assert range_of(value) == [number * 10, 10000 + number * 10 + 7]


def test_percentiles_and_faults_of_a_dump(tmp_path: Path) -> None:
    text = "graph main(%x: f32[2]) -> %y { %y = Abs(%x) : f32[2] }"
    model = circlekit.parse(text)
    write_dump(tmp_path / "a.h5", model, 3, prefix=False)
    assert embed_ranges(model, tmp_path / "a.h5", 50, 25) == 2
    assert range_of(model.main.outputs[0]) == [10000, 5007]
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["value/run_0/model_0/subg_0/op_0"] = np.zeros(2, np.float32)
    with pytest.raises(ModelError, match="no range of input 0 of graph 0, %x"):
        embed_ranges(circlekit.parse(text), tmp_path / "b.h5")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["value/x/y"] = np.zeros(2, np.float32)
    with pytest.raises(FormatError, match="got /value/x/y"):
        embed_ranges(circlekit.parse(text), tmp_path / "c.h5")


# -- q-implant ---------------------------------------------------------------------------------


def write_parameters(folder: Path, values: list[Value]) -> Path:
    """Write random uint8 parameters, and integers of constants, for ``values``."""
    rng = np.random.default_rng(7)
    tree: dict[str, dict[str, object]] = {}
    for number, value in enumerate(values):
        dtype = "int32" if value.name == "bias" else "uint8"
        arrays = {"scale": rng.random(1, np.float32), "zerop": rng.integers(0, 255, 1)}
        if value.is_const:
            arrays["value"] = rng.integers(0, 100, value.static_shape).astype(dtype)
        tree[value.name] = {"dtype": dtype, "quantized_dimension": 0}
        for field, array in arrays.items():
            np.save(folder / f"{number}.{field}.npy", np.asarray(array))
            tree[value.name][field] = f"{number}.{field}.npy"
    (folder / "qparam.json").write_text(json.dumps(tree))
    return folder / "qparam.json"


def floats(model: Model) -> list[Value]:
    return [v for v in model.main.values() if v.dtype is f32]


IMPLANTED = [
    "Add_000", "Concatenation_000", "Conv2D_002", "DepthwiseConv2D_001", "MaxPool2D_000", "Mean_001",
    "Mul_000", "Mul_001", "Reshape_000", "Softmax_000",
]  # fmt: skip


@pytest.mark.parametrize("name", IMPLANTED)
def test_implanted_parameters_of_ones_rows(name: str, shared: Path, tmp_path: Path) -> None:
    model = recipe(shared, name)
    values = floats(model)
    path = write_parameters(tmp_path, values)
    circlekit.save(model, tmp_path / "in.circle")
    target = tmp_path / "out.circle"
    assert q_implant([str(tmp_path / "in.circle"), str(path), str(target)]) == 0
    after = {v.name: v for v in circlekit.load(target).main.values()}
    for name, tree in json.loads(path.read_text()).items():
        form = after[name].quantization
        assert form is not None
        assert after[name].dtype.numpy == tree["dtype"]
        np.testing.assert_array_equal(form.scale, np.load(tmp_path / tree["scale"]))
        np.testing.assert_array_equal(form.zero_point, np.load(tmp_path / tree["zerop"]))
        if "value" in tree:
            np.testing.assert_array_equal(after[name].array(), np.load(tmp_path / tree["value"]))


MOVED = "graph main(%x: f32[1,4]) -> %z { %y = Abs(%x) : f32[1,4]\n %z = Reshape(%y, [4]) : f32[4] }"


def test_moved_elements_take_the_parameters_of_their_source(tmp_path: Path) -> None:
    model = circlekit.parse(MOVED)
    implant(model, write_parameters(tmp_path, floats(model)[:2]))
    assert model.main.outputs[0].quantization == model.main.ops[0].output.quantization
    check(model)
    with pytest.raises(ModelError, match="would stay float32"):
        implant(circlekit.parse(MOVED), write_parameters(tmp_path, floats(circlekit.parse(MOVED))[:1]))


def test_a_constant_without_integers_is_rounded_by_channel(tmp_path: Path) -> None:
    model = circlekit.parse(
        "graph main(%x: f32[2,2]) -> %y { %y = Add(%x, [[1.0, 2.0], [3.0, 4.0]]) : f32[2,2] }"
    )
    constant = model.main.ops[0].inputs[1]
    assert constant is not None
    np.save(tmp_path / "one.npy", np.ones(1, np.float32))
    np.save(tmp_path / "zero.npy", np.zeros(1, np.int64))
    np.save(tmp_path / "scales.npy", np.array([0.5, 2], np.float32))
    np.save(tmp_path / "zeros.npy", np.array([0, 10]))
    one = {"dtype": "uint8", "scale": "one.npy", "zerop": "zero.npy", "quantized_dimension": 0}
    tree = {"x": one, "y": one, constant.name: {**one, "scale": "scales.npy", "zerop": "zeros.npy"}}
    (tmp_path / "qparam.json").write_text(json.dumps(tree))
    implant(model, tmp_path / "qparam.json")
    np.testing.assert_array_equal(constant.array(), [[2, 4], [12, 12]])


def test_faults_of_implanted_parameters(tmp_path: Path) -> None:
    path = write_parameters(tmp_path, [Value("no", f32, (1,))])
    with pytest.raises(ModelError, match="no tensor is named 'no'"):
        implant(circlekit.parse(MOVED), path)
    path.write_text('{"x": {"dtype": "uint8", "scale": "a.npy"}}')
    with pytest.raises(FormatError, match="x: expected zerop, a str, got None"):
        implant(circlekit.parse(MOVED), path)
    np.save(tmp_path / "a.npy", np.ones(3, np.float32))
    path.write_text('{"x": {"dtype": "uint8", "scale": "a.npy", "zerop": "a.npy", "quantized_dimension": 1}}')
    with pytest.raises(ShapeError, match="3 scales"):
        implant(circlekit.parse(MOVED), path)


# -- fm-equalize -------------------------------------------------------------------------------


EQUALIZED = [("FullyConnected_010", 1), ("Net_DConv_Conv_000", 1), ("Net_InstNorm_Conv_000", 1)]
EQUALIZED += [("Net_Conv_Pad_000", 1), ("Net_Conv_Gelu_000", 0), ("Net_FullyConnected_Gelu_000", 0)]


@pytest.mark.parametrize(("name", "count"), EQUALIZED)
def test_equalized_rows_of_one(name: str, count: int, shared: Path) -> None:
    """No scale passes through GELU, in ONE neither: its list of tests has these rows as comments."""
    model = recipe(shared, name)
    circlekit.optimize(model, ["fuse_instnorm"], format="circle")
    before = clone(model)
    patterns = equalize_feature_maps(model)
    check(model)
    assert len(patterns) == count
    for kind in ("normal", "boundary"):
        inputs = make_inputs(before.main, InputSet(kind))
        for a, b in zip(run(before, inputs), run(model, inputs), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)


BRANCH = """
graph main(%x: f32[1,4,4,2]) -> %a, %b {
  %k = const f32[3,1,1,2] gaussian(0, 1)
  %u = const f32[2,1,1,3] gaussian(0, 9)
  %v = const f32[2,1,1,3] gaussian(0, 3)
  %f = Conv2D(%x, %k, [0.1, 0.2, 0.3]) {padding: VALID, act: RELU} : f32[1,4,4,3]
  %a = Conv2D(%f, %u, [0.1, 0.2]) {padding: VALID} : f32[1,4,4,2]
  %p = MaxPool2D(%f) {padding: VALID, filter_width: 2, filter_height: 2} : f32[1,3,3,3]
  %b = Conv2D(%p, %v, [0.1, 0.2]) {padding: VALID} : f32[1,3,3,2]
}
"""


def test_layers_with_several_users_are_copied_if_allowed() -> None:
    model = circlekit.parse(BRANCH)
    assert find_patterns(model) == []
    before = clone(model)
    found = [(p.front, p.back) for p in equalize_feature_maps(model, allow_copies=True)]
    assert found == [("f", "a"), ("f", "b")]
    check(model)
    assert len(model.main) == 5
    inputs = make_inputs(before.main, InputSet("normal"))
    for a, b in zip(run(before, inputs), run(model, inputs), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)


def test_commands_of_equalization(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target, patterns = (str(tmp_path / name) for name in ("in.circle", "out.circle", "p.json"))
    circlekit.save(recipe(shared, "Net_DConv_Conv_000"), source)
    assert fme_detect(["--input", source, "--output", patterns]) == 0
    (found,) = json.loads(Path(patterns).read_text())
    assert found["type"] == "ScaleOnly"
    assert "act_scale" not in found
    assert fme_apply(["--input", source, "--fme_patterns", patterns, "--output", target]) == 255
    assert "act_scale is missing" in capsys.readouterr().err
    assert fm_equalize(["-i", source, "-o", target, "-f", patterns]) == 0
    (found,) = json.loads(Path(patterns).read_text())
    channels = circlekit.load(source).main.ops[0].output.static_shape[-1]
    assert len(found["act_scale"]) == channels
    first = Path(target).read_bytes()
    assert fme_apply(["--input", source, "--fme_patterns", patterns, "--output", target]) == 0
    assert Path(target).read_bytes() == first
    Path(patterns).write_text(json.dumps([{**found, "act_scale": 3}]))
    assert fme_apply(["--input", source, "--fme_patterns", patterns, "--output", target]) == 255
    assert "act_scale's element is not fp32" in capsys.readouterr().err


# -- dalgona -----------------------------------------------------------------------------------

ANALYSIS = """
class Watch:
    def StartAnalysis(self, args):
        print("start", args)
    def EndAnalysis(self):
        print("end")
    def StartNetworkExecution(self, inputs):
        print("inputs", [t["name"] for t in inputs])
    def EndNetworkExecution(self, outputs):
        print("outputs", [t["data"].shape for t in outputs])
    def DefaultOpPre(self, name, opcode, inputs):
        print("pre", name, opcode, [t["is_const"] for t in inputs])
    def DefaultOpPost(self, name, opcode, inputs, outputs):
        print("post", name, outputs[0]["data"].max() >= inputs[0]["data"].max())
    def Conv2DPost(self, name, input, filter, bias, padding, stride, dilation, output, fused_act):
        print("conv", filter["data"].shape, bias["name"] != "", padding, stride, dilation, fused_act,
              output["quantparam"])
    def AddPre(self, name, x, y, fused_act):
        print("add", x["name"], y["is_const"], fused_act)
"""

WATCHED = """
graph main(%x: f32[1,4,4,2]) -> %z {
  %k = const f32[3,1,1,2] gaussian(0, 1)
  %c = Conv2D(%x, %k, [0.1, 0.2, 0.3]) {padding: VALID, act: RELU} : f32[1,4,4,3]
  %d = Add(%c, [1.0, 1.0, 1.0]) : f32[1,4,4,3]
  %z = Relu(%d)                 : f32[1,4,4,3]
}
"""


def test_hooks_of_an_analysis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "Watch.py").write_text(ANALYSIS)
    circlekit.save(circlekit.parse(WATCHED), tmp_path / "net.circle")
    words = ["--input_model", str(tmp_path / "net.circle"), "--analysis", str(tmp_path / "Watch.py")]
    assert dalgona([*words, "--analysis_args", "text"]) == 0
    pair = "{'w': 1, 'h': 1}"
    assert capsys.readouterr().out.splitlines() == [
        "start text",
        "inputs ['x']",
        "pre c Conv2D [False, True, True]",
        f"conv (3, 1, 1, 2) True VALID {pair} {pair} relu "
        "{'scale': [], 'zero_point': [], 'quantized_dimension': 0}",
        "add c True none",
        "post d True",
        "pre z Relu [False]",
        "post z True",
        "outputs [(1, 4, 4, 3)]",
        "end",
        "Finished executing a random input",
    ]


def test_hooks_stand_around_the_run_of_an_operator() -> None:
    calls: list[str] = []

    class Watch:
        def DefaultOpPre(self, name: str, opcode: str, inputs: list[dict[str, Any]]) -> None:  # noqa: N802  # ONE's name
            calls.append(f"pre {opcode} {len(inputs)}")

        def DefaultOpPost(self, name: str, opcode: str, inputs: object, outputs: list[object]) -> None:  # noqa: N802  # as above
            calls.append(f"post {opcode} {len(outputs)}")

    text = """
    graph main(%x: f32[1,4]) -> %y {
      %c = Greater([2.0], [1.0])            : bool[1]
      %y = If(%c, %x) {then_graph: @halves, else_graph: @halves}
    }
    graph halves(%x: f32[1,4]) -> %a {
      %a, %b = Split(1, %x) {num_splits: 2} : f32[1,2], f32[1,2]
    }
    """
    assert analyze(circlekit.parse(text), Watch()) == 1
    assert calls == [
        "pre Greater 2",
        "post Greater 1",
        "pre If 2",
        "pre Split 2",
        "post Split 2",
        "post If 1",
    ]


def test_a_hook_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def DefaultOpPost(self, *arguments: object) -> None:  # noqa: N802  # ONE's name
            raise KeyError("no")

    with pytest.raises(AnalysisError, match="DefaultOpPost: KeyError"):
        analyze(circlekit.parse(WATCHED), Broken())
    (tmp_path / "Other.py").write_text("x = 1\n")
    circlekit.save(circlekit.parse(WATCHED), tmp_path / "net.circle")
    words = ["--input_model", str(tmp_path / "net.circle"), "--analysis", str(tmp_path / "Other.py")]
    assert dalgona(words) == 255
    assert "expected a class Other" in capsys.readouterr().err
