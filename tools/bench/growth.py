# SPDX-License-Identifier: Apache-2.0
"""How the time of load, O1 and save grows with the number of operators.

    python -m tools.bench.growth [--sizes 1000 100000] [--shapes conv tree] [--json FILE] [--plot FILE.png]
                                 [--page docs/measured/growth.md]

Processor time, the least of three runs in this process.  The figure to look at is the growth: microseconds
for an operator, as a multiple of what the smallest model of that shape takes; near 1 where time is linear.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import circlekit
from circlekit.ir.graph import Model
from tools.bench.measure import machine
from tools.bench.shapes import SHAPES, build

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)

STEPS = ("load", "O1", "save")

ROUNDS = 3
"""Every size is measured so often, and the least counts: the least of more would flatter the small ones."""


class Growth(NamedTuple):
    """One shape at one size.  ``load``, ``O1``, ``save``: microseconds of processor time for an operator.

    ``after``: the operators that O1 leaves.  ``growth``: the most that a step takes for an operator, as a
    multiple of what the same step takes in the smallest model of this shape.
    """

    shape: str
    operators: int
    after: int
    load: float
    O1: float
    save: float
    growth: float

    @property
    def total(self) -> float:
        """Microseconds for an operator, all steps together."""
        return self.load + self.O1 + self.save


def measure_growth(
    shapes: Iterable[str] = tuple(SHAPES),
    sizes: Sequence[int] = SIZES,
    folder: Path | None = None,
    tell: Callable[[Growth], None] = lambda row: None,
) -> list[Growth]:
    """A row for each shape and size, the smallest size first; ``tell`` gets each as it comes."""
    rows: list[Growth] = []
    with tempfile.TemporaryDirectory(dir=folder) as name:
        _run(
            _saved("conv", 100, Path(name)), Path(name) / "out.circle", Best()
        )  # imports, and what Python finds out of its code
        for shape in shapes:
            found = _measure(shape, sorted(sizes), Path(name))
            for row in found:
                steps = [getattr(row, step) / getattr(found[0], step) for step in STEPS]
                rows.append(row._replace(growth=max(steps)))
                tell(rows[-1])
    return rows


class Best:
    """The least seconds of each step so far, and the operators before and after O1."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STEPS, float("inf"))
        self.count = self.after = 0

    def note(self, step: str, seconds: float) -> None:
        self.seconds[step] = min(self.seconds[step], seconds)


def _measure(shape: str, sizes: Sequence[int], folder: Path) -> list[Growth]:
    """All sizes by turns: the speed of a machine changes within seconds."""
    sources = {size: _saved(shape, size, folder) for size in sizes}
    best = {size: Best() for size in sizes}
    for _ in range(ROUNDS):
        for size, source in sources.items():
            _run(source, folder / "out.circle", best[size])
    rows = []
    for size, source in sources.items():
        source.unlink()
        count = best[size].count
        each = {step: 1e6 * seconds / count for step, seconds in best[size].seconds.items()}
        rows.append(Growth(shape, count, best[size].after, growth=1.0, **each))
    return rows


def _saved(shape: str, size: int, folder: Path) -> Path:
    path = folder / f"in.{size}.circle"
    circlekit.save(build(shape, size), path)
    return path


def _run(source: Path, target: Path, best: Best) -> None:
    model, seconds = _timed(lambda: circlekit.load(source))
    best.note("load", seconds)
    best.count = _count(model)
    _, seconds = _timed(lambda: circlekit.optimize(model, "O1"))
    best.note("O1", seconds)
    best.after = _count(model)
    _, seconds = _timed(lambda: circlekit.save(model, target))
    best.note("save", seconds)


def _count(model: Model) -> int:
    return sum(map(len, model.graphs))


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


HEADS = ("graph", "operators", "after O1", "load", "O1", "save", "growth")
"""The times in microseconds for an operator."""


def cells(row: Growth) -> tuple[str, ...]:
    """``row`` as text, one for each of HEADS."""
    counts = row.shape, f"{row.operators:,}", f"{row.after:,}"
    return (*counts, f"{row.load:.0f}", f"{row.O1:.0f}", f"{row.save:.0f}", f"{row.growth:.2f}")


def as_json(rows: Iterable[Growth]) -> list[dict[str, Any]]:
    return [row._asdict() for row in rows]


def plot(rows: Sequence[Growth], path: Path) -> None:
    """A picture (PNG): microseconds for an operator over the number of operators, a line for each shape.

    Needs matplotlib, which ``pip install circlekit[bench]`` brings.
    """
    pyplot: Any = import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(1, len(STEPS), figsize=(12, 4), sharex=True)
    for axis, step in zip(axes, STEPS, strict=True):
        for shape in dict.fromkeys(row.shape for row in rows):
            own = [row for row in rows if row.shape == shape]
            axis.plot([r.operators for r in own], [getattr(r, step) for r in own], marker="o", label=shape)
        axis.set(title=step, xscale="log", xlabel="operators", ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("microseconds for an operator")
    axes[-1].legend(fontsize="small", bbox_to_anchor=(1.02, 1), loc="upper left")
    figure.tight_layout()
    figure.savefig(path, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


PAGE = """# Growth

Written by `python -m tools.bench.growth --page docs/measured/growth.md --plot docs/measured/growth.png`
on {processor}, {cores} cores, {system}, Python {python}.

Microseconds of processor time that load, O1 and save take for one operator. *growth* is the most that a step
takes, as a multiple of what it takes in the smallest model of the same shape: 1 where time is linear.
`tools/bench/shapes.py` makes the graphs.

![Microseconds for an operator over the number of operators](growth.png)

"""


def page(rows: Iterable[Growth], facts: Mapping[str, Any]) -> str:
    """docs/measured/growth.md."""
    lines = [HEADS, ("---", *["---:"] * (len(HEADS) - 1)), *map(cells, rows)]
    return PAGE.format(**facts) + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--shapes", nargs="+", choices=sorted(SHAPES), default=list(SHAPES))
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="needs matplotlib")
    parser.add_argument("--page", type=Path, metavar="FILE.md")
    arguments = parser.parse_args(argv)

    def line(texts: Sequence[str]) -> None:
        print(f"{texts[0]:12}" + "".join(f"{text:>11}" for text in texts[1:]), flush=True)

    line(HEADS)
    rows = measure_growth(arguments.shapes, arguments.sizes, tell=lambda row: line(cells(row)))
    print(f"at most {max(row.growth for row in rows):.2f} times the time for an operator of the smallest")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(as_json(rows), indent=1) + "\n")
    if arguments.page is not None:
        arguments.page.write_text(page(rows, machine()))
    if arguments.plot is not None:
        plot(rows, arguments.plot)


if __name__ == "__main__":
    main()
