# SPDX-License-Identifier: Apache-2.0
"""Run every pass, pairs and lists of passes, and O1 on random graphs; reduce what goes wrong.

python -m tools.random_graphs --graphs 2000 --seed 7 [--jobs 2] [--passes fuse_gelu ...]
python -m tools.random_graphs --show 7000123        (the model of one seed as text, and what it shows)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path

from circlekit.equivalence.delta_debugging import reduce_model
from circlekit.ir.text import print_model
from tools.random_graphs.battery import PASSES, Finding, Result, examine, shows
from tools.random_graphs.digests import other_hash_seed
from tools.random_graphs.graphs import make, random_steps
from tools.random_graphs.workers import examine_all

SPREAD = 1_000_003
"""Seeds of graphs begin at the given seed times this, so that two runs have none in common."""

REDUCED = 2
"""Findings of one sort that are reduced; the others are counted."""

TRIES = 400


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools.random_graphs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=list(PASSES), metavar="PASS")
    parser.add_argument("--hashes", type=int, default=50, help="every so many graphs under another hash seed")
    parser.add_argument("--show", type=int, metavar="SEED", help="one graph, as text, with its findings")
    parser.add_argument("--no-reduce", action="store_true", help="print seeds alone")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.show is not None:
        return show(arguments.show, arguments.passes)
    first = arguments.seed * SPREAD
    started = time.monotonic()
    results = []
    seeds = range(first, first + arguments.graphs)
    with suppress(KeyboardInterrupt):  # what there is until then is told
        for result in examine_all(seeds, arguments.passes, arguments.jobs):
            results.append(result)
            for f in result.findings:
                print(f"{f.seed}: {','.join(f.passes)} ({f.format}): {f.sentence}", flush=True)
    findings = [f for r in results for f in r.findings]
    sample = [r for r in results if r.digest][:: arguments.hashes]
    findings += other_hash_seed({r.seed: r.digest for r in sample})
    summarize(results, findings, time.monotonic() - started)
    if not arguments.no_reduce:
        reduce_all(findings)
    return 1 if findings else 0


def summarize(results: list[Result], findings: list[Finding], seconds: float) -> None:
    sizes = sorted(r.size for r in results)
    print(f"{len(results)} graphs of {sizes[0]} to {sizes[-1]} operators (median {sizes[len(sizes) // 2]})")
    print(f"{sum(r.litert for r in results)} of them run by LiteRT before and after O1; {seconds:.0f} s")
    fired: Counter[str] = Counter()
    for result in results:
        fired.update(result.fired)
    print("fired: " + ", ".join(f"{name} {fired[name]}" for name in sorted(fired)))
    print("never fired: " + (", ".join(name for name in PASSES if not fired[name]) or "none"))
    for (kind, passes), count in Counter((f.kind, f.passes) for f in findings).most_common():
        print(f"{count:6} {kind}: {','.join(passes)}")
    print(f"{len(findings)} findings")


def reduce_all(findings: list[Finding]) -> None:
    """The smallest models that show them, a few of each sort."""
    seen: Counter[tuple[str, tuple[str, ...]]] = Counter()
    alone = {(f.seed, f.kind) for f in findings if len(f.passes) == 1 and f.passes != ("O1",)}
    for finding in findings:
        sort = finding.kind, finding.passes
        seen[sort] += 1
        is_covered = (len(finding.passes) > 1 or finding.passes == ("O1",)) and (
            finding.seed,
            finding.kind,
        ) in alone
        if seen[sort] > REDUCED or is_covered or finding.kind.startswith(("lost", "tool", "hash")):
            continue
        print(f"\n# {finding.seed}: {','.join(finding.passes)} ({finding.format}): {finding.sentence}")
        print(reduced(finding), flush=True)


def reduced(finding: Finding) -> str:
    model, _ = make(finding.seed, random_steps(finding.seed))
    with tempfile.TemporaryDirectory() as folder:
        test = shows(finding, Path(folder))
        if not test(model):
            return "# not shown again by a smaller check"
        return print_model(reduce_model(model, test, TRIES))


def show(seed: int, passes: list[str]) -> int:
    print(print_model(make(seed, random_steps(seed))[0]))
    with tempfile.TemporaryDirectory() as folder:
        result = examine(seed, Path(folder), passes=passes)
    for f in result.findings:
        print(f"{','.join(f.passes)} ({f.format}): {f.sentence}")
    reduce_all(result.findings)
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
