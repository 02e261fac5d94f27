# SPDX-License-Identifier: Apache-2.0
"""Comparison of models, and the verifier that watches passes: what is found, and how it is told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import circlekit
from circlekit import compare
from circlekit.equivalence.verify import Verifier
from circlekit.errors import CirclekitError, EquivalenceError, ModelError, UnsupportedError
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model

NET = """
graph main(%x: f32[2,3], %k: f32[3]) -> %y, %z {
  %s = Mul(%x, [2.0, 0.5, 4.0])     : f32[2,3]
  %y = Add(%s, %k)                  : f32[2,3]
  %z = Relu(%x)                     : f32[2,3]
}
"""


def net(*changes: tuple[str, str]) -> Model:
    text = NET
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_model(text)


# -- compare -----------------------------------------------------------------------------------


def test_a_model_equals_itself_on_every_set_of_inputs() -> None:
    found = compare(net(), net())
    assert found.equal
    assert found
    assert len({(o.inputs, o.name) for o in found.outputs}) == len(found.outputs)
    assert {o.inputs.partition("_")[0] for o in found.outputs} == {
        "normal", "boundary", "zero", "positive", "negative",
    }  # fmt: skip
    assert {o.name for o in found.outputs} == {"y", "z"}


def test_a_rounding_difference_is_none_and_a_real_one_is_named() -> None:
    assert compare(net(), net(("0.5", "0.5000001"))).equal
    found = compare(net(), net(("0.5", "0.501")))
    assert not found.equal
    assert found.worst is not None
    assert found.worst.name == "y"
    assert found.worst.worst is not None
    assert found.worst.worst.index[1] == 1
    assert f"output %y on {found.worst.inputs} inputs: [" in str(found)


def test_a_difference_at_the_bend_of_an_activation_is_found() -> None:
    assert not compare(net(), net(("Relu(", "Relu6("))).equal


def test_given_inputs_take_the_place_of_the_seeded_ones() -> None:
    inputs = {"k": np.ones(3, np.float32), "x": np.full((2, 3), 2, np.float32)}
    found = compare(net(), net(("Relu(", "Relu6(")), inputs)
    assert found.equal
    assert {o.inputs for o in found.outputs} == {"given"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("-> %y, %z", "-> %z, %y"), "output 0 was %y: f32[2,3], is %z: f32[2,3]"),
        (("-> %y, %z", "-> %y"), "output 1 was %z: f32[2,3], is missing"),
        (("%k", "%kk"), "input 1 was %k: f32[3], is %kk: f32[3]"),
    ],
)
def test_interfaces_must_be_the_same(change: tuple[str, str], sentence: str) -> None:
    found = compare(net(), net(change))
    assert not found.equal
    assert sentence in found.interface
    assert all(output.equal for output in found.outputs)


@pytest.mark.parametrize("factor", ["Mul(%e, [1.0])", "Add(%e, [0.0])"])
def test_an_operator_that_only_clamps_infinities_may_be_removed(factor: str) -> None:
    model = parse_model(f"graph main(%x: f32[4]) -> %y {{ %e = Exp(%x) %y = {factor} }}")
    assert circlekit.optimize(model, "O1", verify=True).verified
    assert [op.code for op in model.main] == ["EXP"]


@pytest.mark.parametrize(
    "last",
    [
        "%y = Greater(%n, [1.017])",
        "%q = Quantize(%n) : i8[8] quant(scale: 0.02, zero_point: 3) %y = Dequantize(%q)",
    ],
)
def test_rounding_may_decide_at_a_threshold(last: str) -> None:
    """The pass merges factor and divisor, which rounds in another way."""
    for factor, divisor in ((1.525, 2.4), (0.4, 1.4), (1.161, 1.9)):
        text = f"graph main(%x: f32[8]) -> %y {{ %m = Mul(%x, [{factor}]) %n = Div(%m, [{divisor}]) {last} }}"
        report = circlekit.optimize(parse_model(text), ["fuse_mul_with_div"], verify=True)
        assert report.verified
        assert report.changes


def test_a_division_by_zero_does_not_hide_other_differences() -> None:
    """On zero inputs, the first element is 1 / 0, clamped to the largest finite number."""
    text = "graph main(%x: f32[2]) -> %y { %s = Add(%x, [0.0, 1.0]) %y = Div([1.0, 1.0], %s) }"
    found = compare(parse_model(text), parse_model(text.replace("[0.0, 1.0]", "[0.0, 1.5]")))
    assert "zero" in {o.inputs for o in found.outputs if not o.equal}


def test_an_output_that_is_always_zero_proves_little() -> None:
    dead = ("Relu(%x)", "Mul(%x, [0.0, 0.0, 0.0])")
    found = compare(net(dead), net(dead))
    assert found.equal
    assert found.notes == ["output %z is NaN, infinite or zero on all inputs: its equality proves little"]
    assert not compare(net(), net()).notes


def test_a_model_that_cannot_run_on_seeded_inputs_is_not_compared() -> None:
    reshaped = parse_model("""
        graph main(%x: f32[3], %shape: i32[2]) -> %y {
          %y = Reshape(%x, %shape) : f32[?,?]
        }
    """)
    with pytest.raises(CirclekitError):
        compare(reshaped, reshaped)


# -- verify ------------------------------------------------------------------------------------


def scale(model: Model, factor: float) -> None:
    """Multiply the first constant of the model by ``factor``, as a wrong pass would."""
    constant = next(v for v in model.main.values() if v.is_const)
    assert constant.data is not None
    constant.data = constant.data * np.float32(factor)


def rename(model: Model) -> None:
    model.main.outputs[0].name = "other"


def reshape_input(model: Model) -> None:
    model.main.inputs[1].shape = (1,)


def swap_outputs(model: Model) -> None:
    model.main.outputs = model.main.outputs[::-1]


def break_(model: Model) -> None:
    model.main.ops[1].set_input(1, model.main.outputs[1])


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            lambda model: scale(model, 1.5),
            r"^bad changed output %y on (normal|boundary) inputs: \[\d,\d\]: .* differ by",
        ),
        (rename, "^bad changed the interface: output 0 was %y: .* is %other:"),
        (reshape_input, r"^bad changed the interface: input 1 was %k: f32\[3\], is %k: f32\[1\]"),
        (swap_outputs, "^bad changed the interface: output 0 was %y"),
        (break_, "^after bad the model does not run: %z is read before an operator computes it"),
    ],
    ids=["values", "name", "shape", "order", "broken"],
)
def test_the_pass_that_changes_something_is_named(damage: Callable[[Model], None], sentence: str) -> None:
    model = net()
    verifier = Verifier(model)
    verifier.check(model, "good")
    damage(model)
    with pytest.raises(EquivalenceError, match=sentence):
        verifier.check(model, "bad")


@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize("form", ["(scale: 0.25)", "(scale: 0.5, zero_point: 1)"])
def test_scales_and_zero_points_of_the_interface_must_stay(form: str, side: str) -> None:
    before, after = (
        parse_model(f"graph g(%x: i8[2] quant{f}) -> %y {{ %y = Reshape(%x, [2]) }}")
        for f in ("(scale: 0.5)", form)
    )
    model, name = clone(before), {"inputs": "x", "outputs": "y"}[side]
    getattr(model.main, side)[0].quantization = getattr(after.main, side)[0].quantization
    verifier = Verifier(before)
    verifier.check(clone(before), "good")
    with pytest.raises(EquivalenceError, match=rf"^bad changed the interface: %{name} was of scale \[0\.5\]"):
        verifier.check(model, "bad")


def test_signatures_must_stay() -> None:
    model = parse_model("""
        signature "serve" @main(in: %x) -> (out: %y)
        graph main(%x: f32[2]) -> %y {
          %y = Relu(%x) : f32[2]
        }
    """)
    verifier = Verifier(model)
    signature = model.signatures[0]
    signature.outputs = {"result": signature.outputs["out"]}
    with pytest.raises(EquivalenceError, match=r"signature 'serve' output 'out' was %y: .*, is missing"):
        verifier.check(model, "bad")


def test_a_model_without_kernels_cannot_be_verified() -> None:
    model = parse_model("""
        graph main(%x: f32[2]) -> %y {
          %y = Opaque(%x) {code: "CUSTOM", custom_code: "Mystery"} : f32[2]
        }
    """)
    with pytest.raises(
        UnsupportedError, match=r"Mystery has no kernel(.|\n)*so the model cannot be verified"
    ):
        Verifier(model)
    circlekit.register_custom("Mystery", lambda op, x: x + 1)
    Verifier(model).check(model, "nothing")


def test_inputs_on_which_the_model_divides_by_zero_are_noted() -> None:
    """On zero inputs, %d is 0.  A note says that zero inputs are not compared; other inputs are."""
    model = parse_model("""
    graph main(%x: i32[3]) -> %z {
      %k = const i32[3] [1, 1, 1]
      %e = Equal(%x, [0, 0, 0])
      %all = ReduceAll(%e, [0])
      %i = Cast(%all) {in_data_type: bool, out_data_type: i32}
      %d = Sub(%k, %i)
      %z = Div(%k, %d)
    }
    """)
    report = circlekit.optimize(model, "O1", verify=True)
    (note,) = (n for n in report.notes if "does not take" in n)
    assert note.startswith("not compared on zero inputs, which the model does not take: DIV: expected")


def test_a_model_that_takes_no_normal_inputs_is_compared_on_others() -> None:
    """LiteRT and our interpreter refuse the root of a negative integer."""
    model = parse_model("""
    graph main(%x: i16[4] quant(scale: 0.01)) -> %y {
      %t = Reshape(%x, [4]) : i16[4] quant(scale: 0.01)
      %y = Rsqrt(%t) : i16[4] quant(scale: 0.01)
    }
    """)
    report = circlekit.optimize(model, "O1", verify=True)
    assert any(
        n.startswith("not compared on normal inputs, which the model does not take") for n in report.notes
    )
    assert len(list(model.main)) == 1


def test_a_model_that_takes_no_seeded_inputs_cannot_be_verified() -> None:
    text = "graph main(%x: f32[2,3], %p: i32[2]) -> %y { %y = Transpose(%x, %p) }"
    with pytest.raises(ModelError, match="axis 3 is out of range") as caught:
        circlekit.optimize(parse_model(text), "O1", verify=True)
    assert caught.value.where[-1] == "on seeded inputs; give inputs that the model takes"
    inputs = [np.ones((2, 3), np.float32), np.array([1, 0], np.int32)]
    circlekit.optimize(parse_model(text), "O1", inputs=inputs)


# -- passes that are meant to change something -------------------------------------------------


def test_a_pass_that_is_meant_to_change_values_gives_a_new_reference() -> None:
    model = net()
    verifier = Verifier(model)
    scale(model, 1.5)
    verifier.accept(model, "quantize")
    assert verifier.latest == [run.outputs for run in verifier.runs]
    verifier.check(model, "next")
    assert verifier.notes == [
        "quantize is meant to change values: only passes before and after it are verified"
    ]  # fmt: skip
    with pytest.raises(EquivalenceError, match="undo changed output %y"):
        verifier.check(net(), "undo")
    rename(model)
    with pytest.raises(EquivalenceError, match="again changed the interface"):
        verifier.accept(model, "again")


def test_a_pass_that_is_meant_to_change_the_interface_gives_a_new_reference() -> None:
    model = net(("Relu(%x)", "Mul(%x, [0.0, 0.0, 0.0])"))
    verifier = Verifier(model)
    (weak,) = verifier.notes
    rename(model)
    verifier.restart(model, "rename")
    verifier.check(model, "next")
    assert verifier.notes == [
        weak, "rename is meant to change the interface: passes after it are compared with its result"
    ]  # fmt: skip
    assert verifier.names == ["other", "z"]


def test_given_inputs_that_do_not_fit_a_changed_interface_are_replaced() -> None:
    first, second = (parse_model(f"graph g(%x: f32[{n}]) -> %y {{ %y = Neg(%x) }}") for n in (2, 3))
    verifier = Verifier(first, {"given": [np.ones(2, np.float32)]})
    verifier.restart(first, "keep")
    assert [run.label for run in verifier.runs] == ["given"]
    verifier.restart(second, "widen")
    assert "normal" in [run.label for run in verifier.runs]
    reason = "later passes are verified on seeded inputs, because the new model does not run on the given"
    assert any(reason in note for note in verifier.notes)
    verifier.check(second, "next")
    verifier.restart(first, "shrink")
    assert "normal" in [run.label for run in verifier.runs], "as the note says"


def test_notes_follow_the_reference() -> None:
    """At first %y is zero and ``other`` is not compared; then ``other`` is compared and %v is zero."""
    first, second = (
        parse_model(f"""
            signature "a" @main (x: %x) -> (y: %y)
            signature "b" @other (x: %u) -> (y: %v)
            graph main(%x: f32[{size}]) -> %y {{ %y = Mul(%x, {y}) }}
            graph other(%u: f32[2]) -> %v {{ %v = Mul(%u, {v}) }}
        """)
        for size, y, v in ((2, 0.0, 1.0), (3, 1.0, 0.0))
    )
    verifier = Verifier(first, {"given": [np.ones(2, np.float32)]})
    verifier.restart(second, "widen")
    zero_y, other, restarted, seeded, zero_v = verifier.notes
    assert other.startswith("before widen: the graph other, which a signature names, is not compared")
    assert zero_y.startswith("before widen: output %y is NaN, infinite or zero")
    assert restarted.startswith("widen is meant to change the interface")
    assert seeded.startswith("later passes are verified on seeded inputs")
    assert zero_v.startswith("in the graph other: output %v is NaN, infinite or zero")


def test_a_pass_that_is_meant_to_change_values_changes_the_notes() -> None:
    plain, dead = (
        parse_model(f"graph main(%x: f32[2]) -> %y {{ %y = Mul(%x, {factor}) }}") for factor in (1.0, 0.0)
    )
    verifier = Verifier(plain)
    for model, step in ((dead, "drop"), (dead, "keep"), (plain, "return")):
        verifier.accept(model, step)
    sentence = "is meant to change values: only passes before and after it are verified"
    assert verifier.notes == [
        f"drop {sentence}",
        "before return: output %y is NaN, infinite or zero on all inputs: its equality proves little",
        f"keep {sentence}",
        f"return {sentence}",
    ]


def test_a_new_reference_must_run() -> None:
    model = net()
    verifier = Verifier(model)
    break_(model)
    for renew in (verifier.accept, verifier.restart):
        with pytest.raises(EquivalenceError, match=r"^after bad the model does not run: %z is read"):
            renew(model, "bad")


def test_values_are_compared_only_for_the_same_inputs() -> None:
    assert compare(net(), net(("%k", "%kk"))).outputs == []
    other = net(("%k: f32[3]", "%k: f32[1,3]"))
    assert compare(net(), other).outputs == []
    missing = compare(net(), net(("-> %y, %z", "-> %z")))
    assert {outcome.name for outcome in missing.outputs} == {"z"}
    assert all(outcome.equal for outcome in missing.outputs)


def test_other_graphs_are_compared_on_seeded_inputs_only() -> None:
    text = """
        signature "serve" @other (in: %p) -> (out: %q)
        graph main(%x: f32[2]) -> %y { %y = Relu(%x) }
        graph other(%p: f32[2]) -> %q { %q = Neg(%p) }
    """
    a, b = parse_model(text), parse_model(text.replace("Neg(", "Abs("))
    assert {outcome.name for outcome in compare(a, b).outputs} == {"y", "q"}
    assert not compare(a, b)
    assert compare(a, b, [np.ones(2, np.float32)])


def test_outputs_of_equal_shape_have_a_similarity() -> None:
    """%y is equal in both models; %z is Relu(%x) in one and -%x in the other."""
    found = compare(net(), net(("Relu(%x)", "Neg(%x)")))
    cosines = {o.name: o.similarity.cosine for o in found.outputs if o.similarity and o.inputs == "normal"}
    assert cosines["y"] == pytest.approx(1)
    assert cosines["z"] is not None
    assert cosines["z"] < 0.1


def test_differences_of_outputs_with_elements() -> None:
    text = "graph main(%x: f32[2], %e: f32[0]) -> %y, %f { %y = Mul(%x, 1.5) %f = Neg(%e) }"
    verifier = Verifier(parse_model(text))
    verifier.check(parse_model(text.replace("1.5", "1.5000002")), "a pass")
    (difference,) = verifier.differences()
    assert difference.output == "y"
    assert 0 < difference.difference <= difference.tolerance


def test_given_inputs_are_those_of_the_main_graph() -> None:
    model = parse_model("""
        signature "a" @main (x: %x) -> (y: %y)
        signature "b" @other (x: %u) -> (y: %v)
        graph main(%x: f32[2]) -> %y { %y = Neg(%x) }
        graph other(%u: f32[2]) -> %v { %v = Abs(%u) }
    """)
    notes = Verifier(model, {"given": [np.ones(2, np.float32)]}).notes
    assert notes == [
        "the graph other, which a signature names, is not compared: the given inputs are for the main graph"
    ]
    assert Verifier(model).notes == []
    plain = parse_model("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }")
    assert Verifier(plain, {"given": [np.ones(2, np.float32)]}).notes == []
