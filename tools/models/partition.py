# SPDX-License-Identifier: Apache-2.0
"""Parts of a model, written and read again, compute the same bits as the whole model; so do the merged parts.

The models are divided at random: by opcode or by name, and by ONE's rule or into as few parts as possible.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import circlekit
from circlekit.errors import CirclekitError
from circlekit.interp.interpreter import run, select_kernels
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.tensor import same_array
from circlekit.ir.value import Array
from circlekit.ir.verifier import check
from circlekit.structure.part_table import PartTable
from circlekit.structure.run_parts import run_parts

PARTITIONS = 6
"""How often each model is divided."""

BACKENDS = ("cpu", "npu", "gpu")


def table_for(model: Model, seed: int) -> PartTable:
    """Return a random table of backends for operators: by opcode for odd seeds, else by name."""
    rng = random.Random(seed)
    backends = BACKENDS[: rng.choice([2, 3])]
    if seed % 2:
        codes = sorted({op.code for op in model.main})
        return PartTable(backends, backends[0], {code: rng.choice(backends) for code in codes})
    names = {op.results[0].name: rng.choice(backends) for op in model.main if op.results}
    return PartTable(backends, backends[0], opnames=names, comply="opname")


def findings(model: Model, inputs: Sequence[Array], seed: int, counts: Counter[str]) -> Iterator[str]:
    """Yield what is wrong with several partitions of ``model``."""
    try:
        run(model, inputs)
    except CirclekitError:
        counts["do not run"] += 1
        return
    for number in range(PARTITIONS * seed, PARTITIONS * (seed + 1)):
        counts["partitions"] += 1
        yield from _wrong(model, inputs, number)


def _wrong(model: Model, inputs: Sequence[Array], seed: int) -> Iterator[str]:
    """Yield each output that one random partition of ``model`` computes with other bits."""
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
