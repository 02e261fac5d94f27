# SPDX-License-Identifier: Apache-2.0
"""Why a pass did not rewrite a model, and which passes came nearest to an operator."""

from __future__ import annotations

import pytest

import circlekit
from circlekit.errors import ModelError, ShapeError
from circlekit.ir.resources.progress import watched
from circlekit.ir.text import parse_model
from circlekit.passes.engine.explain import MAX_PARTIAL_MATCHES, explain_pass
from circlekit.passes.engine.explanation import Explanation
from circlekit.rewrite.base import Refusal
from tests.equivalence.work import Work

PASS = "transform_min_relu_to_relu6"


def explained(body: str, name: str = PASS, outputs: str = "%y") -> list[tuple[str, bool]]:
    """Return the sentence of each refusal, and whether it is a partial match."""
    model = parse_model(f"graph main(%x: f32[2,3]) -> {outputs} {{\n{body}\n}}")
    return [(refusal.sentence, refusal.is_partial) for refusal in explain_pass(model, name, "circle")]


@pytest.mark.parametrize(
    ("body", "refusals"),
    [
        ("%m = Minimum(%x, 5.0)\n%y = Relu(%m)", [("%m/rhs: expected the constant 6.0", False)]),
        ("%m = Minimum(%x, 6.0)\n%y = Relu(%m)", []),
        ("%m = Minimum(%x, 6.0)\n%y = Tanh(%m)", [("%m: is read by Tanh %y, expected Relu", True)]),
        ("%y = Tanh(%x)", [("%y: the model has no Relu or Minimum", True)]),
        ("%u = Relu(%x)\n%y = Tanh(%u)", [("%x: comes from an input, expected Minimum", True)]),
    ],
)
def test_closest_refusals(body: str, refusals: list[tuple[str, bool]]) -> None:
    assert explained(body) == refusals


def test_missing_operator_is_reported_at_the_first_computed_output() -> None:
    assert explained("%z = Tanh(%x)", outputs="%x, %z") == [("%z: the model has no Relu or Minimum", True)]
    assert explained("", outputs="%x") == []


def test_no_partial_match_after_a_change() -> None:
    body = "%m = Minimum(%x, 6.0)\n%y = Relu(%m)\n%n = Minimum(%x, 6.0)\n%z = Tanh(%n)"
    assert explained(body, outputs="%y, %z") == []


def test_pass_without_pictures_misses_no_operator() -> None:
    assert explained("%y = Tanh(%x)", "remove_dead") == []


@pytest.mark.parametrize(
    ("name", "refusals"),
    [("fold_constants", [("%y: reads %x, which is not constant", True)]), ("fold_densify", [])],
)
def test_folding_explains_operators_of_its_kinds(name: str, refusals: list[tuple[str, bool]]) -> None:
    assert explained("%y = Tanh(%x)", name) == refusals


def test_settings_reach_the_pass() -> None:
    model = parse_model("graph main(%x: f32[2,3]) -> %y { %a = Transpose(%x, [1, 0]) %y = Tanh(%a) }")
    settings = {"remove_nodes_of": ["TRANSPOSE"]}
    sentences = [r.sentence for r in explain_pass(model, "remove_nodes_of", "circle", settings)]
    assert sentences == ["%a: is f32[3,2], %x is f32[2,3]"]


def test_operators_to_remove_may_be_gone_already() -> None:
    model = circlekit.parse("graph main(%x: f32[2]) -> %y { %y = Tanh(%x) }")
    assert explain_pass(model, "remove_nodes_of", "circle", {"remove_nodes_of": ["RELU"]}) == []


def test_one_refusal_for_each_operator() -> None:
    """An operator has one refusal: that of the picture that matched most.  The nearest miss comes first."""
    body = "%a = Transpose(%x, [1, 0])\n%d = Reshape(%a, [6])\n%y = Neg(%d)"
    sentences = [sentence for sentence, _ in explained(body, "remove_unnecessary_transpose")]
    assert sentences == [
        "%d: does not keep the order of the elements",
        "%a: expected a perm that moves no axis, got [1, 0]",
    ]


def test_number_of_partial_matches_is_limited() -> None:
    body = "\n".join(f"%r{i} = Relu(%x)" for i in range(MAX_PARTIAL_MATCHES + 1))
    outputs = ", ".join(f"%r{i}" for i in range(MAX_PARTIAL_MATCHES + 1))
    assert len(explained(body, outputs=outputs)) == MAX_PARTIAL_MATCHES


