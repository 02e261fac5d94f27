# SPDX-License-Identifier: Apache-2.0
"""All that is tried on one random model: each pass, pairs, lists in any order, O1, files, LiteRT."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

import circlekit
from circlekit.errors import CirclekitError
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.op import OpaqueOp
from circlekit.ir.value import Array
from circlekit.passes.engine.registry import all_passes, find_pass, pass_names
from circlekit.testing.model_builder import example
from tools.random_graphs.checks import FORMATS, RESTLESS, Fault, Original, count_ops
from tools.random_graphs.graphs import make, random_steps
from tools.random_graphs.litert import check_litert

UNSET = frozenset({"freeze_batchnorm", "change_outputs", "sparsify_tensor"})
"""Passes that do nothing, or refuse, unless a user says with what."""

PASSES = tuple(name for name in all_passes() if name not in UNSET)
LISTS, PAIRS, LITERT = 2, 12, 3
"""Lists of passes for each graph; pairs for every PAIRS-th graph, LiteRT for every LITERT-th."""

MOST_PAIRS = 100

Tell = Callable[[str], None]


class Finding(NamedTuple):
    """``kind``: the promise that is broken, by ``passes`` (names, or one pipeline) for ``format``."""

    seed: int
    kind: str
    passes: tuple[str, ...]
    format: str
    sentence: str


@dataclass
class Result:
    """``size``: operators of the model; ``digest``: of the files that O1 makes; ``fired``: by pass."""

    seed: int
    size: int = 0
    digest: int = 0
    litert: bool = False
    fired: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def examine(
    seed: int, folder: Path, tell: Tell = lambda phase: None, passes: Sequence[str] = PASSES
) -> Result:
    """The whole battery on the model of ``seed``; ``tell`` is told what comes next."""
    tell("making")
    model, inputs = make(seed, random_steps(seed))
    return Battery(seed, model, inputs, folder, tell, passes).run()


class Battery:
    def __init__(
        self,
        seed: int,
        model: Model,
        inputs: Sequence[Array],
        folder: Path,
        tell: Tell,
        passes: Sequence[str],
    ) -> None:
        self.original = Original(model, inputs)
        self.result = Result(seed, count_ops(model))
        self.folder = folder
        self.tell = tell
        self.passes = passes
        self.random = np.random.default_rng([seed, 7])

    def run(self) -> Result:
        active = [name for name in self.passes if self.single(name)]
        lists = list(self.lists(active))
        if self.result.seed % PAIRS == 0:
            pairs = [(a, b) for a in active for b in active if a != b]
            some = self.random.permutation(len(pairs))[:MOST_PAIRS]
            lists += [pairs[int(i)] for i in some]
        for names in lists:
            format = FORMATS[int(self.random.integers(2))]
            with self.noting(names, format):
                self.original.check(names, format, is_text_checked=False)
        for format in self.original.formats:
            with self.noting(("O1",), format):
                self.pipeline(format)
        self.result.fired = self.original.fired
        return self.result

    @contextmanager
    def noting(self, passes: tuple[str, ...], format: str) -> Iterator[None]:
        self.tell(f"{','.join(passes)} for {format}")
        try:
            yield
        except Fault as fault:
            if not (fault.kind == "restless" and len(passes) > 1):  # one undoes what the other does
                self.result.findings.append(
                    Finding(self.result.seed, fault.kind, passes, format, str(fault)[:300])
                )

    def single(self, name: str) -> bool:
        """Whether the pass changed anything, and may take part in what follows."""
        kind, before = find_pass(name), self.original.fired[name]
        format = "tflite" if self.result.seed % 2 and "tflite" in kind.formats else "circle"
        if kind.changes_interface:
            with self.noting((name,), format):
                self.original.check_reshaped(name, format)
            return False
        with self.noting((name,), format):
            if self.original.is_changed_by(name, format):
                self.original.check((name,), format, is_text_checked=False)
        return self.original.fired[name] > before

    def lists(self, active: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Passes in any order: those that change the model by themselves, and others."""
        for _ in range(LISTS):
            pool = [
                name
                for name in (*self.passes, *list(active) * 4)
                if name not in RESTLESS and not find_pass(name).changes_interface
            ]
            count = min(int(self.random.integers(2, 9)), len(set(pool)))
            order = [int(i) for i in self.random.permutation(len(pool))]
            yield tuple(dict.fromkeys(pool[i] for i in order))[:count]

    def pipeline(self, format: str) -> None:
        """O1 in all respects."""
        after = self.original.check("O1", format)
        if count_ops(after) > count_ops(self.original.model) and not has_custom(self.original.model):
            raise Fault("grew", f"from {count_ops(self.original.model)} to {count_ops(after)} operators")
        self.tell(f"files of O1 for {format}")
        self.original.check_files(after, self.folder)
        content = (self.folder / f"model.{format}").read_bytes()
        names = pass_names("O1", format=format)
        again = self.original.optimized(names, "O1", format, count=False)
        circlekit.save(again, self.folder / f"twice.{format}")
        if (self.folder / f"twice.{format}").read_bytes() != content:
            raise Fault("nondeterministic", "two runs of O1 make different files")
        self.result.digest = zlib.crc32(content, self.result.digest)
        if format == "tflite" and self.result.seed % LITERT == 0:
            self.tell("LiteRT")
            self.result.litert = check_litert(self.original, after)


def has_custom(model: Model) -> bool:
    """Whether there are operators that may become several of the schema's own."""
    return any(isinstance(op, OpaqueOp) for op in model.ops())


def shows(finding: Finding, folder: Path) -> Callable[[Model], bool]:
    """Whether a model, smaller than that of the finding, still shows the same."""
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
        passes = finding.passes[0] if finding.passes == ("O1",) else finding.passes
        try:
            after = original.check(passes, finding.format)
            if finding.passes == ("O1",):
                if count_ops(after) > count_ops(candidate) and not has_custom(candidate):
                    raise Fault("grew", "more operators")
                original.check_files(after, folder)
                if finding.kind.startswith("LiteRT") or finding.kind == "values":
                    check_litert(original, after)
        except Fault as fault:
            return fault.kind == finding.kind
        except CirclekitError:
            return False
        return False

    return test


def _fits(array: Array, shape: tuple[int | None, ...] | None) -> bool:
    if shape is None or len(shape) != array.ndim:
        return False
    return all(a is None or a == b for a, b in zip(shape, array.shape, strict=True))
