# SPDX-License-Identifier: Apache-2.0
"""Reports: the table, the sentences, and how a notebook shows them."""

from __future__ import annotations

from collections import Counter

import pytest

from circlekit.passes.engine.model_summary import Summary
from circlekit.passes.engine.optimization_report import (
    MAX_VERDICTS,
    OutputDifference,
    PassRecord,
    Report,
    TargetCheck,
)
from circlekit.targets.delegation import Delegation
from circlekit.targets.unsupported import INPUT, Finding

BEFORE = Summary({"ADD": 1, "MUL": 2}, parameters=1234, macs=5, file_size=2048, arena_bytes=200)
AFTER = Summary({"MUL": 1}, parameters=0, macs=5, file_size=1024, arena_bytes=100)


def test_report_prints_a_table() -> None:
    assert Report(BEFORE, AFTER).table().splitlines() == [
        "                   before  after",
        "ADD                     1      0",
        "MUL                     2      1",
        "operators               3      1",
        "file size, bytes    2,048  1,024",
        "parameters          1,234      0",
        "MACs                    5      5",
        "peak arena, bytes     200    100",
    ]


def test_report_prints_what_happened() -> None:
    assert str(Report(BEFORE, AFTER)).splitlines()[-2:] == ["", "no changes"]
    report = Report(BEFORE, AFTER, [PassRecord("a", 2)], notes=["it is a test"])
    assert str(report).splitlines()[-3:] == ["", "a: 2", "it is a test"]


def test_a_model_without_a_file_has_no_file_size() -> None:
    report = Report(Summary({}, 0, 0), Summary({}, 0, 0, file_size=9))
    assert ("file size, bytes", "", "9") in report.rows()[1]
    assert "file size" not in str(Report(Summary({}, 0, 0), Summary({}, 0, 0)))


def test_report_lists_only_passes_with_changes() -> None:
    report = Report(BEFORE, AFTER, [PassRecord("a", 2, 3), PassRecord("b", 0, 1), PassRecord("c", 1, 1)])
    assert report.changes == {"a": 2, "c": 1}
    assert repr(report) == "<Report: 3 -> 1 operators: a x2, c x1>"
    report.verified = True
    assert repr(report) == "<Report: 3 -> 1 operators, verified: a x2, c x1>"
    assert repr(Report(BEFORE, BEFORE)) == "<Report: 3 -> 3 operators: no changes>"


def test_html_of_the_report_has_the_table_passes_and_notes() -> None:
    report = Report(BEFORE, AFTER, [PassRecord("fuse_it", 2, 3)], notes=["%x is <odd>"])
    found = report._repr_html_()
    assert "<tr><td>ADD</td><td>1</td><td>0</td></tr>" in found
    assert found.endswith("<ul><li>fuse_it: 2</li><li>%x is &lt;odd&gt;</li></ul>")
    report.growth = "grew by 9 bytes"
    report.verified, report.differences = True, [OutputDifference("<y>", "zero", 0.5, 1.0)]
    items = "<li>verified: equal within 0.5, allowed 1</li><li>grew by 9 bytes</li><li>%x is"
    assert items in report._repr_html_()


def test_operators_that_one_model_lacks_count_0_there() -> None:
    assert Report(Summary({"ADD": 1}, 0, 0), Summary({"MUL": 1}, 0, 0)).rows()[0] == [
        ("ADD", "1", "0"),
        ("MUL", "0", "1"),
    ]


@pytest.mark.parametrize(
    ("differences", "sentences"),
    [
        ([], ["verified: no pass changed anything"]),
        ([("y", 1.25e-7, 1e-5)], ["verified: equal within 1.2e-07, allowed 1e-05"]),
        ([("y", 0, 1e-5)], ["verified: exactly equal"]),
        ([("y", 0, 0), ("z", 0, 0)], ["verified: exactly equal"]),
        (
            [("y", 0, 0), ("z", 1e-6, 1e-5)],
            ["verified: %y exactly equal", "verified: %z equal within 1e-06, allowed 1e-05"],
        ),
    ],
)
def test_the_verdict_states_the_difference_and_the_tolerance(
    differences: list[tuple[str, float, float]], sentences: list[str]
) -> None:
    report = Report(BEFORE, AFTER, verified=True)
    report.differences = [OutputDifference(name, "normal", a, b) for name, a, b in differences]
    assert report.verdicts() == sentences
    report.verified = False
    assert report.verdicts() == []


