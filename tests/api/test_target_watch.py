# SPDX-License-Identifier: Apache-2.0
"""A verified optimization fails if it replaces what a target runs by what the target does not run."""

from __future__ import annotations

import pytest

import circlekit
from circlekit.api.target_watch import TargetWatch
from circlekit.errors import EquivalenceError
from circlekit.ir.graph import Model
from circlekit.passes.engine.model_summary import summarize
from circlekit.passes.engine.optimization_report import Report
from circlekit.targets.target_choice import TargetChoice
from tests.targets.toy import toy

BEFORE = "graph main(%x: f32[1,4]) -> %y {\n  %y = Add(%x, [0.0])\n}"
AFTER = "graph main(%x: f32[1,4]) -> %y {\n  %a = Neg(%x)\n  %b = Abs(%a)\n  %y = Sub(%b, [0.0])\n}"


def conclude(
    choice: TargetChoice, before: Model, after: Model, *, special: bool = False, verified: bool = True
) -> Report:
    """Return the report of an optimization of ``before`` to ``after``.

    ``special``: a pass makes, on purpose, operators that only some runtimes have.
    ``verified``: the outputs were verified.
    """
    report = Report(summarize(before), summarize(after), [])
    report.verified = verified
    TargetWatch(before, choice, "circle", special).conclude(report, after)
    return report


def test_the_first_operator_that_is_lost_is_named() -> None:
    before, after = circlekit.parse(BEFORE), circlekit.parse(AFTER)
    for target, message in (
        (toy("ADD", "NEG"), "%b: Toy has no ABS"),
        (toy("ADD", "ABS"), "%a: Toy has no NEG"),
    ):
        with pytest.raises(EquivalenceError, match=f"^Toy ran the original, but does not run {message}"):
            conclude(target, before, after)


def test_the_error_does_not_say_that_the_target_ran_an_original_that_it_did_not_run() -> None:
    """The target has neither the ADD before nor the SUB in its place; the NEG and the ABS are new."""
    before, after = circlekit.parse(BEFORE), circlekit.parse(AFTER)
    with pytest.raises(EquivalenceError, match=r"^a pass made %a, which Toy does not run: Toy has no NEG"):
        conclude(toy(), before, after)


@pytest.mark.parametrize("special", [False, True])
def test_no_error_if_all_runs_or_nothing_changes_or_nothing_was_verified(special: bool) -> None:
    before, after = circlekit.parse(BEFORE), circlekit.parse(AFTER)
    conclude(toy("ADD", "NEG", "ABS", "SUB"), before, after, special=special)
    conclude(toy(), before, before, special=special)
    conclude(toy("ADD"), before, after, special=special, verified=False)


def test_a_target_that_the_user_named_must_lose_nothing_even_with_special_forms() -> None:
    before, after = circlekit.parse(BEFORE), circlekit.parse(AFTER)
    with pytest.raises(EquivalenceError, match="does not run %a: Toy has no NEG"):
        conclude(toy("ADD"), before, after, special=True)


LOST = (
    'graph main(%x: f32[1,4]) -> %y {\n  %y = Opaque(%x) {code: "CUSTOM", custom_code: "Mine"} : f32[1,4]\n}'
)


def test_the_default_target_may_lack_the_special_forms_that_a_pass_makes() -> None:
    before, after = circlekit.parse(BEFORE), circlekit.parse(LOST)
    with pytest.raises(EquivalenceError, match="does not run %y"):
        conclude(None, before, after)
    report = conclude(None, before, after, special=True)
    assert len(report.targets) == 1
    (note,) = report.notes
    assert note.endswith("but not this model, because of Mine; --target onert prevents this")
    assert conclude(None, after, after).notes == []
    assert conclude("luci", before, after, verified=False).notes == []  # other runtimes count by default only


def test_what_a_delegate_takes_is_reported_before_and_after() -> None:
    before, after = circlekit.parse(BEFORE), circlekit.parse(AFTER)
    (check,) = conclude("litert-xnnpack", before, after).targets
    assert check.delegations is not None
    assert [found.partitions for found in check.delegations] == [1, 1]
    assert [found.delegated for found in check.delegations] == [1, 3]
    (check,) = conclude(toy("ADD", "NEG", "ABS", "SUB"), before, after).targets
    assert check.delegations is None
