# SPDX-License-Identifier: Apache-2.0
"""one-partition: divide a model into parts for several backends.

A backend is a compiler for devices, or a part of ONE's runtime.  A part file says which backend runs which
operators.
"""

from __future__ import annotations

from pathlib import Path

from circlekit.toolchain.driver import Driver, Invocation
from circlekit.toolchain.option import Option
from circlekit.toolchain.session import Session


def _run(invocation: Invocation, session: Session) -> None:
    """Divide the model and write the parts.  Options ``backends`` and ``default`` override the part file."""
    values = invocation.values
    words = invocation.flags("backends", "default", "work_path", "part_file", "input_file")
    with session.program("circle-partitioner", words):
        from circlekit.api.structure import partition, save_parts  # slow: imports the passes
        from circlekit.structure.part_table import backend_names, read_part_file  # slow, too

        folder = Path(str(values.get("work_path", "")))
        model = session.load(*_reads(invocation))
        backends = backend_names(str(values.get("backends", "")))
        table = read_part_file(folder / str(values["part_file"]), backends, values.get("default"))
        save_parts(partition(model, table), folder, str(values["input_file"]))


def _reads(invocation: Invocation) -> list[str]:
    """Return [path of the model]."""
    folder = Path(str(invocation.values.get("work_path", "")))
    return [str(folder / str(invocation.values["input_file"]))]


one_partition = Driver(
    "one-partition",
    "command line tool to partition circle model by multiple backends",
    lambda: [
        Option("backends", "backends in CSV to use for partitioning"),
        Option("default", "default backend to assign"),
        Option("part_file", "partition file which provides backend to assign", required=True),
        Option("input_file", "input circle model filename", required=True),
        Option("work_path", "folder of the input files and of the parts"),
    ],
    _run,
    log="part_file",  # as in ONE, the log is PART_FILE.log
    reads=_reads,
)
