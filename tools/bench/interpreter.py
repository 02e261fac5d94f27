# SPDX-License-Identifier: Apache-2.0
"""The interpreter against LiteRT's reference kernels: time of a run, and memory.

    python tools/bench/interpreter.py [MODEL ...] [--seconds 2] [--profile]

Without MODEL: those of the shared folder, and MobileNetV2 1.0 224 in float and int8 with random weights.
LiteRT runs BUILTIN_REF with one thread; where that lacks an operator, its other kernels (marked *).  Both run
by turns in this process, and the best time counts.  Memory: the most that a new interpreter has in its first
run, recording included, in parts of the model's own arena (the values that live at once) and its constants;
but for Python's own objects that are left, which grow with the number of operators and not with the data, and
stand beside it in KB.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import os
import pstats
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import circlekit
from circlekit.equivalence.litert import make_interpreter, tflite_of
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array
from tools.bench.mobilenet import mobilenet, sample

SHARED = Path(os.environ.get("CIRCLEKIT_SHARED", Path(__file__).parents[3] / "shared"))

SLOW = 1e-3
"""Models that take LiteRT this many seconds count in the mean."""


class Figures(NamedTuple):
    """Seconds of one run, and what one run allocates in parts of what it must."""

    theirs: float
    ours: float
    memory: float
    objects: int
    fallback: bool

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def models(paths: list[Path]) -> dict[str, Callable[[], Model]]:
    if paths:
        return {path.name: lambda path=path: circlekit.load(path) for path in paths}  # type: ignore[misc]
    found = sorted(p for suffix in ("tflite", "circle") for p in SHARED.glob(f"models/*/*.{suffix}"))
    listed = {f"{path.parent.name}/{path.name}": path for path in found}
    made: dict[str, Callable[[], Model]] = {
        name: lambda path=path: circlekit.load(path)  # type: ignore[misc]
        for name, path in listed.items()
    }
    return made | {"mobilenet_v2 f32": lambda: mobilenet(False), "mobilenet_v2 i8": lambda: mobilenet(True)}


def litert(model: Model) -> tuple[Any, bool]:
    """Return LiteRT's interpreter of ``model``, and whether its reference set lacks one of the kernels."""
    content = tflite_of(model)
    try:
        made, lacking = make_interpreter(content, fall_back=False), False
    except ValueError:
        made, lacking = make_interpreter(content), True
    made.allocate_tensors()
    return made, lacking


def measure(model: Model, seconds: float) -> Figures:
    theirs, fallback = litert(model)
    inputs = [sample(value) for value in model.main.inputs]
    for detail, array in zip(theirs.get_input_details(), inputs, strict=True):
        theirs.set_tensor(detail["index"], array)
    arrays, objects = peak(model, inputs)
    memory = arrays / (arena(model.main) + constants(model))
    ours = circlekit.Interpreter(model)
    best = [np.inf, np.inf]
    runs: tuple[Callable[[], Any], ...] = (theirs.invoke, lambda: ours.run(inputs))
    for run in runs:
        run()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        for index, run in enumerate(runs):
            for _ in range(3):
                before = time.perf_counter()
                run()
                best[index] = min(best[index], time.perf_counter() - before)
    return Figures(best[0], best[1], memory, objects, fallback)


def peak(model: Model, inputs: list[Array]) -> tuple[int, int]:
    """The most bytes in a new interpreter's first run, constants included; those of objects that are left.

    The latter are no part of the former.
    """
    make = circlekit.Interpreter  # what is imported counts for no model
    tracemalloc.start()
    interpreter = make(model)
    interpreter.run(inputs)
    most = tracemalloc.get_traced_memory()[1]
    gc.collect()
    now = tracemalloc.get_traced_memory()[0]
    traces = tracemalloc.take_snapshot().traces
    tracemalloc.stop()
    arrays = sum(t.size for t in traces if t.domain == np.lib.tracemalloc_domain)
    del interpreter
    return most - (now - arrays) + constants(model), now - arrays


def constants(model: Model) -> int:
    arrays = {id(v.data): v.data.nbytes for g in model.graphs for v in g.values() if v.data is not None}
    return sum(arrays.values())


def arena(graph: Graph) -> int:
    """The most bytes of values that live at the same time; unknown dimensions count as 1."""
    last = {
        id(v): index for index, op in enumerate(graph) for v in (*op.inputs, *op.results) if v is not None
    }
    sizes = {
        id(v): int(np.prod([d or 1 for d in v.shape or ()])) * max(v.dtype.bits // 8, 1)
        for v in graph.values()
        if v.data is None
    }
    alive = {id(v): sizes.get(id(v), 0) for v in graph.inputs}
    most = 0
    for index, op in enumerate(graph):
        alive |= {id(v): sizes.get(id(v), 0) for v in op.results}
        most = max(most, sum(alive.values()))
        alive = {key: size for key, size in alive.items() if last.get(key, len(graph)) > index}
    return most


def profile(model: Model, seconds: float) -> None:
    ours = circlekit.Interpreter(model)
    inputs = [sample(value) for value in model.main.inputs]
    ours.run(inputs)
    profiler = cProfile.Profile()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        profiler.runcall(ours.run, inputs)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--only", default="", help="models whose name has this")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each model")
    parser.add_argument("--profile", action="store_true", help="where our time goes, instead")
    arguments = parser.parse_args()
    chosen = {n: make for n, make in models(arguments.models).items() if arguments.only in n}
    print(f"{'model':36}{'LiteRT ms':>11}{'ours ms':>10}{'ratio':>8}{'memory':>8}{'objects KB':>12}")
    slow, least, most = [], np.inf, 0.0
    for name, make in chosen.items():
        if arguments.profile:
            profile(make(), arguments.seconds)
            continue
        figures = measure(make(), arguments.seconds)
        mark = "*" if figures.fallback else ""
        times = f"{figures.theirs * 1e3:>11.3f}{figures.ours * 1e3:>10.3f}"
        memory = f"{figures.memory:>8.2f}{figures.objects >> 10:>12}"
        print(f"{name + mark:36}{times}{figures.ratio:>8.2f}{memory}", flush=True)
        most = max(most, figures.memory)
        if figures.theirs >= SLOW and not figures.fallback:
            slow.append(figures.ratio)
        if not figures.fallback:
            least = min(least, figures.ratio)
    if slow:
        mean = float(np.exp(np.mean(np.log(slow))))
        print(f"{mean:.2f}: geometric mean over {len(slow)} models that take LiteRT 1 ms or more")
        print(f"{least:.2f}: least of all models")
        print(f"{most:.2f}: most memory")


if __name__ == "__main__":
    main()
