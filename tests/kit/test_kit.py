# SPDX-License-Identifier: Apache-2.0
"""A fixed sample of the differential kit, and the kit itself: it finds what is wrong, and survives it."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import numpy as np
import pytest

from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Array
from tools.kit import pool
from tools.kit.families import codes, draw_case
from tools.kit.kinds import Case
from tools.kit.oracle import Outcome, Verdict, compare, difference, judge
from tools.kit.pool import Job, run_all, run_here
from tools.kit.table import document, rows_of

SEED, CASES = 20260, 3
"""The sample: so many cases of each operator."""


def test_sample() -> None:
    """No case gives other results than LiteRT, and LiteRT runs most of them."""
    jobs = [Job(code, SEED, number) for code in codes() for number in range(CASES)]
    outcomes = list(run_all(jobs, processes=1))
    wrong = [d for d in outcomes if d.outcome.verdict in (Verdict.FAILED, Verdict.NOT_OURS)]
    assert not wrong, "\n".join(f"{d.job} {d.label}: {d.outcome.reason}" for d in wrong)
    assert sum(d.outcome.verdict is Verdict.PASSED for d in outcomes) > len(jobs) / 2


def test_same_seed_same_case() -> None:
    first, second = (draw_case("CONV_2D", 1, 2) for _ in range(2))
    for a, b in zip(first.steps[0], second.steps[0], strict=True):
        np.testing.assert_array_equal(a, b)
    other = draw_case("CONV_2D", 2, 2)
    assert [a.tolist() for a in other.steps[0]] != [a.tolist() for a in first.steps[0]]


def test_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY["ABS"], "compute", lambda op, x: x)
    verdicts = {run_here(Job("ABS", 0, n)).outcome.verdict for n in range(30)}
    assert Verdict.FAILED in verdicts


def test_a_shape_rule_that_refuses_what_litert_runs_is_found() -> None:
    case = next(c for n in range(40) if (c := draw_case("ABS", 0, n)).label == "f32")
    assert judge(case).verdict is Verdict.PASSED
    refusing = replace(case, refused="no")
    assert judge(refusing) == Outcome(Verdict.NOT_OURS, "no")


def test_a_lost_process_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(case: Case, phase: object) -> Outcome:
        os.abort()

    monkeypatch.setattr(pool, "judge", fall)
    done = list(run_all([Job("ABS", 0, 0), Job("ABS", 0, 1)], processes=1))
    assert [d.outcome.verdict for d in done] == [Verdict.FAILED] * 2
    assert "ends the process" in done[0].outcome.reason


@pytest.mark.parametrize(
    ("got", "wanted", "sentence"),
    [
        (np.zeros(2, "i4"), np.zeros(2, "i8"), "dtype int32 instead of int64"),
        (np.zeros((1, 2)), np.zeros(2), r"shape \[1, 2\] instead of \[2\]"),
        (np.array([1, 2]), np.array([1, 3]), "1 of 2 elements differ, the first is 2 instead of 3"),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "nan instead of 2.0"),
        (np.array([1.0, 2.0]), np.array([1.0, np.inf]), "2.0 instead of inf"),
        (np.array([100.0, 0.0]), np.array([100.0, 0.01]), "differs by 1.0e-04 of the largest magnitude"),
    ],
)
def test_differences_are_sentences(got: Array, wanted: Array, sentence: str) -> None:
    found = difference(got, wanted)
    assert found is not None
    assert re.match(sentence, found)


def test_what_is_within_tolerance_passes() -> None:
    wanted = np.array([100.0, np.nan, -np.inf, 0.0], np.float32)
    got = wanted + np.array([0, 0, 0, 9e-4], np.float32)
    assert compare([[got]], [[wanted]]).verdict is Verdict.PASSED
    assert compare([[got], [got]], [[wanted], [got + 1]]).reason.startswith("run 1: ")


def test_document_shows_figures_and_reasons() -> None:
    rows = rows_of(run_here(Job("ABS", 0, n)) for n in range(20))
    text = document(rows, 20, 0)
    assert "--cases 20 --seed 0" in text
    passed = next(line for line in text.splitlines() if line.startswith("| ABS | f32 |"))
    assert passed.split("|")[3] == passed.split("|")[4]