# -- what is said about a pass -----------------------------------------------------------------


THREE = """graph main(%x: f32[2,3]) -> %a, %b, %c {
  %k = Minimum(%x, 6.0)
  %a = Relu(%k)
  %l = Minimum(%x, 5.0)
  %b = Relu(%l)
  %m = Minimum(%x, 4.0)
  %n = Tanh(%m)
  %c = Relu(%n)
}"""


def test_text_begins_with_what_was_rewritten() -> None:
    model = circlekit.parse(THREE)
    (before,) = circlekit.explain(model, PASS)
    assert len(model.main) == 7, "the model that is explained stays as it is"
    expected = [
        f"{PASS} would rewrite 1 place if run alone; the nearest miss:",
        "  %b = Relu(%l) : f32[2,3]",
        "    %l/rhs: expected the constant 6.0",
    ]
    assert str(before).splitlines() == expected
    (after,) = circlekit.optimize(model, PASS, explain=PASS).explanations
    assert str(after).splitlines() == [f"{PASS} rewrote 1 place; the nearest miss:", *expected[1:]]


def test_text_shows_at_most_three_misses() -> None:
    body = "\n".join(f"%m{i} = Minimum(%x, 5.0)\n%y{i} = Relu(%m{i})" for i in range(5))
    outputs = ", ".join(f"%y{i}" for i in range(5))
    (text,) = circlekit.explain(circlekit.parse(f"graph main(%x: f32[2]) -> {outputs} {{\n{body}\n}}"), PASS)
    lines = str(text).splitlines()
    assert lines[0] == f"{PASS} rewrote nothing; the nearest misses:"
    assert [line.split()[0] for line in lines[1::2]] == ["%y0", "%y1", "%y2", "and"]
    assert lines[-1] == "  and 2 more places"
    assert len(text.document()["refusals"]) == 5


def test_two_misses_have_a_heading_in_the_plural() -> None:
    model = circlekit.parse(THREE.replace("Minimum(%x, 6.0)", "Minimum(%x, 3.0)"))
    assert str(circlekit.explain(model, PASS)[0]).startswith(f"{PASS} rewrote nothing; the nearest misses:")


def test_nearest_miss_comes_first() -> None:
    """A lower ``missing - progress`` comes first, then a higher ``progress``; partial matches come last."""
    model = parse_model("""graph main(%x: f32[1,2,2,3]) -> %a, %b {
      %t = Transpose(%x, [0,3,1,2])
      %a = Transpose(%t, [0,1,3,2])
      %b = Transpose(%x, [0,3,1,2])
    }""")
    refusals = explain_pass(model, "remove_redundant_transpose", "circle")
    assert [refusal.distance for refusal in refusals] == sorted(refusal.distance for refusal in refusals)
    op = model.main.ops[0]
    far = Refusal("p", "main", op, "", progress=4, missing=13)  # 13 - 4 = 9
    near = Refusal("p", "main", op, "", progress=4, missing=1)  # 1 - 4 = -3
    whole = Refusal("p", "main", op, "", progress=5)  # 0 - 5 = -5
    code = Refusal("p", "main", op, "")  # without a picture: -3, because its progress counts as 3
    partial = Refusal("p", "main", op, "", progress=9, is_partial=True)
    nearest = sorted([partial, code, far, near, whole], key=lambda refusal: refusal.distance)
    assert [id(refusal) for refusal in nearest] == [id(x) for x in (whole, near, code, far, partial)]
    missing = Refusal("p", "main", op, "", progress=4, missing=13, is_partial=True)
    assert Explanation("p", refusals=[missing]).distance < Explanation("p").distance


@pytest.mark.parametrize(
    ("name", "format", "remark"),
    [
        ("change_outputs", "circle", "it does nothing without --change_outputs NAME,NAME"),
        ("fuse_rope", "tflite", "it is for circle only: pipelines omit it for tflite"),
        (
            "unroll_unidirseqlstm",
            "circle",
            "the reason is not known: the pass has no picture, and its code recorded no refusal",
        ),
    ],
)
def test_a_remark_says_why_there_is_no_refusal(name: str, format: str, remark: str) -> None:
    (explanation,) = circlekit.explain(circlekit.parse(THREE), name, format)
    assert explanation.remarks == [remark]
    assert str(explanation).endswith(f"  {remark}")


