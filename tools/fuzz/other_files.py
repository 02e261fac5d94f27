# SPDX-License-Identifier: Apache-2.0
"""Runs of files that are no models: each through everything that reads such a file."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import circlekit
from circlekit.api.options import read_pipeline
from circlekit.equivalence import hdf5
from circlekit.equivalence import tensor_files as values
from circlekit.equivalence.hdf5_diff import compare_files
from circlekit.errors import CirclekitError
from circlekit.interp.interpreter import run
from circlekit.io.read.load import load_bytes
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.resource_limits import limited
from circlekit.ir.text import parse_model
from circlekit.recipes.dredd_cases import cases_of
from circlekit.recipes.load import load_recipe
from circlekit.recipes.rules.one_rules import parse_one_rules
from circlekit.recipes.rules.rule import Subject
from tools.fuzz.case import Case
from tools.fuzz.hdf5 import SECRET
from tools.fuzz.runner import REFUSED, SAVED, Outcome, Run
from tools.fuzz.values import MOST_CALLS

MEMORY = "256M"
"""For the values of a run; what reads files has to do with less by itself."""

MODEL = """
    graph main(%x: f32[2,3], %y: i32[2], %z: f32[4]) -> %a, %b, %y, %z {
      %mean = Mean(%x, [0]) {keep_dims: true}
      %diff = SquaredDifference(%x, %mean)
      %var = Mean(%diff, [0]) {keep_dims: true}
      %sum = Add(%var, 0.001)
      %root = Rsqrt(%sum)
      %less = Sub(%x, %mean)
      %a = Mul(%less, %root)
      %b = Abs(%y)
    }
"""
"""A batch norm in training mode, which is what ``freeze_batchnorm`` freezes."""

Step = Callable[[Path], object]


class OtherRun(Run):
    """One file under way, in a folder of its own that nothing may be added to."""

    def outcome_of(self, case: Case) -> Outcome:
        return self.guarded(lambda: self._attempt(case))

    def _attempt(self, case: Case) -> Outcome:
        with _folder() as folder, limited(MEMORY, MOST_CALLS):
            path = folder / ("test" + case.suffix)
            for name, data in {path.name: case.data, **dict(case.beside)}.items():
                (folder / name).write_bytes(data)
            before = sorted(folder.iterdir())
            refusal = self._steps(_steps_for(case), path)
            made = set(folder.iterdir()) - {folder / f"{OUTPUT}{end}" for end in ("", *range(99))}
            if sorted(made) != before:
                raise AssertionError(f"files came or went: {made.symmetric_difference(before)}")
            return refusal or Outcome(SAVED, "saved")

    def _steps(self, steps: dict[str, Step], path: Path) -> Outcome | None:
        """What refused the file last; all are asked."""
        last = None
        for self.stage, step in steps.items():
            last = _refusal_of(step, path, self.stage) or last
        return last


def _steps_for(case: Case) -> dict[str, Step]:
    """All, or one where each starts a process."""
    steps = STEPS[case.kind]
    if case.kind != "hdf5":
        return steps
    name = list(steps)[zlib.crc32(case.data) % len(steps)]
    return {name: steps[name]}


def _refusal_of(step: Step, path: Path, stage: str) -> Outcome | None:
    try:
        step(path)
    except CirclekitError as error:
        _check_refusal(error)
        return Outcome(REFUSED, stage, type(error).__name__, str(error))
    return None


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that is the current one: what is named without one would be found in it."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        try:
            os.chdir(name)
            yield Path(name)
        finally:
            os.chdir(here)


def _check_refusal(error: CirclekitError) -> None:
    """It is one line, and no memory was sought in vain before it."""
    if "\n" in error.message:
        raise AssertionError(f"more than one line: {error.message[:200]!r}")
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            raise cause
        cause = cause.__cause__ or cause.__context__


# -- what reads them ---------------------------------------------------------------------------

OUTPUT = "out."


def _model() -> Model:
    return parse_model(MODEL)


def _not_secret(arrays: list[Any]) -> None:
    for array in arrays:
        if array.dtype.kind in "fc" and np.any(array == SECRET):
            raise AssertionError("numbers of another file were read")


def _read(path: Path) -> None:
    _not_secret([array for _, array in hdf5.read(path)])


def _records(path: Path) -> None:
    _not_secret([array for record in hdf5.read_records(path) for array in record])


def _compare(path: Path) -> None:
    list(map(str, compare_files(path, "good.h5", 0.001)))


def _interpret_h5(path: Path) -> None:
    model = _model()
    values.write_h5(OUTPUT, model.main.outputs, run(model, values.read_h5(path, model.main.inputs)))


def _freeze(path: Path) -> None:
    circlekit.optimize(_model(), "freeze_batchnorm", settings={"freeze_batchnorm": path})


def _pipeline(path: Path) -> None:
    model = _model()
    circlekit.optimize(model, read_pipeline(path))
    to_bytes(model)


def _rules(path: Path) -> None:
    rules = parse_one_rules(path.read_bytes().decode("utf-8", "replace"), path.name)
    data = to_bytes(_model(), "circle")
    write_file(OUTPUT, [data])
    subject = Subject(OUTPUT, load_bytes(data))
    for rule in rules:
        str(rule.check(subject))


def _cases(path: Path) -> None:
    for case in cases_of(path):
        case.rules()


def _interpret_raw(path: Path) -> None:
    model = circlekit.load(path)
    values.write_raw(OUTPUT, model.main.outputs, run(model, values.read_raw("in.", model.main.inputs)))


def _cook(path: Path) -> None:
    to_bytes(load_recipe(path))


STEPS: dict[str, dict[str, Step]] = {
    "hdf5": {
        "read": _read, "records": _records, "i5diff": _compare, "interpret": _interpret_h5, "freeze": _freeze,
    },
    "toml": {"pipeline": _pipeline},
    "rule": {"rules": _rules},
    "list": {"cases": _cases},
    "raw": {"interpret": _interpret_raw},
    "npy": {"cook": _cook},
}  # fmt: skip
"""By kind of case: what the file goes through."""
