# SPDX-License-Identifier: Apache-2.0
"""Differences that only some of the seeded inputs, or only later runs, show."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit import compare
from circlekit.equivalence.reference_runs import reference_runs
from circlekit.equivalence.seeded_inputs import input_sets, make_inputs
from circlekit.equivalence.unknown_sizes import Sizes, first_that_runs
from circlekit.equivalence.verify import Verifier
from circlekit.errors import EquivalenceError, ModelError, ShapeError
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.recipes.load import load_recipe


@pytest.mark.parametrize("name", ["a", "q", "z"])
@pytest.mark.parametrize(("old", "new"), [("Neg", "Exp"), ("Abs", "Exp")])
def test_each_branch_of_an_if_runs_on_some_inputs(name: str, old: str, new: str) -> None:
    """The elements of an input depend on its name; any name of the condition will do."""
    text = f"""
    graph main(%{name}: bool[], %x: f32[64]) -> %y {{
      %y = If(%{name}, %x) {{then_graph: @then, else_graph: @else}}  : f32[64]
    }}
    graph then(%x: f32[64]) -> %y {{ %y = Neg(%x) }}
    graph else(%x: f32[64]) -> %y {{ %y = Abs(%x) }}
    """
    assert not compare(parse_model(text), parse_model(text.replace(old, new))).equal


@pytest.mark.parametrize("names", ["ab", "xy", "pqr", "wxyz"])
def test_boundary_sets_have_all_combinations_of_bool_scalars(names: str) -> None:
    inputs = ", ".join(f"%{name}: bool[]" for name in names)
    graph = parse_model(f"graph main({inputs}) -> %{names[0]} {{ }}").main
    made = [make_inputs(graph, which) for which in input_sets(graph) if which.kind == "boundary"]
    assert {tuple(array.item() for array in arrays) for arrays in made} == {
        *product([False, True], repeat=len(names))
    }


def test_a_bool_that_an_operator_does_not_read_any_more_is_found() -> None:
    text = "graph main(%x: bool[], %y: bool[]) -> %z { %z = LogicalAnd(%x, %y) }"
    for wrong in ("LogicalOr(%x, %y)", "LogicalAnd(%x, %x)", "LogicalAnd(%y, %y)"):
        assert not compare(parse_model(text), parse_model(text.replace("LogicalAnd(%x, %y)", wrong))).equal


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
    # an RNN replaces its whole state in each run, so that a much later run would show no more
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


def test_omitted_later_runs_are_noted_for_each_graph() -> None:
    model = parse_model("""
        signature "first" @main(x: %x) -> (y: %y)
        signature "second" @other(x: %u) -> (y: %v)
        signature "third" @stateless(x: %p) -> (y: %q)
        graph main(%x: f32[1,2]) -> %y { %y = Neg(%x) }
        graph other(%u: f32[1,2]) -> %v {
          %state: f32[1,8] variable
          %v = Svdf(%u, [[1.0, 2.0]], [[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]], [0.0], %state) {rank: 1}
        }
        graph stateless(%p: f32[1,2]) -> %q { %q = Abs(%p) }
        """)
    verifier = Verifier(model)
    verifier.omit_later_runs("p")
    verifier.omit_later_runs("again")
    note = "in the graph other: p is meant to drop state: later runs are not compared after it"
    assert verifier.notes == [note]
    (compared,) = (v for v in verifier.others if v is not None and v.names == ["v"])
    assert not any(run.earlier for run in compared.runs)
    verifier.check(model, "nothing")
    verifier.accept(model, "values")
    assert verifier.notes == [
        f"before values: {note}",
        "values is meant to change values: only passes before and after it are verified",
    ]


def test_later_runs_are_omitted_until_the_reference_is_run_anew() -> None:
    verifier = Verifier(parse_model(COUNTER))
    verifier.omit_later_runs("p")
    note = "p is meant to drop state: later runs are not compared after it"
    verifier.accept(parse_model(COUNTER), "values")
    assert not any(run.earlier for run in verifier.runs)
    assert verifier.notes[0] == note
    verifier.restart(parse_model(COUNTER), "interface")
    assert any(run.earlier for run in verifier.runs)
    assert verifier.notes[0] == f"before interface: {note}"


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


@pytest.mark.parametrize(
    ("sig", "lines", "wrong", "label"),
    [
        ("f32[1,4,4,1]", "%y = MaxPool2D(%x) {filter_width: 4, filter_height: 4}", "Relu(%w)", "negative"),
        ("bool[4,4]", "%y = ReduceAll(%x, [0, 1])", "LogicalAnd(%w, false)", "positive"),
        ("f32[8]", "%v = Log(%x) %y = Sum(%v, [0])", "Add(%w, 1.0)", "positive"),
    ],
)
def test_differences_that_only_inputs_of_one_sign_show(sig: str, lines: str, wrong: str, label: str) -> None:
    """In the other sets, a maximum is not negative, a bool is False, and a logarithm is not a number.

    ``wrong``: what the second model computes from the output %y of the first, there named %w.
    """
    head = f"graph main(%x: {sig}) -> %y"
    before = parse_model(f"{head} {{ {lines} }}")
    after = parse_model(f"{head} {{ {lines.replace('%y', '%w')} %y = {wrong} }}")
    found = compare(before, after)
    assert {o.inputs for o in found.outputs if not o.equal} == {label}


def test_each_row_of_a_small_table_is_read() -> None:
    text = "graph main(%i: i32[2]) -> %y { %y = Gather([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], %i) }"
    for row in range(8):
        assert not compare(parse_model(text), parse_model(text.replace(f"{row}.0", f"{row}.5"))).equal


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
    """One model adds a constant, the other one a number that depends on the size of ``?``.

    This size is 1 in ``size_1``, 6 in ``larger_sizes`` and 2 in all other sets.
    """
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


@pytest.mark.parametrize("rows", [1, 2, 4, 5])
def test_a_slice_of_unknown_rows_is_not_taken_for_all_rows(rows: int) -> None:
    text = f"%y = StridedSlice(%x, [0, 0], [{rows}, 3], [1, 1]) : f32[?,3]"
    assert not compare(of_unknown_size(text), of_unknown_size("%y = Reshape(%x, [-1, 3])  : f32[?,3]")).equal


@pytest.mark.parametrize(
    ("sig", "least", "shape"),
    [("f32[?,?]", 30, [1, 32]), ("f32[?]", 500, [512]), ("f32[?,?,?,4]", 300, [1, 512, 512, 4])],
)
def test_models_that_need_long_inputs_get_them(sig: str, least: int, shape: list[int]) -> None:
    """The model removes all elements of its last unknown axis but ``least``, which must be there."""
    sizes = ["-1"] * (sig.count(",") + 1)
    sizes[sig.count("?") - 1] = str(least)
    part = f"%s = Slice(%x, {[0] * len(sizes)}, [{', '.join(sizes)}])"
    model, other = (
        parse_model(f"graph main(%x: {sig}) -> %y {{ {part} %y = {last}(%s) }}") for last in ("Exp", "Neg")
    )
    assert not compare(model, other).equal
    (run, *_), notes = reference_runs(model)
    assert not notes
    assert list(run.arrays[0].shape) == shape


@pytest.mark.parametrize(
    ("sig", "expected"),
    [
        ("f32[2,4]", [1]),
        ("f32[?,?,?,4]", [1, 6, 32, 128, 512]),
        ("f32[?,4096]", [1, 6, 32, 128]),
        ("f32[?]", [1, 6, 32, 128, 512, 2048, 8192, 32768, 131072]),
    ],
)
def test_sizes_are_tried_up_to_a_million_elements(sig: str, expected: list[int]) -> None:
    """The raised error is that for the size 6, or for the only size."""
    tried = []

    def attempt(sizes: Sizes) -> None:
        tried.append(sizes.first)
        raise ShapeError(str(sizes.first))

    with pytest.raises(ShapeError, match=f"^{1 if expected == [1] else 6}$"):
        first_that_runs(parse_model(f"graph main(%x: {sig}) -> %x {{ }}").main, attempt)
    assert tried == expected


def test_no_larger_sizes_are_tried_after_an_error_other_than_of_shapes() -> None:
    tried = []

    def attempt(sizes: Sizes) -> None:
        tried.append(sizes.first)
        raise (ShapeError if sizes.first < 128 else ModelError)(str(sizes.first))

    with pytest.raises(ShapeError, match=r"^6$"):
        first_that_runs(parse_model("graph main(%x: f32[?]) -> %x { }").main, attempt)
    assert tried == [1, 6, 32, 128]


def test_a_model_that_takes_no_size_fails_with_the_error_for_few_elements() -> None:
    model = of_unknown_size("%s = Slice(%x, [0, 0], [-1, 3]) %y = Reshape(%s, [7]) : f32[7]")
    with pytest.raises(ShapeError, match=r"\[6,3\].*\[7\]"):
        compare(model, model)


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
