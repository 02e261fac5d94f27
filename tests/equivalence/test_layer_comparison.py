# SPDX-License-Identifier: Apache-2.0
"""Comparison of two models layer by layer."""

from __future__ import annotations

import math

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.array_comparison import Outcome, Similarity, worst_difference
from circlekit.equivalence.judgement.judge import Judge
from circlekit.equivalence.layer_comparison import compare_layers, compare_models, compare_results
from circlekit.equivalence.named_results import interpreter_of, run_keeping
from circlekit.equivalence.verify import Verifier
from circlekit.interp.interpreter import select_kernels
from circlekit.ir.resources.progress import watched
from tests.equivalence.work import Work
from tests.interp.test_kernel_selection import model_of

CALLER = """
graph main(%c: bool[], %x: f32[2]) -> %r {
  %y = Abs(%x)
  %r = If(%c, %y) {then_graph: @called, else_graph: @called} : f32[2]
}
graph called(%p: f32[2]) -> %z {
  %y = OPERATOR(%p) : f32[2]
  %z = Mul(%p, [2.0]) : f32[2]
}
"""


def test_values_of_called_graphs_are_not_those_of_the_main_graph() -> None:
    """Both graphs have a value %y; %y of the called graph is computed last, and differs in the two models."""
    before, after = (circlekit.parse(CALLER.replace("OPERATOR", name)) for name in ("Exp", "Neg"))
    run = Verifier(before).runs[0]
    outcomes = compare_layers(before, after, run)
    assert [(outcome.name, outcome.equal) for outcome in outcomes] == [("y", True), ("r", True)]
    ((name, array),) = run_keeping(interpreter_of(before), run.inputs, {"y", "z"})[1].items()
    assert name == "y"
    np.testing.assert_array_equal(array, np.abs(run.arrays[1]))


FLOAT = "graph main(%x: f32[4]) -> %y { %y = Neg(%x) }"
FORM = "i8[4] quant(scale: 0.05)"
QUANTIZED = f"""
graph main(%x: {FORM}) -> %y {{
  %r = Dequantize(%x) : f32[4]
  %n = Neg(%r)
  %y = Quantize(%n) : {FORM}
}}
"""
ALSO_FLOAT = "graph main(%x: f32[4]) -> %y { %y = Mul(%x, -1.0) }"


def test_a_quantized_form_is_compared_as_real_numbers() -> None:
    """If records are given, they are the inputs.  Otherwise only the seeded set ``normal`` is used."""
    before, after = circlekit.parse(FLOAT), circlekit.parse(QUANTIZED)
    seeded = compare_models(Verifier(before), after)
    assert [outcome.inputs for outcome in seeded.outputs] == ["normal"]
    assert len(seeded.notes) == 1
    records = {name: [np.full(4, x, np.float32)] for name, x in (("a", 0.26), ("b", 1.0), ("c", 100.0))}
    given = compare_models(Verifier(before, records), after)
    differences = {outcome.inputs: outcome.worst.absolute for outcome in given.outputs if outcome.worst}
    assert differences == pytest.approx({"a": 0.01, "b": 0, "c": 100 - 127 * 0.05}, abs=1e-5)


def test_integers_of_different_scales_are_compared_as_real_numbers() -> None:
    text = "graph g(%x: i8[2] quant(scale: {0})) -> %y {{ %y = Reshape(%x, [2]) : i8[2] quant(scale: {1}) }}"
    before, other_output, rescaled = (
        circlekit.parse(text.format(*scales)) for scales in ((0.5, 0.5), (0.5, 0.25), (0.25, 0.25))
    )
    records = {"a": [np.array([-3, 8], np.int8)]}  # -1.5 and 4
    comparisons = [compare_models(Verifier(before, records), m) for m in (before, other_output, rescaled)]
    assert [len(comparison.notes) for comparison in comparisons] == [0, 1, 1]
    assert [comparison.outputs[0].equal for comparison in comparisons] == [True, False, True]
    assert comparisons[1].outputs[0].worst is not None
    assert comparisons[1].outputs[0].worst.absolute == 2.0


