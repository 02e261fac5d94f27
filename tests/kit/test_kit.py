# SPDX-License-Identifier: Apache-2.0
"""``tools.kit``, which compares kernels with LiteRT: a fixed sample of cases, and that it finds faults."""

from __future__ import annotations

import os

import numpy as np
import pytest

from circlekit.equivalence.workers import Tell
from circlekit.errors import UnsupportedError
from circlekit.ir.op import REGISTRY
from circlekit.targets.operator_form import form_of
from circlekit.targets.target import find_target
from tools.kit import case
from tools.kit.__main__ import show
from tools.kit.case import Done, Job, Verdict, codes, compare, draw_case, run_all, run_here
from tools.kit.table import document, rows_of
from tools.samples.typed_operator import Sample
from tools.samples.types import types_of

SEED, CASES = 20260, 2
"""The seed of the sample, and its number of cases of each operator."""


def test_a_sample_has_the_results_of_litert() -> None:
    """No case gives other results than LiteRT, and LiteRT runs most of them."""
    jobs = [Job(code, SEED, number) for code in codes() for number in range(CASES)]
    outcomes = list(run_all(jobs, processes=1))
    wrong = [d for d in outcomes if d.verdict in (Verdict.FAILED, Verdict.NOT_OURS)]
    assert not wrong, "\n".join(f"{d.job} {d.label}: {d.reason}" for d in wrong)
    assert sum(d.verdict is Verdict.PASSED for d in outcomes) > 0.9 * len(jobs)


def test_cases_have_forms_of_the_table() -> None:
    forms = find_target("litert").operators["CONV_2D"]["forms"]
    drawn = {form_of(draw_case(Job("CONV_2D", 0, n)).op) for n in range(60)}
    assert drawn <= set(forms)
    assert drawn >= {
        "f32,f32,f32:f32",
        "i8q,i8qc,i32:i8q",
        "f32,i8qc,f32:f32",
        "i16q,i8qc,i64:i16q",
    }
    assert all(types_of(REGISTRY["CONV_2D"], form) for form in forms)


def test_same_seed_same_case() -> None:
    first, second = (draw_case(Job("CONV_2D", 1, 2)) for _ in range(2))
    for a, b in zip(first.inputs, second.inputs, strict=True):
        np.testing.assert_array_equal(a, b)
    other = draw_case(Job("CONV_2D", 2, 2))
    assert [a.tolist() for a in other.inputs] != [a.tolist() for a in first.inputs]


def test_show_prints_the_verdict_even_if_no_case_was_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(Job("ABS", 0, 0)) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(Verdict.PASSED.value)
    monkeypatch.setattr(case, "ATTEMPTS", 0)
    assert show(Job("ABS", 0, 0)) == 0
    assert capsys.readouterr().out.strip() == Verdict.NOT_MADE.value


def test_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY["ABS"], "compute", lambda op, x: x)
    assert Verdict.FAILED in {run_here(Job("ABS", 0, n)).verdict for n in range(30)}


def test_a_refusal_of_what_litert_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(op: object, x: object) -> None:
        raise UnsupportedError("no")

    draw_case(Job("ABS", 0, 0))  # runs the kernel to choose operands; the choice stays in a cache
    monkeypatch.setattr(REGISTRY["ABS"], "compute", refuse)
    done = run_here(Job("ABS", 0, 0))
    assert (done.verdict, done.reason) == (Verdict.NOT_OURS, "no")


def test_a_lost_process_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(sample: Sample, tell: Tell) -> None:
        os.abort()

    monkeypatch.setattr(case, "judge", crash)
    done = list(run_all([Job("ABS", 0, 0), Job("ABS", 0, 1)], processes=1))
    assert [d.verdict for d in done] == [Verdict.FAILED] * 2
    assert "ends the process" in done[0].reason


def test_results_are_compared() -> None:
    """The tolerance is 1e-5 of the largest magnitude, 100: 1e-3.  With a magnitude of 400 it is 4e-3."""
    wanted = np.array([100.0, np.nan, -np.inf, 0.0], np.float32)
    near = wanted + np.array([0, 0, 0, 9e-4], np.float32)
    far = wanted + np.array([0, 0, 0, 2e-3], np.float32)
    assert compare([near], [wanted])[0] is Verdict.PASSED
    assert compare([far], [wanted])[0] is Verdict.FAILED
    assert compare([far], [wanted], magnitude=400.0)[0] is Verdict.PASSED
    assert compare([wanted, near], [wanted, near + 1])[1].startswith("%output1")
    assert compare([np.array([1, 2])], [np.array([1, 3])])[0] is Verdict.FAILED
    # float16 has fewer bits, and a larger tolerance
    assert compare([far.astype(np.float16)], [wanted.astype(np.float16)])[0] is Verdict.PASSED


def test_document_shows_figures_and_the_first_reason() -> None:
    """Cases that LiteRT does not run are not counted; a row of such cases only is left out."""
    ends = [
        ("i8q", Verdict.PASSED, ""),
        ("i8q", Verdict.FAILED, "the second"),
        ("i8q", Verdict.FAILED, "the third"),
        ("i8q", Verdict.NOT_LITERT, "the fourth"),
        ("f16", Verdict.NOT_LITERT, "the fifth"),
    ]
    outcomes = [Done(Job("ABS", 0, number), *end) for number, end in enumerate(ends, 1)]
    text = document(rows_of(reversed(outcomes)), 20, 7)
    assert "--cases 20 --seed 7" in text
    (line,) = (line for line in text.splitlines() if line.startswith("| ABS"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["ABS", "i8q", "3", "1", "2 failed: the second (case 2)"]
