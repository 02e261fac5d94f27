# SPDX-License-Identifier: Apache-2.0
"""Jobs in processes and on a cluster: each has one result, also if a worker is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from circlekit.equivalence import fleet
from circlekit.equivalence.fleet import LOCAL, connected, run_jobs, usable_processors
from circlekit.errors import UnsupportedError


class Job(NamedTuple):
    """A job that writes a file into ``folder`` for each of its runs: ``3.0`` for the first run of job 3.

    The first ``crashes`` runs kill their process; a later run takes ``seconds``.
    """

    number: int
    folder: Path
    crashes: int = 0
    seconds: float = 0.0


def work(job: Job) -> str:
    runs = len(list(job.folder.glob(f"{job.number}.*")))
    (job.folder / f"{job.number}.{runs}").write_text(str(os.getpid()))
    if runs < job.crashes:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(job.seconds)
    return f"result {job.number}"


def lost(job: Job, reason: str) -> str:
    return f"lost {job.number}: {reason}"


def test_a_killed_job_runs_again(tmp_path: Path) -> None:
    # job 1 fails twice, job 3 always
    jobs = [Job(n, tmp_path, crashes={1: 2, 3: 9}.get(n, 0)) for n in range(6)]
    results = list(run_jobs(work, jobs, lost, processes=2))
    assert sorted(index for index, _ in results) == list(range(6))
    texts = dict(results)
    assert texts.pop(3) == "lost 3: ends the process (SIGKILL)"
    assert texts == {n: f"result {n}" for n in (0, 1, 2, 4, 5)}
    assert len(list(tmp_path.glob("1.*"))) == 3


def test_without_retries_a_killed_job_is_lost(tmp_path: Path) -> None:
    results = list(run_jobs(work, [Job(0, tmp_path, crashes=1)], lost, retries=0))
    assert results == [(0, "lost 0: ends the process (SIGKILL)")]


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Yield a cluster of two worker processes."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_of_the_cluster_is_killed(cluster: Any, tmp_path: Path) -> None:
    """Nothing is lost, and no result comes twice."""
    jobs = [Job(n, tmp_path, seconds=0.1) for n in range(12)]
    with connected(cluster.scheduler_address) as client:
        results = []
        for result in run_jobs(work, jobs, lost, client=client):
            results.append(result)
            if len(results) == 3:
                victim = next(iter(client.run(os.getpid).values()))
                os.kill(victim, signal.SIGKILL)
    assert sorted(results) == [(n, f"result {n}") for n in range(12)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("retries", [0, 9])
def test_the_scheduler_says_how_often_a_job_runs_again(cluster: Any, tmp_path: Path, retries: int) -> None:
    """``allowed-failures`` is 3, so a job whose worker dies runs at most four times."""
    with connected(cluster.scheduler_address) as client:
        for job, wanted in (
            (Job(0, tmp_path, crashes=3), "result 0"),
            (Job(1, tmp_path, crashes=9), "lost 1: was given up by the cluster: KilledWorker: "),
        ):
            ((_, result),) = run_jobs(work, [job], lost, client=client, retries=retries)
            assert result.startswith(wanted)
            assert len(list(tmp_path.glob(f"{job.number}.*"))) == 4


def test_an_address_without_a_scheduler_is_refused() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(UnsupportedError, match="no Dask scheduler answers"), connected("nowhere:"):
        pass
    with connected("local") as client:
        assert client is None


@pytest.mark.parametrize("address", [None, LOCAL])
def test_local_processes_need_no_cluster(address: str | None) -> None:
    with connected(address) as client:
        assert client is None


def test_without_forks_jobs_run_in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fleet, "get_all_start_methods", lambda: ["spawn"])
    assert usable_processors() == 1
    assert list(run_jobs(work, [Job(7, tmp_path)], lost)) == [(0, "result 7")]
    assert (tmp_path / "7.0").read_text() == str(os.getpid())


def test_with_forks_jobs_run_in_other_processes(tmp_path: Path) -> None:
    list(run_jobs(work, [Job(7, tmp_path)], lost))
    assert (tmp_path / "7.0").read_text() != str(os.getpid())


def test_the_number_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5} if pid == 0 else set(), raising=False)
    assert usable_processors() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    for count, usable in ((7, 7), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert usable_processors() == usable
