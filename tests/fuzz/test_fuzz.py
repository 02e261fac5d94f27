# SPDX-License-Identifier: Apache-2.0
"""A short run of the fuzzer with a fixed seed, the files of earlier faults, and the fuzzer itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from circlekit.equivalence.workers import Tell
from circlekit.io.read.flatbuffer_decoder import decode
from circlekit.passes.engine.registry import all_passes
from tools.fuzz.case import KINDS, Job, case_of, make_case
from tools.fuzz.mutate_model import encode_shared
from tools.fuzz.pool import MEMORY_BYTES, Result, outcome_of, run_all, run_case, run_jobs, time_limit
from tools.fuzz.report import Tally
from tools.fuzz.run_model import FAULT, REFUSED, SAVED, ModelRun, Outcome, TimeLimitExceeded
from tools.fuzz.seeds import Seeds, all_seeds

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())
CASES = dict.fromkeys(KINDS, 25) | {"structured": 40, "blind": 40, "text": 60, "verifier": 30}
SEED = 20261121


@pytest.fixture(scope="module")
def seeds() -> Seeds:
    """Return circlekit's own recipes, so that the run is the same on every machine."""
    all_passes()
    return all_seeds(None)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_inputs_that_once_failed_are_handled(path: Path) -> None:
    """A file of an earlier fault is refused with a CirclekitError, or O1 keeps its values."""
    with time_limit(20):
        outcome = outcome_of(case_of(path), with_values=True)
    assert not outcome.is_fault, f"{outcome.key}\n{outcome.detail}"


@pytest.mark.parametrize("kind", CASES)
def test_short_run(kind: str, seeds: Seeds) -> None:
    tally = Tally()
    for result in run_jobs([Job(kind, SEED, n) for n in range(CASES[kind])], seeds, 1):
        tally.add(result)
    assert tally.count == CASES[kind]
    assert not tally.faults, "\n".join(
        [*tally.fault_lines(), *(rs[0].outcome.detail for rs in tally.faults.values())]
    )
    ends = {end.split()[0] for _, end, _ in tally.ends}
    assert ends == {SAVED, REFUSED}  # some cases are valid and some are not


# -- the fuzzer itself -------------------------------------------------------------------------


def test_a_case_is_made_again(seeds: Seeds) -> None:
    for kind in CASES:
        job = Job(kind, 3, 5)
        assert make_case(job, seeds) == make_case(Job.parse(str(job)), seeds)


def test_structured_cases_are_mostly_readable(seeds: Seeds) -> None:
    """Files that are refused at once would test the decoder alone."""
    outcomes = [run_case(Job("structured", 9, n), seeds).outcome for n in range(40)]
    assert sum(o.stage == "load" for o in outcomes) < 13
    assert sum(o.end == SAVED for o in outcomes) > 10


def test_a_shared_table_stands_once_in_the_file() -> None:
    tensor = {"name": "x" * 400, "shape": [1]}
    data = encode_shared({"subgraphs": [{"tensors": [tensor, tensor, tensor]}]}, "tflite")
    assert len(data) < 900
    names = [t["name"] for t in decode(memoryview(data), "tflite")["subgraphs"][0]["tensors"]]
    assert names == ["x" * 400] * 3


def test_an_internal_error_is_a_fault(monkeypatch: pytest.MonkeyPatch, seeds: Seeds) -> None:
    def broken(*args: object) -> None:
        raise KeyError("a mistake")

    monkeypatch.setattr("tools.fuzz.run_model.run_passes", broken)
    sound = next(seed for seed in seeds.files if seed.name == "add")
    outcome = ModelRun().outcome(sound.data, ".circle")
    assert outcome.is_fault
    assert outcome.stage == "O1"
    assert outcome.error.startswith("KeyError")


def misbehave(job: Job, tell: Tell) -> Result:
    """Misbehave in a way that depends on the number of the job."""
    if job.number == 1:
        raise AssertionError(f"{len(bytearray(2 * MEMORY_BYTES))} bytes were allocated, more than the limit")
    if job.number == 2:
        os._exit(3)
    if job.number == 3:
        with time_limit(0.2):
            while True:
                pass
    if job.number == 4:
        time.sleep(60)
    return Result(job, Outcome(SAVED, "saved"), 0.0)


def caught(job: Job, tell: Tell) -> Result:
    """Call ``misbehave`` and turn its exception into an outcome."""
    try:
        return misbehave(job, tell)
    except (MemoryError, TimeLimitExceeded) as error:
        return Result(job, Outcome(FAULT, "work", type(error).__name__), 0.0)


def test_the_pool_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.fuzz.pool.WALL_SECONDS", 4.0)  # enough also on a busy machine
    jobs = [Job("blind", 0, n) for n in range(6)]
    results = {r.job.number: r.outcome.error for r in run_all(jobs, caught, 2)}
    assert results == {0: "", 1: "MemoryError", 2: "died", 3: "TimeLimitExceeded", 4: "hangs", 5: ""}