def test_all_passes_the_nearest_misses_first() -> None:
    found = circlekit.explain(circlekit.parse(THREE))
    assert next(item.pass_name for item in found if item.has_near_miss) == PASS
    assert {item.pass_name for item in found} == circlekit.passes().keys()
    assert [item.distance for item in found] == sorted(item.distance for item in found)


FAILING = """graph main(%x: f32[?,4]) -> %y {
  %k = Minimum(%x, 5.0)
  %a = Relu(%k)
  %y = Slice(%a, [0, 0], [3, 4])
}"""
"""``dynamic_batch_to_single_batch`` fails, because a batch of 1 has no three rows."""


def test_a_pass_that_fails_does_not_hide_the_others() -> None:
    model, fails = circlekit.parse(FAILING), "dynamic_batch_to_single_batch"
    found = {item.pass_name: item for item in circlekit.explain(model)}
    assert found[fails].remarks == ["it fails: a slice of size 3 at 0 exceeds a dimension of 1"]
    assert [name for name, item in found.items() if item.is_prevented] == [fails]
    assert found[PASS].has_near_miss
    with watched(Work()) as work:
        (about_op,) = circlekit.explain_op(model, "%a")
    assert about_op.refusals[0].pass_name == PASS
    assert work.left == 0
    with pytest.raises(ShapeError):
        circlekit.explain(model, fails)


# -- one operator ------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["%l", "l"])
def test_operator_inside_of_a_picture(which: str) -> None:
    """The refusal is that of %b, the last operator of the picture; %l is the first one."""
    (found,) = circlekit.explain_op(circlekit.parse(THREE), which)
    assert found.op == "%l = Minimum(%x, 5.0) : f32[2,3]"
    nearest = found.refusals[0]
    assert (nearest.pass_name, nearest.sentence) == (PASS, "%l/rhs: expected the constant 6.0")
    assert str(found).splitlines()[:3] == [found.op, f"  {PASS}", f"    {nearest.sentence}"]


@pytest.mark.parametrize("which", ["MINIMUM", "Minimum", "minimum"])
def test_operators_of_a_kind(which: str) -> None:
    found = circlekit.explain_op(circlekit.parse(THREE), which)
    assert [item.op[:2] for item in found] == ["%k", "%l", "%m"]
    assert found[0].passes == [PASS]
    assert f"would be rewritten by {PASS}" in str(found[0])
    partial = next(refusal for refusal in found[2].refusals if refusal.pass_name == PASS)
    assert (partial.sentence, partial.is_partial) == ("%m/rhs: expected the constant 6.0", True)


def test_the_name_of_a_result_keeps_its_case() -> None:
    model = circlekit.parse("graph main(%x: f32[2]) -> %A { %a = Relu(%x) %A = Tanh(%a) }")
    for which in ("%a", "a"):
        (found,) = circlekit.explain_op(model, which)
        assert found.op.startswith("%a = Relu")


def test_operator_that_does_not_match_a_picture() -> None:
    """%n stands where the picture has a Minimum: the sentence is about %n, but the refused operator is %c."""
    (found,) = circlekit.explain_op(circlekit.parse(THREE), "%n")
    about = {refusal.pass_name: refusal.sentence for refusal in found.refusals}
    assert about[PASS] == "%n: comes from Tanh, expected Minimum"


def test_a_default_target_does_not_refuse_what_a_pass_makes_for_other_runtimes() -> None:
    """ONE's interpreter, the default target, does not take weights that are stored in blocks."""
    model = circlekit.parse("""graph main(%x: f32[1,32]) -> %y {
      %w = const f32[32,32] gaussian(0, 1)
      %y = FullyConnected(%x, %w)
    }""")
    name = "shuffle_weight_to_16x1float32"
    assert name in circlekit.explain_op(model, "%y", "circle")[0].passes
    (named,) = circlekit.explain_op(model, "%y", "circle", target="luci")
    assert name not in named.passes
    assert any(refusal.pass_name == name for refusal in named.refusals)


def test_unknown_operator_has_near_names() -> None:
    with pytest.raises(ModelError, match="no operator or result Minimun; did you mean MINIMUM"):
        circlekit.explain_op(circlekit.parse(THREE), "Minimun")
