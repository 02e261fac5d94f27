# SPDX-License-Identifier: Apache-2.0
"""The dredd runner: results of a test case, and detection of every kind of failure."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest

from circlekit.equivalence import litert
from circlekit.equivalence.data_files import hdf5
from circlekit.errors import EquivalenceError, UnsupportedError
from circlekit.io.read.load import load
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.recipes.dredd import FAILED, PASSED, Result, run_case
from circlekit.recipes.dredd_cases import Case, cases_of
from tests.recipes.breaking import breaking_pass

MODEL = """graph main(%x: f32[2,3]) -> %y {
  %w = const f32[4,3] gaussian(0, 0.5)
  %b = const f32[4] gaussian(0, 0.5)
  %1 = FullyConnected(%x, %w, %b)     : f32[2,4]
  %y = Mul(%1, [2.0, 0.5, 1.5, 3.0])  : f32[2,4]
}
"""


def run(folder: Path, rules: str, model: str = MODEL) -> Result:
    path = folder / "model.ck"
    path.write_text(f"{model}rules {{ {rules} }}")
    (case,) = cases_of(path)
    return run_case(case, folder / "files")


def test_case_passes(tmp_path: Path) -> None:
    started = time.monotonic()
    result = run(
        tmp_path, "passes(fuse_mul_with_fullyconnected) ops(FullyConnected: 1, Mul: 0) order(FullyConnected)"
    )
    assert result.failures == []
    assert (result.status, result.before, result.after, result.rules) == (PASSED, 2, 1, 2)
    assert 0 < result.seconds <= time.monotonic() - started
    assert result.compared > 2
    assert result.litert == 2  # before and after
    files = tmp_path / "files"
    assert [len(load(files / f"model{part}.circle").main) for part in ("", ".opt")] == [2, 1]
    ((name, array),) = hdf5.read(files / "expected.h5")
    assert (name, array.shape) == ("y", (2, 4))
    assert (files / "boundary" / "opt.expected.h5").exists()
    assert (files / "zero" / "input.h5").exists()


def test_no_files_are_kept_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "model.ck").write_text(MODEL)
    assert run_case(Case("model", tmp_path / "model.ck")).status == PASSED
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "model.ck").write_text(MODEL)
    (tmp_path / "file").write_text("")
    result = run_case(Case("model", tmp_path / "model.ck"), tmp_path / "file" / "folder")
    assert result.failures == [f"{tmp_path}/file/folder: cannot be made: Not a directory"]


def test_failed_rule_shows_the_model(tmp_path: Path) -> None:
    result = run(tmp_path, "passes(remove_dead) ops(Mul: 0)")
    assert result.status == FAILED
    (text,) = result.failures
    first, head, *lines = text.splitlines()
    assert first.endswith("model.ck:7:29: ops(Mul: 0): expected 0 Mul, got 1")
    assert result.reason == "ops(Mul: 0): expected 0 Mul, got 1"
    assert head == "graph main(%x) -> %y {"
    assert lines[1] == "  %y = Mul(%1, [2.0, 0.5, 1.5, 3.0]) : f32[2,4]"


def test_refusals_come_from_the_passes(tmp_path: Path) -> None:
    model = MODEL.replace("%b)  ", "%b) {act: RELU}  ")
    assert (
        run(
            tmp_path, 'passes(fuse_mul_with_fullyconnected) refused("act is RELU") unchanged()', model
        ).failures
        == []
    )
    result = run(tmp_path, 'passes(fuse_mul_with_fullyconnected) refused("something else")', model)
    _, _, text = result.failures[0].partition('refused("something else"): ')
    assert text.splitlines()[:2] == ["the only refusal is:", "  %1: act is RELU, expected NONE"]


def test_wrong_refusal_shows_the_most_similar_ones(tmp_path: Path) -> None:
    """The refusals of all passes of O1 would be thousands of characters."""
    model = MODEL.replace("%b)  ", "%b) {act: RELU}  ").replace("%y", '%"' + "y" * 200 + '"')
    result = run(tmp_path, 'passes(O1) refused("act is RELU6, expected NONE")', model)
    head, *lines = result.failures[0].splitlines()
    assert re.search(r'NONE"\): the most similar of the \d+ refusals are:$', head)
    assert lines[0] == "  %1: act is RELU, expected NONE"
    assert [line.startswith("  %") for line in lines[:4]] == [True, True, True, False]
    assert max(map(len, lines[:3])) <= 78


def test_litert_runs_the_result_only_if_the_passes_changed_it(tmp_path: Path) -> None:
    assert run(tmp_path, "passes(remove_dead)").litert == 1


def test_why_litert_does_not_run_the_result_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    run_model = litert.run_model

    def runs_once(model: Model, inputs: list[Array]) -> list[Array]:
        runs.append(model)
        if len(runs) > 1:
            raise UnsupportedError("no FULLY_CONNECTED")
        return run_model(model, inputs)

    monkeypatch.setattr(litert, "run_model", runs_once)
    rules = "passes(fuse_mul_with_fullyconnected)"
    result = run(tmp_path, rules)
    assert (result.litert, result.litert_refusal) == (1, "no FULLY_CONNECTED")
    assert result.notes == ["not run by LiteRT after: no FULLY_CONNECTED"]
    result = run(tmp_path, rules)  # now LiteRT refuses the model before the passes, too
    assert result.litert == 0
    assert result.notes[0] == "not run by LiteRT before: no FULLY_CONNECTED"


def test_misspelt_pass_is_a_failure(tmp_path: Path) -> None:
    result = run(tmp_path, "passes(remove_dead, fold_mull) total(99)")
    assert result.status == FAILED
    (failure,) = result.failures
    assert "model.ck:7:9: there is no pass or pipeline 'fold_mull'; did you mean fold_mul" in failure


def test_a_model_that_cannot_be_run_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe fails only if LiteRT runs the model, so never on a machine without LiteRT."""
    model = "graph main(%x: f32[2,2], %p: i32[2]) -> %y { %y = Transpose(%x, %p) : f32[2,2] }"
    note = "values not compared: the model does not run: "
    assert run(tmp_path, "total(1)", model).notes[0].startswith(note)
    monkeypatch.setattr(litert, "run_litert", lambda data, inputs: [inputs[0]])
    assert "is out of range for rank 2" in run(tmp_path, "total(1)", model).failures[0]
    monkeypatch.setattr(litert, "is_available", lambda: False)
    result = run(tmp_path, "total(1)", model)
    assert (result.status, result.compared) == (PASSED, 0)
    assert "(LiteRT was not asked whether it runs there)" in result.notes[0]


