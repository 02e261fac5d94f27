# SPDX-License-Identifier: Apache-2.0
"""circle-inspect, tfl-inspect, circle-verify and tfl-verify, with ONE's flags and output lines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import circlekit.ops  # noqa: F401  # declares the operators, whose rules circle-verify checks
from circlekit.cli.command import FAILED, Parser, printable, run_command
from circlekit.io.check.check_file import check_bytes
from circlekit.io.check.findings import Finding
from circlekit.io.file_map import map_file
from circlekit.io.read.flatbuffer_decoder import identify
from circlekit.recipes.model_file import ModelFile, name_of, shape_of

# -- verify ------------------------------------------------------------------------------------

JSON_SCHEMA_VERSION = 1
"""Increases when the JSON of circle-verify changes in a way that breaks readers; docs/guide/verify.md."""


def _verify(name: str, format: str) -> partial[int]:
    """Make a command that checks the bytes of a file, and unlike ONE's command the model in them too."""

    def parser() -> Parser:
        parser = Parser(name, "Check the bytes of a model file and the model in them.", format)
        parser.add_argument("file", metavar=format, help="the file to check")
        parser.add_switch("--strict", help="fail for warnings too")
        parser.add_switch("--json", help="print the findings as JSON")
        return parser

    def run(arguments: argparse.Namespace) -> int:
        data = map_file(arguments.file)
        found = identify(data)
        if found in (None, format):
            findings = check_bytes(data, arguments.file)
        else:
            findings = [Finding("format", "the file", f"expected a {format} file, got a {found} file")]
        failed = any(arguments.strict or f.severity == "error" for f in findings)
        if arguments.json:
            tree = {"schema": JSON_SCHEMA_VERSION, "file": arguments.file, "format": format}
            fields = ("severity", "rule", "path", "message")
            listed = [{field: getattr(finding, field) for field in fields} for finding in findings]
            _print_json({**tree, "pass": not failed, "findings": listed})
            return FAILED if failed else 0
        print(f"[ RUN       ] Check {printable(arguments.file)}")
        for finding in findings:  # not to the standard output, which scripts search for PASS
            print(f"{finding.severity}: {printable(str(finding), '')} [{finding.rule}]", file=sys.stderr)
        print(f"[      {'FAIL' if failed else 'PASS'} ] Check {printable(arguments.file)}")
        return FAILED if failed else 0

    return partial(run_command, parser, run)


circle_verify = _verify("circle-verify", "circle")
tfl_verify = _verify("tfl-verify", "tflite")


# -- inspect -----------------------------------------------------------------------------------


class View(NamedTuple):
    """The output of a flag.  ``get``: returns names or pairs; ``separator``: text inside a pair."""

    help: str
    get: Callable[[ModelFile], Sequence[Any]]
    separator: str = ""

    def lines(self, model: ModelFile) -> list[str]:
        """Return a line for each item."""
        lines = []
        for item in self.get(model):
            if not isinstance(item, str):
                name, value = item
                text = f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value)
                item = f"{name}{self.separator}{text}"
            lines.append(item)
        return lines


VIEWS = {
    "operators": View("the kind of each operator", lambda model: model.operators()),
    "conv2d_weight": View(
        "the producer of the weights of each convolution", lambda model: model.conv2d_weights(), ","
    ),
    "constants": View("the name of each constant", lambda model: model.constants()),
    "op_version": View(
        "the highest version of each kind of operator", lambda model: [*model.op_versions().items()], ","
    ),
    "tensor_dtype": View("the element type of each tensor", lambda model: model.tensor_dtypes(), " "),
    "tensor_shape": View(
        "the shape of each tensor", lambda model: [(name_of(t), shape_of(t)) for t in model.tensors()], " "
    ),
}
"""The output of each flag, by its name."""


def _inspect(name: str, format: str) -> partial[int]:
    def parser() -> Parser:
        parser = Parser(name, "Print what is in a model file, one item a line.", format)
        parser.add_argument("file", metavar=format, help="the file to inspect")
        parser.add_switch("--json", help="print a JSON object with a key for each flag")
        for flag, view in VIEWS.items():
            parser.add_argument(f"--{flag}", action="append_const", dest="views", const=flag, help=view.help)
        return parser

    def run(arguments: argparse.Namespace) -> int:
        flags = dict.fromkeys(arguments.views or (VIEWS if arguments.json else ()))
        if not flags:
            parser().error(f"expected at least one of {', '.join('--' + flag for flag in VIEWS)}")
        model = ModelFile(arguments.file)
        if arguments.json:
            tree = {flag: VIEWS[flag].get(model) for flag in flags}
            _print_json({flag: dict(v) if flag == "op_version" else v for flag, v in tree.items()})
            return 0
        for flag in (flag for flag in VIEWS if flag in flags):
            for line in VIEWS[flag].lines(model):
                print(line)
        return 0

    return partial(run_command, parser, run)


circle_inspect = _inspect("circle-inspect", "circle")
tfl_inspect = _inspect("tfl-inspect", "tflite")


def _print_json(tree: Any) -> None:
    print(json.dumps(tree, indent=2))
