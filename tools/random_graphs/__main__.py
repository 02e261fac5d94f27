# SPDX-License-Identifier: Apache-2.0
"""Run every pass, pairs and lists of passes, and O1 on random graphs; reduce models that show faults.

python -m tools.random_graphs --graphs 2000 --seed 7 [--jobs 2] [--passes fuse_gelu ...]
python -m tools.random_graphs --moving --graphs 3000 --seed 7 --passes merge_data_movement optimize_layout
python -m tools.random_graphs --show 7000123        (the model of one seed as text, and its findings)
python -m tools.random_graphs --litert --graphs 3000 --seed 7 [--show 7000123]
    (another check: if LiteRT runs a model, it must also run what the passes make of the model.
    With odd seeds, models have other dtypes than float32.)
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from circlekit.equivalence.delta_debugging import reduce_model
from circlekit.equivalence.workers import Loss, Tell, Workers, silence_stderr
from circlekit.ir.text import print_model
from tools.random_graphs.examine import PASSES, Finding, Result, examine, reproduces
from tools.random_graphs.graphs import FIRST_MOVING_SEED, make, random_steps
from tools.random_graphs.target_check import examine_in_litert, model_of
from tools.sweep import sweep, tool_parser

Examination = partial[Result]
"""A function of a seed and ``tell``, which is called with the name of each step."""

SEEDS_PER_RUN = 1_000_003
"""Runs with different ``--seed`` share no seed of a graph if each has at most this many graphs."""

REDUCED_PER_KIND = 2
"""For so many findings of the same kind and the same passes, a small model is printed (``reduce_all``)."""

REDUCTION_ATTEMPTS = 400
GRAPH_SECONDS = 600.0
OTHER_HASH_SEED = "12345"


def main() -> int:
    parser = tool_parser("random_graphs", __doc__)
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--moving", action="store_true", help="models that mainly move data")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=list(PASSES), metavar="PASS")
    parser.add_argument("--hashes", type=int, default=50, help="rerun one graph in HASHES with other hashes")
    parser.add_argument("--show", type=int, metavar="SEED", help="one graph as text, with its findings")
    parser.add_argument("--checksums", type=int, nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--litert", action="store_true", help="run the results in LiteRT, and nothing else")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.checksums is not None:
        return print_checksums(arguments.checksums)
    if arguments.litert:
        examination = partial(examine_in_litert, passes=arguments.passes)
    else:
        examination = partial(examine, passes=arguments.passes)
    if arguments.show is not None:
        return show(arguments.show, examination)
    first = arguments.seed * SEEDS_PER_RUN + arguments.moving * FIRST_MOVING_SEED
    started = time.monotonic()
    results = []
    with sweep(arguments.graphs, "graphs") as line:
        seeds = range(first, first + arguments.graphs)
        for result in line.each(examine_all(seeds, examination, arguments.jobs)):
            results.append(result)
            for f in result.findings:
                line.hide()
                print(f"{f.seed}: {','.join(f.passes)} ({f.format}): {f.sentence[:300]}", flush=True)
    sample = [r for r in results if r.checksum][:: arguments.hashes]
    findings = [f for r in results for f in r.findings]
    findings += with_other_hashes({r.seed: r.checksum for r in sample})
    summarize(results, findings, time.monotonic() - started)
    reduce_all(findings)
    return line.exit_code(bool(findings))


def examine_all(seeds: Sequence[int], examination: Examination, jobs: int) -> Iterator[Result]:
    """Yield the result of every seed, in any order."""

    def work(seed: int, tell: Tell) -> Result:
        try:
            return examination(seed, tell)
        except Exception as error:  # a fault of the tool, or a model that cannot even be printed
            text = f"{type(error).__name__}: {error}{traceback.format_exc(limit=-3)[-400:]}"
            return Result(seed, findings=[Finding(seed, f"tool {type(error).__name__}", (), "", text)])

    yield from Workers(work, _lost, silence_stderr, GRAPH_SECONDS).results(seeds, jobs)


def _lost(loss: Loss[int]) -> Result:
    phase = loss.news[-1] if loss.news else "making"
    return Result(loss.job, findings=[Finding(loss.job, "lost", (phase,), "", f"{phase} {loss}")])


def summarize(results: list[Result], findings: list[Finding], seconds: float) -> None:
    """Print sizes, how often passes fired, and findings by kind."""
    sizes = sorted(r.size for r in results) or [0]
    print(f"{len(results)} graphs of {sizes[0]} to {sizes[-1]} operators (median {sizes[len(sizes) // 2]})")
    print(f"{sum(r.litert for r in results)} run by LiteRT; {seconds:.0f} s")
    fired: Counter[str] = Counter()
    for result in results:
        fired.update(result.fired)
    print("fired: " + ", ".join(f"{name} {fired[name]}" for name in sorted(fired)))
    print("never fired: " + (", ".join(name for name in PASSES if not fired[name]) or "none"))
    for (kind, passes), count in Counter((f.kind, f.passes) for f in findings).most_common():
        print(f"{count:6} {kind}: {','.join(passes)}")
    print(f"{len(findings)} findings")


def reduce_all(findings: list[Finding]) -> None:
    """Print a small model for a few findings of each kind and passes; some kinds cannot be reduced."""
    seen: Counter[tuple[str, tuple[str, ...]]] = Counter()
    single = {(f.seed, f.kind) for f in findings if len(f.passes) == 1 and f.passes != ("O1",)}
    for finding in findings:
        seen[finding.kind, finding.passes] += 1
        is_composed = len(finding.passes) > 1 or finding.passes == ("O1",)
        if is_composed and (finding.seed, finding.kind) in single:
            continue  # a single pass shows it
        is_reducible = not finding.kind.startswith(("lost", "tool", "hash", "LiteRT"))
        if seen[finding.kind, finding.passes] <= REDUCED_PER_KIND and is_reducible:
            print(f"\n# {finding.seed}: {','.join(finding.passes)} ({finding.format}): {finding.sentence}")
            print(reduced(finding), flush=True)


def reduced(finding: Finding) -> str:
    """Return the smallest model that was found to show the finding, as text."""
    model, _ = make(finding.seed, random_steps(finding.seed))
    with tempfile.TemporaryDirectory() as folder:
        test = reproduces(finding, Path(folder))
        if not test(model):
            return "# these passes alone do not show it"
        return print_model(reduce_model(model, test, REDUCTION_ATTEMPTS))


def show(seed: int, examination: Examination) -> int:
    """Print the model of one seed and its findings."""
    is_litert = examination.func is examine_in_litert
    made = model_of(seed) if is_litert else make(seed, random_steps(seed))
    print(print_model(made[0]) if made is not None else "no model")
    result = examination(seed, lambda phase: None)
    for f in result.findings:
        print(f"{','.join(f.passes)} ({f.format}): {f.sentence}")
    reduce_all(result.findings)
    return 1 if result.findings else 0


# -- other hash seeds --------------------------------------------------------------------------


def with_other_hashes(checksums: Mapping[int, int]) -> list[Finding]:
    """Return a finding for each seed whose files differ in a process in which strings hash differently."""
    if not checksums:
        return []
    command = [sys.executable, "-m", "tools.random_graphs", "--checksums", *map(str, checksums)]
    environment = {**os.environ, "PYTHONHASHSEED": OTHER_HASH_SEED}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = {int(seed): int(checksum) for seed, checksum in map(str.split, done.stdout.splitlines())}
    return [
        Finding(seed, "hash", ("O1",), "", f"other bytes with PYTHONHASHSEED={OTHER_HASH_SEED}")
        for seed, checksum in checksums.items()
        if found.get(seed) != checksum
    ]


def print_checksums(seeds: Sequence[int]) -> int:
    """Print a line for each seed: the seed, and the checksum of its files after O1."""
    for seed in seeds:
        print(seed, examine(seed, passes=()).checksum)
    return 0


if __name__ == "__main__":
    sys.exit(main())
