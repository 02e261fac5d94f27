# SPDX-License-Identifier: Apache-2.0
"""Jobs in worker processes: every job has a result, also one that crashes its process or never ends."""

from __future__ import annotations

import os
import time

import pytest

from circlekit.equivalence import workers
from circlekit.equivalence.workers import Loss, Tell, Workers, silence_stderr


def square(job: int, tell: Tell) -> str:
    """Return the job and its square as text; job 3 ends its process, and job 5 does not end in time."""
    tell("begun")
    if job == 3:
        os._exit(7)
    if job == 5:
        tell("asleep")
        time.sleep(60)
    return f"{job} {job * job}"


def lost(loss: Loss[int]) -> str:
    return f"{loss.job} {'-'.join(loss.news)} {loss}"


@pytest.mark.parametrize("ahead", [1, 4])
@pytest.mark.parametrize("processes", [1, 3])
def test_every_job_has_one_result(processes: int, ahead: int) -> None:
    """Jobs that wait in a process when another job crashes it have results, too."""
    crew = Workers(square, lost, seconds=1.0, ahead=ahead)
    wanted = {f"{n} {n * n}" for n in range(12)} - {"3 9", "5 25"}
    wanted |= {"3 begun ends the process (exit code 7)", "5 begun-asleep exceeds the time limit"}
    assert sorted(crew.results(range(12), processes)) == sorted(wanted)


def test_reports_do_not_extend_the_time_limit() -> None:
    """Job 0 reports for much longer than the limit; the time limit also ends this job."""

    def report(job: int, tell: Tell) -> str:
        for _ in range(400 if job == 0 else 1):
            tell("reported")
            time.sleep(0.02)
        return f"{job} done"

    results = Workers(report, lambda loss: f"{loss.job} {loss}", seconds=0.5).results(range(2), 1)
    assert sorted(results) == ["0 exceeds the time limit", "1 done"]


def test_a_slow_caller_does_not_use_up_the_time_of_jobs() -> None:
    """Job 1 ends in time while the caller still uses the result of job 0."""

    def work(job: int, tell: Tell) -> str:
        time.sleep(0.3 * job)
        tell("reported")
        return f"{job} done"

    results = []
    for result in Workers(work, lambda loss: f"{loss.job} {loss}", seconds=1.0).results(range(2), 2):
        results.append(result)
        time.sleep(1.2)
    assert results == ["0 done", "1 done"]


@pytest.mark.parametrize(
    ("code", "end"),
    [(0, "exit code 0"), (1, "exit code 1"), (-1, "SIGHUP"), (-9, "SIGKILL"), (-40, "signal 40")],
)
def test_how_a_process_ended(code: int, end: str) -> None:
    assert str(Loss(1, (), code)) == f"ends the process ({end})"


def test_no_jobs_have_no_results() -> None:
    assert list(Workers(square, lost).results([], 2)) == []


@pytest.mark.parametrize("ahead", [1, 4])
def test_a_process_is_started_only_for_a_job(ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[workers._Worker[int, str]] = []

    class Counted(workers._Worker[int, str]):
        def __init__(self, settings: Workers[int, str]) -> None:
            started.append(self)
            super().__init__(settings)

    monkeypatch.setattr(workers, "_Worker", Counted)
    assert len(list(Workers(square, lost, ahead=ahead).results(range(3), 50))) == len(started) == 3


def test_jobs_may_be_an_endless_iterator() -> None:
    """Jobs are taken on demand, and the processes end with the iteration."""

    def tell_pid(job: int, tell: Tell) -> int:
        return os.getpid()

    results = Workers(tell_pid, lambda loss: 0).results(iter(int, 1), 2)
    pids = {next(results) for _ in range(20)}
    results.close()  # type: ignore[attr-defined]  # of a generator
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_each_process_is_prepared() -> None:
    def prepare() -> None:
        os.environ["PREPARED"] = "yes"

    def work(job: int, tell: Tell) -> str:
        return os.environ["PREPARED"]

    crew = Workers(work, lost, prepare)
    assert list(crew.results(range(2), 1)) == ["yes", "yes"]
    assert "PREPARED" not in os.environ


def test_standard_error_can_be_silenced(capfd: pytest.CaptureFixture[str]) -> None:
    def work(job: int, tell: Tell) -> int:
        os.write(2, b"noise")
        return job

    assert list(Workers(work, lambda loss: -1, silence_stderr).results(range(2), 1)) == [0, 1]
    assert capfd.readouterr().err == ""
    assert list(Workers(work, lambda loss: -1).results(range(1), 1)) == [0]
    assert capfd.readouterr().err == "noise"
