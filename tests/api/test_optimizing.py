# SPDX-License-Identifier: Apache-2.0
"""``optimize``: its report, verification, bisection, explanations, and invalid models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.api.options import Options
from circlekit.api.structure_checks import blaming_model
from circlekit.errors import EquivalenceError, FileError, ModelError, RewriteError, UnsupportedError
from circlekit.ir.text import parse_model
from circlekit.ir.value import Value
from circlekit.rewrite.base import PASSES, Context, Pass
from tests.api.conftest import RECIPE
from tests.faulty_passes import scale_weights_once


class Halve(Pass):
    """Wrong on purpose: halves the weights of the first operator, once, in models of one format."""

    format = "circle"

    def run(self, model: circlekit.Model, context: Context) -> int:
        return scale_weights_once(model, 0.5) if context.format == self.format else 0


@pytest.fixture
def halve(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(Halve, "name", "halve")
    monkeypatch.setitem(PASSES, "halve", Halve)
    return "halve"


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


def test_bisect_keeps_an_error_that_no_rewrite_causes(model: circlekit.Model, tmp_path: Path) -> None:
    model.main.ops[1].set_input(0, model.main.ops[2].output)
    with pytest.raises(ModelError):
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
    with pytest.raises(FileError, match="does not exist"):
        circlekit.optimize(model, bisect=tmp_path / "no" / "small.ck")
    with pytest.raises(UnsupportedError, match=r"expected format tflite or circle, got .onnx."):
        circlekit.optimize(model, format="onnx")
    assert model.main.epoch == epoch


def test_an_operator_without_results_has_no_macs() -> None:
    model = parse_model("graph main(%x: f32[2,3]) -> %y { %y = FullyConnected(%x, [[1.0, 2.0, 3.0]]) }")
    model.main.ops[0].results.clear()
    assert circlekit.optimize(model).before.macs == 0


@pytest.mark.parametrize(
    ("is_valid", "raised", "error"),
    [
        (True, IndexError, IndexError),
        (False, IndexError, ModelError),
        (False, MemoryError, MemoryError),
        (False, FileError, FileError),
    ],
)
def test_an_internal_error_on_an_invalid_model_becomes_a_model_error(
    is_valid: bool, raised: type[Exception], error: type[Exception], model: circlekit.Model
) -> None:
    if not is_valid:
        model.main.ops[0].set_input(0, model.main.ops[0].output)
    with pytest.raises(error), blaming_model(model):
        raise raised("by hand")


def test_an_invalid_model_without_a_file_is_called_the_model(model: circlekit.Model) -> None:
    model.main.ops[0].set_input(0, model.main.ops[0].output)
    model.source = None
    with pytest.raises(ModelError, match="invalid model: the model: graph main"), blaming_model(model):
        raise IndexError


def test_a_broken_shape_rule_is_found_behind_unknown_ranks() -> None:
    """A shape of [] may stand for an unknown rank.  Only inference shows that [2,3] and [2] do not fit."""
    model = circlekit.parse("graph main(%x: f32[2,3]) -> %y { %n = Neg(%x) %y = Add(%n, [1.0, 2.0, 3.0]) }")
    model.main.ops[1].set_input(1, Value.constant("two", np.ones(2, np.float32)))
    for op in model.main:
        op.output.shape = ()
    sentence = r"invalid model: shapes \[2,3\] and \[2\] do not broadcast"
    with pytest.raises(ModelError, match=sentence), blaming_model(model):
        raise IndexError


def test_explain_gives_the_refusals_of_a_pass_without_changing_the_model() -> None:
    model = parse_model(RECIPE.replace("[2.0, 1.5, 0.5])", "[2.0, 1.5, 0.5]) {act: RELU}"))
    report = circlekit.optimize(model, [], explain="fuse_batchnorm_with_tconv")
    assert [refusal.sentence for refusal in report.refusals] == ["%m: act is RELU, expected NONE"]
    assert len(model.main.ops) == 3
    model = parse_model(RECIPE)
    assert circlekit.optimize(model, [], explain="fuse_batchnorm_with_tconv").refusals == []
    assert len(model.main.ops) == 3, "the pass that is explained was not asked to run"


def test_a_pass_that_fails_on_an_invalid_model_says_what_is_wrong_with_it(
    halve: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = circlekit.parse(
        "graph main(%x: f32[1,4,4,4]) -> %y { %y = DepthToSpace(%x) {block_size: 0}: f32[1,8,8,1] }"
    )
    monkeypatch.setattr(Halve, "run", lambda self, model, context: 4 // model.main.ops[0].block_size)
    sentence = "the passes failed on an invalid model: block_size: expected at least 1, got 0"
    with pytest.raises(ModelError, match=sentence):
        circlekit.optimize(model, halve)


def test_a_convolution_of_rank_3_is_not_taken_for_a_grouped_one() -> None:
    conv = "%w = const f32[4,1,1,1] ones\n %y = Conv2D(%x, %w): f32[1,4,4,4]"
    model = circlekit.parse(f"graph main(%x: f32[4,4,2]) -> %y {{ {conv} }}")
    assert circlekit.optimize(model, "O1", target="onert").changes == {}


def test_a_cycle_is_refused_before_anything_runs() -> None:
    model = circlekit.parse("graph main(%x: f32[4]) -> %z { %y = Relu(%x) %z = Neg(%y) }")
    first, second = model.main
    model.main.replace_uses(first.output, second.output)
    with pytest.raises(ModelError, match="%z is used before operator 1 produces it"):
        circlekit.optimize(model, verify=True)
