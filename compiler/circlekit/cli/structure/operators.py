# SPDX-License-Identifier: Apache-2.0
"""circle-operator lists the operators of a model; circle-input-names lists ONE's names of operands."""

from __future__ import annotations

import argparse
import json

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.api.models import refuse_overwriting
from circlekit.cli.arguments import Parser, output_path
from circlekit.cli.command import Command, OneCodes
from circlekit.io.write.file_writer import write_file
from circlekit.ir.op import REGISTRY
from circlekit.recipes.model_file import ModelFile

OPERATOR = """List the operators of the main graph of a model, one on each line.

A line is KIND,RESULT: the kind of the operator and the name of its first result. With only --name,
a line is RESULT; with only --code, it is KIND."""


def _declare_operator(parser: Parser) -> None:
    parser.add_argument("circle", help="a .circle or .tflite file")
    parser.add_switch("--name", help="list the names of first results")
    parser.add_switch("--code", help="list the kinds of the operators")
    parser.add_argument(
        "--output_path", type=output_path, metavar="FILE", help="write to this file (default: print)"
    )


def _operator(arguments: argparse.Namespace) -> int:
    if arguments.output_path is not None:
        refuse_overwriting(arguments.circle, arguments.output_path)
    file = ModelFile(arguments.circle)
    with_code = arguments.code or not arguments.name
    with_name = arguments.name or not arguments.code
    lines: list[str] = []
    for graph in file.graphs[:1]:  # the tables of the file as dicts, with the field names of the schema
        for op in graph.get("operators", ()):
            first = [file.tensor_name(graph, index) for index in op.get("outputs", ())[:1]]
            words = ([file.code_of(op)] if with_code else []) + (first if with_name else [])
            lines.append(",".join(words))
    text = "".join(f"{line}\n" for line in lines)
    if arguments.output_path is None:
        print(text, end="")
    else:
        write_file(arguments.output_path, [text.encode()])
    return 0


circle_operator = Command(
    "circle-operator",
    OPERATOR,
    "circle",
    _declare_operator,
    _operator,
    one=OneCodes(unread=255),
)


RENAMED = {"lhs": "x", "rhs": "y"}
"""{name of an operand in circlekit: its name in ONE}, for any operand of any operator.

Source of this table and of the next two: ONE's folder luci/logex.
"""

FIRST_NAMES = {
    "x": "ABS CAST CEIL COS EXP FLOOR L2_NORMALIZATION LOG LOGICAL_NOT LOGISTIC NEG ROUND RSQRT SIN SQRT"
    " SQUARE TANH",
    "features": "ELU GELU HARD_SWISH LEAKY_RELU RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1",
    "value": "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D UNPACK",
    "logits": "LOG_SOFTMAX SOFTMAX",
    "inputs": "ADD_N FAKE_QUANT",
    "tensor": "RESHAPE REVERSE_V2",
    "diagonal": "MATRIX_DIAG",
    "a": "TRANSPOSE",
    "cond": "IF",
    "input": "SEGMENT_SUM SPLIT_V",
}
"""{ONE's name of the first operand: the operators whose first operand has another name in circlekit}."""

WHOLE_NAMES = {
    "EXPAND_DIMS": "input axis",
    "SELECT": "condition t e",
    "SELECT_V2": "condition t e",
    "SPLIT": "split_dim input",
    "SVDF": "input weight_feature weight_time bias State",
    "TRANSPOSE_CONV": "inputSizes filter outBackProp bias",
}
"""{operator: ONE's names of all its operands}; the other two tables do not apply to these operators."""

INPUT_NAMES = (
    "Print ONE's names of the operands of every operator, as JSON; circlekit's for operators that ONE lacks."
)


def _declare_names(parser: Parser) -> None:
    """Add nothing: the command has no arguments."""


def _names(arguments: argparse.Namespace) -> int:
    # the layout of ONE's output: one line for each operator
    rows = [f'  "{code}" : [ {", ".join(map(json.dumps, _names_of(code)))} ]' for code in sorted(REGISTRY)]
    print("{\n" + ",\n".join(rows) + "\n}")
    return 0


def _names_of(code: str) -> list[str]:
    """Return ONE's names of the operands of the operator ``code``, such as "ADD"."""
    if code in WHOLE_NAMES:
        return WHOLE_NAMES[code].split()
    first = next((name for name, codes in FIRST_NAMES.items() if code in codes.split()), None)
    names = [RENAMED.get(operand.name, operand.name) for operand in REGISTRY[code].operands]
    if code.startswith("REDUCE_") or code in ("MEAN", "SUM"):
        # in reductions, ONE has another name for the operand ``axis``
        names = [name.replace("axis", "reduction_indices") for name in names]
    return names if first is None else [first, *names[1:]]


circle_input_names = Command(
    "circle-input-names",
    INPUT_NAMES,
    "",
    _declare_names,
    _names,
    limits=False,
    one=OneCodes(),
)
