# SPDX-License-Identifier: Apache-2.0
"""What circle-verify and tfl-verify share, and circle-inspect and tfl-inspect: the peer's flags and lines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from circlekit.cli.common import FAILED, Parser, printable, run_command

if TYPE_CHECKING:
    from circlekit.io.check.findings import Finding
    from circlekit.recipes.model_file import ModelFile

Lines = Callable[["ModelFile"], list[str]]


# -- verify ------------------------------------------------------------------------------------

JSON_SCHEMA = 1
"""Counts changes of the JSON that would break its readers; docs/guide/verify.md says what it is."""


def circle_verify(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments ``argv``, by default those of the process; return its exit code."""
    return _verify("circle-verify", "circle", argv)


def tfl_verify(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments ``argv``, by default those of the process; return its exit code."""
    return _verify("tfl-verify", "tflite", argv)


def _verify(name: str, format: str, argv: Sequence[str] | None) -> int:
    """Command ``name``: can everybody read a file as ``format``, and run it?  It leaves with 1 where not.

    The peer's commands look at the bytes alone; this one at the model in them, too.  Warnings fail with
    ``--strict`` only.
    """

    def parser() -> Parser:
        description = "Check the bytes of a model file, and the model in them; list all that is wrong."
        parser = Parser(name, description, format)
        parser.add_argument("file", metavar=format, help="the file to check")
        parser.add_argument("--strict", action="store_true", help="fail where there are warnings, too")
        parser.add_argument("--json", action="store_true", help="print the findings for machines")
        return parser

    def run(arguments: argparse.Namespace) -> int:
        findings = _findings(arguments.file, format)
        failed = any(arguments.strict or f.severity == "error" for f in findings)
        if arguments.json:
            listed = [
                {"severity": f.severity, "rule": f.rule, "path": f.path, "message": f.message}
                for f in findings
            ]
            tree = {"schema": JSON_SCHEMA, "file": arguments.file, "format": format, "pass": not failed}
            _print_json({**tree, "findings": listed})
            return FAILED if failed else 0
        print(f"[ RUN       ] Check {printable(arguments.file)}")
        for finding in findings:  # not to stdout, where scripts look for PASS
            print(f"{finding.severity}: {printable(str(finding), '')} [{finding.rule}]", file=sys.stderr)
        print(f"[      {'FAIL' if failed else 'PASS'} ] Check {printable(arguments.file)}")
        return FAILED if failed else 0

    return run_command(parser, argv, run)


def _findings(path: str, format: str) -> list[Finding]:
    import circlekit.ops  # noqa: F401  # the rules of operators must be there
    from circlekit.io.check.check_file import check_bytes
    from circlekit.io.check.findings import Finding
    from circlekit.io.file_map import map_file
    from circlekit.io.read.flatbuffer_decoder import identify

    data = map_file(path)
    found = identify(data)
    if found not in (None, format):
        return [Finding("format", "the file", f"it is a {found} file, {format} is wanted")]
    return check_bytes(data, path)


# -- inspect -----------------------------------------------------------------------------------

VIEWS: dict[str, tuple[str, Lines, Callable[[ModelFile], Any]]] = {
    "operators": (
        "the kind of each operator",
        lambda facts: facts.operators(),
        lambda facts: facts.operators(),
    ),
    "conv2d_weight": (
        "what makes the weights of each convolution",
        lambda facts: [f"{kind},{made_by}" for kind, made_by in facts.conv2d_weights()],
        lambda facts: [list(pair) for pair in facts.conv2d_weights()],
    ),
    "constants": (
        "the name of each constant",
        lambda facts: facts.constants(),
        lambda facts: facts.constants(),
    ),
    "op_version": (
        "the highest version of each kind of operator",
        lambda facts: [f"{kind},{version}" for kind, version in facts.op_versions().items()],
        lambda facts: facts.op_versions(),
    ),
    "tensor_dtype": (
        "the element type of each tensor",
        lambda facts: [f"{name} {dtype}" for name, dtype in facts.tensor_dtypes()],
        lambda facts: [list(pair) for pair in facts.tensor_dtypes()],
    ),
    "tensor_shape": (
        "the shape of each tensor",
        lambda facts: [f"{name} {shape}" for name, shape in facts.tensor_shapes()],
        lambda facts: [[name, _dims(shape)] for name, shape in facts.tensor_shapes()],
    ),
}
"""By flag: its help, its lines, and what it is as JSON."""


def _dims(shape: str) -> list[int]:
    return [int(dim) for dim in shape.strip("[]").split(",") if dim]


def circle_inspect(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments ``argv``, by default those of the process; return its exit code."""
    return _inspect("circle-inspect", "circle", argv)


def tfl_inspect(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments ``argv``, by default those of the process; return its exit code."""
    return _inspect("tfl-inspect", "tflite", argv)


def _inspect(name: str, format: str, argv: Sequence[str] | None) -> int:
    """Command ``name``: print some views of a model file."""

    def parser() -> Parser:
        parser = Parser(name, "Print what is in a model file, one thing a line.", format)
        parser.add_argument("file", metavar=format, help="the file to inspect")
        parser.add_argument("--json", action="store_true", help="print one JSON object, by flag")
        for flag, (what, _, _) in VIEWS.items():
            parser.add_argument(f"--{flag}", action="append_const", dest="views", const=flag, help=what)
        return parser

    def run(arguments: argparse.Namespace) -> int:
        from circlekit.recipes.model_file import ModelFile

        views = dict.fromkeys(arguments.views or (VIEWS if arguments.json else ()))
        if not views:
            parser().error(f"at least one of {', '.join('--' + flag for flag in VIEWS)} is wanted")
        facts = ModelFile(arguments.file)
        if arguments.json:
            _print_json({flag: VIEWS[flag][2](facts) for flag in views})
            return 0
        for flag in (flag for flag in VIEWS if flag in views):
            for line in VIEWS[flag][1](facts):
                print(line)
        return 0

    return run_command(parser, argv, run)


def _print_json(tree: Any) -> None:
    import json

    print(json.dumps(tree, indent=2))