def double(model: Model) -> None:
    value = next(op.inputs[1] for op in model.ops() if op.code == "MUL")
    assert value is not None
    value.data = value.array() * np.float32(2)


def rename(model: Model) -> None:
    model.main.outputs[0].name = "z"


def unlink(model: Model) -> None:
    model.main.unlink(model.main.ops[0])


def test_changed_value_names_the_pass_and_the_element(tmp_path: Path) -> None:
    with breaking_pass("double", double):
        result = run(tmp_path, "passes(remove_dead, double)")
    assert result.status == FAILED
    assert result.failures[0].startswith("values of %y on normal inputs: [")
    assert result.failures[1].startswith("double changed output %y on ")


def test_tolerance_is_relative_to_the_largest_magnitude(tmp_path: Path) -> None:
    def nudge(model: Model) -> None:
        value = next(op.inputs[1] for op in model.ops() if op.code == "MUL")
        assert value is not None
        value.data = value.array() * np.array([1, 1, 1, 1.5], np.float32)

    # the last column changes by half, but it is about a thousandth of the others
    model = MODEL.replace("[2.0, 0.5, 1.5, 3.0]", "[1000.0, 1000.0, 1000.0, 1.0]")
    with breaking_pass("nudge", nudge):
        assert run(tmp_path, "passes(nudge)", model).status == FAILED
        assert run(tmp_path, "passes(nudge) tolerance(2e-3)", model).failures == []


def test_changed_name_is_a_changed_interface(tmp_path: Path) -> None:
    with breaking_pass("rename", rename):
        result = run(tmp_path, "passes(rename)")
    assert "the interface changed: output 0 was %y: f32[2,4], is %z: f32[2,4]" in result.failures


def test_invalid_model_is_not_run(tmp_path: Path) -> None:
    with breaking_pass("unlink", unlink):
        result = run(tmp_path, "passes(unlink)")
    assert "the model has 4 faults" in result.failures[0]
    assert "%1 is the result of an operator that is not in this graph" in result.failures[0]


def test_pass_that_raises_is_an_internal_error(tmp_path: Path) -> None:
    def stumble(model: Model) -> None:
        raise ZeroDivisionError("by hand")

    with breaking_pass("stumble", stumble):
        result = run(tmp_path, "passes(stumble)")
    assert result.reason == "internal error: ZeroDivisionError: by hand"
    assert "Traceback" in result.failures[0]
    assert "ZeroDivisionError: by hand" in result.failures[0]


