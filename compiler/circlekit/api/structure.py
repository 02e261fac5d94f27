# SPDX-License-Identifier: Apache-2.0
"""Divide models, cut out submodels, connect models, and change the shapes of inputs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from circlekit.api.models import FilePath, encode_file, load
from circlekit.errors import FileError, FormatError, FormatWarning, ModelError, UnsupportedError, counted
from circlekit.interp.evaluate import Inputs, check_kind
from circlekit.interp.interpreter import run as run_model
from circlekit.interp.interpreter import select_kernels
from circlekit.io.file_map import translated
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import format_of, write
from circlekit.ir.graph import Model, check_model
from circlekit.ir.value import Array
from circlekit.structure import merge as merging
from circlekit.structure import resize as resizing
from circlekit.structure import selection
from circlekit.structure.connection import Connection, connection, read_connection
from circlekit.structure.input_shapes import Shapes
from circlekit.structure.part_table import PartTable, read_part_file
from circlekit.structure.partition import Partition
from circlekit.structure.partition import partition as divide
from circlekit.structure.run_parts import run_parts


def partition(model: Model, table: PartTable | FilePath, fewest: bool = False) -> Partition:
    """Divide ``model`` into parts; all operators of a part run on the same backend, such as ``cpu``.

    ``table``: the backend of each operator, or the path of a part file of ONE's circle-partitioner.
    ``fewest``: form few parts; for two backends, as few as possible.  By default, as in ONE, an operator
    joins the parts from which it reads, and they become one part, under these conditions:

    - the parts have the same backend as the operator
    - if the operator also reads an input of ``model``, its backend is the default backend of ``table``
    - no other part would have to run between the operators of the new part

    A value that one part computes and another part reads has the same name in both.  ``save_parts`` writes
    the parts.

    Raise FileError if the file cannot be read, FormatError if the table or file is wrong, ModelError if an
    operator reads what a later one produces, UnsupportedError if operators with resources, or operators that
    share a variable, would be in different parts.
    """
    check_model(model)
    if not isinstance(table, PartTable | str | os.PathLike):
        raise FormatError(f"expected a PartTable or the path of a part file, got {type(table).__name__}")
    return divide(model, table if isinstance(table, PartTable) else read_part_file(Path(table)), fewest)


def select(model: Model, ids: Iterable[int] = (), names: str | Iterable[str] = ()) -> Model:
    """Return a model of chosen operators of the main graph.

    An operator is chosen by ``ids``, indices from 0, or by ``names``, names of results (or one name).
    The inputs of the new model are the values that the chosen operators read but do not produce.  Constants
    are not inputs, nor are variables that were no inputs of the graph.  The outputs of the new model are the
    results of chosen operators that operators outside of the choice read, or that are outputs of ``model``;
    if there are none, the results that no operator reads.
    Raise ModelError for an unknown index or name, or if no operator is chosen.  Raise UnsupportedError if the
    chosen operators share a variable with others, if they and others use resources, or if an input or output
    would be a handle of a resource.
    """
    check_model(model)
    return selection.select(model, ids, names)


def extract(model: Model, inputs: str | Iterable[str] = (), outputs: str | Iterable[str] = ()) -> Model:
    """Return a model of the operators of the main graph that compute ``outputs`` from ``inputs``.

    ``inputs``: names of inputs or results of the graph, or one name.  If the outputs also depend on other
    inputs of the graph, these become inputs after the named ones.
    ``outputs``: names of inputs or results, or one name; if empty, the outputs of the graph.  Raise
    ModelError for an unknown name, and for a named input that the outputs do not need if the others are
    given.  Raise UnsupportedError if the operators share a variable with others, if they and others use
    resources, or if an input or output would be a handle of a resource.
    """
    check_model(model)
    return selection.extract(model, inputs, outputs)


def resize(model: Model, shapes: Shapes) -> Model:
    """Return a copy of ``model`` whose inputs have other shapes.

    ``shapes``: a list with a shape for each input, or a dict by name with shapes for some inputs; -1 or None
    stands for an unknown dimension.  The shapes of all results are inferred.  A constant that states a shape,
    such as the operand of a RESHAPE, changes, too.
    Raise ModelError for a wrong number of shapes or an unknown name.  Raise ShapeError

    - for a dimension that is neither -1 nor from 0 to 2^31 - 1, or more than 32 dimensions
    - if the quantization of an input or result does not fit its new shape
    - if operators that call the same graph would give it different shapes
    - if the operands of an operator no longer fit; the error says where
    """
    check_model(model)
    return resizing.resize(model, shapes)


def merge(
    models: Iterable[Model], connect: Mapping[str, str] | None = None, outputs: str | Iterable[str] = ()
) -> Model:
    """Return one model that computes what ``models`` compute one after the other.

    ``connect``: {name of an input: name of the output that it reads, which is an output of another model}.
    Any other input reads the output of the same name that another model computes.  If there is no such
    output, the input becomes an input of the result; models that have an input of this name share it.
    ``outputs``: the names of the outputs of the result, or one name; by default all outputs that no other
    model reads.  A model that passes a value on, as an output of the same name, does not count as reading it.
    Raise ModelError if there are no models, if two models compute outputs of the same name, if ``connect``
    joins an input and an output of one model, for unknown names, and for models that form a cycle.  Raise
    ShapeError if an input has another type than the output that it reads, or if inputs that are shared have
    different types.  Raise UnsupportedError if two models name the same state, such as a variable, and if an
    operator calls the main graph of its model.
    """
    if not isinstance(models, Iterable):
        raise ModelError(f"expected several Models, got {type(models).__name__}")
    models = list(models)
    for model in models:
        check_model(model)
    return merging.merge(models, connect, outputs)


def save_parts(divided: Partition, folder: FilePath, source: str) -> Connection:
    """Write the parts and two connection files into ``folder``; return the connection.

    A connection lists the file of each part and the names of the inputs and outputs of the part.  An input
    reads the output of the same name of another part.
    ``source``: the file name of the divided model.  For ``NAME.circle`` the written files are
    ``NAME.00001_BACKEND.circle`` and so on, ``NAME.conn.json`` and ``NAME.conn.ini``.  The parts of a
    ``.tflite`` file end in ``.tflite``; those of a recipe have the extension of the model's format.
    If the .conn.ini file cannot express a name, issue a FormatWarning and do not write this file.
    Raise the errors of ``save``.  No file is written if one of the parts cannot be expressed in its format.
    """
    stem, suffix = os.path.splitext(os.path.basename(source))  # noqa: PTH119, PTH122  # a name, not a path
    is_model = format_of(source) is not None  # by its extension; else it is, in most cases, a recipe
    files = [
        f"{stem}.{n:05}_{part.backend}{suffix if is_model else f'.{part.model.format}'}"
        for n, part in enumerate(divided.parts, 1)
    ]
    connected = connection(divided, source, files)
    contents = [encode_file(part.model, file) for file, part in zip(files, divided.parts, strict=True)]
    for file, content, part in zip(files, contents, divided.parts, strict=True):
        write(content, Path(folder) / file, part.model.source)
    write_file(Path(folder) / f"{stem}.conn.json", [connected.to_json().encode()])
    try:
        text = connected.to_ini()
    except UnsupportedError as error:
        warnings.warn(f"{stem}.conn.ini is not written: {error}", FormatWarning, stacklevel=2)
    else:
        write_file(Path(folder) / f"{stem}.conn.ini", [text.encode()])
    return connected


def partition_file(
    part_file: str,
    input_file: str,
    work_path: FilePath = "",
    backends: Sequence[str] = (),
    default: str | None = None,
) -> Connection:
    """Divide the model ``input_file`` by ``part_file``; write the parts; return the connection.

    Both files are in the folder ``work_path``, by default the working directory.  The parts are written there
    (``save_parts``).
    ``backends``: all backends.  ``default``: the backend of operators that the part file does not name.  Each
    of the two, if not empty, replaces the entry of the part file.
    Raise FileError if a file cannot be read or written, and the errors of ``load`` and ``partition``.
    """
    folder = Path(work_path)
    with translated(work_path or ".", "used"):
        if not folder.is_dir():
            raise FileError(f"{folder}: no such folder")
    model = load(folder / input_file)
    table = read_part_file(folder / part_file, backends, default)
    return save_parts(partition(model, table), folder, input_file)


@dataclass
class DividedModel:
    """A divided model, loaded from files: the ``source`` model, its ``parts``, and their ``connection``."""

    source: Model
    parts: list[Model]
    connection: Connection

    def run(self, inputs: Inputs) -> list[Array]:
        """Run the parts one after the other; return the outputs of the source model, bit for bit.

        ``inputs``: a list in the order of the source model's inputs, or a dict by name; arrays for names that
        are no inputs are ignored.
        Raise ModelError for a wrong type or number of inputs, or if nothing provides an input of a part or an
        output of the source model.  Raise the errors of the function ``run``.
        """
        whole = self.connection.source  # file, inputs and outputs of the source model, by name
        check_kind(inputs)
        if isinstance(inputs, Mapping):
            inputs = [inputs[name] for name in whole.inputs if name in inputs]
        inputs = list(inputs)
        if len(inputs) != len(whole.inputs):
            raise ModelError(
                f"{whole.file}: expected {counted(len(whole.inputs), 'input')}, got {len(inputs)}"
            )
        given = dict(zip(whole.inputs, inputs, strict=True))
        kernels = select_kernels(self.source)  # alone, a part might select other kernels
        values = run_parts(self.parts, given, kernels)
        missing = [name for name in whole.outputs if name not in values]
        if missing:
            raise ModelError(f"no part provides output %{missing[0]} of {whole.file}")
        return [values[name] for name in whole.outputs]

    def run_whole(self, inputs: Inputs) -> list[Array]:
        """Run the source model itself and return its outputs."""
        return run_model(self.source, inputs)


def load_parts(path: FilePath) -> DividedModel:
    """Load the source model and the parts that the .conn.ini or .conn.json file ``path`` names.

    A model file is in the folder of ``path`` or, as ONE expects, in the working directory.
    Raise FormatError if ``path`` is not a connection file, FileError if a file cannot be read, and the errors
    of ``load``.
    """
    connected = read_connection(Path(path))

    def find(file: str) -> Path:
        """Return the path of ``file``; if it is in neither folder, the path beside ``path``."""
        beside, working = Path(path).parent / file, Path(file)
        return working if working.exists() and not beside.exists() else beside

    source, *parts = (load(find(part.file)) for part in (connected.source, *connected.parts))
    return DividedModel(source, parts, connected)
