# SPDX-License-Identifier: Apache-2.0
"""A fixed sample of the differential kit, and that the kit finds faults and survives crashes."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from circlekit.ir.op import REGISTRY
from tools.kit import pool
from tools.kit.families import codes, draw_case
from tools.kit.kinds import Case
from tools.kit.oracle import Outcome, Verdict, compare, judge
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
    for a, b in zip(first.inputs, second.inputs, strict=True):
        np.testing.assert_array_equal(a, b)
    other = draw_case("CONV_2D", 2, 2)
    assert [a.tolist() for a in other.inputs] != [a.tolist() for a in first.inputs]


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


def test_results_are_compared() -> None:
    wanted = np.array([100.0, np.nan, -np.inf, 0.0], np.float32)
    near = wanted + np.array([0, 0, 0, 9e-4], np.float32)
    far = wanted + np.array([0, 0, 0, 2e-3], np.float32)
    assert compare([near], [wanted]).verdict is Verdict.PASSED
    assert compare([far], [wanted]).verdict is Verdict.FAILED
    assert compare([far], [wanted], magnitude=400.0).verdict is Verdict.PASSED
    assert compare([wanted, near], [wanted, near + 1]).reason.startswith("%output1")
    assert compare([np.array([1, 2])], [np.array([1, 3])]).verdict is Verdict.FAILED
    assert compare([far.astype(np.float16)], [wanted.astype(np.float16)]).verdict is Verdict.PASSED


def test_document_shows_figures_and_reasons() -> None:
    rows = rows_of(run_here(Job("ABS", 0, n)) for n in range(20))
    text = document(rows, 20, 0)
    assert "--cases 20 --seed 0" in text
    passed = next(line for line in text.splitlines() if line.startswith("| ABS | f32 |"))
    assert passed.split("|")[3] == passed.split("|")[4]
