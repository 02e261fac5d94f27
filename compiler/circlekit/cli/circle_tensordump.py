# SPDX-License-Identifier: Apache-2.0
"""circle-tensordump: print or export the tensors of a circle file, with data and quantization."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from circlekit.api.models import check_apart
from circlekit.cli.command import Command, Parser
from circlekit.io.schema import Tree
from circlekit.io.write.file_writer import write_file
from circlekit.recipes.model_file import ModelFile, data_of, hdf5_of, name_of


def _declare(parser: Parser) -> None:
    parser.add_argument("file", metavar="circle", help="the file to read")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--tensors", action="store_true", help="print them")
    target.add_argument("--tensors_to_hdf5", metavar="FILE", help="write them as groups of an HDF5 file")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.tensors_to_hdf5 is not None:
        check_apart(arguments.file, arguments.tensors_to_hdf5)
        write_file(arguments.tensors_to_hdf5, [hdf5_of(ModelFile(arguments.file))])
        return 0
    model = ModelFile(arguments.file)
    for tensor in model.tensors():
        for line in _lines(model, tensor):
            print(line)
    return 0


def _lines(model: ModelFile, tensor: Tree) -> Iterator[str]:
    """Yield ONE's lines for one tensor."""
    data = data_of(model, tensor)
    quantization = tensor.get("quantization")
    yield "-" * 70
    yield f"[{name_of(tensor)}]"
    shape = ", ".join(str(int(d)) for d in tensor.get("shape", ()))
    yield f" {'└──' if data is None and quantization is None else '├──'} shape : ({shape})"
    if quantization is not None:
        yield f" {'└──' if data is None else '├──'} quantization"
        side = " " if data is None else "│"
        for name in ("min", "max", "scale", "zero_point"):
            yield f" {side}   ├── {name:10} : {', '.join(_numbers(quantization.get(name)))}"
        yield f" {side}   └── quantized_dimension : {quantization.get('quantized_dimension', 0)}"
    if data is not None:
        yield " └── buffer"
        yield f"     ├── index : {tensor.get('buffer', 0)}"
        yield f"     ├── size  : {data.nbytes}"
        yield f"     └── data  : {''.join(f'{x}, ' for x in _numbers(data))}"
    yield ""


def _numbers(array: Any) -> list[str]:
    """Format elements as C++ streams do: floats with six significant digits."""
    if array is None:
        return []
    return [f"{x:.6g}" if isinstance(x, float) else str(x) for x in array.reshape(-1).tolist()]


main = Command("circle-tensordump", "Print or export the tensors of a circle file.", "circle", _declare, _run)
