# SPDX-License-Identifier: Apache-2.0
"""Comparison of models, and the verifier that watches passes: what is found, and how it is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit import compare
from circlekit.equivalence.verify import Verifier
from circlekit.errors import CirclekitError, EquivalenceError, UnsupportedError
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.recipes.load import load_recipe

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


@pytest.mark.parametrize("name", ["a", "q", "z"])
@pytest.mark.parametrize(("old", "new"), [("Neg", "Exp"), ("Abs", "Exp")])
def test_each_branch_of_an_if_runs_on_some_inputs(name: str, old: str, new: str) -> None:
    text = f"""
    graph main(%{name}: bool[], %x: f32[64]) -> %y {{
      %y = If(%{name}, %x) {{then_graph: @then, else_graph: @else}}  : f32[64]
    }}
    graph then(%x: f32[64]) -> %y {{ %y = Neg(%x) }}
    graph else(%x: f32[64]) -> %y {{ %y = Abs(%x) }}
    """
    assert not compare(parse_model(text), parse_model(text.replace(old, new))).equal


@pytest.mark.parametrize("wrong", ["LogicalOr(%a, %b)", "LogicalAnd(%a, %a)", "LogicalAnd(%b, %b)"])
def test_bool_scalars_meet_in_all_combinations(wrong: str) -> None:
    text = "graph main(%a: bool[], %b: bool[]) -> %y { %y = LogicalAnd(%a, %b) }"
    assert not compare(parse_model(text), parse_model(text.replace("LogicalAnd(%a, %b)", wrong))).equal


COUNTER = """
graph main(%x: f32[4]) -> %y {
  CallOnce() {init: @init}
  %h = VarHandle() {shared_name: "v"}  : resource
  %r = ReadVariable(%h)                : f32[4]
  %y = Add(%r, %x)
  AssignVariable(%h, %y)
}
graph init() {
  %h = VarHandle() {shared_name: "v"}  : resource
  AssignVariable(%h, [1.0, 2.0, 3.0, 4.0])
}
"""

RNN = """
graph main(%x: f32[1,4]) -> %y {
  %state: f32[1,3] variable
  %w = const f32[3,4] gaussian(0, 1)
  %r = const f32[3,3] gaussian(0, 1)
  %y = Rnn(%x, %w, %r, [0.0, 0.0, 0.0], %state) {act: TANH}
}
"""


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (COUNTER, "  AssignVariable(%h, %y)\n", ""),
        (COUNTER, "AssignVariable(%h, %y)", "AssignVariable(%h, %x)"),
        (RNN, "f32[3,3] gaussian(0, 1)", "f32[3,3] zeros"),
    ],
)
def test_a_difference_in_the_state_is_found_in_a_later_run(text: str, old: str, new: str) -> None:
    model = parse_model(text)
    assert compare(model, model).equal
    found = compare(model, parse_model(text.replace(old, new)))
    labels = {"later_run"} if text == RNN else {"later_run", "much_later_run"}
    assert {o.inputs for o in found.outputs if not o.equal} == labels


def test_later_runs_show_what_was_stored_long_ago() -> None:
    """The state of an SVDF holds 8 results; their weights are the last operand."""
    text = """
    graph main(%x: f32[1,2]) -> %y {
      %state: f32[1,8] variable
      %y = Svdf(%x, [[1.0, 2.0]], [[OLDEST, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]], [0.0], %state) {rank: 1}
    }
    """
    model = parse_model(text.replace("OLDEST", "0.5"))
    assert compare(model, model).equal
    found = compare(model, parse_model(text.replace("OLDEST", "0.25")))
    assert {o.inputs for o in found.outputs if not o.equal} == {"much_later_run"}


@pytest.mark.parametrize("count", [1, 3])
def test_a_difference_in_the_state_is_found_in_given_inputs(count: int) -> None:
    records = {f"record_{i}": {"x": np.full(4, i + 1, np.float32)} for i in range(count)}
    verifier = Verifier(parse_model(COUNTER), records)
    verifier.check(parse_model(COUNTER), "nothing")
    # the variable begins with 1.0, 2.0...; with one record, that record runs twice
    assert verifier.runs[-1].outputs[0].tolist() == [n + (6 if count == 3 else 2) for n in (1, 2, 3, 4)]
    wrong = COUNTER.replace("AssignVariable(%h, %y)", "AssignVariable(%h, %x)")
    with pytest.raises(EquivalenceError, match=r"drops changed output %y on (much_)?later_run inputs"):
        verifier.check(parse_model(wrong), "drops")


def test_a_pass_that_drops_state_is_compared_in_the_first_run_only() -> None:
    path = Path(__file__).parents[2] / "recipes" / "passes" / "unroll_unidirseqlstm.ck"
    report = circlekit.optimize(load_recipe(path), ["unroll_unidirseqlstm"], verify=True)
    note = "unroll_unidirseqlstm is meant to drop state: later runs are not compared after it"
    assert note in report.notes


def test_exchanged_unknown_dimensions_are_found() -> None:
    text = """
    graph main(%x: f32[?,?]) -> %y {
      %s = Shape(%x) {out_type: i32}
      %y = Reshape(%x, %s)  : f32[?,?]
    }
    """
    model = parse_model(text)
    assert compare(model, model).equal
    wrong = text.replace("%y = Reshape(%x, %s)", "%r = ReverseV2(%s, [0])\n%y = Reshape(%x, %r)")
    found = compare(model, parse_model(wrong))
    assert {o.inputs for o in found.outputs if not o.equal} == {"larger_sizes"}


def test_a_difference_at_the_bend_of_an_activation_is_found() -> None:
    assert not compare(net(), net(("Relu(", "Relu6("))).equal


def test_given_inputs_take_the_place_of_the_seeded_ones() -> None:
    inputs = {"k": np.ones(3, np.float32), "x": np.full((2, 3), 2, np.float32)}
    found = compare(net(), net(("Relu(", "Relu6(")), inputs)
    assert found.equal
    assert {o.inputs for o in found.outputs} == {"given"}


@pytest.mark.parametrize(
    ("sig", "line", "wrong", "label"),
    [
        ("f32[1,4,4,1]", "MaxPool2D(%x) {filter_width: 4, filter_height: 4}", "Relu(%p)", "negative"),
        ("bool[4,4]", "ReduceAll(%x, [0, 1])", "LogicalAnd(%p, [false])", "positive"),
        ("f32[8]", "Log(%x)", "Add(%p, 1.0)", "positive"),
    ],
)
def test_values_that_only_inputs_of_one_sign_give(sig: str, line: str, wrong: str, label: str) -> None:
    """For example, the maximum of 16 numbers is hardly ever negative."""
    total = "%q = Sum(%p, [0])" if "Log" in line else "%q = Reshape(%p, [-1])"
    before, after = (
        parse_model(f"graph main(%x: {sig}) -> %q {{ %p = {line} {last} }}")
        for last in (total, f"%w = {wrong} {total.replace('%p', '%w')}")
    )
    found = compare(before, after)
    assert label in {o.inputs for o in found.outputs if not o.equal}


def test_each_row_of_a_small_table_is_read() -> None:
    text = "graph main(%i: i32[2]) -> %y { %y = Gather([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], %i) }"
    for row in range(1, 8):
        assert not compare(parse_model(text), parse_model(text.replace(f"{row}.0", f"{row}.5"))).equal


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
    """O1 merges factor and divisor, which rounds in another way."""
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


def of_unknown_size(line: str) -> Model:
    return parse_model(f"graph main(%x: f32[?,3]) -> %y {{\n{line}\n}}")


@pytest.mark.parametrize(
    ("size", "number", "sets"),
    [
        ("Minimum(%n, [2])", 2.0, {"size_1"}),
        ("Maximum(%n, [2])", 2.0, {"larger_sizes"}),
        ("Maximum(%n, [6])", 6.0, set()),
        ("Minimum(%n, [2])", 1.0, {"normal", "zero", "positive", "negative", "larger_sizes"}),
    ],
)
def test_unknown_dimensions_are_one_and_two_and_six(size: str, number: float, sets: set[str]) -> None:
    """One model adds a constant, the other one a number that depends on the size of ``?``."""
    plain = of_unknown_size(f"%y = Add(%x, [{number}]) : f32[?,3]")
    other = of_unknown_size(f"""
        %s = Shape(%x) {{out_type: i32}}     : i32[2]
        %n = StridedSlice(%s, [0], [1], [1]) : i32[1]
        %m = {size}                          : i32[1]
        %c = Cast(%m)                        : f32[1]
        %y = Add(%x, %c)                     : f32[?,3]
    """)
    different = {outcome.inputs for outcome in compare(plain, other).outputs if not outcome.equal}
    assert {name for name in different if "boundary" not in name} == sets


def test_models_with_string_inputs_are_compared() -> None:
    text = "graph main(%s: str[4]) -> %y { %y = Gather(%s, [1, 0]) : str[2] }"
    model = parse_model(text)
    assert compare(model, model).equal
    found = compare(model, parse_model(text.replace("[1, 0]", "[1, 2]")))
    assert "normal" in {outcome.inputs for outcome in found.outputs if not outcome.equal}
    assert circlekit.optimize(model, "O1", verify=True).verified


@pytest.mark.parametrize(
    ("line", "rows"),
    [("Conv2D(%x, %w, [0.0])", 4), ("Relu(%x)", 4), ("Slice(%x, [0,0,0,0], [-1,2,2,1])", 6)],
)
def test_models_that_treat_rows_alike_run_on_fewer_rows(line: str, rows: int) -> None:
    """Most of the time would go to the rows of such a model, often one with convolutions."""
    text = "graph main(%x: f32[?,2,2,1]) -> %y {\n%w = const f32[1,1,1,1] ones\n%y = LINE : f32[?,2,2,1]\n}"
    verifier = Verifier(parse_model(text.replace("LINE", line)))
    (run,) = [run for run in verifier.runs if run.label == "larger_sizes"]
    assert run.outputs[0].shape == (rows, 2, 2, 1)


@pytest.mark.parametrize("rows", [1, 2, 4, 5])
def test_a_slice_of_unknown_rows_is_not_taken_for_all_rows(rows: int) -> None:
    text = f"%y = StridedSlice(%x, [0, 0], [{rows}, 3], [1, 1]) : f32[?,3]"
    assert not compare(of_unknown_size(text), of_unknown_size("%y = Reshape(%x, [-1, 3])  : f32[?,3]")).equal


def test_unknown_dimensions_get_a_size_other_than_1_if_the_model_takes_it() -> None:
    only_one = of_unknown_size("%y = Reshape(%x, [3]) : f32[3]")
    found = compare(only_one, only_one)
    assert found.equal
    assert not found.notes
    assert "size_1" not in {outcome.inputs for outcome in found.outputs}
    only_six = of_unknown_size("%y = Reshape(%x, [18]) : f32[18]")
    assert not compare(only_six, only_six).notes
    only_two = of_unknown_size("%y = Reshape(%x, [6]) : f32[6]")
    notes = compare(only_two, only_two).notes
    for note, sizes in zip(notes, ["unknown dimensions of 1", "larger unknown dimensions"], strict=True):
        assert note.startswith(f"not compared with {sizes}, which the model does not take: ")


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
