# SPDX-License-Identifier: Apache-2.0
"""The interpreter against LiteRT's reference kernels: time of one run, as a Markdown table.

    python -m tools.bench.interpreter [MODEL ...] [--only NAME] [--seconds 2]

Without MODEL: the models of the shared folder.  LiteRT runs its reference kernels (BUILTIN_REF) with one
thread.  If they lack an operator of a model, LiteRT runs its optimized kernels instead; the model is marked
with * and left out of the mean.  The interpreter and LiteRT run in turns; the shortest time of each counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import circlekit
from circlekit.equivalence.litert import make_interpreter, tflite_of
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.interp.interpreter import select_kernels
from circlekit.ir.graph import Model
from circlekit.ops.numerics.output_stage import Kernels
from tools.fuzz.seeds import SHARED

COUNTED_SECONDS = 1e-3
"""The mean ratio is over the models for which LiteRT takes at least this long."""


def parser_of(name: str, description: str) -> argparse.ArgumentParser:
    """Return a command line parser for the models to measure and the seconds for each of them."""
    parser = argparse.ArgumentParser(prog=f"python -m tools.bench.{name}", description=description)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each model")
    return parser


def models(asked: argparse.Namespace) -> Iterator[tuple[str, Model]]:
    """Yield (name, model) for the models to measure, by default those of the shared folder."""
    shared = sorted(p for kind in ("tflite", "circle") for p in SHARED.glob(f"models/*/*.{kind}"))
    for path in asked.models or shared:
        name = f"{path.parent.name}/{path.name}"
        if asked.only in name:
            yield name, circlekit.load(path)


def measure(model: Model, seconds: float) -> tuple[float, float, bool]:
    """Return the shortest seconds of LiteRT and of circlekit, and whether LiteRT ran optimized kernels."""
    kernels = select_kernels(model)
    theirs = make_interpreter(tflite_of(model), kernels)
    theirs.allocate_tensors()
    inputs = make_inputs(model.main, InputSet("normal"))
    for detail, array in zip(theirs.get_input_details(), inputs, strict=True):
        theirs.set_tensor(detail["index"], array)
    ours = circlekit.Interpreter(model)
    runs: tuple[Callable[[], Any], ...] = (theirs.invoke, lambda: ours.run(inputs))
    best = [np.inf, np.inf]
    for run in runs:
        run()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        for index, run in enumerate(runs):
            for _ in range(3):
                before = time.perf_counter()
                run()
                best[index] = min(best[index], time.perf_counter() - before)
    return best[0], best[1], kernels is Kernels.OPTIMIZED


def main(argv: Sequence[str] | None = None) -> None:
    asked = parser_of("interpreter", "time of one run").parse_args(argv)
    print("| model | LiteRT ms | circlekit ms | ratio |\n| --- | ---: | ---: | ---: |")
    counted = []
    for name, model in models(asked):
        theirs, ours, is_fallback = measure(model, asked.seconds)
        mark = "*" if is_fallback else ""
        print(f"| {name}{mark} | {theirs * 1e3:.3f} | {ours * 1e3:.3f} | {theirs / ours:.2f} |", flush=True)
        if theirs >= COUNTED_SECONDS and not is_fallback:
            counted.append(theirs / ours)
    if counted:
        mean = float(np.exp(np.mean(np.log(counted))))
        print(f"\nGeometric mean over {len(counted)} models of 1 ms and more: {mean:.2f}")


if __name__ == "__main__":
    main()