def test_the_verdict_on_outputs_without_elements_says_so() -> None:
    report = Report(BEFORE, AFTER, [PassRecord("a", 1)], verified=True)
    assert report.verdicts() == ["verified: no output has elements"]


def test_of_many_outputs_the_first_of_the_worst_is_named() -> None:
    report = Report(BEFORE, AFTER, verified=True)
    report.differences = [
        OutputDifference(f"y{i}", "zero", 18e-6 if i in (2, 38) else 1e-6, 1e-4) for i in range(40)
    ]
    sentence = "verified: 40 outputs; nearest to its tolerance is %y2: equal within 1.8e-05, allowed 0.0001"
    assert report.verdicts() == [sentence]


def test_the_worst_output_is_the_one_nearest_to_its_tolerance() -> None:
    """%b has 0.9 of its tolerance, %a 0.01.  The other outputs are equal, with a tolerance of 0."""
    report = Report(BEFORE, AFTER, verified=True)
    report.differences = [OutputDifference(f"y{i}", "zero", 0.0, 0.0) for i in range(MAX_VERDICTS - 1)]
    report.differences += [
        OutputDifference("a", "zero", 1e-3, 1e-1),
        OutputDifference("b", "zero", 9e-6, 1e-5),
    ]
    worst = "nearest to its tolerance is %b: equal within 9e-06, allowed 1e-05"
    assert report.verdicts() == [f"verified: {MAX_VERDICTS + 1} outputs; {worst}"]
    del report.differences[0]
    assert len(report.verdicts()) == MAX_VERDICTS


def test_a_check_has_a_delegation_if_the_target_has_a_delegate() -> None:
    assert TargetCheck("toy", "Toy", [], []).document()["delegated"] is None
    both = Delegation(2, 7, Counter(SIGN=3)), Delegation(1, 5)
    assert TargetCheck("toy", "Toy", [], [], both).document()["delegated"] == {
        "before": both[0].document(),
        "after": both[1].document(),
    }


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([], [], ""),
        (["ADD"], [], "0 operators that Toy cannot run (1 before)"),
        (["ADD", "MUL"], ["MUL"], "1 operator that Toy cannot run (2 before): 1 MUL"),
        ([], ["SUB", "ADD", "SUB"], "3 operators that Toy cannot run (0 before): 1 ADD, 2 SUB"),
    ],
)
def test_operators_that_a_target_cannot_run_are_counted(
    before: list[str], after: list[str], words: str
) -> None:
    old, new = ([Finding("toy", "main", 0, code, "y", "no") for code in codes] for codes in (before, after))
    assert str(TargetCheck("toy", "Toy", old, new)) == words


def test_inputs_and_outputs_that_a_target_cannot_take_are_counted_apart() -> None:
    operator = Finding("toy", "main", 0, "ADD", "y", "no")
    output = Finding("toy", "main", 0, "ADD", "z", "no", is_output=True)
    unread = Finding("toy", "main", 0, INPUT, "x", "no")
    for old, new, words in (
        ([output, unread], [], "0 inputs or outputs that Toy cannot take (2 before)"),
        ([], [unread], "1 input or output that Toy cannot take (0 before): %x"),
        (
            [output, operator],
            [unread, operator, output],
            "1 operator that Toy cannot run (1 before): 1 ADD; "
            "2 inputs or outputs that Toy cannot take (1 before): %x, %z",
        ),
    ):
        assert str(TargetCheck("toy", "Toy", old, new)) == words
