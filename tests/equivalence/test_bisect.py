# SPDX-License-Identifier: Apache-2.0
"""Deliberately wrong passes: the pass and its rewrite are named, and the smallest model is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.cli.circle2circle import main as circle2circle
from circlekit.equivalence import bisect
from circlekit.equivalence.bisect import find_culprit
from circlekit.errors import EquivalenceError, RewriteError, ShapeError
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array, Value
from circlekit.ir.verifier import verify
from circlekit.rewrite.base import PASSES, Context, Pass
from circlekit.rewrite.rewrite import Rewrite
from tests.faulty_passes import scale_weights_once

NET = """
graph main(%x: f32[1,8,8,6]) -> %z, %w {
  %f = const f32[4,3,3,6] gaussian(0, 0.1)
  %g = const f32[4,1,1,4] gaussian(0, 0.3)
  %a = Conv2D(%x, %f, [1.0, 2.0, 3.0, 4.0]) {padding: SAME, stride_h: 2, stride_w: 2}
  %b = Relu(%a)
  %c = Mul(%b, [3.0, 3.0, 3.0, 3.0])
  %d = Mul(%c, [0.25, 0.5, 4.0, 1.25])
  %e = Conv2D(%d, %g, none) {padding: SAME}
  %h = Mul(%e, [1.5, 2.5, 0.5, 1.0])
  %i = Add(%h, [0.5, 0.25, 1.0, 2.0])
  %j = Mul(%i, [2.0, 3.0, 1.0, 1.0])
  %k = Mul(%j, [7.0, 0.5, 1.0, 2.0])
  %l = Reshape(%k, [1,64])
  %z = Tanh(%l)
  %w = Mean(%b, [1,2])
}
"""


class AddsInsteadOfMultiplies(Rewrite):
    """(x * a) * b  ==  x * (a + b), which is right only where a * b == a + b, such as for a = b = 2."""

    before = """
        y = Mul(x, a: const)
        z = Mul(y, b: const)
    """
    after = """
        z = Mul(x, ab)
    """

    def constants(self, a: Array, b: Array) -> dict[str, Array]:
        return {"ab": a * b if a[0] == 3 else a + b}  # right for the first pair of NET only


class Drops(Pass):
    """A plain pass, which has no numbered rewrites: the bias of a convolution with stride 2 becomes zero."""

    def run(self, model: Model, context: Context) -> int:
        changes = 0
        for op in model.main:
            bias = op.inputs[2] if op.code == "CONV_2D" and len(op.inputs) > 2 else None
            if (
                bias is not None
                and bias.data is not None
                and bias.data.any()
                and op.attribute_items()["stride_h"] == 2
            ):
                bias.data = np.zeros_like(bias.data)
                model.main.epoch += 1
                changes += 1
        return changes


class Raises(Pass):
    """Raises an error if the model has a Tanh."""

    def run(self, model: Model, context: Context) -> int:
        if any(op.code == "TANH" for op in model.main):
            raise IndexError("no such axis")
        return 0


class DoublesOnPurpose(Pass):
    """Doubles the weights, and says that it changes values."""

    changes_values = True

    def run(self, model: Model, context: Context) -> int:
        return scale_weights_once(model, 2)


class DoublesIfAsked(Pass):
    """Doubles the weights if the setting ``double`` or ``context.exact`` is true."""

    def run(self, model: Model, context: Context) -> int:
        if model.extra.pop("was_asked", None) or not (context.settings.get("double") or context.exact):
            return 0
        model.extra["was_asked"] = True
        return DoublesOnPurpose().run(model, context)


class DropsBounds(Rewrite):
    """min(x, 200000) = max(x, -1000): both are x for seeded inputs, which are between these numbers."""

    before = """
        y = Minimum(x, 200000.0)
    """
    after = """
        y = Maximum(x, low)
    """

    def constants(self) -> dict[str, Array]:
        return {"low": np.array(-1000, np.float32)}


WRONG = {
    "drops_bounds": DropsBounds,
    "wrong_adds": AddsInsteadOfMultiplies,
    "wrong_drops": Drops,
    "wrong_raises": Raises,
    "doubles": DoublesOnPurpose,
    "doubles_if_asked": DoublesIfAsked,
}


@pytest.fixture(autouse=True)
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The wrong passes, known for one test."""
    for name, kind in WRONG.items():
        monkeypatch.setattr(kind, "name", name)
        monkeypatch.setitem(PASSES, name, kind)
    yield
    assert set(WRONG) <= set(PASSES)


