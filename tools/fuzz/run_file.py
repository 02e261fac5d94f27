# SPDX-License-Identifier: Apache-2.0
"""Run one damaged file that is not a model through everything that reads such files."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import circlekit
from circlekit.api.options import read_pipeline
from circlekit.equivalence.data_files import hdf5, tensor_files
from circlekit.equivalence.data_files.array_files import compare_files
from circlekit.errors import CirclekitError
from circlekit.interp.interpreter import run
from circlekit.io.read.load import load_bytes
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import to_bytes
from circlekit.ir.graph import Model
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.text import parse_model
from circlekit.recipes.dredd_cases import cases_of
from circlekit.recipes.rules.one_rules import parse_one_rules
from circlekit.recipes.rules.rule import Subject
from tools.fuzz.case import Case
from tools.fuzz.run_model import REFUSED, SAVED, ModelRun, Outcome
from tools.fuzz.values import MAX_CALLS

VALUE_MEMORY = "256M"
OUTPUT = "out."
"""Prefix of the files that a step may write."""

BATCH_NORM = """
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
"""A batch norm in training mode, which ``freeze_batchnorm`` freezes with recorded data."""


class FileRun(ModelRun):
    """One case under way, in a temporary folder to which no other file may be added."""

    def outcome_of(self, case: Case) -> Outcome:
        """Run all steps for a file of this kind; every exception becomes an outcome."""
        return self.guarded(lambda: self._run_file(case))

    def _run_file(self, case: Case) -> Outcome:
        with temporary_folder() as folder, limited(VALUE_MEMORY, MAX_CALLS):
            path = folder / ("test" + case.suffix)
            for name, data in {path.name: case.data, **dict(case.beside)}.items():
                (folder / name).write_bytes(data)
            before = sorted(folder.iterdir())
            steps = STEPS[case.kind]
            if case.kind == "hdf5":  # each step starts a process: only one of them
                steps = (steps[zlib.crc32(case.data) % len(steps)],)
            refusal = None
            for step in steps:
                self.stage = step.__name__
                try:
                    step(path)
                except CirclekitError as error:
                    check_error(error)
                    refusal = Outcome(REFUSED, self.stage, type(error).__name__, str(error))
            after = sorted(p for p in folder.iterdir() if not p.name.startswith(OUTPUT))
            if after != before:
                raise AssertionError(f"files were added or removed: {set(after) ^ set(before)}")
            return refusal or Outcome(SAVED, "saved")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a new folder the current one, because relative names are looked up there."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        try:
            os.chdir(name)
            yield Path(name)
        finally:
            os.chdir(here)


def check_error(error: CirclekitError) -> None:
    """Require that the message is one line, and that no failed allocation caused it."""
    if "\n" in error.message:
        raise AssertionError(f"more than one line: {error.message[:200]!r}")
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            raise cause
        cause = cause.__cause__ or cause.__context__


# -- readers -----------------------------------------------------------------------------------


def batch_norm() -> Model:
    return parse_model(BATCH_NORM)


def read_hdf5(path: Path) -> None:
    hdf5.read(path)


def read_records(path: Path) -> None:
    list(hdf5.read_records(path))


def compare_hdf5(path: Path) -> None:
    list(map(str, compare_files(path, "good.h5", 0.001)))


def run_on_hdf5(path: Path) -> None:
    model = batch_norm()
    outputs = run(model, tensor_files.read_h5(path, model.main.inputs))
    tensor_files.write_h5(OUTPUT, model.main.outputs, outputs)


def freeze_batch_norm(path: Path) -> None:
    circlekit.optimize(batch_norm(), "freeze_batchnorm", settings={"freeze_batchnorm": path})


def run_pipeline(path: Path) -> None:
    model = batch_norm()
    circlekit.optimize(model, read_pipeline(path))
    to_bytes(model)


def check_rules(path: Path) -> None:
    rules = parse_one_rules(path.read_bytes().decode("utf-8", "replace"), path.name)
    data = to_bytes(batch_norm(), "circle")
    write_file(OUTPUT, [data])
    subject = Subject(OUTPUT, load_bytes(data))
    for rule in rules:
        rule.failure(subject)


def read_cases(path: Path) -> None:
    for case in cases_of(path):
        case.rules()


STEPS: dict[str, tuple[Callable[[Path], None], ...]] = {
    "hdf5": (read_hdf5, read_records, compare_hdf5, run_on_hdf5, freeze_batch_norm),
    "toml": (run_pipeline,),
    "rule": (check_rules,),
    "list": (read_cases,),
}
"""Readers by kind of case."""
