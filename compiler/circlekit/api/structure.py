# SPDX-License-Identifier: Apache-2.0
"""Divide models, cut submodels out of them, connect them, and change the shapes of their inputs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
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
from circlekit.structure import merge as merging
from circlekit.structure import resize as resizing
from circlekit.structure import selection
from circlekit.structure.connection import Connection, connection, read_connection
from circlekit.structure.part_table import PartTable, read_part_file
from circlekit.structure.partition import Partition
from circlekit.structure.partition import partition as divide
from circlekit.structure.resize import Shapes
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


def select(model: Model, ids: Iterable[int] = (), names: Iterable[str] = ()) -> Model:
    """Return a model of chosen operators of the main graph: by their numbers, from 0, or by result names.

    Its inputs are the values that these operators read and do not produce.  Its outputs are their results
    that other operators read or ``model`` returns.  Raise ModelError for a number or name that is no
    operator, or if nothing is chosen; UnsupportedError if the chosen operators share state with others.
    """
    check_model(model)
    return selection.select(model, ids, names)


def extract(model: Model, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> Model:
    """Return the part of the main graph that computes ``outputs`` from ``inputs``: names of any values.

    By default these are the inputs and outputs of the graph.  Inputs of the graph on which the outputs
    depend, too, become inputs after the named ones.  Raise ModelError for an unknown name and for an input
    on which no output depends; UnsupportedError if the operators share state with others.
    """
    check_model(model)
    return selection.extract(model, inputs, outputs)


def resize(model: Model, shapes: Shapes) -> Model:
    """Return a copy of ``model`` whose inputs have other shapes.

    ``shapes``: one for each input, or a dict by name for some; -1 or None is an unknown dimension.  The
    shapes of all results follow, and so do constants that state a shape, such as that of a RESHAPE.  Raise
    ModelError for a wrong number of shapes or an unknown name; ShapeError, with the place, if an operator
    does not fit the new shapes.
    """
    check_model(model)
    return resizing.resize(model, shapes)


def merge(
    models: Sequence[Model], connect: Mapping[str, str] | None = None, outputs: Sequence[str] = ()
) -> Model:
    """Return one model that computes what ``models`` do one after the other.

    An input takes the output of another model with the same name, or the one that ``connect`` gives for it
    ({input: output}); otherwise it is an input of the result.  ``outputs``: names of the outputs; by default
    all that no other model reads.  Raise ModelError for equal names of outputs, unknown names and circles,
    ShapeError if the types of a connection differ.
    """
    for model in models:
        check_model(model)
    return merging.merge(models, connect, outputs)


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
    """Load the source and the parts that a .conn.ini or .conn.json file names.

    They are in its folder, or, as ONE expects, in the working directory.
    """
    connected = read_connection(Path(path))
    files = [part.file for part in (connected.source, *connected.parts)]
    beside = [Path(path).parent / file for file in files]
    found = [a if a.exists() or not Path(b).exists() else Path(b) for a, b in zip(beside, files, strict=True)]
    source, *parts = map(load, found)
    return DividedModel(source, parts, connected)
