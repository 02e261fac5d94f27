# SPDX-License-Identifier: Apache-2.0
"""How the time of load, O1 and save grows with the number of operators, as a Markdown table.

    python -m tools.bench.growth [--sizes 1000 100000] [--shapes conv tree]

Processor time, the least of three runs in this process.  *growth* is the microseconds per operator relative
to the smallest model of the same shape, at its largest over the three steps: about 1 if time is linear.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import circlekit
from tools.bench.shapes import SHAPES, build

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
ROUNDS = 3


class Growth(NamedTuple):
    """One shape at one size: operators before and after O1, microseconds per operator of each step."""

    graph: str
    operators: int
    after: int
    load: float
    optimize: float
    save: float
    growth: float = 1.0

    def line(self) -> str:
        """Return the row of the table."""
        counts, times = f"{self.operators:,} | {self.after:,}", (self.load, self.optimize, self.save)
        return f"| {self.graph} | {counts} | {' | '.join(f'{t:.0f}' for t in times)} | {self.growth:.2f} |"


def measure_growth(shapes: Sequence[str], sizes: Sequence[int], folder: Path) -> Iterator[Growth]:
    """Yield a row for each shape and size, the smallest size first.

    The sizes of a shape take turns, because the speed of a machine changes within seconds.
    """
    for shape in shapes:
        rounds = [[_measure(shape, size, folder) for size in sorted(sizes)] for _ in range(ROUNDS)]
        best = [np.min([row[3:6] for row in rows], axis=0) for rows in zip(*rounds, strict=True)]
        for row, times in zip(rounds[0], best, strict=True):
            load, optimize, save = times.tolist()
            growth = float((times / best[0]).max())
            yield row._replace(load=load, optimize=optimize, save=save, growth=growth)


def _measure(shape: str, size: int, folder: Path) -> Growth:
    source, target = folder / "in.circle", folder / "out.circle"
    circlekit.save(build(shape, size), source)
    model = circlekit.load(source)
    before = sum(map(len, model.graphs))
    steps: tuple[Callable[[], object], ...] = (
        lambda: circlekit.load(source),
        lambda: circlekit.optimize(model, "O1"),
        lambda: circlekit.save(model, target),
    )
    microseconds = []
    for step in steps:
        start = time.process_time()
        step()
        microseconds.append(1e6 * (time.process_time() - start) / before)
    return Growth(shape, before, sum(map(len, model.graphs)), *microseconds)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.growth", description="time per operator")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of operators")
    parser.add_argument("--shapes", nargs="+", choices=sorted(SHAPES), default=list(SHAPES))
    asked = parser.parse_args(argv)
    print("| graph | operators | after O1 | load | O1 | save | growth |\n| --- |" + " ---: |" * 6)
    with tempfile.TemporaryDirectory() as name:
        _measure("conv", 100, Path(name))  # the first run includes imports
        for row in measure_growth(asked.shapes, asked.sizes, Path(name)):
            print(row.line(), flush=True)


if __name__ == "__main__":
    main()
