# SPDX-License-Identifier: Apache-2.0
"""A fixed sample of the differential kit, and the kit itself: it finds what is wrong, and survives it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Array
from circlekit.ir.verifier_rules import op_faults
from tools.kit import pool
from tools.kit.families import FAMILIES, draw_case
from tools.kit.kinds import Case
from tools.kit.oracle import Outcome, Verdict, compare, difference, judge
from tools.kit.pool import Job, run_all, run_here
from tools.kit.table import document, rows_of

SEED, CASES = 20260, 12
"""The sample: so many cases of each operator.  Cases that fail it must be mended or named below."""

KNOWN: dict[str, str] = {}
"""Operators whose sample does not pass, with the reason."""

DOCUMENT = Path(__file__).parents[2] / "docs" / "measured" / "operators.md"


@pytest.mark.parametrize("code", sorted(code for code in FAMILIES if code in REGISTRY))
def test_sample(code: str) -> None:
    outcomes = list(run_all([Job(code, SEED, n) for n in range(CASES)], processes=1))
    wrong = [d for d in outcomes if d.outcome.verdict in (Verdict.FAILED, Verdict.NOT_OURS)]
    if code in KNOWN and wrong:
        pytest.xfail(KNOWN[code])
    assert not wrong, "\n".join(f"{d.job} {d.label}: {d.outcome.reason}" for d in wrong)


@pytest.mark.parametrize("code", sorted(code for code in FAMILIES if code in REGISTRY))
def test_declarations_allow_what_is_drawn(code: str) -> None:
    """LiteRT takes these dtypes, so a file that has them must load."""
    for number in range(3 * CASES):
        graphs = draw_case(code, SEED, number).graphs
        for op in (op for graph in graphs for op in graph):
            assert not [fault for fault in op_faults(op, {id(g) for g in graphs}) if "wanted" in fault]


BOXES = (
    "PAD", "PADV2", "MIRROR_PAD", "SLICE", "STRIDED_SLICE", "BROADCAST_TO", "DYNAMIC_UPDATE_SLICE", "MEAN",
    "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL", "SPARSE_TO_DENSE", "PRELU",
    "UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN",
)  # fmt: skip
"""Operators along axes that LiteRT runs on a tensor without axes, too."""


@pytest.mark.parametrize("code", BOXES)
def test_scalars_are_drawn(code: str) -> None:
    cases = [draw_case(code, SEED, n) for n in range(60)]
    arrays = [a for case in cases for step in case.steps for a in step]
    arrays += [v.data for case in cases for g in case.graphs for v in g.values() if v.data is not None]
    assert all(isinstance(array, np.ndarray) for array in arrays)
    graphs = [case.graphs[0] for case in cases]
    assert any(v.shape == () and not v.is_const for g in graphs for v in g.ops[0].inputs if v is not None)


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
