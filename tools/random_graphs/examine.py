# SPDX-License-Identifier: Apache-2.0
"""Examine one random model: each pass, lists and pairs of passes, O1, the written files."""

from __future__ import annotations

import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from circlekit.equivalence.workers import Tell
from circlekit.errors import CirclekitError
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.op import OpaqueOp
from circlekit.ir.value import Array
from circlekit.passes.engine.registry import all_passes, find_pass
from circlekit.testing.model_builder import example
from tools.random_graphs.checks import FORMATS, NOT_IDEMPOTENT, Fault, Original, count_ops
from tools.random_graphs.graphs import make, random_steps

NEEDS_SETTINGS = frozenset({"freeze_batchnorm", "change_outputs", "sparsify_tensor"})
"""Passes that are left out, because they need settings."""

PASSES = tuple(name for name in all_passes() if name not in NEEDS_SETTINGS)

LISTS_PER_GRAPH = 2
PAIRS_EVERY, MAX_PAIRS = 12, 100
"""For one in PAIRS_EVERY graphs, at most MAX_PAIRS pairs of passes are run."""


class Finding(NamedTuple):
    """A promise that ``passes`` (names, or a pipeline) break for ``format``.  ``kind``: which promise."""

    seed: int
    kind: str
    passes: tuple[str, ...]
    format: str
    sentence: str


@dataclass
class Result:
    """The result for one model of ``size`` operators.  ``checksum``: of the files after O1.

    ``fired``: the number of changes of each pass.  ``litert``: whether LiteRT ran the model.
    """

    seed: int
    size: int = 0
    checksum: int = 0
    litert: bool = False
    fired: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def examine(seed: int, tell: Tell = lambda phase: None, passes: Sequence[str] = PASSES) -> Result:
    """Examine the model of ``seed``; ``tell`` is called with the name of each step before it starts."""
    tell("making")
    model, inputs = make(seed, random_steps(seed))
    with tempfile.TemporaryDirectory(prefix="random_graphs") as folder:
        original, result = Original(model, inputs), Result(seed, count_ops(model))
        return _Examination(original, result, Path(folder), tell, passes).run()


class _Examination:
    """The examination of one model by ``passes``; files are written to ``folder``."""

    def __init__(
        self, original: Original, result: Result, folder: Path, tell: Tell, passes: Sequence[str]
    ) -> None:
        self.original = original
        self.result = result
        self.folder = folder
        self.tell = tell
        self.passes = passes
        self.random = np.random.default_rng([result.seed, 7])

    def run(self) -> Result:
        """Check single passes, lists of passes, some pairs of passes that change the model, and O1."""
        active = [name for name in self.passes if self.single(name)]
        lists = [self.random_list(active) for _ in range(LISTS_PER_GRAPH)]
        if self.result.seed % PAIRS_EVERY == 0:
            pairs = [(a, b) for a in active for b in active if a != b]
            lists += [pairs[int(i)] for i in self.random.permutation(len(pairs))[:MAX_PAIRS]]
        for names in lists:
            format = FORMATS[int(self.random.integers(2))]
            with self.noting(names, format):
                self.original.check(names, format, with_text=False)
        for format in self.original.formats:
            with self.noting(("O1",), format):
                self.pipeline(format)
        self.result.fired = self.original.fired
        return self.result

    @contextmanager
    def noting(self, passes: tuple[str, ...], format: str) -> Iterator[None]:
        """Turn a fault into a finding."""
        self.tell(f"{','.join(passes)} for {format}")
        try:
            yield
        except Fault as fault:
            if not (fault.kind == "not idempotent" and len(passes) > 1):  # one pass may undo another
                finding = Finding(self.result.seed, fault.kind, passes, format, str(fault)[:300])
                self.result.findings.append(finding)

    def single(self, name: str) -> bool:
        """Check a pass alone; return whether it changed the model and keeps the interface."""
        kind, before = find_pass(name), self.original.fired[name]
        format = "tflite" if self.result.seed % 2 and "tflite" in kind.formats else "circle"
        with self.noting((name,), format):
            if kind.changes_interface:
                self.original.check_interface_change(name, format)
            else:
                self.original.check_single(name, format)
        return self.original.fired[name] > before and not kind.changes_interface

    def random_list(self, active: Sequence[str]) -> tuple[str, ...]:
        """Return 2 to 8 passes in random order, mostly those that change the model."""
        candidates = [
            name
            for name in (*self.passes, *list(active) * 4)
            if name not in NOT_IDEMPOTENT and not find_pass(name).changes_interface
        ]
        count = min(int(self.random.integers(2, 9)), len(set(candidates)))
        order = [int(i) for i in self.random.permutation(len(candidates))]
        return tuple(dict.fromkeys(candidates[i] for i in order))[:count]

    def pipeline(self, format: str) -> None:
        """Check O1: all promises, no more operators than before, the files."""
        after = self.original.check("O1", format)
        check_size(self.original.model, after)
        self.tell(f"files of O1 for {format}")
        self.original.check_files(after, self.folder)
        content = (self.folder / f"model.{format}").read_bytes()
        self.result.checksum = zlib.crc32(content, self.result.checksum)


def check_size(before: Model, after: Model) -> None:
    """Require that there are no more operators than before; a model with opaque ones may grow."""
    if count_ops(after) > count_ops(before) and not any(isinstance(op, OpaqueOp) for op in before.ops()):
        raise Fault("grew", f"from {count_ops(before)} to {count_ops(after)} operators")


def reproduces(finding: Finding, folder: Path) -> Callable[[Model], bool]:
    """Return a function that says whether a smaller model still shows the finding."""
    model, arrays = make(finding.seed, random_steps(finding.seed))
    known = {v.name: a for v, a in zip(model.main.inputs, arrays, strict=True)}

    def test(candidate: Model) -> bool:
        random = np.random.default_rng(3)
        inputs = []
        for value in candidate.main.inputs:
            array = known.get(value.name)
            if array is None or not _fits(array, value.shape):
                array = example(value.shape, value.dtype, random)
            inputs.append(array)
        original = Original(clone(candidate), inputs)
        try:
            if finding.passes != ("O1",):
                original.check(finding.passes, finding.format)
                return False
            after = original.check("O1", finding.format)
            check_size(candidate, after)
            original.check_files(after, folder)
        except Fault as fault:
            return fault.kind == finding.kind
        except CirclekitError:
            return False
        return False

    return test


def _fits(array: Array, shape: tuple[int | None, ...] | None) -> bool:
    is_known = shape is not None and len(shape) == array.ndim
    return is_known and all(a in (None, b) for a, b in zip(shape or (), array.shape, strict=True))
