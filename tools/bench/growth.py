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
from typing import NamedTuple, TypeVar

import circlekit
from circlekit.ir.graph import Model
from tools.bench.shapes import SHAPES, build

T = TypeVar("T")

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
STEPS = ("load", "O1", "save")
ROUNDS = 3
HEADS = ("graph", "operators", "after O1", *STEPS, "growth")


class Growth(NamedTuple):
    """One shape at one size: operators before and after O1, microseconds per operator of each step."""

    shape: str
    operators: int
    after: int
    microseconds: dict[str, float]
    growth: float

    def cells(self) -> list[str]:
        """The row of the table, one text for each of HEADS."""
        times = [f"{self.microseconds[step]:.0f}" for step in STEPS]
        return [self.shape, f"{self.operators:,}", f"{self.after:,}", *times, f"{self.growth:.2f}"]


def measure_growth(shapes: Sequence[str], sizes: Sequence[int], folder: Path) -> Iterator[Growth]:
    """A row for each shape and size, the smallest size first.

    The sizes of a shape take turns, because the speed of a machine changes within seconds.
    """
    for shape in shapes:
        rows: dict[int, Growth] = {}
        for _ in range(ROUNDS):
            for size in sorted(sizes):
                row = _measure(shape, size, folder)
                best = rows.setdefault(size, row)
                for step in STEPS:
                    best.microseconds[step] = min(best.microseconds[step], row.microseconds[step])
        first = rows[min(sizes)].microseconds
        for size in sorted(sizes):
            row = rows[size]
            yield row._replace(growth=max(row.microseconds[s] / first[s] for s in STEPS))


def _measure(shape: str, size: int, folder: Path) -> Growth:
    source, target = folder / "in.circle", folder / "out.circle"
    circlekit.save(build(shape, size), source)
    seconds: dict[str, float] = {}
    model = _timed("load", seconds, lambda: circlekit.load(source))
    before = _operators(model)
    _timed("O1", seconds, lambda: circlekit.optimize(model, "O1"))
    _timed("save", seconds, lambda: circlekit.save(model, target))
    return Growth(shape, before, _operators(model), {s: 1e6 * t / before for s, t in seconds.items()}, 1.0)


def _operators(model: Model) -> int:
    return sum(map(len, model.graphs))


def _timed(step: str, seconds: dict[str, float], call: Callable[[], T]) -> T:
    start = time.process_time()
    result = call()
    seconds[step] = time.process_time() - start
    return result


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.growth", description="time per operator")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of operators")
    parser.add_argument("--shapes", nargs="+", choices=sorted(SHAPES), default=list(SHAPES))
    asked = parser.parse_args(argv)
    print(f"| {' | '.join(HEADS)} |\n| --- |{' ---: |' * (len(HEADS) - 1)}")
    worst = 1.0
    with tempfile.TemporaryDirectory() as name:
        _measure("conv", 100, Path(name))  # the first run includes imports
        for row in measure_growth(asked.shapes, asked.sizes, Path(name)):
            worst = max(worst, row.growth)
            print(f"| {' | '.join(row.cells())} |", flush=True)
    print(f"\nAt most {worst:.2f} times the time per operator of the smallest model.")


if __name__ == "__main__":
    main()