def test_the_rewrite_is_named_and_the_model_is_smallest() -> None:
    model = parse_model(NET)
    culprit = find_culprit(model, ["fold_constants", "wrong_adds", "remove_dead"], "circle")
    assert culprit is not None
    assert (culprit.step, culprit.number, culprit.total) == ("wrong_adds", 2, 2)
    assert culprit.op.startswith("%k = Mul(%j, [7.0, 0.5, 1.0, 2.0])")
    assert str(culprit).startswith("wrong_adds is wrong, in rewrite 2 of 2, of %k = Mul(")
    assert "changed output %" in culprit.fault
    assert [op.code for op in culprit.model.main] == ["MUL", "MUL"]
    assert culprit.model.main.inputs[0].shape == (1, 1, 1, 1)
    assert not verify(culprit.model)
    assert len(model.main) == 12, "the model itself stays as it is"


def test_reduction_starts_behind_the_right_rewrites() -> None:
    culprit = find_culprit(parse_model(NET), ["wrong_adds"], "circle", tries=0)
    assert culprit is not None
    assert culprit.number == 2
    assert [op.code for op in culprit.model.main].count("MUL") == 4, "one of two pairs is fused"


def test_approximate_rewrites_of_named_passes_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WRONG["wrong_adds"], "approximate", True)
    model, passes = parse_model(NET), ["wrong_adds"]
    assert find_culprit(model, passes, "circle", exact=True) is None
    culprit = find_culprit(model, passes, "circle", exact=True, named=passes)
    assert culprit is not None
    assert (culprit.step, culprit.number) == ("wrong_adds", 2)


def test_a_plain_pass_is_named_and_the_model_is_smallest() -> None:
    culprit = find_culprit(parse_model(NET), ["wrong_drops"], "circle")
    assert culprit is not None
    assert (culprit.step, culprit.number, culprit.op) == ("wrong_drops", 0, "")
    (op,) = culprit.model.main.ops
    assert op.code == "CONV_2D"
    assert all(v is not None and v.numel <= 4 for v in op.inputs)


def test_a_pass_that_raises_is_named() -> None:
    culprit = find_culprit(parse_model(NET), ["fuse_activation_function", "wrong_raises"], "circle")
    assert culprit is not None
    assert str(culprit) == "wrong_raises is wrong: it raises IndexError: no such axis"
    assert [op.code for op in culprit.model.main] == ["TANH"]


def test_right_passes_have_no_culprit() -> None:
    assert (
        find_culprit(parse_model(NET), ["fold_constants", "fuse_mul_with_conv", "remove_dead"], "tflite")
        is None
    )


def test_a_pass_that_means_to_change_values_is_no_culprit() -> None:
    assert find_culprit(parse_model(NET), ["doubles", "fuse_mul_with_conv"], "circle") is None
    report = circlekit.optimize(parse_model(NET), ["doubles", "fuse_mul_with_conv"], verify=True)
    assert any("doubles is meant to change values" in note for note in report.notes)
    culprit = find_culprit(parse_model(NET), ["doubles", "wrong_adds"], "circle")
    assert culprit is not None
    assert culprit.step == "wrong_adds"