def test_outputs_that_are_inputs_or_constants_are_compared_as_real_numbers() -> None:
    before = circlekit.parse("graph main(%x: f32[2]) -> %x, %c {\n%c = const f32[2] [1.0, 2.0]\n}")
    after = circlekit.parse(
        "graph main(%x: i8[2] quant(scale: 0.1)) -> %x, %c {\n%c = const i8[2] quant(scale: 0.5) [2, 3]\n}"
    )
    given = compare_models(Verifier(before, {"a": [np.full(2, 0.26, np.float32)]}), after)
    differences = {outcome.name: outcome.worst.absolute for outcome in given.outputs if outcome.worst}
    assert differences == pytest.approx({"x": 0.04, "c": 0.5}, abs=1e-6)


def test_graphs_that_signatures_name_are_compared_beside_a_quantized_main_graph() -> None:
    entries = """
        signature "main" @main (x: %x) -> (y: %y)
        signature "other" @other (u: %u) -> (v: %v)
        graph other(%u: f32[2]) -> %v {{ %v = {} }}
    """
    before = circlekit.parse(FLOAT + entries.format("Neg(%u)"))
    for other, is_equal in (("Mul(%u, -1.0)", True), ("Abs(%u)", False)):
        comparison = compare_models(Verifier(before), circlekit.parse(QUANTIZED + entries.format(other)))
        outcomes = [outcome for outcome in comparison.outputs if outcome.inputs == "normal"]
        # %y differs because of quantization
        assert {outcome.name: outcome.equal for outcome in outcomes} == {"y": False, "v": is_equal}


def test_models_of_equal_types_are_compared_on_all_inputs() -> None:
    before, after = circlekit.parse(FLOAT), circlekit.parse(ALSO_FLOAT)
    comparison = compare_models(Verifier(before), after)
    assert len({outcome.inputs for outcome in comparison.outputs}) == len(Verifier(before).runs) > 1
    assert not comparison.notes


STATEFUL = """
graph main(%x: f32[1,2]) -> %y {
  %feature = const f32[2,2] [[1.0, 0.0], [0.0, 1.0]]
  %time = const f32[2,3] [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
  %memory: f32[1,6] variable
  %sum = Svdf(%x, %feature, %time, none, %memory) {rank: 1}
  %scaled = Mul(%sum, FACTOR)
  %y = Cast(%scaled) : DTYPE[1,2]
}
"""


@pytest.mark.parametrize(("factor", "is_equal"), [("1.00004", False), ("1.000004", True)])
def test_rounding_in_a_later_run_is_measured_from_the_same_state(factor: str, is_equal: bool) -> None:
    """Without the state of the earlier runs, the results would differ by more than any rounding.

    The outputs have different dtypes, f32 and f64; therefore they are compared as real numbers.
    """
    before = circlekit.parse(STATEFUL.replace("FACTOR", "1.0").replace("DTYPE", "f32"))
    after = circlekit.parse(STATEFUL.replace("FACTOR", factor).replace("DTYPE", "f64"))
    records = {str(number): [np.full((1, 2), 1.0 + number, np.float32)] for number in range(3)}
    verifier = Verifier(before, records)
    outcomes = {outcome.inputs: outcome.equal for outcome in compare_models(verifier, after).outputs}
    assert "later_run" in outcomes
    assert set(outcomes.values()) == {is_equal}
    (later,) = (run for run in verifier.runs if run.label == "later_run")
    layers = {outcome.name: outcome.worst for outcome in compare_layers(before, after, later)}
    assert layers["sum"] is not None
    assert layers["sum"].left == later.outputs[0][layers["sum"].index]


def test_outputs_that_a_judge_computed_are_used() -> None:
    """For a model that is not the judge's, and for inputs without outputs of the judge, they are computed."""
    before, after = circlekit.parse(FLOAT), circlekit.parse(QUANTIZED)
    records = {"a": [np.full(4, 0.26, np.float32)]}
    judge = Judge(before, after, records)
    verifier = Verifier(before, records, pair=judge)
    assert verifier.pair is judge
    judge.outputs["a"] = [np.full(4, 7, np.int8)]
    (outcome,) = compare_models(verifier, after).outputs
    assert outcome.worst is not None
    assert outcome.worst.absolute == pytest.approx(0.35 + 0.26)
    (outcome,) = compare_models(verifier, circlekit.parse(QUANTIZED)).outputs
    assert outcome.worst is not None
    assert outcome.worst.absolute == pytest.approx(0.01, abs=1e-6)
    judge.outputs.clear()
    (outcome,) = compare_models(verifier, after).outputs
    assert outcome.worst is not None
    assert outcome.worst.absolute == pytest.approx(0.01, abs=1e-6)


