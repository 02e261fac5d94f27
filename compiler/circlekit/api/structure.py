# SPDX-License-Identifier: Apache-2.0
"""Divide models, cut submodels out of them, connect them, and change the shapes of their inputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from circlekit.api.models import FilePath, check_model, load, save
from circlekit.errors import FileError, ModelError
from circlekit.interp.evaluate import Inputs
from circlekit.interp.interpreter import run as run_model
from circlekit.interp.interpreter import select_kernels
from circlekit.io.file_map import translated
from circlekit.io.write.file_writer import write_file
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.structure.connection import Connection, connection, read_connection
from circlekit.structure.part_table import PartTable, read_part_file
from circlekit.structure.partition import Partition
from circlekit.structure.partition import partition as divide
from circlekit.structure.run_parts import run_parts


def partition(model: Model, table: PartTable | FilePath, fewest: bool = False) -> Partition:
    """Divide ``model`` into parts, one for each group of operators that the same backend runs.

    ``table``: the backend of each operator, or the path of a part file of ONE's circle-partitioner.
    ``fewest``: form as few parts as possible; by default an operator joins the part that produces its
    operands, as in ONE.  The parts keep the names of the values between them; ``save_parts`` writes them.

    Raise FormatError if the table or file is wrong, UnsupportedError if operators that share state would be
    in different parts.
    """
    check_model(model)
    return divide(model, table if isinstance(table, PartTable) else read_part_file(Path(table)), fewest)


def save_parts(divided: Partition, folder: FilePath, source: str) -> Connection:
    """Write each part, and how they are connected, into ``folder``; return the connection.

    ``source``: the file name of the model that was divided.  For NAME.circle the files are
    NAME.00001_BACKEND.circle and so on, NAME.conn.json and NAME.conn.ini.
    """
    stem, suffix = os.path.splitext(os.path.basename(source))  # noqa: PTH119, PTH122  # a name, not a path
    files = [f"{stem}.{n:05}_{part.backend}{suffix}" for n, part in enumerate(divided.parts, 1)]
    connected = connection(divided, source, files)
    for file, part in zip(files, divided.parts, strict=True):
        save(part.model, Path(folder) / file)
    write_file(Path(folder) / f"{stem}.conn.json", [connected.to_json().encode()])
    write_file(Path(folder) / f"{stem}.conn.ini", [connected.to_ini().encode()])
    return connected


def partition_file(
    part_file: str,
    input_file: str,
    work_path: FilePath = "",
    backends: Sequence[str] = (),
    default: str | None = None,
    fewest: bool = False,
) -> Connection:
    """Divide the model ``input_file`` by ``part_file``, both in the folder ``work_path``; write the parts.

    ``backends``, ``default``: replace those of the part file.  See ``partition`` and ``save_parts``.
    """
    folder = Path(work_path)
    with translated(work_path or ".", "used"):
        if not folder.is_dir():
            raise FileError(f"{folder}: no such folder")
    model = load(folder / input_file)
    table = read_part_file(folder / part_file)
    table.backends = backends or table.backends
    table.default = default or table.default
    return save_parts(partition(model, table, fewest), folder, input_file)


@dataclass
class DividedModel:
    """A divided model in files: the ``source`` model, its ``parts``, and their ``connection``."""

    source: Model
    parts: list[Model]
    connection: Connection

    def run(self, inputs: Inputs) -> list[Array]:
        """Run the parts one after the other; return the outputs of the source, bit for bit.

        ``inputs``: a list in the order of the source's inputs, or a dict by name.  Raise ModelError if a part
        lacks an input or no part provides an output, and the errors of ``run``.
        """
        names = self.connection.source
        if isinstance(inputs, Mapping):
            inputs = [inputs[name] for name in names.inputs if name in inputs]
        if len(inputs) != len(names.inputs):
            raise ModelError(f"{names.file}: expected {len(names.inputs)} inputs, got {len(inputs)}")
        given = dict(zip(names.inputs, inputs, strict=True))
        values = run_parts(self.parts, given, select_kernels(self.source))
        missing = [name for name in names.outputs if name not in values]
        if missing:
            raise ModelError(f"no part provides output %{missing[0]} of {names.file}")
        return [values[name] for name in names.outputs]

    def run_whole(self, inputs: Inputs) -> list[Array]:
        """Return the outputs of the source model itself."""
        return run_model(self.source, inputs)


def load_parts(path: FilePath) -> DividedModel:
    """Load the source and the parts that a .conn.ini or .conn.json file names; they are in its folder."""
    connected = read_connection(Path(path))
    folder = Path(path).parent
    source, *parts = (load(folder / part.file) for part in (connected.source, *connected.parts))
    return DividedModel(source, parts, connected)
