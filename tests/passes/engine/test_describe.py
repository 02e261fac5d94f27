# SPDX-License-Identifier: Apache-2.0
"""The reference page of passes."""

from __future__ import annotations

import re

import pytest

from circlekit.passes.engine.describe import (
    page,
    pipeline_of,
    rules_of,
    section,
    table,
)
from circlekit.passes.engine.registry import all_passes
from circlekit.passes.pipelines import PIPELINES


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
        "Conditions: The slice takes all elements of ``x``.",
    ]


def test_condition_without_docstring_is_shown_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    item = all_passes()["remove_unnecessary_slice"]
    monkeypatch.setattr(vars(item)["takes_everything"], "__doc__", None)
    assert list(section(item))[-1] == "Conditions: takes everything."


def test_rules_that_differ_only_in_before_are_one_block() -> None:
    for item in all_passes().values():
        text, rules = "\n".join(section(item)), rules_of(item)
        alike = {
            (rule.__doc__, rule.approximate, rule.after, *rule.definition().conditions) for rule in rules
        }
        assert len(alike) >= text.count("\nbefore\n") == text.count("\nafter\n")
        assert text.count("\nbefore\n") + text.count("\nor\n") == len(rules), item.name
    assert "or" in list(section(all_passes()["fuse_rmsnorm"]))


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
    assert table(passes).startswith(f"in O1, phase 1: {PIPELINES['O1'][0].name}\n")
    assert (pipeline_of("remove_dead"), pipeline_of("remove_fakequant")) == ("O1", "")


def test_rules_of_passes() -> None:
    passes = all_passes()
    assert [rule.__name__ for rule in rules_of(passes["remove_unnecessary_reshape"])] == ["SameShapeReshape"]
    assert rules_of(passes["fuse_hardswish"])
    assert rules_of(passes["remove_fakequant"]) == [passes["remove_fakequant"]]
    assert rules_of(passes["remove_dead"]) == []
