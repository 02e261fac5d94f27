# SPDX-License-Identifier: Apache-2.0
"""Batch norms in training mode: reported, and frozen with statistics of data."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import circlekit
from circlekit.cli.optimize import optimize as main
from circlekit.errors import RewriteError, ShapeError
from circlekit.ir.text import parse_model, print_model
from circlekit.ir.value import Array
from circlekit.passes.normalization.freeze_batchnorm import FreezeBatchNorm

NET = """
graph main(%x: f32[4,6,6,3]) -> %y {
  %w = const f32[5,3,3,3] gaussian(0, 0.3)
  %gamma = const f32[5] uniform(0.5, 2)
  %beta = const f32[5] uniform(-1, 1)
  %c = Conv2D(%x, %w, none)
  %mean = Mean(%c, [0,1,2]) {keep_dims: true}
  %square = SquaredDifference(%c, %mean)
  %variance = Mean(%square, [0,1,2]) {keep_dims: true}
  %e = Add(%variance, 0.001)
  %r = Rsqrt(%e)
  %s = Mul(%r, %gamma)
  %m = Mul(%c, %s)
  %t = Mul(%mean, %s)
  %o = Sub(%beta, %t)
  %y = Add(%m, %o) {act: RELU}
}
"""
# the variance by elementary operators: mean((c - mean)^2)
PLAIN = NET.replace("SquaredDifference(%c, %mean)", "Sub(%c, %mean)").replace(
    "%variance = Mean(%square", "%q = Mul(%square, %square)\n %variance = Mean(%q"
)
# the variance as mean(c^2) - mean^2
OF_SQUARES = NET.replace("%square = SquaredDifference(%c, %mean)", "%square = Square(%c)").replace(
    "%variance = Mean(%square, [0,1,2]) {keep_dims: true}",
    "%q = Mean(%square, [0,1,2]) {keep_dims: true}\n %p = Square(%mean)\n %variance = Sub(%q, %p)",
)
FORMS = [
    NET,
    PLAIN,
    PLAIN.replace("Sub(%c, %mean)", "Sub(%mean, %c)").replace("Mul(%square, %square)", "Square(%square)"),
    OF_SQUARES,
    OF_SQUARES.replace("Square(%c)", "Mul(%c, %c)").replace("Square(%mean)", "Mul(%mean, %mean)"),
]


def batches(count: int) -> list[Array]:
    random = np.random.default_rng(5)
    return [random.normal(i, 1 + i, (4, 6, 6, 3)).astype(np.float32) for i in range(count)]


def expected(records: list[Array], weights: list[float], x: Array) -> Array:
    """Compute NET with numpy from the results of its convolution.

    The mean and the variance are averages over ``records``, weighted by ``weights``.
    """
    model = parse_model(
        NET.replace("-> %y", "-> %c, %gamma2, %beta2").replace(
            "%y = Add(%m, %o) {act: RELU}", "%gamma2 = Neg(%gamma) %beta2 = Neg(%beta)"
        )
    )
    results = [circlekit.run(model, [r]) for r in records]
    mean = sum(w * c.mean((0, 1, 2), dtype=np.float64) for w, (c, _, _) in zip(weights, results, strict=True))
    variance = sum(
        w * c.var((0, 1, 2), dtype=np.float64) for w, (c, _, _) in zip(weights, results, strict=True)
    )
    c, minus_gamma, minus_beta = circlekit.run(model, [x])
    factor = -minus_gamma / np.sqrt(variance + 0.001)
    return np.asarray(np.maximum((c - mean) * factor - minus_beta, 0))


@pytest.mark.parametrize("text", FORMS)
def test_training_batchnorm_is_reported_by_name(text: str) -> None:
    (note,) = circlekit.optimize(parse_model(text)).notes
    assert note.startswith("%mean and %variance are the statistics of a batch norm of %c in training mode: ")
    assert "--freeze_batchnorm DATA.h5" in note


@pytest.mark.parametrize("axes", ["[1,2]", "[0,1,2,3]", "[1,2,3]"])
def test_other_norms_are_not_reported(axes: str) -> None:
    assert circlekit.optimize(parse_model(NET.replace("[0,1,2]", axes)), ["remove_dead"]).notes == []


def test_mean_and_variance_over_different_axes_are_not_reported() -> None:
    text = NET.replace("Mean(%square, [0,1,2])", "Mean(%square, [0,1,3])")
    assert circlekit.optimize(parse_model(text), ["remove_dead"]).notes == []


@pytest.mark.parametrize("dtype", ["f64", "f16", "i32"])
def test_norms_of_other_dtypes_are_not_frozen(dtype: str) -> None:
    text = f"""graph main(%x: {dtype}[4,2]) -> %y {{
      %m = Mean(%x, [0])  %d = Sub(%x, %m)  %q = Mul(%d, %d)  %v = Mean(%q, [0])  %y = Add(%d, %v)
    }}"""
    model = parse_model(text)
    circlekit.optimize(model, ["freeze_batchnorm"], settings={"freeze_batchnorm": [[np.zeros((4, 2))]]})
    assert print_model(model) == print_model(parse_model(text))


@pytest.mark.parametrize(
    ("settings", "weights"),
    [({}, [1 / 3] * 3), ({"freeze_warmup": 1, "freeze_decay": 0.75}, [0.5625, 0.1875, 0.25])],
)
@pytest.mark.parametrize("text", FORMS)
def test_frozen_statistics_are_moving_averages(
    text: str, settings: dict[str, float], weights: list[float]
) -> None:
    """With the decay 0.75, three records have the weights 0.75 * 0.75, 0.75 * 0.25 and 0.25."""
    data, model = batches(3), parse_model(text)
    given = {"freeze_batchnorm": [[x] for x in data], **settings}
    report = circlekit.optimize(model, ["freeze_batchnorm", "fuse_activation_function"], settings=given)
    assert report.notes == []
    assert [op.code for op in model.main] == ["CONV_2D"]
    (x,) = batches(1)
    (found,) = circlekit.run(model, [x])
    np.testing.assert_allclose(found, expected(data, weights, x), 1e-4, 1e-4)


def test_freezing_without_data_is_an_error() -> None:
    with pytest.raises(RewriteError, match="freeze_batchnorm needs data: %mean is computed from the batch"):
        circlekit.optimize(parse_model(NET), ["freeze_batchnorm"])
    circlekit.optimize(parse_model("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }"), ["freeze_batchnorm"])


@pytest.mark.parametrize("grouped", [True, False])
def test_the_command_takes_a_data_set(
    grouped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out, data = tmp_path / "in.ck", tmp_path / "out.circle", tmp_path / "data.h5"
    source.write_text(NET)
    records = batches(2 if grouped else 1)
    with h5py.File(data, "w") as file:
        for index, x in enumerate(records):
            file[f"value/{index}/0" if grouped else "value/0"] = x
    assert main([str(source), str(out), "--freeze_batchnorm", str(data), "--O1", "--verify"]) == 0
    assert "freeze_batchnorm is meant to change values" in capsys.readouterr().out
    assert [op.code for op in circlekit.load(out).main] == ["CONV_2D"]
    x = records[0]
    found = circlekit.run(circlekit.load(out), [x])[0]
    np.testing.assert_allclose(found, expected(records, [1 / len(records)] * len(records), x), 1e-4, 1e-4)
    assert main([str(source), str(out), "--freeze_batchnorm", str(tmp_path / "none.h5")]) == 1
    assert main([str(source), str(out), "--freeze_batchnorm", str(data), "--freeze_decay", "2"]) == 2


CHANNELS_FIRST = """
graph main(%x: f32[4,6,6,3]) -> %y {
  %w = const f32[5,3,3,3] gaussian(0, 0.3)
  %c = Conv2D(%x, %w, none)
  %t = Transpose(%c, [0,3,1,2])
  %mean = Mean(%t, [0,2,3]) {keep_dims: true}
  %square = SquaredDifference(%t, %mean)
  %variance = Mean(%square, [0,2,3]) {keep_dims: true}
  %e = Add(%variance, 0.001)
  %r = Sqrt(%e)
  %d = Sub(%t, %mean)
  %y = Div(%d, %r)
}
"""


def test_channels_may_come_first() -> None:
    """Exporters from PyTorch write channels first; the pass fuses the batch norm through the transpose."""
    model = parse_model(CHANNELS_FIRST)
    (note,) = circlekit.optimize(parse_model(CHANNELS_FIRST), ["remove_dead"]).notes
    assert "%mean and %variance are the statistics of a batch norm of %t" in note
    data = batches(3)
    given = {"freeze_batchnorm": [[x] for x in data], "freeze_warmup": 3}
    circlekit.optimize(model, ["freeze_batchnorm"], settings=given)
    assert [op.code for op in model.main] == ["CONV_2D", "TRANSPOSE"]
    (found,) = circlekit.run(model, [data[0]])
    text = CHANNELS_FIRST.replace("-> %y", "-> %c").partition("  %t =")[0] + "}"
    convs = [circlekit.run(parse_model(text), [x])[0].astype(np.float64) for x in data]
    mean = np.mean([c.mean((0, 1, 2)) for c in convs], axis=0)
    variance = np.mean([c.var((0, 1, 2)) for c in convs], axis=0)
    wanted = ((convs[0] - mean) / np.sqrt(variance + 0.001)).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)


def test_a_norm_of_a_called_graph_is_reported_and_not_frozen() -> None:
    text = """graph main(%x: f32[4,3], %c: bool[]) -> %y {
      %y = If(%c, %x) {then_graph: @inner, else_graph: @inner} : f32[4,3]
    }
    graph inner(%p: f32[4,3]) -> %r {
      %m = Mean(%p, [0]) {keep_dims: true}
      %d = SquaredDifference(%p, %m)
      %v = Mean(%d, [0]) {keep_dims: true}
      %q = Sub(%p, %m)
      %r = Div(%q, %v)
    }"""
    notes = circlekit.optimize(parse_model(text), ["freeze_batchnorm"]).notes
    assert notes[0] == "freeze_batchnorm: the main graph has no batch norm in training mode"
    assert notes[1].startswith("%m and %v are the statistics of a batch norm of %p in training mode: ")
    assert notes[1].endswith("export the model in inference mode")


def test_wrong_usage_is_reported() -> None:
    plain = "graph main(%x: f32[2]) -> %y { %y = Neg(%x) }"
    given = {"freeze_batchnorm": [[np.zeros(2, np.float32)]]}
    report = circlekit.optimize(parse_model(plain), ["freeze_batchnorm"], settings=given)
    assert "freeze_batchnorm: the main graph has no batch norm in training mode" in report.notes
    with pytest.raises(
        RewriteError, match="freeze_warmup is a setting of the pass freeze_batchnorm, which does not run"
    ):
        circlekit.optimize(parse_model(NET), settings={"freeze_warmup": 3})
    wrong = {"freeze_batchnorm": [[np.zeros((4, 6, 6, 4), np.float32)]]}
    with pytest.raises(ShapeError) as info:
        circlekit.optimize(parse_model(NET), ["freeze_batchnorm"], settings=wrong)
    assert "in record 0 of the data for freeze_batchnorm" in str(info.value)


@pytest.mark.parametrize(("text", "is_valid"), [("-0.1", False), ("0", True), ("0.5", True), ("1", False)])
def test_decay_is_from_0_to_below_1(text: str, is_valid: bool) -> None:
    parse = next(option.parse for option in FreezeBatchNorm.options if option.name == "freeze_decay")
    if is_valid:
        assert parse(text) == float(text)
    else:
        with pytest.raises(ValueError, match="expected a number from 0 to below 1"):
            parse(text)
