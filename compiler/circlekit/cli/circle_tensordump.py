# SPDX-License-Identifier: Apache-2.0
"""circle-tensordump: the tensors of a circle file, with data and quantization."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from circlekit.cli.common import Parser, run_command

if TYPE_CHECKING:
    from circlekit.io.schema import Tree
    from circlekit.recipes.model_file import ModelFile


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(_parser, argv, _run)


def _parser() -> Parser:
    parser = Parser("circle-tensordump", "Print or export the tensors of a circle file.", "circle")
    parser.add_argument("file", metavar="circle", help="the file to read")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--tensors", action="store_true", help="print them")
    target.add_argument("--tensors_to_hdf5", metavar="FILE", help="write them as groups of an HDF5 file")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from circlekit.io.write.file_writer import write_file
    from circlekit.recipes.model_file import ModelFile
    from circlekit.recipes.tensor_export import hdf5_of

    if arguments.tensors_to_hdf5 is not None:
        from circlekit.api.checks import check_apart

        check_apart(arguments.file, arguments.tensors_to_hdf5)
    facts = ModelFile(arguments.file)
    if arguments.tensors_to_hdf5 is not None:
        write_file(arguments.tensors_to_hdf5, [hdf5_of(facts)])
        return 0
    for tensor in facts.tensors():
        for line in _lines(facts, tensor):
            print(line)
    return 0


def _lines(facts: ModelFile, tensor: Tree) -> Iterator[str]:
    from circlekit.recipes.model_file import name_of
    from circlekit.recipes.tensor_export import data_of

    data = data_of(facts, tensor)
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
    """Floats with six digits, as C++ streams have them."""
    if array is None:
        return []
    return [f"{x:.6g}" if isinstance(x, float) else str(x) for x in array.reshape(-1).tolist()]