def test_an_operator_without_a_kernel_is_noted(tmp_path: Path) -> None:
    call = 'Opaque(%x) {code: "CUSTOM", custom_code: "Moon"}'
    result = run(tmp_path, "custom(Moon: 1)", f"graph main(%x: f32[2]) -> %y {{ %y = {call} : f32[2] }}")
    assert (result.status, result.compared) == (PASSED, 0)
    (note,) = result.notes
    assert note.startswith("values not compared: custom operator Moon has no kernel")


def test_unreadable_recipe_fails(tmp_path: Path) -> None:
    result = run(tmp_path, "total(1)", "graph main(%x: f32[2]) -> %y { %y = Rellu(%x) }\n")
    assert result.status == FAILED
    assert "did you mean Relu?" in result.failures[0]


def test_values_are_compared_with_litert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert, "run_litert", lambda *_: [np.zeros((2, 4), np.float32)])
    result = run(tmp_path, "total(2)")
    assert result.failures[0].startswith("before the passes, %y, LiteRT's and ours: [")


def test_zero_equals_a_difference_that_rounding_leaves(tmp_path: Path) -> None:
    """Only one of two equal terms is folded into weights: their difference is 0 before and 1e-8 after."""
    result = run(
        tmp_path,
        "passes(fuse_mul_with_fullyconnected) ops(Mul: 1)",
        """graph main(%x: f32[3,64]) -> %y, %a {
          %w = const f32[8,64] gaussian(0, 0.1)
          %a = FullyConnected(%x, %w)
          %b = FullyConnected(%x, %w)
          %c = Mul(%a, [0.3])
          %d = Mul(%b, [0.3])
          %y = Sub(%c, %d)
        }
        """,
    )
    assert result.failures == []
    assert not hdf5.read(tmp_path / "files/expected.h5")[0][1].any()
    assert hdf5.read(tmp_path / "files/opt.expected.h5")[0][1].any()


INT16_TCONV = """graph main(%x: i16[1,3,3,2] quant(scale: 0.5)) -> %y {
  %w = const i16[2,1,1,2] quant(scale: [0.1, 0.2], axis: 0) [[[[1, 2]]], [[[3, 200]]]]
  %y = TransposeConv([1,3,3,2], %w, %x) {ACT} : i16[1,3,3,2] quant(scale: 2.0)
}
"""
"""LiteRT has no int16 filters; ONE's interpreter has them, but only without an activation."""


def test_model_of_one_that_litert_refuses_passes_with_a_note(tmp_path: Path) -> None:
    result = run(tmp_path, "", INT16_TCONV.replace("ACT", "padding: VALID"))
    assert result.status == PASSED
    assert result.notes[-1].startswith("not run by LiteRT before, but by ONE's interpreter: LiteRT does not")
    result = run(tmp_path, "", INT16_TCONV.replace("ACT", "padding: VALID, act: RELU"))
    assert "LiteRT does not accept the model" in result.failures[0]


@pytest.mark.parametrize(("fmt", "status"), [("tflite", FAILED), ("circle", PASSED)])
def test_litert_must_run_the_result_if_it_ran_the_model(
    fmt: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_model = litert.run_model

    def refuse_the_result(model: Model, inputs: list[np.ndarray]) -> list[np.ndarray]:
        if len(model.main) == 1:  # after the pass; before, there are 2 operators
            raise EquivalenceError("LiteRT does not accept the model: for a test")
        return run_model(model, inputs)

    monkeypatch.setattr(litert, "run_model", refuse_the_result)
    result = run(tmp_path, f"passes(fuse_mul_with_fullyconnected) format({fmt})")
    assert result.status == status
    assert "for a test" in str([*result.failures, *result.notes])
    assert result.litert_refusal == "LiteRT does not accept the model: for a test"


def test_values_are_compared_unless_a_pass_changed_them_on_purpose(tmp_path: Path) -> None:
    """remove_fakequant may change values.  If it changed nothing, the values must be equal."""
    result = run(tmp_path, "passes(remove_fakequant, fuse_mul_with_fullyconnected) order(FullyConnected)")
    assert (result.status, result.notes) == (PASSED, [])
    assert result.compared > 2
    limited = MODEL.replace("%y = Mul", "%f = FakeQuant(%1) {min: -1.0, max: 1.0, num_bits: 8}\n  %y = Mul")
    result = run(tmp_path, "passes(remove_fakequant) ops(FakeQuant: 0)", limited.replace("Mul(%1", "Mul(%f"))
    assert (result.status, result.compared) == (PASSED, 0)
    assert result.notes == ["values not compared: remove_fakequant changed the model by design"]
