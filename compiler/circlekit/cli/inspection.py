# SPDX-License-Identifier: Apache-2.0
"""circle-inspect, circle-verify, tfl-inspect, tfl-verify, circle-tensordump, with ONE's flags and lines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import circlekit.ops  # noqa: F401  # declares the operators, whose rules circle-verify checks
from circlekit.api.models import refuse_overwriting
from circlekit.cli.arguments import MODEL_HELP, Parser, input_file, output_path
from circlekit.cli.command import FAILED, Command, OneCodes, for_each_file
from circlekit.cli.output.cost_table import cost_lines, cost_of
from circlekit.cli.output.json_text import json_of_each
from circlekit.cli.output.model_summary import summary_of, summary_text
from circlekit.cli.output.terminal import number_text, printable, text_columns
from circlekit.io.check.check_file import check_bytes
from circlekit.io.file_map import map_file
from circlekit.io.read.flatbuffer_decoder import identify
from circlekit.io.schema import Tree
from circlekit.io.write.file_writer import write_file
from circlekit.recipes.model_file import ModelFile, data_of, dims_of, hdf5_of, name_of
from circlekit.targets.planners import PLANNERS

# -- verify ------------------------------------------------------------------------------------

JSON_SCHEMA_VERSION = 1
"""The version of circle-verify's JSON (docs/guide/verify.md); a change that breaks readers increases it."""


def _declare_verify(parser: Parser) -> None:
    parser.add_argument(
        "files", nargs="+", type=input_file, metavar="file",
        help="a file to check, circle or TFLite; - is the standard input",
    )  # fmt: skip
    parser.add_switch("--strict", help="count a file with warnings as invalid, too")
    parser.add_switch("--json", help="print the findings as JSON; an array for several files")
    parser.add_switch("-q", "--quiet", help="print nothing but the findings")


def _verify(arguments: argparse.Namespace) -> int:
    """Check the bytes of files, and, unlike ONE's command, the models in them."""
    documents = for_each_file(arguments.files, lambda path: _findings(path, arguments))
    failed = sum(not document.get("pass", False) for document in documents)  # an error has no "pass"
    if arguments.json:
        print(json_of_each(documents))
    elif len(documents) > 1 and not arguments.quiet:
        print(f"{len(documents)} files: {len(documents) - failed} valid, {failed} not")
    return FAILED if failed else 0


