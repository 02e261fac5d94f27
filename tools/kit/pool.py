# SPDX-License-Identifier: Apache-2.0
"""Run cases in worker processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from circlekit.equivalence.workers import Loss, Tell, Workers, silence_stderr
from circlekit.testing.model_builder import Rejected
from tools.kit.families import draw_case
from tools.kit.oracle import Outcome, Verdict, judge

CASE_SECONDS = 30.0


class Job(NamedTuple):
    code: str
    seed: int
    number: int


class Done(NamedTuple):
    job: Job
    label: str
    outcome: Outcome


def run_here(job: Job, tell: Tell = lambda news: None) -> Done:
    """Run one case in this process; ``tell`` is called with its label and its phases."""
    try:
        case = draw_case(*job)
    except Rejected:
        return Done(job, "?", Outcome(Verdict.NOT_MADE))
    tell(case.label)
    return Done(job, case.label, judge(case, tell))


def run_all(jobs: Sequence[Job], processes: int = 2) -> Iterator[Done]:
    """Yield the outcome of every job, in any order."""
    return Workers(_run, _lost, silence_stderr, CASE_SECONDS).results(jobs, processes)


def _run(job: Job, tell: Tell) -> Done:
    told: list[str] = []

    def note(news: str) -> None:
        told.append(news)
        tell(news)

    try:
        return run_here(job, note)
    except Exception as error:  # any exception is a failure of the case
        reason = f"{type(error).__name__}: {error}"[:300]
        return Done(job, told[0] if told else "?", Outcome(Verdict.FAILED, reason))


def _lost(loss: Loss[Job]) -> Done:
    label = loss.news[0] if loss.news else "?"
    phase = loss.news[-1] if loss.news[1:] else "drawing"
    verdict = Verdict.NOT_LITERT if phase == "LiteRT" else Verdict.FAILED
    return Done(loss.job, label, Outcome(verdict, f"{phase} {loss}", runs=False))
