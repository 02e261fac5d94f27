# SPDX-License-Identifier: Apache-2.0
"""circlekit partition and ONE's circle-partitioner divide a model; circle-part-driver runs its parts.

A backend is something that runs operators, given by a name such as cpu.  A connection file lists the files
of the parts and the names of their inputs and outputs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from circlekit.api.models import load
from circlekit.api.structure import load_parts, partition, partition_file, save_parts
from circlekit.cli.arguments import MODEL_HELP, Parser, comma_separated, count, output_path
from circlekit.cli.command import Command, OneCodes
from circlekit.equivalence.data_files.tensor_files import check_folder, read_raw, write_raw
from circlekit.errors import EquivalenceError, ModelError, counted
from circlekit.io.write.file_writer import made_folders, write_file
from circlekit.ir.tensor import same_array
from circlekit.ir.text.columns import format_columns
from circlekit.structure.part_table import COMPLY, PartTable, read_part_file

# -- circle-partitioner ------------------------------------------------------------------------

PARTITIONER = """Divide a circle or TFLite model into parts; each part runs on one backend.

For NAME.circle it writes the parts NAME.00001_BACKEND.circle and so on, and the connection files
NAME.conn.json and NAME.conn.ini, into the folder of --work_path. The parts of a TFLite model
end in .tflite."""


def _declare_partitioner(parser: Parser) -> None:
    parser.add_argument(
        "--part_file", required=True, metavar="FILE", help="which backend runs which operators"
    )
    parser.add_argument("--input_file", required=True, metavar="MODEL", help="the model to divide")
    parser.add_argument("--work_path", default="", metavar="DIR", help="the folder of all files (default: .)")
    parser.add_argument(
        "--backends", default="", metavar="B,B", help="use these backends, not those of the part file"
    )
    parser.add_argument("--default", metavar="B", help="the backend of all other operators")


def _partitioner(arguments: argparse.Namespace) -> int:
    partition_file(
        arguments.part_file,
        arguments.input_file,
        arguments.work_path,
        comma_separated(arguments.backends),
        arguments.default,
    )
    return 0


circle_partitioner = Command(
    "circle-partitioner",
    PARTITIONER,
    "--part_file FILE --input_file MODEL",
    _declare_partitioner,
    _partitioner,
    one=OneCodes(usage=1),
)


# -- circlekit partition -----------------------------------------------------------------------

PARTITION = """Divide a model into parts for several backends.

The backends come from a part file, or from --opcode or --opname with --default. An opcode is a kind of
operators, such as CONV_2D; an opname is the name of a result. The files are named as by ONE's
circle-partitioner. For NAME.circle, they are the parts NAME.00001_BACKEND.circle and so on, and the
connection files NAME.conn.json and NAME.conn.ini. The parts of a TFLite model end in .tflite."""


def _declare_partition(parser: Parser) -> None:
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument(
        "-o", "--output", type=output_path, default=".", metavar="DIR", help="folder to write to (default: .)"
    )
    parser.add_argument("--part", metavar="FILE", help="a part file of ONE's circle-partitioner")
    for kind in COMPLY:
        parser.add_argument(
            f"--{kind}", action="append", default=[], metavar="NAME=B",
            help=f"the operators with the {kind} NAME run on backend B; may be repeated",
        )  # fmt: skip
    parser.add_argument("--default", metavar="B", help="the backend of all other operators")
    parser.add_switch(
        "--fewest",
        help="form few parts, for two backends as few as possible; operators of a part need not be connected",
    )


def _partition(arguments: argparse.Namespace) -> int:
    table = _table(arguments)
    model = load(arguments.model)
    folder = check_folder(arguments.output)
    divided = partition(model, table, arguments.fewest)
    with made_folders(folder):
        connection = save_parts(divided, folder, Path(arguments.model).name)
    rows: list[tuple[object, ...]] = [("file", "operators", "inputs", "outputs")]
    for part, file in zip(divided.parts, connection.parts, strict=True):
        graph = part.model.main
        rows.append((file.file, len(graph), len(graph.inputs), len(graph.outputs)))
    print(format_columns(rows))
    return 0


def _table(arguments: argparse.Namespace) -> PartTable:
    """Return the backend of each operator, by the part file or by the flags; exit for wrong flags."""
    given = [kind for kind in COMPLY if getattr(arguments, kind)]
    if (arguments.part is not None) + len(given) != 1:
        arguments.refuse("expected one of --part, --opcode and --opname")
    if arguments.part is not None:
        table = read_part_file(arguments.part)
        table.default = arguments.default or table.default
        return table
    if arguments.default is None:
        arguments.refuse(f"--{given[0]} needs --default")
    words = getattr(arguments, given[0])
    pairs = dict(word.rpartition("=")[::2] for word in words)  # a word without "=" gives the empty name
    if not all(pairs) or not all(pairs.values()):
        arguments.refuse(f"--{given[0]}: expected NAME=BACKEND")
    if len(pairs) < len(words):
        arguments.refuse(f"--{given[0]}: expected one backend for each name, got a name twice")
    backends = list(dict.fromkeys([arguments.default, *pairs.values()]))
    # the field ``opcodes`` or ``opnames`` gets the pairs; ``comply`` says which of the two counts
    return PartTable(backends, arguments.default, **{f"{given[0]}s": pairs}, comply=given[0])


partition_command = Command("circlekit partition", PARTITION, "model", _declare_partition, _partition)


# -- circle-part-driver ------------------------------------------------------------------------

DRIVER = """Run the parts of a divided model one after the other.

Inputs and outputs are numbered from 0.  Input N is read from the file INPUT_PREFIX followed by N; output N is
written to OUTPUT_PREFIX followed by N, and its shape to the same name with .shape appended."""


def _declare_driver(parser: Parser) -> None:
    parser.add_argument("connection", help="a .conn.ini or .conn.json file, beside the models")
    parser.add_argument("num_inputs", type=count, help="number of inputs")
    parser.add_argument("input_prefix", help="beginning of the names of the input files")
    parser.add_argument("output_prefix", help="beginning of the names of the output files")
    parser.add_switch("--compare", help="run the whole model, too; it is an error if an output differs")


def _drive(arguments: argparse.Namespace) -> int:
    divided = load_parts(arguments.connection)
    main = divided.source.main
    if arguments.num_inputs != len(main.inputs):
        raise ModelError(f"expected {counted(len(main.inputs), 'input')}, got {arguments.num_inputs}")
    inputs = read_raw(arguments.input_prefix, main.inputs)
    outputs = divided.run(inputs)
    write_raw(arguments.output_prefix, main.outputs, outputs)
    for index, array in enumerate(outputs):
        text = ",".join(map(str, array.shape)) or "1"  # "1" for a scalar
        write_file(f"{arguments.output_prefix}{index}.shape", [text.encode()])
    if arguments.compare:
        expected = divided.run_whole(inputs)
        for value, of_parts, of_whole in zip(main.outputs, outputs, expected, strict=True):
            if not same_array(of_parts, of_whole):
                raise EquivalenceError(
                    f"output %{value.name} of the parts differs from that of the whole model"
                )
    return 0


circle_part_driver = Command(
    "circle-part-driver",
    DRIVER,
    "connection num_inputs input_prefix output_prefix",
    _declare_driver,
    _drive,
    one=OneCodes(usage=1),
)
