# SPDX-License-Identifier: Apache-2.0
"""fm-equalize, fme-detect and fme-apply: equalize feature maps, with ONE's flags and files.

A pattern is a pair of operators, front and back, with a feature map between them.  The back is a layer.  The
front is a layer, or another operator whose constants scale channels, such as a MUL.  The weights and the bias
of the front, or these constants, are divided by a scale for each channel; the weights of the back are
multiplied by the same scales.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from circlekit.api.models import check_output_path, check_output_paths, refuse_overwriting
from circlekit.api.one_tools import equalize_feature_maps
from circlekit.cli.arguments import MODEL_HELP, Parser, output_path
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.one.one_files import load_model, save_model
from circlekit.cli.output.json_text import json_text
from circlekit.errors import CirclekitError, FormatError
from circlekit.io.file_map import map_file
from circlekit.io.parse_json import parse_json
from circlekit.io.write.file_writer import write_file
from circlekit.quant.techniques.feature_map_equalization import (
    Pattern,
    apply_patterns,
    find_patterns,
    patterns_of,
)


def _write_patterns(path: str, patterns: Sequence[Pattern]) -> None:
    write_file(path, [json_text([p.document() for p in patterns]).encode()])


def _read_patterns(path: str) -> list[Pattern]:
    """Return the patterns in the JSON file at ``path``.

    Raise FileError if the file cannot be read, LimitError if it is a pipe with more bytes than the memory
    limit, FormatError if it is not JSON, ModelError if the JSON is not a list of patterns.
    """
    content = bytes(map_file(path))
    try:
        return patterns_of(parse_json(content))
    except ValueError as error:
        raise FormatError(f"Cannot parse config file (json format). {path}: {error}") from None
    except CirclekitError as error:
        raise error.note(f"in {path}") from None


def _declare_input(parser: Parser, *flags: str) -> None:
    """Add the flag of the model to read, which may have several spellings."""
    parser.add_argument(*flags, required=True, metavar="MODEL", help=MODEL_HELP)


DETECT = (
    "Find pairs of operators between which the channels of a feature map can be scaled; write them as JSON."
)


def _declare_detect(parser: Parser) -> None:
    _declare_input(parser, "--input")
    parser.add_argument(
        "--output", required=True, type=output_path, metavar="FILE", help="the JSON file to write"
    )
    parser.add_switch(
        "--allow_dup_op",
        help="also find operators whose result is an output or has several users; fme-apply copies them",
    )


def _detect(arguments: argparse.Namespace) -> int:
    refuse_overwriting(arguments.input, arguments.output)
    _write_patterns(arguments.output, find_patterns(load_model(arguments.input), arguments.allow_dup_op))
    return 0


fme_detect = Command(
    "fme-detect", DETECT, "--input MODEL --output FILE", _declare_detect, _detect, one=OneCodes(usage=1)
)


APPLY = "Scale the channels of feature maps as the patterns say. The outputs stay equal up to rounding."


def _declare_apply(parser: Parser) -> None:
    _declare_input(parser, "--input")
    parser.add_argument(
        "--fme_patterns", required=True, metavar="FILE",
        help="JSON with front, back, type and act_scale (largest magnitude of each channel) of each pair",
    )  # fmt: skip
    parser.add_argument("--output", required=True, type=output_path, metavar="MODEL", help="file to write")


def _apply(arguments: argparse.Namespace) -> int:
    check_output_path(arguments.output)
    model = load_model(arguments.input)
    apply_patterns(model, _read_patterns(arguments.fme_patterns))
    save_model(model, arguments.output)
    return 0


fme_apply = Command(
    "fme-apply",
    APPLY,
    "--input MODEL --fme_patterns FILE --output MODEL",
    _declare_apply,
    _apply,
    one=OneCodes(usage=1),
)


EQUALIZE = """Scale the channels of feature maps between operators to similar magnitudes.

The outputs of the model stay equal up to rounding. The magnitudes are measured on the samples of --data, or
else on one seeded random sample."""


def _declare_equalize(parser: Parser) -> None:
    _declare_input(parser, "-i", "--input")
    parser.add_argument(
        "-o", "--output", required=True, type=output_path, metavar="MODEL", help="file to write"
    )
    parser.add_argument(
        "-f", "--fme_patterns", type=output_path, metavar="FILE", help="write the patterns as JSON"
    )
    parser.add_argument("-d", "--data", metavar="DATA", help="the samples, as for circlekit calibrate")
    parser.add_switch(
        "--allow_dup_op",
        help="also scale operators whose result is an output or has several users: copy them",
    )
    for program in ("fme_detect", "dalgona", "fme_apply"):
        parser.add_argument(f"--{program}", metavar="FILE", help="has no effect: no other program is run")


def _equalize(arguments: argparse.Namespace) -> int:
    check_output_paths(filter(None, (arguments.output, arguments.fme_patterns)))
    if arguments.fme_patterns is not None:
        refuse_overwriting(arguments.input, arguments.fme_patterns)
    model = load_model(arguments.input)
    patterns = equalize_feature_maps(model, arguments.data, arguments.allow_dup_op)
    save_model(model, arguments.output)
    if arguments.fme_patterns is not None:
        _write_patterns(arguments.fme_patterns, patterns)
    return 0


fm_equalize = Command(
    "fm-equalize",
    EQUALIZE,
    "-i MODEL -o MODEL",
    _declare_equalize,
    _equalize,
    one=OneCodes(failed=1, usage=2),
)
