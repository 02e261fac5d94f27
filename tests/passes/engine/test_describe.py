# SPDX-License-Identifier: Apache-2.0
"""The reference page of passes, and the explanation why a pass did not rewrite a model."""

from __future__ import annotations

import re

import pytest

from circlekit.errors import RewriteError
from circlekit.ir.text import parse_model
from circlekit.passes.engine.describe import (
    MAX_PARTIAL_MATCHES,
    explain_pass,
    page,
    pipelines_of,
    rules_of,
    section,
    table,
)
from circlekit.passes.engine.registry import all_passes

PASS = "transform_min_relu_to_relu6"


def explained(body: str, name: str = PASS, outputs: str = "%y") -> list[tuple[str, bool]]:
    """Return the sentence of each refusal, and whether only a part of the picture is in the graph."""
    model = parse_model(f"graph main(%x: f32[2,3]) -> {outputs} {{\n{body}\n}}")
    return [(refusal.sentence, refusal.is_partial) for refusal in explain_pass(model, name, "circle")]


@pytest.mark.parametrize(
    ("body", "refusals"),
    [
        ("%m = Minimum(%x, 5.0)\n%y = Relu(%m)", [("%m/rhs: expected the constant 6.0", False)]),
        ("%m = Minimum(%x, 6.0)\n%y = Relu(%m)", []),
        ("%m = Minimum(%x, 6.0)\n%y = Tanh(%m)", [("%m: is read by Tanh %y, expected Relu", True)]),
        ("%y = Tanh(%x)", [("%y: no operator of its model is Relu or Minimum", True)]),
        ("%u = Relu(%x)\n%y = Tanh(%u)", [("%x: comes from an input, expected Minimum", True)]),
    ],
)
def test_closest_refusals(body: str, refusals: list[tuple[str, bool]]) -> None:
    assert explained(body) == refusals


def test_missing_operator_is_reported_at_the_first_computed_output() -> None:
    assert explained("%z = Tanh(%x)", outputs="%x, %z") == [
        ("%z: no operator of its model is Relu or Minimum", True)
    ]
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
    model = parse_model("graph main(%x: f32[2,3]) -> %y { %a = Neg(%x) %y = Tanh(%a) }")
    with pytest.raises(RewriteError, match="no operator has the kind, code or result name EXP"):
        explain_pass(model, "remove_nodes_of", "circle", {"remove_nodes_of": ["EXP"]})


def test_one_refusal_for_each_operator() -> None:
    """The one with the highest progress, of all rules of the pass; in the order of the operators."""
    body = "%a = Transpose(%x, [1, 0])\n%d = Reshape(%a, [6])\n%y = Neg(%d)"
    sentences = [sentence for sentence, _ in explained(body, "remove_unnecessary_transpose")]
    assert sentences == [
        "%a: expected a perm that moves no axis, got [1, 0]",
        "%d: does not keep the order of the elements",
    ]


def test_number_of_partial_matches_is_limited() -> None:
    body = "\n".join(f"%r{i} = Relu(%x)" for i in range(MAX_PARTIAL_MATCHES + 1))
    outputs = ", ".join(f"%r{i}" for i in range(MAX_PARTIAL_MATCHES + 1))
    assert len(explained(body, outputs=outputs)) == MAX_PARTIAL_MATCHES


def test_section_of_a_pass() -> None:
    lines = list(section(all_passes()["remove_unnecessary_slice"]))
    assert lines == [
        "## remove_unnecessary_slice",
        "",
        "slice(x, 0, all)  ==  x.",
        "",
        "- in O1",
        "",
        "```",
        "before",
        "    y = Slice(x, begin: const, size: const)",
        "after",
        "    x",
        "```",
        "",
        "Conditions: takes everything.",
    ]


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("fuse_rope", ["- in O1", "- for circle only"]),
        ("remove_fakequant", ["- in no pipeline: The result has other values on purpose."]),
        ("remove_dropout", ["- changes values on purpose; verification starts again after it"]),
        ("nchw_to_nhwc_input_shape", ["- changes the interface on purpose"]),
        (
            "optimize_layout",
            ["- pipelines leave it out if one of these is asked for: convert_nchw_to_nhwc"],
        ),
        (
            "remove_nodes_of",
            [
                "- `--remove_nodes_of NAME,NAME`: remove the operators of these kinds (FAKE_QUANT), "
                "custom codes (FlexAssert) or results"
            ],
        ),
    ],
)
def test_facts_about_a_pass(name: str, facts: list[str]) -> None:
    lines = "\n".join(section(all_passes()[name])).replace("\n  ", " ").splitlines()
    assert [fact for fact in facts if fact not in lines] == []


def test_page_and_table_list_all_passes() -> None:
    passes = all_passes()
    text = page(passes)
    assert text.count("\n## ") == len(passes)
    assert "| [remove_fakequant](#remove_fakequant) |  | fake_quant(x)  becomes  x" in text
    assert "| [remove_dead](#remove_dead) | O1 |" in text
    assert "Approximate: applied only if the pass is asked for by name." in text
    listed = [name for line in table(passes).splitlines() for name in re.findall(r"^  (\w+)  ", line)]
    assert sorted(listed) == sorted(passes)
    assert (pipelines_of("remove_dead"), pipelines_of("remove_fakequant")) == ("O1", "")


def test_rules_of_passes() -> None:
    passes = all_passes()
    assert [rule.__name__ for rule in rules_of(passes["remove_unnecessary_reshape"])] == ["SameShapeReshape"]
    assert rules_of(passes["fuse_hardswish"])
    assert rules_of(passes["remove_fakequant"]) == [passes["remove_fakequant"]]
    assert rules_of(passes["remove_dead"]) == []
