# SPDX-License-Identifier: Apache-2.0
"""Fuzz circlekit: run mutated models and recipes through load, verify, O1 and save.

Every run must end in success or in an error that says what is wrong.

python -m tools.fuzz --structured 100000 --blind 100000 --text 20000 --seed 7
python -m tools.fuzz --verifier 20000                  (the decoder against LiteRT's C++ verifier)
python -m tools.fuzz --replay structured:7:31          (one case, with its outcome)
python -m tools.fuzz --replay tests/fuzz/corpus/x.tflite
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: threads take address space

import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from circlekit.passes.engine.registry import all_passes
from tools.fuzz.case import KINDS, Job, case_of, make_case
from tools.fuzz.pool import limit_memory, outcome_of, run_case, run_jobs, time_limit
from tools.fuzz.report import Tally, keep
from tools.fuzz.seeds import all_seeds
from tools.sweep import sweep, tool_parser

KEPT_PER_FAULT = 2
REPLAY_SECONDS = 20


def main() -> int:
    parser = tool_parser("fuzz", __doc__)
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="N", help=f"number of {kind} cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--out", type=Path, help="folder for failing inputs; default: a new temporary one")
    parser.add_argument("--replay", help="run one case (KIND:SEED:NUMBER) or file")
    arguments = parser.parse_args()
    all_passes()  # imported once, before workers are forked
    if arguments.replay is not None:
        return replay(arguments.replay)
    seeds = all_seeds()
    jobs = interleaved({kind: getattr(arguments, kind) for kind in KINDS}, arguments.seed)
    print(f"{len(seeds.files)} models and {len(seeds.texts)} texts to start from, {len(jobs)} cases")
    tally, started = Tally(), time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with sweep(len(jobs), "cases") as line:
        for result in line.each(run_jobs(jobs, seeds, arguments.jobs)):
            tally.add(result)
            if result.outcome.is_fault:
                print(f"{result.job} {result.outcome.key}", file=sys.stderr, flush=True)
    seconds = time.monotonic() - started
    print(f"{tally}\n{seconds:.0f} s, {tally.count / max(seconds, 1e-9):.0f} cases a second")
    if not tally.failed:
        return line.exit_code(False)
    folder = arguments.out or Path(tempfile.mkdtemp(prefix="fuzz-"))
    for results in tally.faults.values():
        for result in results[:KEPT_PER_FAULT]:
            keep(folder, make_case(result.job, seeds), str(result.job).replace(":", "-"), result.outcome)
    print("\n".join([*tally.fault_lines(), f"the inputs are in {folder}"]))
    return line.exit_code(True)


def interleaved(counts: Mapping[str, int], seed: int) -> list[Job]:
    """Return ``counts[kind]`` jobs of each kind, evenly mixed: an interrupted run has a share of each."""
    jobs = [(n / count, Job(kind, seed, n)) for kind, count in counts.items() for n in range(count)]
    return [job for _, job in sorted(jobs, key=lambda item: item[0])]


def replay(what: str) -> int:
    """Run one case or file in this process and print its outcome; return 1 if it is a fault, else 0."""
    limit_memory()
    path = Path(what)
    if path.exists():
        with time_limit(REPLAY_SECONDS):
            outcome = outcome_of(case_of(path), with_values=True)
    else:
        seeds, job = all_seeds(), Job.parse(what)
        case = make_case(job, seeds)
        print(f"{case.origin}: {' '.join(case.done)}, {len(case.data)} bytes")
        outcome = run_case(job, seeds).outcome
    print(f"{outcome.end} at {outcome.stage} {outcome.error} {outcome.values}\n{outcome.detail}")
    return 1 if outcome.is_fault else 0


if __name__ == "__main__":
    sys.exit(main())
