# SPDX-License-Identifier: Apache-2.0
"""Check partitions: ``python -m tools.partitions [--seeds 20] [--graphs 200] [MODEL...]``.

The models and random graphs are divided at random, by opcode and by name, by ONE's rule and into as few parts
as possible.  The parts, written and read again, must give the same bits as the whole model, and so must the
merged parts.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator

import circlekit
from circlekit.equivalence.seeded_inputs import InputSet, make_inputs
from circlekit.errors import CirclekitError
from circlekit.interp.interpreter import run, select_kernels
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.tensor import same_array
from circlekit.ir.verifier import check
from circlekit.recipes.load import load_recipe
from circlekit.structure.part_table import PartTable
from circlekit.structure.run_parts import run_parts
from circlekit.testing import random_model
from tools.sweep import sweep

BACKENDS = ("cpu", "npu", "gpu")


def table_for(model: Model, seed: int) -> PartTable:
    """Return a random table: by opcode for odd seeds, else by name."""
    rng = random.Random(seed)
    backends = BACKENDS[: rng.choice([2, 3])]
    if seed % 2:
        codes = sorted({op.code for op in model.main})
        return PartTable(backends, backends[0], {code: rng.choice(backends) for code in codes})
    names = {op.results[0].name: rng.choice(backends) for op in model.main if op.results}
    return PartTable(backends, backends[0], opnames=names, comply="opname")


def findings(model: Model, seed: int) -> Iterator[str]:
    """Yield what is wrong with one partition of ``model``."""
    inputs = make_inputs(model.main, InputSet("normal"))
    kernels = select_kernels(model)
    expected = run(model, inputs, kernels=kernels)
    divided = circlekit.partition(model, table_for(model, seed), fewest=seed % 3 == 0)
    parts = [load_bytes(to_bytes(part.model, model.format), "a part") for part in divided.parts]
    for part in parts:
        check(part)
    values = run_parts(parts, dict(zip(divided.inputs, inputs, strict=True)), kernels)
    found = {"parts": values}
    names = list(dict.fromkeys(name for name in divided.outputs if name not in divided.inputs))
    if names:
        merged = circlekit.merge(parts, outputs=names)
        given = dict(zip(divided.inputs, inputs, strict=True))
        arrays = run(merged, [given[v.name] for v in merged.main.inputs], kernels=kernels)
        found["merged parts"] = {**given, **dict(zip(names, arrays, strict=True))}
    for what, by_name in found.items():
        for name, array in zip(divided.outputs, expected, strict=True):
            if not same_array(by_name[name], array):
                yield f"seed {seed}: output {name} of the {what} differs"


def main() -> int:
    """Print what is wrong; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--seeds", type=int, default=6, help="partitions of each model")
    parser.add_argument("--graphs", type=int, default=0, help="random graphs")
    arguments = parser.parse_args()
    sources = [*arguments.models, *range(arguments.graphs)]
    failed = skipped = 0
    with sweep(len(sources), "models") as line:
        for source in line.each(sources):
            try:
                model = _model(source)
                run(model, make_inputs(model.main, InputSet("normal")))
            except CirclekitError as error:
                skipped += 1
                print(f"{source}: the whole does not run: {error.message}")
                continue
            for seed in range(arguments.seeds):
                try:
                    wrong = list(findings(model, seed))
                except CirclekitError as error:
                    wrong = [f"seed {seed}: {error}"]
                failed += len(wrong)
                print(*(f"{source}: {text}" for text in wrong), sep="\n", end="\n" if wrong else "")
    print(
        f"{len(sources)} models, {arguments.seeds} partitions of each: {failed} wrong, {skipped} do not run"
    )
    return line.exit_code(bool(failed))


def _model(source: str | int) -> Model:
    if isinstance(source, int):
        return random_model(source, steps=12)[0]
    return load_recipe(source) if source.endswith((".recipe", ".ck")) else circlekit.load(source)


if __name__ == "__main__":
    raise SystemExit(main())
