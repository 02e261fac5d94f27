# SPDX-License-Identifier: Apache-2.0
"""Write the inputs and outputs that were compared as HDF5 files.

``DIR/input.h5``, ``DIR/expected.h5`` (outputs before) and ``DIR/opt.expected.h5`` (outputs after) hold the
normal inputs; ``DIR/boundary``, ``DIR/zero``... the same three files for the other sets of inputs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from circlekit.equivalence.tensor_files import write_h5
from circlekit.equivalence.verify import Verifier
from circlekit.errors import FileError
from circlekit.io.file_map import translated
from circlekit.io.write.file_writer import need_folder, write_file
from circlekit.ir.graph import Model
from circlekit.ir.value import Array

INPUT, EXPECTED, OPTIMIZED = "input.h5", "expected.h5", "opt.expected.h5"


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """Return ``folder`` as a path; FileError if it neither is a directory nor can become one."""
    path = Path(folder)
    with translated(path, "written"):
        if path.exists() and not path.is_dir():
            raise FileError(f"{path}: expected a directory to record into, got a file")
        need_folder(path)
    return path


def write_record(folder: str | os.PathLike[str], model: Model, verifier: Verifier) -> list[Path]:
    """Write what ``verifier`` compared, under the names of ``model``; return the files in order."""
    written = []
    for run, latest in zip(verifier.runs, verifier.latest, strict=True):
        place = check_folder(folder) / ("" if run.kind == verifier.runs[0].kind else run.kind)
        given = list(run.inputs.values()) if isinstance(run.inputs, Mapping) else run.inputs
        with translated(place, "made"):
            place.mkdir(exist_ok=True)
        written += [place / INPUT, place / EXPECTED, place / OPTIMIZED]
        write_h5(place / INPUT, model.main.inputs, given)
        write_h5(place / EXPECTED, model.main.outputs, run.outputs)
        write_h5(place / OPTIMIZED, model.main.outputs, latest)
    return written