def _findings(path: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Check the file at ``path``; return the findings as JSON types; print them unless --json is given."""
    data = map_file(path)
    findings = check_bytes(data, path)
    failed = any(arguments.strict or f.severity == "error" for f in findings)
    if not arguments.json:
        place = f"{path}: " if len(arguments.files) > 1 else ""
        verdict = "FAIL" if failed else "PASS"
        if not arguments.quiet:
            print(f"[ RUN       ] Check {printable(path)}", flush=True)  # before the findings
        for f in findings:  # to stderr: scripts search the standard output for PASS
            print(f"{f.severity}: {printable(f'{place}{f}', '')} [{f.rule}]", file=sys.stderr)
        if not arguments.quiet:
            print(f"[      {verdict} ] Check {printable(path)}", flush=True)
    document = {"schema": JSON_SCHEMA_VERSION, "file": path, "format": identify(data), "pass": not failed}
    fields = ("severity", "rule", "path", "message")
    return {**document, "findings": [{field: getattr(f, field) for field in fields} for f in findings]}


VERIFY = "Check the bytes of model files and the models in them."
circle_verify = Command("circle-verify", VERIFY, "file ...", _declare_verify, _verify, one=OneCodes(failed=1))
tfl_verify = Command("tfl-verify", VERIFY, "file ...", _declare_verify, _verify, one=OneCodes(failed=1))


# -- inspect -----------------------------------------------------------------------------------


class View(NamedTuple):
    """A list that a flag prints in place of the summary, one item per line.

    ``help``: the help of the flag.  ``items``: a function of the file.  It returns a list of names, or names
    with values: a list of pairs or a dict.  ``separator``: the text between a name and its value.
    """

    help: str
    items: Callable[[ModelFile], Any]
    separator: str = ""


VIEWS = {
    "operators": View("the kind of each operator", ModelFile.operators),
    "conv2d_weight": View("the producer of the weights of each convolution", ModelFile.conv2d_weights, ","),
    "constants": View("the name of each constant", ModelFile.constants),
    "op_version": View("the highest version of each kind of operator", ModelFile.op_versions, ","),
    "tensor_dtype": View("the element type of each tensor", ModelFile.tensor_dtypes, " "),
    "tensor_shape": View(
        "the shape of each tensor", lambda model: [(name_of(t), dims_of(t)) for t in model.tensors()], " "
    ),
}  # fmt: skip
"""The views by the name of their flag."""


def _declare_inspect(parser: Parser) -> None:
    parser.add_argument(
        "files", nargs="+", type=input_file, metavar="file", help=f"{MODEL_HELP}; - is the standard input"
    )
    parser.add_switch(
        "--json", help="print JSON: the summary, or a key for each flag; an array for several files"
    )
    parser.add_switch(
        "--cost", help="show the cost of each operator, and the live buffers when most memory is needed"
    )
    parser.add_argument(
        "--target", choices=PLANNERS, metavar="T",
        help=f"with --cost: the runtime whose memory planner is used ({', '.join(PLANNERS)}); "
        "default: litert for .tflite, luci for .circle",
    )  # fmt: skip
    views = parser.add_argument_group("in place of the summary, one item per line; not for a model as text")
    for flag, view in VIEWS.items():
        views.add_argument(f"--{flag}", action="append_const", dest="views", const=flag, help=view.help)


def _inspect(arguments: argparse.Namespace) -> int:
    if arguments.target is not None and not arguments.cost:
        arguments.refuse("--target needs --cost")
    if arguments.views and arguments.cost:
        arguments.refuse("expected --cost or flags that print one item per line, got both")
    documents = for_each_file(arguments.files, lambda path: _contents(path, arguments))
    failed = sum("error" in document for document in documents)
    if arguments.json:
        print(json_of_each(documents))
    elif len(documents) > 1:
        print(f"{len(documents)} files: {len(documents) - failed} read, {failed} not")
    return FAILED if failed else 0


def _contents(path: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return, as JSON types, what the flags ask for: the cost, some views, or the summary of a file.

    Unless --json is given, also print it.
    """
    several = len(arguments.files) > 1
    if arguments.cost:
        cost = cost_of(path, arguments.target)
        if not arguments.json:
            print(*cost_lines(cost), sep="\n", end="\n\n" if several else "\n")
        return cost
    if not arguments.views:
        summary = summary_of(path)
        if not arguments.json:
            print(summary_text(summary, text_columns()), end="\n\n" if several else "\n")
        return summary
    model = ModelFile(path)
    views = {flag: view.items(model) for flag, view in VIEWS.items() if flag in arguments.views}
    if not arguments.json:
        if several:
            print(f"==> {path} <==")
        for flag, items in views.items():
            _print_view(items, VIEWS[flag].separator)
    return {"file": path, **views} if several else views


def _print_view(items: Any, separator: str) -> None:
    """Print the items of a ``View``, one per line; a value that is a list is printed in brackets."""
    for item in items.items() if isinstance(items, dict) else items:
        if isinstance(item, str):
            print(item)
            continue
        name, value = item
        shown = f"[{','.join(map(str, value))}]" if isinstance(value, list) else value
        print(f"{name}{separator}{shown}")


INSPECT = "Summarize models: interface, operators, size, cost."
circle_inspect = Command(
    "circle-inspect", INSPECT, "file ...", _declare_inspect, _inspect, one=OneCodes(unread=255)
)
tfl_inspect = Command(
    "tfl-inspect", INSPECT, "file ...", _declare_inspect, _inspect, one=OneCodes(unread=255)
)


# -- tensordump -----------------------------------------------------------------------------------


def _declare_tensordump(parser: Parser) -> None:
    parser.add_argument("file", metavar="circle", help="the file to read")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--tensors", action="store_true", help="print the tensors")
    target.add_argument(
        "--tensors_to_hdf5", type=output_path, metavar="FILE", help="write the tensors to an HDF5 file"
    )


def _tensordump(arguments: argparse.Namespace) -> int:
    if arguments.tensors_to_hdf5 is not None:
        refuse_overwriting(arguments.file, arguments.tensors_to_hdf5)
        write_file(arguments.tensors_to_hdf5, [hdf5_of(ModelFile(arguments.file))])
        return 0
    model = ModelFile(arguments.file)
    for tensor in model.tensors():
        for line in _lines(model, tensor):
            print(line)
    return 0


def _lines(model: ModelFile, tensor: Tree) -> Iterator[str]:
    """Yield the lines that ONE's circle-tensordump prints for ``tensor``."""
    data = data_of(model, tensor)
    quantization = tensor.get("quantization")
    yield "-" * 70
    yield f"[{name_of(tensor)}]"
    shape = ", ".join(str(int(d)) for d in tensor.get("shape", ()))
    yield f" {'└──' if data is None and quantization is None else '├──'} shape : ({shape})"
    if quantization is not None:
        yield f" {'└──' if data is None else '├──'} quantization"
        margin = " " if data is None else "│"
        for name in ("min", "max", "scale", "zero_point"):
            yield f" {margin}   ├── {name:10} : {', '.join(_numbers(quantization.get(name)))}"
        yield f" {margin}   └── quantized_dimension : {quantization.get('quantized_dimension', 0)}"
    if data is not None:
        yield " └── buffer"
        yield f"     ├── index : {tensor.get('buffer', 0)}"
        yield f"     ├── size  : {data.nbytes}"
        yield f"     └── data  : {''.join(f'{x}, ' for x in _numbers(data))}"
    yield ""


def _numbers(array: Any) -> list[str]:
    """Return the elements of ``array`` as texts; [] for None."""
    return [] if array is None else [number_text(x) for x in array.reshape(-1).tolist()]


TENSORDUMP = "Print or export the tensors of a circle file."
circle_tensordump = Command(
    "circle-tensordump", TENSORDUMP, "circle", _declare_tensordump, _tensordump, one=OneCodes()
)