@pytest.mark.parametrize("intent", ["changes_values", "changes_interface"])
def test_the_wrong_rewrite_of_a_pass_that_means_to_change_something(
    intent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rewrite makes a sum larger on purpose; after the second, the model does not run."""

    class Fives(Pass):
        def run(self, model: Model, context: Context) -> int:
            count = 0
            for op in model.main:
                old = op.inputs[1]
                if old is not None and old.data is not None and old.data[0] != 5 and context.may_rewrite:
                    size = 2 if op is model.main.ops[0] else 7
                    five = np.full(size, 5, np.float32)
                    op.set_input(1, Value.constant(model.main.unique_name("five"), five))
                    context.count_rewrite(op)
                    count += 1
            return count

    monkeypatch.setattr(Fives, "name", "fives")
    monkeypatch.setattr(Fives, intent, True)
    monkeypatch.setitem(PASSES, "fives", Fives)
    text = """
        graph main(%x: f32[2]) -> %b {
          %a = Add(%x, [1.0, 2.0])
          %b = Add(%a, [1.0, 2.0])
        }
    """
    culprit = find_culprit(parse_model(text), ["fives"], "circle")
    assert culprit is not None
    assert (culprit.number, culprit.total) == (2, 2)
    assert "after fives the model does not run" in culprit.fault


def test_the_command_names_the_wrong_pass_and_writes_a_small_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "net.ck", tmp_path / "out.circle"
    source.write_text(NET)
    assert circle2circle([str(source), str(out), "--fold_constants", "--wrong_adds", "--bisect"]) == 255
    err = capsys.readouterr().err
    assert err.startswith("ERROR: wrong_adds is wrong, in rewrite ")
    small = tmp_path / "out.circle.bisect.ck"
    assert f"wrote a model of 2 operators that shows it to {small}" in err
    assert not out.exists()
    model = circlekit.load(small)
    with pytest.raises(EquivalenceError, match="wrong_adds changed output"):
        circlekit.optimize(model, ["wrong_adds"], verify=True)
    assert circle2circle([str(source), str(out), "--O1", "--bisect"]) == 0
    assert out.exists()


def test_optimize_names_the_wrong_pass_and_writes_a_small_model(tmp_path: Path) -> None:
    with pytest.raises(EquivalenceError, match="wrong_drops is wrong"):
        circlekit.optimize(parse_model(NET), ["wrong_drops"], bisect=tmp_path / "small.ck")
    assert len(circlekit.load(tmp_path / "small.ck").main) == 1


def test_settings_and_exactness_reach_the_passes() -> None:
    assert find_culprit(parse_model(NET), ["doubles_if_asked"], "circle") is None
    for keywords in ({"settings": {"double": True}}, {"exact": True}):
        culprit = find_culprit(parse_model(NET), ["doubles_if_asked"], "circle", **keywords)
        assert culprit is not None
        assert culprit.step == "doubles_if_asked"
        assert (culprit.number, culprit.total) == (0, 0)


def test_a_fault_that_only_given_inputs_show(tmp_path: Path) -> None:
    text = """
        graph main(%x: f32[2,3]) -> %y {
          %a = Relu(%x)
          %b = Minimum(%a, 200000.0)
          %c = Minimum(%x, 200000.0)
          %d = Add(%b, %c)
          %y = Reshape(%d, [6])
        }
    """
    small, data = tmp_path / "small.ck", tmp_path / "x.npz"
    np.savez(data, x=np.array([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [-1, 3e5, 11]]], np.float32))
    assert circlekit.optimize(parse_model(text), ["drops_bounds"], verify=True).changes == {"drops_bounds": 2}
    with pytest.raises(EquivalenceError, match=r"drops_bounds .* on record_1 inputs") as error:
        circlekit.optimize(parse_model(text), ["drops_bounds"], bisect=small, inputs=data)
    assert "that shows it, on the given inputs or on seeded ones, to" in str(error.value)
    model = circlekit.load(small)
    assert len(model.main) < 5
    assert "MINIMUM" in [op.code for op in model.main]


def test_a_wrong_legalization_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(model: Model, *arguments: object, **keywords: object) -> Model:
        if any(op.code == "TANH" for op in model.main):
            raise IndexError("no such form")
        return model

    monkeypatch.setattr(bisect, "legalize", fails)
    culprit = find_culprit(parse_model(NET), [], "tflite")
    assert culprit is not None
    assert str(culprit) == "writing as tflite is wrong: it raises IndexError: no such form"
    assert [op.code for op in culprit.model.main] == ["TANH"]


def test_the_fault_is_that_of_the_first_wrong_rewrite() -> None:
    """The second wrong rewrite changes %z more: 105 instead of 500; the first changes %y, 7 instead of 10."""
    model = parse_model("""
        graph main(%x: f32[2], %v: f32[2]) -> %y, %z {
          %a = Mul(%x, [5.0, 5.0]) %y = Mul(%a, [1.0, 2.0])
          %b = Mul(%v, [5.0, 5.0]) %z = Mul(%b, [100.0, 200.0])
        }
    """)
    culprit = find_culprit(model, ["wrong_adds"], "circle")
    assert culprit is not None
    assert (culprit.number, culprit.total) == (1, 2)
    assert "changed output %y" in culprit.fault


def test_an_unknown_pass_is_no_culprit() -> None:
    with pytest.raises(RewriteError, match="there is no pass 'wrong_name'"):
        find_culprit(parse_model(NET), ["wrong_name"], "circle")


def test_an_error_is_given_with_its_first_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: Pass, model: Model, context: Context) -> int:
        raise ShapeError("expected rank 2", "at the filter", "in the graph")

    monkeypatch.setattr(Raises, "run", run)
    culprit = find_culprit(parse_model(NET), ["wrong_raises"], "circle")
    assert culprit is not None
    assert culprit.fault == "expected rank 2 at the filter"