@pytest.mark.parametrize(
    ("left", "right", "magnitude", "relative", "excess"),
    [  # relative: difference / magnitude; excess: difference / tolerance, which is 0.5
        (4.0, 3.0, 4.0, 0.25, 2.0),
        (4.0, 4.0, 4.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0, 0.0),
        (0.0, 1.0, 0.0, math.inf, 2.0),
    ],
)
def test_a_difference_in_relation_to_the_largest_number(
    left: float, right: float, magnitude: float, relative: float, excess: float
) -> None:
    arrays = np.array([left], np.float32), np.array([right], np.float32)
    worst = worst_difference(*arrays, 0.5)
    outcome = Outcome("y", worst, similarity=Similarity(None, None, magnitude))
    assert outcome.relative_to_largest == relative
    assert outcome.excess == excess
    assert Outcome("y", worst).relative_to_largest is None
    assert Outcome("y", similarity=Similarity(None, None, 1.0)).relative_to_largest is None
    assert Outcome("y").excess == 0
    assert Outcome("y", worst, reason="shapes differ").excess == math.inf


LAYERS = """
graph main(%x: f32[4], %e: f32[0]) -> %y, %f {
  %n = Neg(%x)
  %m = Mul(%n, 1.5)
  %y = Exp(%m)
  %f = Neg(%e)
}
"""


def test_rounding_is_measured_only_if_results_differ() -> None:
    """%f, which has no elements, is equal in both cases.  The announced runs are done."""
    before = circlekit.parse(LAYERS)
    run = Verifier(before).runs[0]
    works = []
    for factor in ("1.5", "1.501"):
        with watched(Work()) as work:
            outcomes = compare_layers(before, circlekit.parse(LAYERS.replace("1.5", factor)), run)
        works.append(work)
        assert [outcome.name for outcome in outcomes] == ["n", "m", "y", "f"]
        assert outcomes[-1].equal
        assert outcomes[-1].worst is None
        assert work.left == 0
    assert works[0].total < works[1].total


@pytest.mark.parametrize("text", [LAYERS, STATEFUL.replace("FACTOR", "1.5").replace("DTYPE", "f32")])
def test_the_announced_runs_of_a_verifier_are_done(text: str) -> None:
    """If outputs differ, there are more runs, which measure rounding.  A model with state has later runs."""
    works = []
    for factor in ("1.5", "1.501"):
        with watched(Work()) as work:
            Verifier(circlekit.parse(text)).compare(circlekit.parse(text.replace("1.5", factor)))
        works.append(work)
    assert [work.left for work in works] == [0, 0]
    assert works[0].total < works[1].total


def test_results_that_only_one_run_has_are_not_compared() -> None:
    model, results = circlekit.parse(FLOAT), {"y": np.zeros(4, np.float32)}
    run = Verifier(model).runs[0]
    assert compare_results(model, model, run, results, {}) == []
    assert compare_results(model, model, run, {}, results) == []
    assert len(compare_results(model, model, run, results, results)) == 1


def test_layers_are_compared_by_the_kernels_of_the_first() -> None:
    """LiteRT would run the second model with other kernels, which give other integers."""
    before, after = model_of("{block_size: 2}"), model_of("{block_size: 2, version: 1}")
    assert select_kernels(before) is not select_kernels(after)
    (run,) = (run for run in Verifier(before).runs if run.label == "normal")
    outcomes = compare_layers(before, after, run)
    assert [outcome.name for outcome in outcomes] == ["c", "y"]
    assert [outcome.worst.absolute for outcome in outcomes if outcome.worst] == [0, 0]
